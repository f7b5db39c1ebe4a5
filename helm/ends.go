package helm

import (
	"context"
	"strconv"

	"helm.sh/helm/v3/pkg/kube"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/cli-runtime/pkg/resource"
)

// EndsAnnotation with the value true is on objects of a chart that controllers delete when they
// have done their work, such as Workflows with a time to live. Their absence is the end, and no
// reason to apply them again (H13). An upgrade with another manifest does, as in Helm.
const EndsAnnotation = "addon-operator/ends"

// ends reports whether an object is deleted by Kubernetes when it has done its work, or by another
// controller that its annotation speaks for.
func ends(u *unstructured.Unstructured) bool {
	if yes, _ := strconv.ParseBool(u.GetAnnotations()[EndsAnnotation]); yes {
		return true
	}
	has := func(fields ...string) bool {
		_, found, err := unstructured.NestedFieldNoCopy(u.Object, fields...)
		return found && err == nil
	}
	switch kind := u.GroupVersionKind().GroupKind().String(); kind {
	case "Job.batch":
		return has("spec", "ttlSecondsAfterFinished")
	case "Pod":
		policy, _, _ := unstructured.NestedString(u.Object, "spec", "restartPolicy")
		return policy == "Never" || policy == "OnFailure"
	case "Secret":
		return u.Object["type"] == "bootstrap.kubernetes.io/token" &&
			(has("stringData", "expiration") || has("data", "expiration"))
	default:
		return kind == "CertificateSigningRequest.certificates.k8s.io" || kind == "Event" || kind == "Event.events.k8s.io"
	}
}

// lasting are the rendered objects that must exist.
func (r *rendered) lasting() (objects []Object) {
	for _, o := range r.objects {
		if !r.ends[o] {
			objects = append(objects, o)
		}
	}
	return objects
}

// ending are the objects of the release that end, as News reports them; true: they have ended. What
// was written a moment ago has not.
func (a *apply) ending(ctx context.Context, done Outcome) map[Object]bool {
	wrote := done.Action == Installed || done.Action == Upgraded && !a.heals
	l := a.op.home
	all := map[Object]bool{}
	for o := range a.manifest.ends {
		resolved, m, err := l.resolve(o)
		if err != nil {
			continue
		}
		all[resolved] = !wrote && l.options.Presence != nil && !l.options.Presence.Has(ctx, m, resolved.NamespacedName())
	}
	return all
}

// withoutEnded leaves out what has ended, where only objects are put back.
func (k *cluster) withoutEnded(list kube.ResourceList) (kube.ResourceList, error) {
	var failed error
	kept := list.Filter(func(info *resource.Info) bool {
		u, ok := info.Object.(*unstructured.Unstructured)
		if !ok || !ends(u) {
			return true
		}
		_, exists, err := k.op.home.look(k.op.ctx, objectOfInfo(info))
		if err != nil {
			failed = err
		}
		return exists
	})
	return kept, failed
}
