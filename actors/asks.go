package actors

import (
	"context"
	"fmt"
	"maps"

	"addon-operator/actors/plan"
	"addon-operator/addons"
	"addon-operator/helm/charts"
	"addon-operator/messages"
	"addon-operator/messages/view"
	"addon-operator/supervisor"
	"addon-operator/values"
)

// This file collects what a plan is made from, from a running operator or from files and the
// cluster; package plan makes it, in the goroutine of the caller.

// Plan returns what the running operator would do with the ConfigMap of the request, or at the next
// reload without one. What hooks have set is known from their last runs. It asks the actors for
// what they know, and changes nothing in them. It reads the disk as the next reload would,
// but into a tree of its own: the tree in force, and hooks, stay as they are. The actors
// answer at different times, so a plan that is made during a change may mix two states; the next plan is right.
func (o *Operator) Plan(ctx context.Context, request plan.Request) (plan.Plan, error) {
	d, err := supervisor.AskFor[discovery](ctx, o.program.System, convergePath, getDiscovery{})
	if err != nil {
		return plan.Plan{}, err
	}
	tree, err := d.Tree.Refresh(o.program.Dirs)
	if err != nil {
		return plan.Plan{}, err
	}
	known, err := plannable(ctx, o.program.World, tree)
	if err != nil {
		return plan.Plan{}, err
	}
	current := o.config()
	known.Config, known.Secret, known.Suspended = current.Data, current.Secret, d.Suspended
	if request.Proposed == nil && current.Refused != "" {
		const text = "the ConfigMap in the cluster is refused; this plan uses the last valid one: "
		known.Notes = append(known.Notes, text+current.Refused)
	}
	known.Enabling = plan.Enabling{Dynamic: d.Dynamic, Scripts: plan.Answers(d.Verdicts)}
	for _, name := range d.Before {
		known.Running[name] = true
	}
	maps.Copy(known.Reload.Deployed, d.Deployed) // modules without a chart have no release
	known.Reload.Purges, known.Reload.Ran = d.Purges, d.Ran
	err = o.planOwner(ctx, &known, messages.GlobalHooks, tree.Global.Same(d.Tree.Global))
	for _, m := range tree.Modules {
		if stale := m.Stale(); stale != "" {
			known.Notes = append(known.Notes, fmt.Sprintf("module %s: %s", m.Name, stale))
		}
		// A reload starts one that is new, or that has another directory, from the beginning (updateModule).
		if old := d.Tree.Module(m.Name); err == nil && old != nil && old.Dir == m.Dir {
			err = o.planOwner(ctx, &known, m.Name, m.SameValues(*old))
		}
	}
	if err != nil {
		return plan.Plan{}, err
	}
	if !o.Converge().Ready {
		known.Notes = append(known.Notes, "the first converge has not finished: hooks that have not run yet may set other values")
	}
	return plan.Make(ctx, known, request)
}

// planOwner takes over what an owner knows: what its hooks have set. The files of its values are those in force,
// or have changed (same is false): then its values are those over the new files, as the next reload has them, if
// they fit (P8). A note says so, because the plan may be read as one of the ConfigMap alone.
func (o *Operator) planOwner(ctx context.Context, known *plan.Known, owner string, same bool) error {
	got, err := supervisor.AskFor[handed](ctx, o.program.System, ownerPath(owner), handOver{})
	if err != nil {
		return err
	}
	section, note := got.Known.Own, "this plan uses the new ones"
	if !same {
		next, err := section.OnFiles(known.Sections[section.Key()])
		if err == nil {
			err = next.ValidateConfig()
		}
		if err != nil {
			next, note = section, "they would not be in force: "+err.Error()
		}
		section = next
		note = fmt.Sprintf("files of %s have changed on disk since they were loaded; %s", owner, note)
		known.Notes = append(known.Notes, note)
	}
	known.Sections[section.Key()] = section
	known.HooksRan[owner] = owner == messages.GlobalHooks || got.Known.Started
	return nil
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

// plannable is the part of a plan that files and the cluster say, the same with and without a
// running operator. It lists the releases again: what converge knows may be from the start.
func plannable(ctx context.Context, w World, tree *addons.Tree) (plan.Known, error) {
	sections, err := plan.Sections(tree)
	if err != nil {
		return plan.Known{}, err
	}
	releases, _, err := w.Concerned(ctx, tree.Modules)
	deployed := map[string]bool{}
	for _, name := range releases {
		deployed[name] = true
	}
	return plan.Known{
		Helm: w.Plans, Script: w.Hooks.Enabled, Sections: sections, Running: map[string]bool{}, HooksRan: map[string]bool{},
		Reload: plan.Reload{Tree: tree, Deployed: deployed, Ignored: w.IgnoredRelease, AllowPurge: w.AllowPurge},
	}, err
}

// Plan returns what an operator that is started now would do. No hooks have run for
// it, so what they would set is unknown. The ConfigMap is read from the cluster, unless
// one is proposed. Modules run if they have a release, or, without a chart, which leaves no trace in the cluster,
// if the ConfigMap in the cluster or files switch them on. What a person may not read is left out: an operator with
// the same rights would start without it.
func Plan(ctx context.Context, w World, request plan.Request) (plan.Plan, error) {
	tree, err := addons.Load(w.Dirs)
	if err != nil {
		return plan.Plan{}, err
	}
	current, err := w.ConfigMap.Read(ctx)
	if err != nil {
		return plan.Plan{}, fmt.Errorf("read the ConfigMap: %w", err)
	}
	known, err := plannable(ctx, w, tree)
	if err != nil {
		return plan.Plan{}, err
	}
	known.Config, known.Reload.Purges.Confirmed = current.Data, current.ConfirmPurge
	known.Enabling.Scripts = map[string]bool{}       // each may say true
	before, _ := values.ParseConfigMap(current.Data) // one that is refused has enabled nothing
	for _, m := range tree.Modules {
		on := !charts.Exists(m.Dir) && plan.SwitchedOn(m, nil, before.Flags).Enabled
		known.Running[m.Name] = on || known.Reload.Deployed[m.Name]
	}
	start := &boot{World: w}
	secret, err := start.readSecret(ctx)
	if err == nil {
		known.Suspended, err = start.readSuspended(ctx)
	}
	if err != nil {
		return plan.Plan{}, err
	}
	known.Secret = secret.Data
	return plan.Make(ctx, known, request)
}

// Render renders the chart of a module as Helm would get it now (D9): with the directory of the tree in force, and
// the values of a run that begins now; a disabled module has values, too. It renders in the goroutine of the
// caller; no actor waits for it. Templates may read the cluster (lookup), so it may take as long as
// the API server does.
func (o *Operator) Render(ctx context.Context, module string, request plan.RenderRequest) (plan.Rendered, error) {
	tree := o.program.Runs.Tree.Load()
	if tree == nil || tree.Module(module) == nil {
		return plan.Rendered{}, fmt.Errorf("there is no module %s", module)
	}
	got, err := supervisor.AskFor[handed](ctx, o.program.System, ownerPath(module), handOver{})
	if err != nil {
		return plan.Rendered{}, err
	}
	merged, _ := got.Known.Values()
	chart := plan.HelmModule(*tree.Module(module), merged)
	return plan.Render(ctx, o.program.Renderer, chart, o.program.Secrets.Hider(), request)
}
