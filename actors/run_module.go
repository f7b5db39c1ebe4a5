package actors

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"go.opentelemetry.io/otel/attribute"

	"addon-operator/actors/plan"
	"addon-operator/addons"
	"addon-operator/helm"
	"addon-operator/helm/charts"
	"addon-operator/helm/manifest"
	"addon-operator/hooks"
	"addon-operator/kube"
	"addon-operator/messages"
	"addon-operator/supervisor"
	"addon-operator/values"
)

// moduleRan is the result of a module run.
type moduleRan struct {
	Release   helm.Outcome
	Untouched bool   // Helm was left out: the module is under maintenance (H15)
	Changed   bool   // afterHelm hooks changed the values (G5.4), and not another writer meanwhile
	Trace     string // its span
}

// Describe says what was done to the release.
func (r moduleRan) Describe() string {
	switch o := r.Release; {
	case r.Untouched:
		return "left alone: the module is under maintenance"
	case o.Action == "":
		return "no chart"
	default:
		return fmt.Sprintf("%s, revision %d: %s", o.Action, o.Revision, o.Reason)
	}
}

// runModule is the work of a RunModule task (G5). A retry of the start-up execution begins with
// onStartup again, later executions begin with beforeHelm; Synchronizations that succeeded are not
// repeated (X13). CRDs come first, because hooks may watch their kinds. The config values are
// checked here because those of a disabled module were not (D37), and a global hook may have
// enabled it since.
func (j Job) runModule(run *supervisor.Run) (result moduleRan, err error) {
	began := time.Now()
	run, s := j.span(run, "module run")
	defer func() {
		if s.End(err); err == nil {
			j.Metrics.runSeconds.WithLabelValues(j.Owner, activation(j.Task.Cause)).Observe(seconds(began))
		}
	}()
	result.Trace = s.Name()
	if err := j.ensureCRDs(run); err != nil {
		return result, err
	}
	if err := j.loadHooks(run); err != nil {
		return result, err
	}
	if err := j.Known.Own.ValidateConfig(); err != nil {
		return result, fmt.Errorf("config values: %w", err)
	}
	if !j.Known.Started {
		if err := j.startUp(run); err != nil {
			return result, err
		}
	}
	if err := j.runOrders(run, hooks.BeforeHelm); err != nil {
		return result, err
	}
	// Only values that differ from those that Helm gets need another run: what one afterHelm hook
	// sets the next one may take back.
	rendered := j.Known.Own.Checksum()
	if result.Release, result.Untouched, err = j.apply(run); err != nil {
		return result, err
	}
	if result.Release.Held != nil { // what afterHelm hooks are for has not happened
		return result, nil
	}
	j.Known.Changed = false
	if err := j.runOrders(run, hooks.AfterHelm); err != nil {
		return result, err
	}
	result.Changed = j.Known.Changed && j.Known.Own.Checksum() != rendered
	return result, nil
}

// loadHooks has the owner load the hooks, and waits for them. Usually they were loaded since the
// discovery, while other modules ran.
func (j Job) loadHooks(run *supervisor.Run) (err error) {
	if j.Known.Loaded {
		return nil
	}
	run, s := j.span(run, "load hooks")
	defer func() { s.End(err) }()
	run.Step("load hooks")
	return j.ask(run, getHooks{})
}

// startUp is G5.1: onStartup hooks, Synchronizations, then schedules tick, and the API server asks hooks.
func (j Job) startUp(run *supervisor.Run) error {
	if err := j.runOrders(run, hooks.OnStartup); err != nil {
		return err
	}
	for _, hook := range j.Known.Hooks {
		for _, w := range synchronizations(hook) {
			_, settled := j.Known.Settled[bindingKey(hook, w.Bindings[0])]
			if hook.Config.Kubernetes[w.Bindings[0]].Queue != hooks.MainQueue || settled {
				continue // another queue runs it, or it was done, or it comes later
			}
			if err := (hookJob{j, run, hook}).Synchronize(w); err != nil {
				return err
			}
		}
	}
	run.Step("wait for Synchronization in other queues")
	if err := j.ask(run, messages.AwaitSynchronized{Task: j.Task.ID, Trace: traceOf(run)}); err != nil {
		return err
	}
	return j.serveReviews(run)
}

// runOrders runs the hooks that have an order binding, one after the other (C9).
func (j Job) runOrders(run *supervisor.Run, binding hooks.BindingType) error {
	for _, hook := range hooks.ByOrder(j.Known.Hooks, binding) {
		if err := (hookJob{j, run, hook}).Run(orderWork(hook, binding)); err != nil {
			return err
		}
	}
	return nil
}

// DeleteModule is the work of a DeleteModule task (G6); untouched says that maintenance left the
// release alone. After a restart the hooks of a module that was disabled meanwhile are loaded for
// it, but only if it has a release (E9): the hooks of a module that never ran may be the very
// reason for disabling it, and a failure would stop the main queue. Helm gets WriteContext: it is
// not interrupted when the task is cancelled.
func (j Job) DeleteModule(run *supervisor.Run) (untouched bool, err error) {
	run, s := j.span(run, "module delete")
	defer func() { s.End(err) }()
	if j.Known.Maintenance != "" {
		return true, nil
	}
	releases, err := j.Releases.Releases(run.Context())
	if err != nil {
		return false, fmt.Errorf("list releases: %w", err)
	}
	deployed := slices.Contains(releases, j.Owner)
	if !deployed && !j.Known.Loaded && !j.Known.Begun { // only an earlier process could have left something (E9)
		return false, nil
	}
	if err := j.loadHooks(run); err != nil {
		return false, err
	}
	if deployed { // G6.1
		if err := j.runOrders(run, hooks.BeforeDeleteHelm); err != nil {
			return false, err
		}
	}
	if j.Known.Maintenance != "" { // it has begun meanwhile
		return true, nil
	}
	run.Step("helm uninstall")
	merged, _ := j.Known.Values()
	m := plan.HelmModule(j.Known.Module, merged)
	m.GiveUp = run.Context().Done()
	if _, err := j.Releases.Uninstall(j.WriteContext, m); err != nil {
		return false, fmt.Errorf("helm uninstall: %w", err)
	}
	return false, j.runOrders(run, hooks.AfterDeleteHelm)
}

// apply is G5.3. Helm sees the values without the list of enabled modules (D9). It is not cancelled
// in the middle, which would leave a pending release; only the end of the grace period stops it.
// Waiting for Helm hooks does end with the task. The healer is notified which objects the release has, and shows their
// health before the run goes on, or the module would be ready with the health of the old ones (H25).
func (j Job) apply(run *supervisor.Run) (outcome helm.Outcome, untouched bool, err error) {
	if !charts.Exists(j.Known.Module.Dir) {
		return helm.Outcome{}, false, stillThere(j.Known.Module) // H16
	}
	if j.Known.Maintenance != "" {
		return helm.Outcome{}, true, nil
	}
	run, s := j.span(run, "helm")
	defer func() { s.End(err) }()
	run.Step("helm")
	for _, section := range []*values.Section{j.Known.Global, j.Known.Own} { // D36
		if err := section.ValidateForHelm(); err != nil {
			return helm.Outcome{}, false, fmt.Errorf("values for helm: %w", err)
		}
	}
	if err := j.ensureCRDs(run); err != nil {
		return helm.Outcome{}, false, err
	}
	merged, _ := j.Known.Values()
	m := plan.HelmModule(j.Known.Module, merged)
	m.Drifted, m.Allowed, m.GiveUp, m.Current = j.Known.Drifted, j.Known.Allowed, run.Context().Done(), j.current
	m.Began = func(o helm.Operation) func(error) {
		began := time.Now()
		_, s := j.span(run, "helm "+string(o))
		return func(err error) {
			s.End(err)
			j.Metrics.Operated(j.Task.Cause, o, began)
		}
	}
	m.Orphaned = func(release string) (bool, error) {
		d, err := supervisor.Ask[discovery](run, convergePath, getDiscovery{})
		return err == nil && d.Orphaned(release), err
	}
	began := time.Now()
	outcome, err = j.Releases.Apply(j.WriteContext, m)
	j.Metrics.helmSeconds.WithLabelValues(j.Owner, activation(j.Task.Cause)).Observe(seconds(began))
	if err != nil {
		return outcome, false, j.failed(run, err)
	}
	if len(outcome.Healed) > 0 {
		j.Metrics.Redeployed.WithLabelValues(j.Owner).Inc()
	}
	wrote := outcome.Action != helm.Skipped && outcome.Action != helm.Adopted && outcome.Action != helm.Held
	applied := releaseApplied{j.Owner, outcome.Objects, outcome.Ends, wrote}
	if _, err := supervisor.Ask[struct{}](run, healerPath, applied); err != nil {
		return outcome, false, err // the run is cancelled
	}
	s.SetAttributes(attribute.String("release.action", string(outcome.Action)), attribute.Int("release.revision", outcome.Revision),
		attribute.String("release.reason", outcome.Reason))
	level := j.Log.Info
	if outcome.Action == helm.Skipped || outcome.Action == helm.Held { // the module logs the latter, once
		level = j.Log.Debug
	}
	level("release", "action", outcome.Action, "reason", outcome.Reason, "revision", outcome.Revision)
	return outcome, false, nil
}

// ensureCRDs installs the CRDs that the discovery could not, because the module was under maintenance, their files
// were wrong, or have changed since; and those of subcharts that values enable. It is called before hooks, which may
// watch their kinds, and again before Helm: maintenance may be over since, and hooks may have set values.
func (j Job) ensureCRDs(run *supervisor.Run) error {
	if j.CRDs == nil || j.Known.Maintenance != "" {
		return nil
	}
	merged, _ := j.Known.Values()
	m := plan.HelmModule(j.Known.Module, merged)
	if j.CRDs.Ensured(m) {
		return nil
	}
	run.Step("CRDs")
	return j.CRDs.EnsureCRDs(run.Context(), []helm.Module{m})
}

// failed applies definitions again that were deleted: Helm could not place their objects, and the next attempt can. A
// kind may belong to another module, so the CRDs of all enabled modules are installed, except of those under
// maintenance (H15) or suspended (H27).
func (j Job) failed(run *supervisor.Run, cause error) error {
	var refused *helm.Error
	if errors.As(cause, &refused) && refused.Kind == helm.Invalid {
		d, err := supervisor.Ask[discovery](run, convergePath, getDiscovery{})
		if err != nil {
			return err
		}
		cause = errors.Join(cause, j.installCRDs(run, d.Tree, j.Known.Global, func(m addons.Module) bool {
			return slices.Contains(d.Before, m.Name) && plan.Maintained(m, d.Maintenance) == ""
		}))
	}
	return fmt.Errorf("helm: %w", cause)
}

// releaseApplied says to the healer which objects a release has; without any there is nothing to look after. A run is
// answered when their health is published: the module is not ready with what was current before, or without any.
type releaseApplied struct {
	Module  string
	Objects []helm.Object
	Ends    map[helm.Object]bool // that end by themselves
	Wrote   bool                 // Helm wrote objects: what is known of their health is out of date
}

// Definitions are the CRDs that modules bring: those in crds/ of a module, and in crds/ of the
// subcharts of its chart that its values enable. Helm looks for their kinds afterwards.
type Definitions struct {
	client   *kube.Client
	releases *helm.Client
	options  kube.CRDOptions

	// ensured has by module the checksum of its files, and of what its subcharts brought, when that was last installed.
	// So a run asks the API server only when these have changed, values enable another subchart, or it has failed. Runs
	// of several modules use it at the same time.
	ensured sync.Map
}

// NewDefinitions makes them.
func NewDefinitions(client *kube.Client, releases *helm.Client, options kube.CRDOptions) *Definitions {
	return &Definitions{client: client, releases: releases, options: options}
}

// EnsureCRDs implements CRDs. Of two definitions with one name that of the later module counts, and of those of a
// module its own, not that of a subchart (M1).
func (d *Definitions) EnsureCRDs(ctx context.Context, modules []helm.Module) error {
	var all []kube.CRD
	var errs []error
	for _, m := range modules {
		brought, err := d.read(m, d.releases.SubchartCRDs(m))
		own, errOwn := d.own(m)
		all, errs = append(append(all, brought...), own...), append(errs, err, errOwn)
	}
	written, err := d.client.EnsureCRDs(ctx, d.options, all)
	if len(written) > 0 { // Helm looks for their kinds again (M6), also after a failure
		d.releases.ResetDiscovery()
	}
	err = errors.Join(append(errs, err)...)
	for _, m := range modules {
		if d.ensured.Delete(m.Name); err == nil { // else the next call tries it again
			d.ensured.Store(m.Name, d.sum(m))
		}
	}
	return err
}

// CheckCRDs implements CRDs.
func (d *Definitions) CheckCRDs(m helm.Module) error {
	_, err := d.own(m)
	return err
}

// Ensured implements CRDs.
func (d *Definitions) Ensured(m helm.Module) bool {
	known, _ := d.ensured.Load(m.Name)
	return known == d.sum(m)
}

// sum covers the files of a module, and which definitions the subcharts bring that its values enable.
func (d *Definitions) sum(m helm.Module) string {
	sum := m.Files
	for _, f := range d.releases.SubchartCRDs(m) {
		sum += "\x00" + f.Name
	}
	return sum
}

// own are the definitions in crds/ of a module.
func (d *Definitions) own(m helm.Module) ([]kube.CRD, error) {
	files, err := charts.Definitions(m.Dir)
	if err != nil {
		return nil, fmt.Errorf("read CRDs of %s: %w", m.Shows(charts.Root(m.Dir)), err)
	}
	return d.read(m, files)
}

// read reads files of the chart of a module. With an error nothing of them is used.
func (d *Definitions) read(m helm.Module, files []charts.File) (all []kube.CRD, err error) {
	for _, f := range files {
		if d.options.Skips(f.Name) {
			continue
		}
		name := m.Shows(filepath.Join(charts.Root(m.Dir), f.Name))
		objects, err := manifest.Parse(string(f.Data))
		if err != nil {
			return nil, fmt.Errorf("read CRDs: %s: %w", name, err)
		}
		for _, object := range objects {
			all = append(all, kube.CRD{File: name, Object: object})
		}
	}
	if err := kube.CheckCRDs(all); err != nil {
		return nil, fmt.Errorf("read CRDs: %w", err)
	}
	return all, nil
}

// Concerned lists the releases that are the operator's business: those named like a module, which
// may adopt them (H7), the ignored one, which is never purged, and those that an operator has
// installed. others are all the rest, which are left alone (P2).
func (s Services) Concerned(ctx context.Context, modules []addons.Module) (releases, others []string, err error) {
	all, err := s.Releases.Releases(ctx)
	if err != nil {
		return nil, nil, fmt.Errorf("list releases: %w", err)
	}
	others = slices.DeleteFunc(slices.Clone(all), func(name string) bool {
		return name == s.IgnoredRelease || slices.ContainsFunc(modules, func(m addons.Module) bool { return m.Name == name })
	})
	ours, err := s.Releases.Ours(ctx, others)
	if err != nil {
		return nil, nil, fmt.Errorf("determine who installed releases: %w", err)
	}
	others = slices.DeleteFunc(others, func(name string) bool { return slices.Contains(ours, name) })
	releases = slices.DeleteFunc(slices.Clone(all), func(name string) bool { return slices.Contains(others, name) })
	return releases, others, nil
}

// Purge uninstalls a release. Of a module that was removed, something may still run, maybe Helm:
// that ends first.
func (j Job) Purge(run *supervisor.Run, release string) (purged bool, err error) {
	run, s := j.span(run, "purge", attribute.String("module", release))
	defer func() { s.End(err) }()
	for run.Status(modulePath+release) != nil { // else there was no such module
		got, err := supervisor.Ask[handed](run, modulePath+release, handOver{})
		if err != nil {
			return false, err
		}
		if got.Known.Runs == 0 {
			break
		}
		run.Step("wait until no task of %s runs", release)
		select {
		case <-time.After(time.Second):
		case <-run.Context().Done():
			return false, run.Context().Err()
		}
	}
	d, err := supervisor.Ask[discovery](run, convergePath, getDiscovery{})
	if err != nil || !d.MayPurge(release) {
		return false, err
	}
	if err := j.allRan(run, release, d); err != nil {
		return false, fmt.Errorf("purge release %s: it is held back: %w", release, err)
	}
	run.Step("helm uninstall %s", release)
	existed, err := j.Releases.Purge(j.WriteContext, release, helm.Purging{Data: d.MayDeleteData(release)})
	if err != nil {
		return false, fmt.Errorf("purge release %s: %w", release, err)
	}
	if existed {
		j.Log.Info("release without a module directory is purged", "release", release)
	}
	return true, nil
}

// allRan is an error while an enabled module may have objects of a release that is to be purged: one that was
// renamed, or merged into another one, has had another release. A run that succeeds takes its objects over, and the
// purge leaves those of others alone (P2); until then it is unknown which these are.
func (j Job) allRan(run *supervisor.Run, release string, d discovery) error {
	const unknown = ", so it is unknown whether the module has objects of this release"
	if broken := d.Tree.Broken; len(broken) > 0 {
		return fmt.Errorf("module directory %s does not load"+unknown, broken[0].Base)
	}
	if lost := d.Tree.Unreachable; len(lost) > 0 {
		return fmt.Errorf("the link of module %s leads to nothing"+unknown, lost[0])
	}
	for _, m := range d.Tree.Modules {
		if !slices.Contains(d.Before, m.Name) {
			continue
		}
		if what := d.Tree.Outdated(m.Name); what != "" {
			return &filesChanged{what}
		}
		got, err := supervisor.Ask[handed](run, ownerPath(m.Name), handOver{})
		switch {
		case err != nil:
			return err
		case !charts.Exists(m.Dir):
		case plan.Maintained(m, d.Maintenance) != "":
			if err := j.unclaimed(run, release, m, got.Known); err != nil {
				return err
			}
		case !got.Known.Applied:
			return fmt.Errorf("the last run of module %s has not succeeded"+unknown, m.Name)
		}
	}
	return nil
}

// unclaimed is an error while a module that is left alone, and so takes nothing over, renders an object of a release,
// and while that is unknown.
func (j Job) unclaimed(run *supervisor.Run, release string, m addons.Module, known known) error {
	merged, _ := known.Values()
	chart, claimed := plan.HelmModule(m, merged), false
	chart.Orphaned = func(of string) (bool, error) {
		claimed = claimed || of == release
		return false, nil
	}
	_, err := j.Plans.Plan(run.Context(), chart)
	refused, _ := errors.AsType[*helm.Error](err)
	switch {
	case claimed:
		return fmt.Errorf("module %s, which is under maintenance or suspended, renders objects of this release", m.Name)
	case err == nil || refused != nil && refused.Kind == helm.Foreign: // of others, which is no matter here
		return nil
	}
	return fmt.Errorf("it is unknown whether module %s has objects of this release: %w", m.Name, err)
}
