package helm

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"

	"helm.sh/helm/v3/pkg/chartutil"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"addon-operator/helm/charts"
)

// Labels of a pointer (see home), which has no content.
const (
	pointerOwner     = "addon-operator" // value of the label owner, which is "helm" for records
	pointerNamespace = "namespace"
)

// OperatorLabel is on the records of releases outside of the operator's namespace, and holds that
// namespace: the releases of two operators may share another one.
const OperatorLabel = "moduleOperator"

// home is a namespace with releases, and what is known of them. Most releases are in the namespace
// of the operator; a module may name another one (H20). All homes share the connection and the
// charts; the methods of Client find the right home.
//
// The namespace of a release elsewhere is also recorded in the namespace of the operator: in a
// pointer, an empty object of the kind of the records. So a release is found although its module is
// gone or names another namespace by now, without permission to list anything elsewhere, and
// another operator's release is never taken for ours.
type home struct {
	*connection
	options  Options // Namespace is that of the home
	homes    *homes
	records  *records
	objects  recordObjects // the records of releases
	encoder  encoder
	renderer *renderer
	locks    *locks
	dry      *dryRun // nil, except in a home where nothing is changed
}

func newHome(o Options, c *connection, all *homes) (*home, error) {
	core, err := c.core(c.transport)
	if err != nil {
		return nil, err
	}
	h := &home{
		connection: c, options: o, homes: all, locks: all.locks,
		records: newRecords(c.metadata, o.Driver, o.Namespace),
		objects: o.Driver.objects(core, o.Namespace),
	}
	h.renderer = &renderer{home: h}
	return h, nil
}

// isRoot reports whether this is the operator's namespace.
func (h *home) isRoot() bool { return h.options.Namespace == h.homes.root.options.Namespace }

// homes are the namespaces with releases. There is one for each client; all homes point to it. A
// home that was added stays, also when no module names its namespace any more.
type homes struct {
	root   *home // the operator's namespace
	charts *charts.Cache
	build  string // of the operator
	locks  *locks
	inputs *inputs

	// mu guards what follows. It is held during no request.
	mu       sync.Mutex
	pointers map[string]string // by release: where it was installed; nil: not read yet
	all      map[string]*home  // by namespace
}

// in returns the home of a namespace; empty is the operator's.
func (h *homes) in(namespace string) (*home, error) {
	o := h.root.options
	o.Namespace = cmp.Or(namespace, o.Namespace)
	h.mu.Lock()
	defer h.mu.Unlock()
	if known := h.all[o.Namespace]; known != nil {
		return known, nil
	}
	s, err := newHome(o, h.root.connection, h)
	if err == nil {
		h.all[o.Namespace] = s
	}
	return s, err
}

// has reports whether a namespace may hold releases of this operator.
func (h *homes) has(namespace string) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.all[namespace] != nil
}

// pointed is where a pointer says that a release is; empty for none. It makes no request: readPointers has been called
// before.
func (h *homes) pointed(release string) string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.pointers[release]
}

// noted remembers a pointer, or forgets it when the namespace is empty.
func (h *homes) noted(release, namespace string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.pointers[release] = namespace; namespace == "" {
		delete(h.pointers, release)
	}
}

// list lists the releases of the operator's namespace, and those that it has installed elsewhere. One that may not be
// read is left out with a warning, which is safe: what is not listed is not deleted.
func (h *homes) list(ctx context.Context) (found []string, err error) {
	states, err := h.readRoot(ctx)
	if err != nil {
		return nil, err
	}
	found = sortedKeys(states)
	h.mu.Lock()
	pointers := maps.Clone(h.pointers)
	h.mu.Unlock()
	for _, namespace := range slices.Compact(slices.Sorted(maps.Values(pointers))) {
		home, err := h.in(namespace)
		if err != nil {
			return nil, err
		}
		there, err := home.records.readAll(ctx)
		if apierrors.IsForbidden(err) {
			h.root.options.Log.Warn("it is unknown which releases exist, because the operator may not read their namespace; they are left alone", "namespace", namespace, "err", err)
			continue
		}
		if err != nil {
			return nil, err
		}
		for name := range there.states {
			if pointers[name] == namespace {
				found = append(found, name)
			}
		}
	}
	slices.Sort(found)
	return slices.Compact(found), nil
}

// readRoot reads the records in the operator's namespace, what they were made from, and where other releases are. A
// pointer that has disappeared counts until the process ends.
func (h *homes) readRoot(ctx context.Context) (map[string]State, error) {
	found, err := h.root.records.readAll(ctx)
	if err != nil {
		return nil, err
	}
	h.inputs.listed(found.inputs)
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.pointers == nil {
		h.pointers = map[string]string{}
	}
	maps.Copy(h.pointers, found.pointers)
	return found.states, nil
}

// readPointers reads where releases are, unless that is known.
func (h *homes) readPointers(ctx context.Context) error {
	h.mu.Lock()
	known := h.pointers != nil
	h.mu.Unlock()
	if known {
		return nil
	}
	_, err := h.readRoot(ctx)
	return err
}

// holding returns the home of the namespace that holds a release: without a pointer, that of the operator.
func (h *homes) holding(ctx context.Context, release string) (*home, error) {
	if err := h.readPointers(ctx); err != nil {
		return nil, classify(ctx, release, nil, err)
	}
	return h.in(h.pointed(release))
}

// holdingOf is holding for a module. Without a pointer, what has its name in the namespace of the operator, and is not
// ours, is no release of a module that names another namespace (P2).
func (h *homes) holdingOf(ctx context.Context, m Module) (*home, error) {
	there, err := h.holding(ctx, m.Name)
	if err != nil || m.Namespace == "" || h.pointed(m.Name) != "" {
		return there, err
	}
	if is, err := there.isOurs(ctx, m.Name); err != nil || is {
		return there, err
	}
	return h.in(m.Namespace)
}

// wantedBy returns the home that a module names. A release that exists elsewhere is an error: to
// move it, its objects would have to stay, or to be deleted and lose their data, and no person has
// requested either.
func (h *homes) wantedBy(ctx context.Context, m Module) (*home, error) {
	if err := chartutil.ValidateReleaseName(m.Name); err != nil {
		return nil, problem(Invalid, m.Name, "the name of the module cannot be a release name: %w; use at most 53 characters a-z, 0-9 and '-'", err)
	}
	wanted, err := h.in(m.Namespace)
	if err != nil {
		return nil, err
	}
	there, err := h.holding(ctx, m.Name)
	if err != nil || there == wanted {
		return there, err
	}
	if is, err := there.isOurs(ctx, m.Name); err != nil || !is {
		return wanted, err
	}
	fix := fmt.Sprintf("set namespace: %s in module.yaml again", there.options.Namespace)
	if there.isRoot() {
		fix = "remove namespace from module.yaml again"
	}
	return nil, problem(Invalid, m.Name, "it is in namespace %s, but its module now names %s, and a release is not moved; %s, or disable the module, which uninstalls the release, and enable it with the new namespace",
		there.options.Namespace, wanted.options.Namespace, fix)
}

// isOurs reports whether a release of this operator is in the home (P2). A forbidden read is an
// error: the caller decides whether the release counts as there.
func (h *home) isOurs(ctx context.Context, release string) (is bool, err error) {
	state, err := h.records.look(ctx, release)
	if err == nil {
		op := &operation{ctx: ctx, home: h, release: release, log: h.options.Log}
		is, err = op.store(state).ours()
	}
	return is, classify(ctx, release, nil, err)
}

// point records where a release is, before anything of it is written: a crash in between leaves a
// pointer to nothing, which does no harm, and never a release that no operator finds. A release of
// another operator is refused (Foreign).
func (op *operation) point(s State) error {
	h := op.home
	if h.isRoot() {
		return nil
	}
	last, exists := s.Last()
	if by := last.labels[OperatorLabel]; exists && by != "" && by != h.homes.root.options.Namespace {
		return problem(Foreign, op.release, "the release in namespace %s belongs to the addon-operator in namespace %s; name another namespace in module.yaml", h.options.Namespace, by)
	}
	if h.dry != nil || h.homes.pointed(op.release) == h.options.Namespace {
		return nil
	}
	if err := put(op.ctx, h.homes.root.objects, h.pointer(op.release)); err != nil {
		return fmt.Errorf("record in namespace %s that the release is in %s: %w", h.homes.root.options.Namespace, h.options.Namespace, err)
	}
	h.homes.noted(op.release, h.options.Namespace)
	return nil
}

// unpoint forgets where a release was. A pointer to nothing does no harm, so a failure is logged
// and not returned.
func (h *home) unpoint(ctx context.Context, release string) {
	if h.dry != nil || h.homes.pointed(release) != h.options.Namespace {
		return
	}
	err := h.homes.root.objects.Delete(ctx, pointerName(release), metav1.DeleteOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		h.options.Log.Warn("the note of a release's former namespace stays for now", "release", release, "namespace", h.options.Namespace, "err", err)
		return
	}
	h.homes.noted(release, "")
}

func (h *home) pointer(release string) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{
		Name:   pointerName(release),
		Labels: map[string]string{"owner": pointerOwner, "name": release, pointerNamespace: h.options.Namespace},
	}}
}

func pointerName(release string) string { return "addon-operator.release." + release }

// createNamespace creates the namespace of a release if it does not exist (H20). It is never
// deleted: others may have put objects there.
func (op *operation) createNamespace() error {
	name := op.home.options.Namespace
	if op.home.isRoot() {
		return nil
	}
	client, err := op.clientFor(schema.GroupVersion{Version: "v1"})
	if err != nil {
		return err
	}
	object := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": name}}}
	err = client.Post().Resource("namespaces").Body(object).Do(op.ctx).Error()
	switch {
	case apierrors.IsAlreadyExists(err), apierrors.IsForbidden(err): // a missing one then shows when the record is created
	case err != nil:
		return fmt.Errorf("create namespace %s of the release: %w", name, err)
	case op.home.dry == nil:
		op.log.Info("the namespace of the release is created", "namespace", name)
	}
	return nil
}
