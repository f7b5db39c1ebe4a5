package actors

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/cenkalti/backoff/v4"
	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"addon-operator/actors/plan"
	"addon-operator/addons"
	"addon-operator/hooks"
	"addon-operator/kube"
	"addon-operator/supervisor"
	"addon-operator/values"
)

// boot is what is known before the first actor is spawned (G0). It belongs to the goroutine that
// starts the operator until the actors get it. Each then takes its part.
type boot struct {
	tree        *addons.Tree
	globalHooks []hooks.Hook
	templates   map[string]*values.Section // by key, from files alone: what contents are checked with
	problems    []string                   // of the files in the global directory
	suspended   map[string]bool            // modules, by objects of kind Module (H27)

	inCluster, inForce contents
	// secretOff: there is no Secret to be read or written, until the end of the process: a right that is given later
	// takes effect after a restart.
	secretOff bool
	doc       values.Document            // what is in force
	sections  map[string]*values.Section // by key, with their parts of that
	// refused says why what is in the cluster is not in force from the start, but the last valid contents that were
	// kept (P3); nil when it is.
	refused error
}

// contents are those of ConfigMap and Secret.
type contents struct{ configMap, secret kube.ConfigMap }

// load reads directories, asks global hooks for their configuration, and reads and
// validates the ConfigMap. The API server is asked meanwhile: it takes as long as the hooks.
// What is wrong on disk is returned without waiting for it; waits is called with what it waits for.
func load(ctx context.Context, p *program, waits func(string)) (*boot, error) {
	w, b := p.World, &boot{}
	reading, stop := context.WithCancel(ctx)
	defer stop()
	var read errgroup.Group
	read.Go(func() (err error) {
		if b.inCluster.configMap, err = waitFor(reading, w, "the ConfigMap", waits, w.ConfigMap.Read, nil); err != nil {
			return err
		}
		// On the same connection: two at once would make two.
		read.Go(func() error { return b.readSuspended(reading, w, waits) })
		return b.readSecret(reading, w, waits)
	})
	if err := b.loadFiles(ctx, p); err != nil { // a person must repair it, so the API server, which may be away, does not matter
		stop()
		_ = read.Wait() // that it was stopped is no news
		return nil, err
	}
	if err := read.Wait(); err != nil {
		return nil, err
	}
	return b, b.useValid(ctx, w, waits)
}

// loadFiles is the part of load that is on disk. Errors of values, schemas and hooks are reported
// together. Only global hooks are asked for their configuration: those of a module are asked when
// it is enabled, and must not keep the others from starting (C6).
func (b *boot) loadFiles(ctx context.Context, p *program) error {
	w := p.World
	var loading errgroup.Group // while global hooks are asked, which takes as long
	loading.Go(func() (err error) {
		b.tree, err = addons.Load(w.Dirs)
		return err
	})
	global, asked := addons.FindGlobal(w.Dirs.Global) // Load returns its error, too
	if asked == nil {
		b.globalHooks, asked = p.Runs.LoadGlobalHooks(ctx, global)
	}
	if err := loading.Wait(); err != nil {
		return err
	}
	for _, warning := range b.tree.Warnings {
		w.Log.Warn(warning)
	}
	b.problems = slices.Concat(b.tree.Global.Problems, unusedFiles(b.tree.Global.HooksDir, "", hooks.Global))
	var err error
	if b.templates, err = plan.Sections(b.tree); err != nil || asked != nil {
		return errors.Join(asked, err)
	}
	return nil
}

// readSuspended reads which modules are suspended: none of them may run when the operator starts (H27). Without the
// permission none is; who watches the objects says so.
func (b *boot) readSuspended(ctx context.Context, w World, waits func(string)) error {
	if w.ModuleObjects == nil {
		return nil
	}
	suspended, err := waitFor(ctx, w, "the objects of kind Module", waits, w.ModuleObjects.Suspended, kube.ErrForbidden)
	if b.suspended = suspended; apierrors.IsForbidden(err) {
		return nil
	}
	return err
}

// waitFor reads what the start needs, again and again until the API server gives it, or ctx ends: the operator may be
// started before the API server. An error that lasts, if not nil, is not waited for. waits is called with the reason, and
// with an empty text at the end, for pages that answer meanwhile.
func waitFor[T any](
	ctx context.Context, w World, what string, waits func(string), read func(context.Context) (T, error), lasting error,
) (T, error) {
	lasts := func(err error) bool {
		return lasting != nil && (errors.Is(err, lasting) || errors.Is(lasting, kube.ErrForbidden) && apierrors.IsForbidden(err))
	}
	tell := func(err error, in time.Duration) {
		w.Log.Error(what+" cannot be read, will retry; check that the API server is up and that the kubeconfig and the role allow reading it", "in", in, "err", err)
		waits(fmt.Sprintf("%s cannot be read: %v", what, err))
	}
	got, err := backoff.RetryNotifyWithData(func() (T, error) {
		got, err := read(ctx)
		if lasts(err) {
			err = backoff.Permanent(err)
		}
		return got, err
	}, backoff.WithContext(supervisor.Backoff(), ctx), tell)
	if err != nil && !lasts(err) {
		return got, fmt.Errorf("read %s: %w", what, err)
	}
	waits("")
	return got, err
}

// useValid gives each section its parts of the ConfigMap and of the Secret. Invalid values stop the
// start (D16, D36), unless last valid contents are kept (P3): then those of both are in force, as
// they were together. When that is so, a ConfigMap or Secret that does not exist is no order to
// remove what it held (P1).
func (b *boot) useValid(ctx context.Context, w World, waits func(string)) error {
	refused, exists := b.use(w, b.inCluster), b.inCluster.configMap.Exists()
	// The last valid contents are needed only when something is wrong, or absent.
	if w.LastValid == nil || refused == nil && exists && b.hasSecret() {
		return startRefused(refused)
	}
	kept, err := waitFor(ctx, w, w.LastValid.String(), waits, w.LastValid.Read, kube.ErrNotLastValid)
	switch {
	case err != nil && refused == nil && exists:
		w.Log.Warn("the operator starts without the values of the Secret: it is unknown whether the Secret was deleted", "err", err)
		return nil
	case err != nil:
		return fmt.Errorf("%w; the last valid values cannot be used instead: %w", startRefused(cmp.Or(refused, errDeletedBefore)), err)
	case kept == nil && refused == nil:
		return nil
	case kept == nil:
		return fmt.Errorf("%w; there are no last valid values yet in %s", startRefused(refused), w.LastValid)
	}
	if b.secretOff { // it may not be read any more; its values must not come back from the copy
		kept.Secret = nil
	}
	switch { // something does not exist, though content of it was kept (P1)
	case !exists && len(kept.Config) > 0:
		refused = errDeletedBefore
	case !b.hasSecret() && len(kept.Secret) > 0:
		refused = errSecretDeletedBefore
	}
	if refused == nil {
		return nil
	}
	return b.useKept(w, *kept, refused)
}

// hasSecret reports whether the Secret is there, or is not watched.
func (b *boot) hasSecret() bool { return b.secretOff || b.inCluster.secret.Exists() }

// useKept puts the last valid contents in force, in place of those that are refused. One that equals
// the content of the cluster keeps its resourceVersion, by which config recognises it in the watch.
func (b *boot) useKept(w World, kept kube.LastValid, refused error) error {
	use := b.inCluster
	if !maps.Equal(kept.Config, use.configMap.Data) {
		use.configMap = kube.ConfigMap{Data: kept.Config}
	}
	if !maps.Equal(kept.Secret, use.secret.Data) {
		use.secret = kube.ConfigMap{Data: kept.Secret}
	}
	if err := b.use(w, use); err != nil {
		return fmt.Errorf("%w; the last valid values, in %s, are no longer valid: %w", startRefused(refused), w.LastValid, err)
	}
	b.refused = refused
	w.Log.Error("the operator starts with the last valid values, which stay in force until ConfigMap and Secret are fixed", "from", w.LastValid.String(), "err", refused)
	return nil
}

// schemas are those of all sections, from files alone. No script was asked, and no hook has set a flag (D37).
func (b *boot) schemas() plan.Schemas {
	return plan.Schemas{Sections: b.templates, Modules: b.tree.Modules}
}

// startRefused says what to do about values with which the operator does not start.
func startRefused(err error) error {
	if err == nil || errors.Is(err, errDeletedBefore) || errors.Is(err, errSecretDeletedBefore) {
		return err
	}
	return fmt.Errorf("the values are not valid; fix the ConfigMap, the Secret with values or the values.yaml files and start again: %w", err)
}

// use validates contents and gives each section its part. With an error b is unchanged.
func (b *boot) use(w World, all contents) error {
	doc, err := b.schemas().Check(all.configMap.Data, all.secret.Data)
	if err != nil {
		return err
	}
	warn(w.Log, plan.UnknownKeys(doc, values.Document{}, b.templates))
	by := values.Origin{Revision: all.configMap.ResourceVersion, Time: time.Now()}
	secretBy := values.Origin{Revision: all.secret.ResourceVersion, Time: by.Time}
	b.inForce, b.doc, b.sections = all, doc, maps.Clone(b.templates)
	for key, section := range b.templates {
		next, err := plan.Stored(section, doc, by, secretBy)
		if err != nil { // a disabled module may have an invalid section (D37)
			w.Log.Error("config values of a disabled module are not valid and are left out until they are fixed", "key", key, "err", err)
			continue
		}
		w.Secrets.Know(key, next.Secrets().Texts())
		b.sections[key] = next
	}
	return nil
}

// readSecret reads the Secret at the start. It does not wait for the right to read: the Secret is optional, and a role
// without it must not stop the start.
func (b *boot) readSecret(ctx context.Context, w World, waits func(string)) (err error) {
	if b.secretOff = w.Secret == nil; b.secretOff {
		return nil
	}
	b.inCluster.secret, err = waitFor(ctx, w, "the Secret with values", waits, w.Secret.Read, kube.ErrForbidden)
	if b.secretOff = errors.Is(err, kube.ErrForbidden); b.secretOff {
		w.Log.Warn("the operator starts without values from a Secret: it may not read it; config values that schemas mark with x-secret are written to the ConfigMap; let the role get, list, watch, create and update it, and restart", "err", err)
		return nil
	}
	return err
}

// layerSecret gives all sections their parts of the Secret as it is now, for a plan without an
// operator. One that would be refused is an error. Without the right to read it, the plan is made
// without its values, as an operator with the same rights would start.
func layerSecret(ctx context.Context, w World, sections map[string]*values.Section) error {
	if w.Secret == nil {
		return nil
	}
	content, err := w.Secret.Read(ctx)
	if errors.Is(err, kube.ErrForbidden) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read the Secret with values: %w", err)
	}
	doc, err := plan.Parse(nil, content.Data)
	for key, section := range sections {
		if err == nil {
			sections[key], err = plan.Stored(section, doc, values.Origin{}, values.Origin{})
		}
	}
	if err != nil {
		return fmt.Errorf("the Secret with values would be refused: %w", err)
	}
	return nil
}
