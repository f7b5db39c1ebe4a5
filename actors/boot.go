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
	sections    map[string]*values.Section // by key, with their part of the ConfigMap
	config      initialConfig
	secret      initialSecret
	problems    []string        // of the files in the global directory
	suspended   map[string]bool // modules, by objects of kind Module (H27)
}

// converges is what converge begins with.
func (b *boot) converges() initialConverge {
	return initialConverge{Tree: b.tree, GlobalHooks: b.globalHooks, Problems: b.problems, Flags: b.config.Flags, Maintenance: b.config.Maintenance, Suspended: b.suspended}
}

// load reads directories, asks global hooks for their configuration, and reads and
// validates the ConfigMap. The API server is asked meanwhile: it takes as long as the hooks.
// What is wrong on disk is returned without waiting for it; waits is called with what it waits for.
func load(ctx context.Context, p *program, waits func(string)) (*boot, error) {
	w := p.World
	reading, stop := context.WithCancel(ctx)
	defer stop()
	var cm kube.ConfigMap
	var secret initialSecret
	var suspended map[string]bool
	var read errgroup.Group
	read.Go(func() (err error) {
		suspended, err = readSuspended(reading, w, waits)
		return err
	})
	read.Go(func() (err error) {
		none := func(error) bool { return false }
		if cm, err = waitFor(reading, w, "the ConfigMap", waits, w.ConfigMap.Read, none); err != nil {
			return err
		}
		secret, err = readSecret(reading, w, waits)
		return err
	})
	b, err := loadFiles(ctx, p)
	if err != nil { // a person must repair it, so the API server, which may be away, does not matter
		stop()
		_ = read.Wait() // that it was stopped is no news
		return nil, err
	}
	if err := read.Wait(); err != nil {
		return nil, err
	}
	b.secret, b.suspended = secret, suspended
	return b, b.useValid(ctx, w, cm, waits)
}

// loadFiles is the part of load that is on disk. Errors of values, schemas and hooks are reported
// together. Only global hooks are asked for their configuration: those of a module are asked when
// it is enabled, and must not keep the others from starting (C6).
func loadFiles(ctx context.Context, p *program) (*boot, error) {
	w, b := p.World, &boot{}
	var loading errgroup.Group // while global hooks are asked, which takes as long
	loading.Go(func() (err error) {
		b.tree, err = addons.Load(w.Dirs)
		return err
	})
	global, err := addons.FindGlobal(w.Dirs.Global) // Load returns its error, too
	if err == nil {
		b.globalHooks, err = p.Runs.LoadGlobalHooks(ctx, global)
	}
	if err := loading.Wait(); err != nil {
		return nil, err
	}
	tree, asked := b.tree, err
	for _, warning := range tree.Warnings {
		w.Log.Warn(warning)
	}
	b.problems = slices.Concat(tree.Global.Problems, unusedFiles(tree.Global.HooksDir, "", hooks.Global))
	b.sections, err = plan.Sections(tree)
	if err := errors.Join(asked, err); err != nil {
		return nil, err
	}
	return b, nil
}

// readSuspended reads which modules are suspended: none of them may run when the operator starts (H27). Without the
// permission none is; who watches the objects says so.
func readSuspended(ctx context.Context, w World, waits func(string)) (map[string]bool, error) {
	if w.ModuleObjects == nil {
		return map[string]bool{}, nil
	}
	all, err := waitFor(ctx, w, "the objects of kind Module", waits, w.ModuleObjects.Read, apierrors.IsForbidden)
	if apierrors.IsForbidden(err) {
		return map[string]bool{}, nil
	}
	return suspendedOf(all), err
}

func suspendedOf(all []kube.ModuleObject) map[string]bool {
	suspended := map[string]bool{}
	for _, object := range all {
		if object.Suspend {
			suspended[object.Name] = true
		}
	}
	return suspended
}

// waitFor reads what the start needs, again and again until the API server gives it, ctx ends, or an error comes that
// lasts: the operator may be started before the API server. waits is called with the reason, and with an empty text at the
// end, for pages that answer meanwhile.
func waitFor[T any](
	ctx context.Context, w World, what string, waits func(string),
	read func(context.Context) (T, error), lasts func(error) bool,
) (T, error) {
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
func (b *boot) useValid(ctx context.Context, w World, cm kube.ConfigMap, waits func(string)) error {
	refused := b.useConfigMap(w, cm)
	// The last valid contents are needed only when something is wrong, or absent.
	if w.LastValid == nil || refused == nil && cm.Exists() && b.secret.Exists() {
		return b.startRefused(refused)
	}
	foreign := func(err error) bool { return errors.Is(err, kube.ErrNotLastValid) }
	kept, err := waitFor(ctx, w, w.LastValid.String(), waits, w.LastValid.Read, foreign)
	switch {
	case err != nil && refused == nil && cm.Exists():
		w.Log.Warn("the operator starts without the values of the Secret: it is unknown whether the Secret was deleted", "err", err)
		return nil
	case err != nil:
		return fmt.Errorf("%w; the last valid values cannot be used instead: %w", b.startRefused(cmp.Or(refused, errDeletedBefore)), err)
	case kept == nil && refused == nil:
		return nil
	case kept == nil:
		return fmt.Errorf("%w; there are no last valid values yet in %s", b.startRefused(refused), w.LastValid)
	}
	if b.secret.Off { // it may not be read any more; its values must not come back from the copy
		kept.Secret = nil
	}
	if refused = cmp.Or(b.deleted(cm, *kept), refused); refused == nil {
		return nil
	}
	return b.useKept(w, cm, *kept, refused)
}

// deleted says which of ConfigMap and Secret does not exist, though content of it was kept (P1).
func (b *boot) deleted(cm kube.ConfigMap, kept kube.LastValid) error {
	switch {
	case !cm.Exists() && len(kept.Config) > 0:
		return errDeletedBefore
	case !b.secret.Exists() && len(kept.Secret) > 0:
		return errSecretDeletedBefore
	}
	return nil
}

// useKept puts the last valid contents in force, in place of those that are refused.
func (b *boot) useKept(w World, cm kube.ConfigMap, kept kube.LastValid, refused error) error {
	seen, inCluster := *b, cm
	b.sections = maps.Clone(b.templates())
	// A content that equals the kept one is that of the cluster: it keeps its resourceVersion, by
	// which config recognises it in the watch. The kept one has none.
	if maps.Equal(kept.Config, cm.Data) {
		kept.Config = cm.Data
	} else {
		cm = kube.ConfigMap{Data: kept.Config}
	}
	if !maps.Equal(kept.Secret, b.secret.Data) {
		b.secret = initialSecret{Data: kept.Secret, Off: b.secret.Off}
	}
	if err := b.useConfigMap(w, cm); err != nil {
		return fmt.Errorf("%w; the last valid values, in %s, are no longer valid: %w", seen.startRefused(refused), w.LastValid, err)
	}
	b.config.Refused, b.config.InCluster = refused, inCluster
	b.config.SecretInCluster = kube.ConfigMap{Data: seen.secret.Data, ResourceVersion: seen.secret.Revision}
	w.Log.Error("the operator starts with the last valid values, which stay in force until ConfigMap and Secret are fixed", "from", w.LastValid.String(), "err", refused)
	return nil
}

// templates are the sections without their parts of ConfigMap and Secret.
func (b *boot) templates() map[string]*values.Section {
	if b.config.Sections != nil {
		return b.config.Sections
	}
	return b.sections
}

// schemas are those of all sections, from files alone. No script was asked, and no hook has set a flag (D37).
func (b *boot) schemas() plan.Schemas {
	return plan.Schemas{Sections: b.templates(), Modules: b.tree.Modules}
}

// startRefused says what to do about values with which the operator does not start.
func (b *boot) startRefused(err error) error {
	if err == nil || errors.Is(err, errDeletedBefore) || errors.Is(err, errSecretDeletedBefore) {
		return err
	}
	places := "the ConfigMap or the values.yaml files"
	if len(b.secret.Data) > 0 {
		places = "the ConfigMap, the Secret with values or the values.yaml files"
	}
	return fmt.Errorf("the values are not valid; fix %s and start again: %w", places, err)
}

// useConfigMap validates a content of the ConfigMap, together with the Secret, and gives each
// section its part. With an error b is unchanged. After a success, b.sections must be the templates
// again before another call.
func (b *boot) useConfigMap(w World, cm kube.ConfigMap) error {
	doc, err := b.schemas().Check(cm.Data, b.secret.Data)
	if err != nil {
		return err
	}
	warn(w.Log, plan.UnknownKeys(doc, values.Document{}, b.sections))
	by := values.Origin{Revision: cm.ResourceVersion, Time: time.Now()}
	secretBy := values.Origin{Revision: b.secret.Revision, Time: by.Time}
	templates := make(map[string]*values.Section, len(b.sections)) // as they are before
	for key, section := range b.sections {
		templates[key] = section
		next, err := plan.Stored(section, doc, by, secretBy)
		if err != nil { // a disabled module may have an invalid section (D37)
			w.Log.Error("config values of a disabled module are not valid and are left out until they are fixed", "key", key, "err", err)
			continue
		}
		w.Secrets.Know(key, next.Secrets().Texts())
		b.sections[key] = next
	}
	b.config = initialConfig{Data: cm.Data, Revision: cm.ResourceVersion, Flags: doc.Flags, Maintenance: doc.Maintenance, Sections: templates, Modules: b.tree.Modules, Global: b.tree.Global, Secret: b.secret}
	return nil
}

// readSecret reads the Secret at the start. It does not wait for the right to read: the Secret is optional, and a role
// without it must not stop the start.
func readSecret(ctx context.Context, w World, waits func(string)) (initialSecret, error) {
	if w.Secret == nil {
		return initialSecret{Off: true}, nil
	}
	forbidden := func(err error) bool { return errors.Is(err, kube.ErrForbidden) }
	content, err := waitFor(ctx, w, "the Secret with values", waits, w.Secret.Read, forbidden)
	if forbidden(err) {
		w.Log.Warn("the operator starts without values from a Secret: it may not read it; config values that schemas mark with x-secret are written to the ConfigMap; let the role get, list, watch, create and update it, and restart", "err", err)
		return initialSecret{Off: true}, nil
	}
	return initialSecret{Data: content.Data, Revision: content.ResourceVersion}, err
}

// layerSecret gives all sections their parts of the Secret as it is now, for a plan without an
// operator. One that would be refused is an error. Without the right to read it, the plan is made
// without its values, as an operator with the same rights would start.
func (b *boot) layerSecret(ctx context.Context, w World) error {
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
	sections, err := values.ParseSecret(content.Data)
	if err != nil {
		return fmt.Errorf("the Secret with values would be refused: %w", err)
	}
	for key, section := range b.sections {
		next, err := section.WithStored(section.Stored().Config, sections[key], values.Origin{}, values.Origin{})
		if err != nil {
			return fmt.Errorf("the Secret with values would be refused: %w", err)
		}
		b.sections[key] = next
	}
	return nil
}
