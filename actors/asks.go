package actors

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"addon-operator/actors/plan"
	"addon-operator/addons"
	"addon-operator/helm"
	"addon-operator/messages/view"
	"addon-operator/supervisor"
	"addon-operator/values"
)

// Plan returns what the running operator would do with the ConfigMap of the request, or at the next
// reload without one. What hooks have set is known from their last runs. It asks the actors for
// what they know, and changes nothing in them.
//
// This file collects what a plan is made from, from a running operator or from files and the
// cluster; package plan makes it, in the goroutine of the caller.
func (o *Operator) Plan(ctx context.Context, request plan.Request) (plan.Plan, error) {
	known, err := o.collect(ctx)
	if err != nil {
		return plan.Plan{}, err
	}
	current := o.config()
	known.Config = current.Data
	if request.Proposed == nil && current.Refused != "" {
		known.Notes = append(known.Notes, "the ConfigMap in the cluster is refused; this plan uses the last valid one: "+current.Refused)
	}
	return plan.Make(ctx, known, request)
}

// Observed reports whether the operator has seen the ConfigMap as it is in the cluster now: its
// content is in force, or refused. Before that, the state of modules is the one before an edit,
// which a script that waits must not take for the one after it.
func (o *Operator) Observed(ctx context.Context) (bool, error) {
	now, err := o.program.ConfigMap.Read(ctx)
	if err != nil {
		return false, err
	}
	known := o.config()
	return known.Refused != "" || maps.Equal(now.Data, known.Data), nil
}

// config is what is in force of the ConfigMap; nothing before the start.
func (o *Operator) config() view.ConfigStatus {
	status, _ := o.program.Inspector.Status(configPath).(view.ConfigStatus)
	return status
}

// collect asks the actors for what a plan is made from. It reads the disk as the next reload would,
// but into a tree of its own: the tree in force, and hooks, stay as they are. The actors
// answer at different times, so a plan that is made during a change may mix two states; the next plan is right.
func (o *Operator) collect(ctx context.Context) (plan.Known, error) {
	d, err := supervisor.AskFor[discovery](ctx, o.program.System, convergePath, getDiscovery{})
	if err != nil {
		return plan.Known{}, err
	}
	tree, err := d.Tree.Refresh(o.program.Dirs)
	if err != nil {
		return plan.Known{}, err
	}
	known, err := plannable(ctx, o.program.World, tree)
	if err != nil {
		return plan.Known{}, err
	}
	known.Enabling = plan.Enabling{Dynamic: d.Dynamic, Scripts: plan.Answers(d.Verdicts)}
	known.Running = func(m addons.Module) bool { return slices.Contains(d.Before, m.Name) }
	known.GlobalHooksRan, known.Suspended = true, d.Suspended
	maps.Copy(known.Reload.Deployed, d.Deployed) // modules without a chart have no release
	known.Reload.Purges, known.Reload.Ran = d.Purges, d.Ran
	known.Sections[values.GlobalKey] = globalOnDisk(&known, o.program.Global.Load(), tree.Global, d.Tree.Global)
	for _, m := range tree.Modules {
		old := d.Tree.Module(m.Name)
		if old != nil && old.Dir != m.Dir {
			old = nil // a reload starts it from the beginning (updateModule)
		}
		if err := o.collectFrom(ctx, &known, m, old); err != nil {
			return plan.Known{}, err
		}
	}
	if !o.Converge().Ready {
		known.Notes = append(known.Notes, "the first converge has not finished: hooks that have not run yet may set other values")
	}
	return known, nil
}

// globalOnDisk are the global values with the files as they are now, as the next reload has them (P8).
func globalOnDisk(known *plan.Known, section *values.Section, now, old addons.Global) *values.Section {
	if now.Same(old) {
		return section
	}
	files, err := values.NewSection(values.GlobalKey, now.Schemas, now.Static...)
	return onDisk(known, "global values", section, files, err)
}

// onDisk are values in force over what files say now. If the files do not fit, a reload would not
// put them in force either (P8), so the plan uses the old ones and says so.
func onDisk(known *plan.Known, what string, section, files *values.Section, err error) *values.Section {
	var next *values.Section
	if err == nil {
		next, err = section.OnFiles(files)
	}
	if err == nil {
		err = next.ValidateConfig()
	}
	if err != nil {
		known.Notes = append(known.Notes, fmt.Sprintf("%s have changed on disk, but would not be in force: %v", what, err))
		return section
	}
	known.Notes = append(known.Notes, what+" have changed on disk since they were loaded; this plan uses the new ones")
	return next
}

// collectFrom asks for the values of a module; one that was found just now has no actor yet, and
// nothing in force. old is the module in the tree in force, nil for none. Each difference between
// the two is a note, because the plan may be read as one of the ConfigMap alone.
func (o *Operator) collectFrom(ctx context.Context, known *plan.Known, m addons.Module, old *addons.Module) error {
	if stale := m.Stale(); stale != "" {
		known.Notes = append(known.Notes, fmt.Sprintf("module %s: %s", m.Name, stale))
	}
	if old == nil {
		section, err := plan.SectionFor(m)
		if err != nil {
			return fmt.Errorf("module %s: %w", m.Name, err)
		}
		known.Sections[m.Key] = section
		return nil
	}
	got, err := supervisor.AskFor[handed](ctx, o.program.System, ownerPath(m.Name), handOver{})
	if err != nil {
		return err
	}
	known.Sections[m.Key] = got.Known.Own
	if !m.SameValues(*old) {
		files, err := plan.SectionFor(m)
		known.Sections[m.Key] = onDisk(known, "files of "+m.Name, got.Known.Own, files, err)
	}
	if !got.Known.Started { // its hooks have not run all, so it is not known what they would set
		return nil
	}
	known.HookValues[m.Name] = ""
	if len(got.Known.Hooks) > 0 {
		known.HookValues[m.Name] = plan.HookValuesRemembered
	}
	return nil
}

// plannable is the part of a plan that files and the cluster say, the same with and without a
// running operator. It lists the releases again: what converge knows may be from the start.
func plannable(ctx context.Context, w World, tree *addons.Tree) (plan.Known, error) {
	releases, _, err := w.Concerned(ctx, tree.Modules)
	if err != nil {
		return plan.Known{}, err
	}
	deployed := map[string]bool{}
	for _, name := range releases {
		deployed[name] = true
	}
	return plan.Known{
		Helm: w.Plans, Script: w.Hooks.Enabled, Sections: map[string]*values.Section{}, HookValues: map[string]string{},
		Reload: plan.Reload{Tree: tree, Deployed: deployed, Ignored: w.IgnoredRelease, AllowPurge: w.AllowPurge},
	}, nil
}

// Plan returns what an operator that is started now would do. No hooks have run for
// it, so what they would set is unknown. The ConfigMap is read from the cluster, unless
// one is proposed; running modules are known by their releases.
func Plan(ctx context.Context, w World, request plan.Request) (plan.Plan, error) {
	tree, err := addons.Load(w.Dirs)
	if err != nil {
		return plan.Plan{}, err
	}
	sections, err := plan.Sections(tree)
	if err != nil {
		return plan.Plan{}, err
	}
	current, err := w.ConfigMap.Read(ctx)
	if err != nil {
		return plan.Plan{}, fmt.Errorf("read the ConfigMap: %w", err)
	}
	if err := layerSecret(ctx, w, sections); err != nil {
		return plan.Plan{}, err
	}
	known, err := plannable(ctx, w, tree)
	if err != nil {
		return plan.Plan{}, err
	}
	known.Config, known.Sections = current.Data, sections
	known.Enabling.Scripts = map[string]bool{} // each may say true
	known.Reload.Purges.Confirmed = current.ConfirmPurge
	if err := suspendedIn(ctx, w, &known); err != nil {
		return plan.Plan{}, err
	}
	return plan.Make(ctx, known, request)
}

// suspendedIn reads which modules are suspended, without an operator. A person who may not read
// these objects gets a plan all the same, with a note.
func suspendedIn(ctx context.Context, w World, known *plan.Known) error {
	if w.ModuleObjects == nil {
		return nil
	}
	suspended, err := w.ModuleObjects.Suspended(ctx)
	if apierrors.IsForbidden(err) {
		known.Notes = append(known.Notes, "it is unknown whether modules are suspended: "+err.Error())
		return nil
	}
	known.Suspended = suspended
	return err
}

// Render renders the chart of a module with its values now. It renders in the goroutine of the
// caller; no actor waits for it. Templates may read the cluster (lookup), so it may take as long as
// the API server does.
func (o *Operator) Render(ctx context.Context, module string, request plan.RenderRequest) (plan.Rendered, error) {
	m, err := o.helmModule(ctx, module)
	if err != nil {
		return plan.Rendered{}, err
	}
	return plan.Render(ctx, o.program.Renderer, m, o.program.Secrets.Hider(), request)
}

// helmModule is a module as Helm would get it now (D9). The directory is that of the tree in force,
// and the values are what a run that begins now would get; a disabled module has values, too.
func (o *Operator) helmModule(ctx context.Context, name string) (helm.Module, error) {
	if o.program.Renderer == nil {
		return helm.Module{}, errors.New("charts cannot be rendered: the operator runs without Helm")
	}
	d, err := supervisor.AskFor[discovery](ctx, o.program.System, convergePath, getDiscovery{})
	if err != nil {
		return helm.Module{}, err
	}
	m := d.Tree.Module(name)
	if m == nil {
		return helm.Module{}, fmt.Errorf("there is no module %s", name)
	}
	got, err := supervisor.AskFor[handed](ctx, o.program.System, ownerPath(name), handOver{})
	if err != nil {
		return helm.Module{}, err
	}
	merged, _ := got.Known.Values()
	return plan.HelmModule(*m, merged), nil
}
