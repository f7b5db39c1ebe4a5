package helm

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"

	"addon-operator/helm/kinds"
)

// surveyWidth is how many objects are looked at in parallel.
const surveyWidth = 8

// Annotations by which Helm marks the owner of an object.
const (
	ownerName      = "meta.helm.sh/release-name"
	ownerNamespace = "meta.helm.sh/release-namespace"
)

// owner is the release an object belongs to; zero: none.
type owner struct{ name, namespace string }

// survey reads the owners of objects; zero for one that does not exist. It reads them whole, with the request that
// Helm's actions make a moment later, so that the transport can answer that one from memory (keepReads).
// Objects of unknown kinds, and those that may not be read, are left out: Helm reports them.
func (op *operation) survey(objects []Object) ([]owner, error) {
	owners := make([]owner, len(objects))
	group, ctx := errgroup.WithContext(op.ctx)
	group.SetLimit(surveyWidth)
	for i, o := range objects {
		request, err := op.read(o)
		if meta.IsNoMatchError(err) {
			continue
		}
		if err != nil {
			return nil, err
		}
		group.Go(func() error {
			live := &metav1.PartialObjectMetadata{}
			data, err := request.Do(ctx).Raw()
			switch {
			case apierrors.IsNotFound(err), apierrors.IsForbidden(err):
				return nil
			case err == nil:
				err = json.Unmarshal(data, live)
			}
			if err != nil {
				return unlooked(o, err)
			}
			owners[i] = ownerIn(live)
			return nil
		})
	}
	return owners, group.Wait()
}

// read is the request by which Helm, too, reads an object.
func (op *operation) read(o Object) (*rest.Request, error) {
	m, err := op.home.kinds.Mapping(o.GVK)
	if err != nil {
		return nil, fmt.Errorf("find the resource of %s: %w", o, err)
	}
	client, err := op.clientFor(m.GroupVersionKind.GroupVersion())
	if err != nil {
		return nil, err
	}
	namespaced := kinds.Namespaced(m)
	return client.Get().NamespaceIfScoped(op.home.identity(o).Namespace, namespaced).Resource(m.Resource.Resource).Name(o.Name), nil
}

// look reads the metadata of one object; nil with exists when it may not be read: without the
// permission its absence can neither be seen nor fixed. An object of an unknown kind does not
// exist. Whether one exists whose API does not answer is unknown, which is an AwayError.
func (h *home) look(ctx context.Context, o Object) (live *metav1.PartialObjectMetadata, exists bool, err error) {
	resource, err := h.resourceOf(o)
	if meta.IsNoMatchError(err) {
		return nil, false, nil
	}
	if err != nil {
		return nil, false, err
	}
	live, err = resource.Get(ctx, o.Name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return nil, false, nil
	case apierrors.IsForbidden(err):
		h.options.Log.Debug("the operator may not read an object of a release; it counts as present", "object", o.String(), "err", err)
		return nil, true, nil
	case err != nil:
		return nil, false, unlooked(o, err)
	}
	return live, true, nil
}

// unlooked is the error of a read that failed. The API server answers 503 for a group whose own
// server it cannot reach, perhaps before its discovery reports it; such groups have a dot.
func unlooked(o Object, err error) error {
	if apierrors.IsServiceUnavailable(err) && strings.Contains(o.GVK.Group, ".") {
		err = &kinds.AwayError{Version: o.GVK.GroupVersion(), Err: err}
	}
	return fmt.Errorf("read %s: %w", o, err)
}

// reach returns an AwayError when the server of an API of these objects does not answer (P13). It
// makes no request.
func (h *home) reach(objects []Object) error {
	for _, o := range objects {
		if err := h.kinds.Reach(o.GVK.Group); err != nil {
			return fmt.Errorf("%w; %s needs it", err, o)
		}
	}
	return nil
}

// reachManifests is reach for what release records list.
func (h *home) reachManifests(texts ...string) error {
	objects, err := objectsOf(texts...)
	if err != nil || !h.kinds.Away() {
		return err
	}
	return h.reach(objects)
}

// resourceOf finds where the API server keeps an object.
func (h *home) resourceOf(o Object) (metadata.ResourceInterface, error) {
	m, err := h.kinds.Mapping(o.GVK)
	if err != nil {
		return nil, fmt.Errorf("find the resource of %s: %w", o, err)
	}
	if kinds.Namespaced(m) {
		return h.metadata.Resource(m.Resource).Namespace(h.identity(o).Namespace), nil
	}
	return h.metadata.Resource(m.Resource), nil
}

// identity is an object without what may differ between two mentions of it: the version of its API,
// and an omitted namespace. Unlike resolve it also works for unknown kinds; the price is that a
// cluster-wide object has a namespace, so identities are only compared with each other.
func (h *home) identity(o Object) Object {
	o.GVK.Version = ""
	o.Namespace = cmp.Or(o.Namespace, h.options.Namespace)
	return o
}

func ownerIn(live *metav1.PartialObjectMetadata) owner {
	if live == nil {
		return owner{}
	}
	return owner{live.Annotations[ownerName], live.Annotations[ownerNamespace]}
}

// isOther reports whether an object belongs to another release.
func isOther(them, us owner) bool {
	return them.name != "" && them != us && (them.name != us.name || them.namespace != "")
}

// checkOwners refuses to write objects of another release that has a module, of another program, or of another
// operator (Foreign), before anything is written: both would change them without end. Objects without an owner are
// adopted (H7).
func (a *apply) checkOwners() error {
	if a.surveyed {
		return nil
	}
	op := a.op
	// What is read here serves the action that follows. Hooks of the chart may change objects before Helm comes to them.
	op.transport.keepReads(!a.manifest.hooks) // also drops presumed answers
	owners, err := op.survey(a.manifest.objects)
	if err != nil {
		return err
	}
	var errs []error
	for i, o := range a.manifest.objects {
		them := owners[i]
		if !isOther(them, op.us()) {
			continue
		}
		if _, known := op.taken[them]; !known {
			if op.taken[them], err = op.mayTakeFrom(them); err != nil {
				return err
			}
			if op.taken[them] {
				op.log.Info("objects are taken over from a release that has no module directory any more", "from", them.name)
			}
		}
		if named, _, _ := op.home.resolve(o); !op.taken[them] {
			errs = append(errs, fmt.Errorf("%s belongs to release %s in namespace %s: remove it from one of the two "+
				"charts, or delete its annotation %s to hand it over", named, them.name, them.namespace, ownerName))
		}
	}
	if len(errs) > 0 {
		return &Error{Kind: Foreign, Release: op.release, Err: errors.Join(errs...)}
	}
	a.surveyed = true
	return nil
}

// mayTakeFrom reports whether a release was installed by this operator and has no module any more, as after a rename
// (H7): then its objects get the annotations of this release when they are applied, and a purge of the other one
// leaves them alone (removeOne).
func (op *operation) mayTakeFrom(them owner) (bool, error) {
	if op.orphaned == nil {
		return false, nil
	}
	if orphaned, err := op.orphaned(them.name); err != nil || !orphaned {
		return false, err
	}
	there, err := op.home.homes.holding(op.ctx, them.name)
	if err != nil || there.options.Namespace != them.namespace {
		return false, err
	}
	return there.isOurs(op.ctx, them.name)
}
