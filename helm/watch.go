package helm

import (
	"context"
	"slices"
	"strconv"
	"time"

	"golang.org/x/sync/errgroup"
	"helm.sh/helm/v3/pkg/kube"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/cli-runtime/pkg/resource"

	"addon-operator/helm/health"
	"addon-operator/helm/kinds"
)

// Watcher reports what changes in the cluster. Package kube implements it (Client), and its
// comments are the contract. The types of this interface are literals or those of Kubernetes, so
// that neither package imports the other.
type Watcher interface {
	WatchKinds(ctx context.Context) (unchanged func(since time.Time) bool)
	RecentKinds() (at time.Time, groups []*metav1.APIGroup, lists []*metav1.APIResourceList)
}

// Presence keeps which objects of releases exist. Package kube implements it, and
// its comments are the contract.
type Presence interface {
	Start(ctx context.Context, labels string, report presenceReport)
	Follow(m *meta.RESTMapping)
	Has(ctx context.Context, m *meta.RESTMapping, name types.NamespacedName) bool
	Known(kind schema.GroupKind, name types.NamespacedName) (there, sure bool)
	Want(owner string, objects map[schema.GroupKind][]types.NamespacedName)
}

// presenceReport is kube.PresenceReport.
type presenceReport = struct {
	Ours    func(*metav1.PartialObjectMetadata) bool
	Gone    func(schema.GroupKind, types.NamespacedName)
	Changed func(m *meta.RESTMapping, o *metav1.PartialObjectMetadata)
}

// managedByHelm selects the objects that Helm has created: it sets this label on
// every object, whatever the chart contains.
const managedByHelm = "app.kubernetes.io/managed-by=Helm"

// Health is how one object is doing.
type Health = health.Health

// News is what the watches report, each from a goroutine of a watch. All must
// return at once.
type News struct {
	// Gone: an object that belongs to a release of the namespace was deleted, or
	// lost the label or the annotation of its release (H13).
	Gone func(Object)
	// Health: an object that belongs to a release of the namespace is doing so now.
	Health func(Object, Health)
}

// Watch follows changes that other clients make to objects of releases, until ctx ends. One watch serves each kind of
// object that any release has, and two the kinds themselves.
//
// The watches may be a moment late. That does no harm: each write carries the
// resourceVersion that was read, or creates an object that must not exist; an object that seems absent is
// read; and News reports changes that Apply has missed. Watch is called once, before
// the first Apply; without Options.Watcher it does nothing.
//
// assess makes the follower read the health of objects again that were just written (H25). It
// returns at once.
func (c *Client) Watch(ctx context.Context, news News) (assess func(written []Object)) {
	o := c.root.options
	if o.Watcher != nil {
		c.root.kinds.Watch(o.Watcher.WatchKinds(ctx), o.Watcher.RecentKinds)
	}
	if o.Presence == nil {
		return func([]Object) {}
	}
	named := func(kind schema.GroupKind, name types.NamespacedName) Object {
		return Object{GVK: kind.WithVersion(""), Namespace: name.Namespace, Name: name.Name}
	}
	follower := health.NewFollower(c.root.dynamic, managedByHelm, func(kind schema.GroupKind, name types.NamespacedName, h health.Health) {
		news.Health(named(kind, name), h)
	})
	go follower.Run(ctx)
	o.Presence.Start(ctx, managedByHelm, presenceReport{
		Ours: func(m *metav1.PartialObjectMetadata) bool { // other namespaces have releases of others
			return m.Annotations[ownerName] != "" && c.homes.has(m.Annotations[ownerNamespace])
		},
		Gone: func(kind schema.GroupKind, name types.NamespacedName) {
			follower.Gone(kind, name)
			news.Gone(named(kind, name))
		},
		Changed: follower.Changed,
	})
	return func(written []Object) {
		for _, o := range written {
			follower.Again(o.GVK.GroupKind(), o.NamespacedName())
		}
	}
}

// Present reports whether an object of News exists, according to the
// watches; it makes no request. An object that they do not cover counts as present.
func (c *Client) Present(o Object) bool {
	there, sure := c.known(o)
	return there || !sure
}

// Exists is Present, but an object that the watches do not cover, or not now, does not count as present.
func (c *Client) Exists(o Object) bool {
	there, sure := c.known(o)
	return there && sure
}

func (c *Client) known(o Object) (there, sure bool) {
	if c.root.options.Presence == nil {
		return false, false
	}
	return c.root.options.Presence.Known(o.GVK.GroupKind(), o.NamespacedName())
}

// follow begins to watch the kinds of objects that are about to be applied. A kind that is unknown
// yet is followed by a later Apply. A dry run changes nothing that is watched.
func (h *home) follow(objects []Object) {
	for _, o := range objects {
		if _, m, err := h.resolve(o); err == nil && h.options.Presence != nil && h.dry == nil {
			h.options.Presence.Follow(m)
		}
	}
}

// resolve makes two mentions of an object equal, and equal to what News reports: no version, the
// namespace of the release where none is written, and none where the kind has none.
func (h *home) resolve(o Object) (Object, *meta.RESTMapping, error) {
	m, err := h.kinds.Mapping(o.GVK)
	if err != nil {
		return o, nil, err
	}
	if !kinds.Namespaced(m) {
		o.Namespace = ""
	} else if o.Namespace == "" {
		o.Namespace = h.options.Namespace
	}
	o.GVK.Version = ""
	return o, m, nil
}

// absent returns those of the objects that do not exist. Objects that the watches do not cover, or report as
// absent, are read, because a watch may be behind our own writes. Nothing is read for objects that
// the watches report as present.
func (h *home) absent(ctx context.Context, objects []Object) ([]Object, error) {
	missing := make([]bool, len(objects))
	var group errgroup.Group
	group.SetLimit(surveyWidth)
	for i, o := range objects {
		resolved, m, err := h.resolve(o)
		if err == nil && h.options.Presence != nil && h.options.Presence.Has(ctx, m, resolved.NamespacedName()) {
			continue
		}
		group.Go(func() error { // an unknown kind is look's business too
			_, exists, err := h.look(ctx, o)
			missing[i] = !exists
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return nil, err
	}
	var absent []Object
	for i, o := range objects {
		if missing[i] {
			absent = append(absent, o)
		}
	}
	return absent, nil
}

// want sets which objects a release should have, and returns them as News reports them; none
// forgets the release. Objects of unknown kinds are left out.
func (h *home) want(release string, objects []Object) []Object {
	var resolved []Object
	byKind := map[schema.GroupKind][]types.NamespacedName{}
	for _, o := range objects {
		if r, m, err := h.resolve(o); err == nil {
			resolved = append(resolved, r)
			byKind[m.GroupVersionKind.GroupKind()] = append(byKind[m.GroupVersionKind.GroupKind()], r.NamespacedName())
		}
	}
	if h.options.Presence != nil && h.dry == nil {
		h.options.Presence.Want(release, byKind)
	}
	return slices.Clip(resolved)
}

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

// ending are the objects of the release that end, as News reports them.
func (a *apply) ending() map[Object]bool {
	all := map[Object]bool{}
	for o := range a.manifest.ends {
		if resolved, _, err := a.op.home.resolve(o); err == nil {
			all[resolved] = true
		}
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
