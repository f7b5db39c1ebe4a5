package scenario

import (
	"context"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"addon-operator/helm"
	"addon-operator/kube"
	"addon-operator/kube/apiserver"
	"addon-operator/messages/view"
)

// releaseWatch notifies the operator of deleted objects of releases, without a watch of each kind:
// the server reports each deletion. What others write to objects and records it does not notice.
type releaseWatch struct{ server *apiserver.Server }

// Watch implements shared.ReleaseWatch. No controller works here, so what was written is as its
// spec asks for.
func (w releaseWatch) Watch(ctx context.Context, news helm.News) (assess func([]helm.Object)) {
	w.server.OnGone(func(object map[string]any) {
		u := &unstructured.Unstructured{Object: object}
		if ctx.Err() != nil || u.GetAnnotations()["meta.helm.sh/release-name"] == "" {
			return
		}
		gvk := u.GroupVersionKind()
		gvk.Version = "" // as News names objects
		news.Gone(helm.Object{GVK: gvk, Namespace: u.GetNamespace(), Name: u.GetName()})
	})
	return func(written []helm.Object) {
		for _, o := range written {
			news.Health(o, helm.Health{State: view.ObjectCurrent})
		}
	}
}

// Present implements shared.ReleaseWatch.
func (w releaseWatch) Present(o helm.Object) bool {
	return w.server.Object("", o.GVK.Kind, o.Namespace, o.Name) != nil
}

// Exists implements shared.ReleaseWatch.
func (w releaseWatch) Exists(o helm.Object) bool { return w.Present(o) }

// WatchedKinds implements shared.ReleaseWatch: no kind has a watch of its own.
func (releaseWatch) WatchedKinds() []kube.WatchedKind { return nil }
