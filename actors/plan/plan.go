package plan

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"addon-operator/actors/decide"
	"addon-operator/addons"
	"addon-operator/helm"
	"addon-operator/helm/charts"
	"addon-operator/helm/dryrun"
	"addon-operator/hooks"
	"addon-operator/messages/view"
	"addon-operator/values"
)

// Helm returns what Helm would do, without doing it. Package helm implements it.
type Helm interface {
	Plan(ctx context.Context, m helm.Module) (helm.Plan, error)
	PlanRemoval(ctx context.Context, release string, purge bool) (helm.Plan, error)
	Drift(ctx context.Context, m helm.Module) (drifted []dryrun.Change, known bool, err error)
}

// width is how many charts are planned at the same time. A plan waits for the API server, not for
// the processor.
const width = 4

// Known is what a plan is made from, collected by actors.Plan or Operator.Plan. Make changes
// nothing in it.
type Known struct {
	Helm Helm // nil: there are no plans
	// Charts are those of the modules, to look at their values; nil: they are not looked at.
	Charts *charts.Cache
	// Script runs an enabled script. Package hooks implements it.
	Script func(ctx context.Context, script hooks.EnabledScript) (hooks.Answer, error)
	// Reload is what is known of the next reload. Make fills in which modules are enabled or under
	// maintenance.
	Reload decide.Reload
	// Config is the content of the ConfigMap that is in force.
	Config map[string]string
	// Sections are those of all modules and of global, by key.
	Sections map[string]*values.Section
	// Enabling has no Charts: the plan looks at them itself.
	Enabling decide.Enabling
	// Suspended are the modules, and releases, that people have suspended (H27).
	Suspended map[string]bool
	// Running returns which modules would not have to be started. Nil: those that have a release, and those without a chart that
	// the ConfigMap in force switches on.
	Running func(m addons.Module) bool
	// HookValues is what is known of the values that hooks of a module set, by module. A module that
	// is not in it has run no hooks yet; GlobalHooksRan says the same of global hooks.
	HookValues     map[string]string
	GlobalHooksRan bool
	Notes          []string // what the plan cannot know
}

// planner makes one plan.
type planner struct {
	Known
	secrets bool
	config  values.Document // the ConfigMap that the plan is made with
	hider   *values.Hider   // of the secrets in the values
	// globalUnknown: there are global hooks, and none has run.
	globalUnknown bool
}

// Make plans with the ConfigMap in force, or with the proposed one of the request. It goes the way of
// a reload: flags, enabled scripts, steps, charts.
func Make(ctx context.Context, known Known, request view.PlanRequest) (view.Plan, error) {
	known.Enabling.Charts = known.chartRules().Check
	p := &planner{Known: known, secrets: request.Secrets}
	p.HookValues = maps.Clone(p.HookValues)
	if err := p.lookForHooks(); err != nil {
		return view.Plan{}, err
	}
	if refused := p.propose(p.choose(request.Proposed)); refused != "" {
		return view.Plan{Refused: refused, Modules: []view.ModulePlan{}}, nil
	}
	if p.Helm == nil {
		return view.Plan{}, errors.New("this operator cannot make plans: it has no Helm")
	}
	script := func(m addons.Module, before []string) (hooks.Answer, error) {
		return p.Script(ctx, decide.Script(m, p.Sections[values.GlobalKey], p.Sections[m.Key], before))
	}
	enabled, verdicts, err := decide.Enabled(p.Reload.Tree.Modules, p.Enabling.Dynamic, p.config.Flags, script)
	if err != nil {
		return view.Plan{}, fmt.Errorf("enabled scripts: %s", p.hide(err.Error()))
	}
	p.config.Maintenance = decide.WithSuspended(p.config.Maintenance, p.Suspended)
	p.Reload.Enabled, p.Reload.Maintenance = enabled, p.config.Maintenance
	steps, _ := p.Reload.Steps()
	plan := view.Plan{Notes: p.Notes, Modules: p.modules(steps, verdicts)}
	var group errgroup.Group
	group.SetLimit(width)
	for i := range plan.Modules {
		group.Go(func() error {
			p.complete(ctx, &plan.Modules[i])
			return ctx.Err()
		})
	}
	if err := group.Wait(); err != nil {
		return view.Plan{}, err
	}
	plan.Notes = append(plan.Notes, p.unread(plan.Modules)...)
	plan.Count()
	return plan, nil
}

// chartRules are what schemas of charts ask about the ConfigMap that is planned with: the sections are as the plan knows them,
// the Secret included.
func (k Known) chartRules() decide.ChartRules {
	tree := k.Reload.Tree
	return decide.ChartRules{Charts: k.Charts, Section: func(key string, doc values.Document) (*values.Section, bool) {
		whole := key == values.GlobalKey && k.GlobalHooksRan || decide.Hookless(tree.Global, tree.Modules, key)
		for _, m := range tree.Modules {
			if _, ran := k.HookValues[m.Name]; ran && m.Key == key {
				whole = true
			}
		}
		base := k.Sections[key]
		if base == nil {
			return nil, false
		}
		next, err := base.WithConfig(doc.Sections[key], values.Origin{})
		if err != nil {
			return nil, false
		}
		return next, whole
	}}
}

// unread names values that reach nothing (H23), of modules that would run or go on.
func (p *planner) unread(modules []view.ModulePlan) (notes []string) {
	section := func(m addons.Module) *values.Section { return p.Sections[m.Key] }
	for _, text := range UnreadGlobal(p.Charts, p.Reload.Tree, p.Sections[values.GlobalKey], section) {
		notes = append(notes, p.hide(text))
	}
	for _, step := range modules {
		if step.Step != view.StepStart && step.Step != view.StepRun {
			continue
		}
		m := *p.Reload.Tree.Module(step.Module)
		for _, text := range Unread(p.Charts, m, p.Sections[values.GlobalKey], p.Sections[m.Key]) {
			notes = append(notes, p.hide("module "+m.Name+": "+text))
		}
	}
	return notes
}

// choose returns the data of the ConfigMap that is planned with. Hooks write into the ConfigMap of
// the cluster, so keys that a proposed one lacks may be theirs, and a note says so.
func (p *planner) choose(proposed map[string]string) map[string]string {
	if proposed == nil {
		return p.Config
	}
	var missing []string
	for _, key := range slices.Sorted(maps.Keys(p.Config)) {
		if _, ok := proposed[key]; !ok {
			missing = append(missing, key)
		}
	}
	if len(missing) > 0 {
		p.Notes = append(p.Notes, "the ConfigMap in the cluster has keys that the proposed one lacks, and hooks may have written some of them: "+strings.Join(missing, ", "))
	}
	return proposed
}

// propose gives every section its part of a ConfigMap. refused says why the operator would refuse
// it, empty if it would not.
func (p *planner) propose(data map[string]string) (refused string) {
	doc, err := decide.Parse(data, nil)
	if err != nil {
		return err.Error()
	}
	doc.Secrets = map[string]any{} // the sections have them already; both are checked together (D40)
	for key, section := range p.Sections {
		if secret := section.Stored().Secret; secret != nil {
			doc.Secrets[key] = secret
		}
	}
	rules := decide.Schemas{Sections: p.Sections, Modules: p.Reload.Tree.Modules, Enabling: p.Enabling}
	if err := rules.CheckDocument(doc); err != nil {
		return err.Error()
	}
	p.config = doc
	sections := make(map[string]*values.Section, len(p.Sections))
	for key, section := range p.Sections {
		next, err := section.WithConfig(doc.Sections[key], values.Origin{})
		if err != nil { // of a disabled module, whose values are not checked (D37)
			next = section
		}
		sections[key] = next
	}
	p.Sections = sections
	var secrets []string
	for _, section := range sections {
		secrets = append(secrets, section.Secrets().Texts()...)
	}
	p.hider = values.NewHider(secrets)
	return ""
}

// hide returns a text as the person who asked may see it.
func (p *planner) hide(text string) string {
	if p.secrets {
		return text
	}
	return p.hider.Text(text)
}

// modules are the modules of a plan in the order in which their turn comes.
func (p *planner) modules(steps decide.Steps, verdicts map[string]decide.Verdict) []view.ModulePlan {
	plans := []view.ModulePlan{}
	for _, name := range steps.Run {
		m := p.Reload.Tree.Module(name)
		plan := view.ModulePlan{Module: name, Step: view.StepRun, Why: "enabled by " + verdicts[name].Source, HookValues: p.HookValues[name]}
		switch {
		case p.Suspended[name]:
			plan.Step, plan.Why = view.StepKeep, plan.Why+butSuspended
		case !p.runs(*m):
			plan.Step = view.StepStart
		}
		plans = append(plans, plan)
	}
	disabled := func(name string) string {
		if v, ok := verdicts[name]; ok && v.Reason != "" {
			return "disabled by " + v.Source + ": " + p.hide(v.Reason)
		} else if ok {
			return "disabled by " + v.Source
		}
		return "there is no module directory"
	}
	add := func(names []string, step, but string) {
		for _, name := range names {
			why := disabled(name) + but
			if step == view.StepKeep && p.Suspended[name] {
				why = disabled(name) + butSuspended
			}
			plans = append(plans, view.ModulePlan{Module: name, Step: step, Why: why})
		}
	}
	add(steps.Delete, view.StepStop, "")
	add(steps.Purge, view.StepPurge, "")
	add(steps.Held, view.StepKeep, ", but its purge is held back: "+steps.HeldWhy)
	add(steps.Keep, view.StepKeep, ", but under maintenance")
	return plans
}

// runs reports whether a module would not have to be started.
func (p *planner) runs(m addons.Module) bool {
	if p.Running != nil {
		return p.Running(m)
	}
	before, _ := values.ParseConfigMap(p.Config) // one that is refused has enabled nothing
	return p.Reload.Deployed[m.Name] || !charts.Exists(m.Dir) && decide.SwitchedOn(m, nil, before.Flags).Enabled
}

// butSuspended is why a module is kept as it is.
const butSuspended = ", but suspended"

// complete adds to a step what Helm would do. It runs in parallel for several steps, so it writes
// to its step only.
func (p *planner) complete(ctx context.Context, step *view.ModulePlan) {
	switch step.Step {
	case view.StepKeep:
	case view.StepStop, view.StepPurge:
		would, err := p.Helm.PlanRemoval(ctx, step.Module, step.Step == view.StepPurge)
		p.describe(step, would, err)
	default:
		p.planRun(ctx, step, *p.Reload.Tree.Module(step.Module))
	}
}

func (p *planner) planRun(ctx context.Context, step *view.ModulePlan, m addons.Module) {
	if decide.Maintained(m, p.config.Maintenance) != "" {
		step.Notes = append(step.Notes, "it is under maintenance: its release is left alone")
		return
	}
	if !charts.Exists(m.Dir) {
		return
	}
	if step.Step == view.StepStart && bringsCRDs(m, p.merged(m)) {
		step.Notes = append(step.Notes, "its CRDs would be installed first")
	}
	if !p.validForHelm(step, values.GlobalKey, p.globalUnknown) || !p.validForHelm(step, m.Key, step.HookValues == view.HookValuesUnknown) {
		return
	}
	would, err := p.Helm.Plan(ctx, HelmModule(m, p.merged(m)))
	p.describe(step, would, err)
}

// HelmModule is a module as package helm gets it, with its merged values.
func HelmModule(m addons.Module, merged map[string]any) helm.Module {
	return helm.Module{Name: m.Name, Key: m.Key, Dir: m.Dir, Namespace: m.File.Namespace, Values: merged}
}

// bringsCRDs reports whether a module, or a subchart that its values enable, has definitions.
func bringsCRDs(m addons.Module, merged map[string]any) bool {
	if entries, err := os.ReadDir(charts.CRDs(m.Dir)); err == nil && len(entries) > 0 {
		return true
	}
	if !charts.HasSubcharts(m.Dir) {
		return false
	}
	loaded, err := new(charts.Cache).Load(charts.Module{Name: m.Name, Key: m.Key, Dir: m.Dir})
	if err != nil {
		return false // the plan of its release says so
	}
	files, err := loaded.SubchartCRDs(merged)
	return err == nil && len(files) > 0
}

// validForHelm checks a section before a chart is rendered with it. If it is incomplete because
// hooks have not run, a violation proves nothing: it is shown as unknown and not as an error.
func (p *planner) validForHelm(step *view.ModulePlan, key string, incomplete bool) bool {
	err := p.Sections[key].ValidateForHelm()
	switch {
	case err == nil:
		return true
	case incomplete:
		step.Unknown = p.hide(err.Error())
	default:
		step.Error = p.hide(fmt.Sprintf("values for helm: %v", err))
	}
	return false
}

// merged are the values of a module as Helm sees them.
func (p *planner) merged(m addons.Module) map[string]any {
	return map[string]any{values.GlobalKey: p.Sections[values.GlobalKey].Merged(), m.Key: p.Sections[m.Key].Merged()}
}

func (p *planner) describe(step *view.ModulePlan, would helm.Plan, err error) {
	switch {
	case helm.IsAway(err): // what was found until then would not be done
		step.Unknown = p.hide(err.Error())
		return
	case err != nil:
		step.Error = p.hide(err.Error())
	}
	step.Release, step.Reason = string(would.Action), would.Reason
	for _, h := range would.Hooks {
		step.Notes = append(step.Notes, fmt.Sprintf("Helm hook %s would run: %s", h.Object, h.Events))
	}
	for _, c := range would.Changes {
		c.Mask = p.hider.Object
		object := view.ObjectPlan{Object: c.Object.String(), Verb: string(c.Verb), Note: c.Note, Diff: c.Diff(p.secrets)}
		if c.Verb == dryrun.Changed {
			object.Fields = paths(c.Fields(p.secrets))
		}
		step.Objects = append(step.Objects, object)
	}
}

// lookForHooks notes whose values are not known because hooks have not run.
func (p *planner) lookForHooks() error {
	if !p.GlobalHooksRan {
		global, _, err := hooks.Find(p.Reload.Tree.Global.HooksDir, "", hooks.Global)
		if err != nil {
			return err
		}
		if p.globalUnknown = len(global) > 0; p.globalUnknown {
			p.Notes = append(p.Notes, fmt.Sprintf("global hooks were not run (%d): values and flags that they would set are unknown", len(global)))
		}
	}
	for _, m := range p.Reload.Tree.Modules {
		if _, known := p.HookValues[m.Name]; known {
			continue
		}
		files, _, err := hooks.Find(m.HooksDir(), filepath.Join(m.Base, "hooks"), hooks.Module)
		if err != nil {
			return err
		}
		if len(files) > 0 {
			p.HookValues[m.Name] = view.HookValuesUnknown
		}
	}
	return nil
}
