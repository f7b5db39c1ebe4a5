package plan

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"addon-operator/addons"
	"addon-operator/helm"
	"addon-operator/helm/charts"
	"addon-operator/helm/manifest"
	"addon-operator/hooks"
	"addon-operator/messages"
	"addon-operator/values"
)

// Helm returns what Helm would do, without doing it. Package helm implements it. Its methods are
// called for several modules at the same time, and may take as long as the API server does.
type Helm interface {
	// Plan returns what was found also with an error, which is the one that Apply would meet.
	Plan(ctx context.Context, m helm.Module) (helm.Plan, error)
	// PlanRemoval is for an uninstall, or for a purge, which leaves out Helm hooks (G7).
	PlanRemoval(ctx context.Context, m helm.Module, purge *helm.Purging) (helm.Plan, error)
	// Drift looks at what the chart sets. known is false when an upgrade is due anyway: its changes
	// are no drift.
	Drift(ctx context.Context, m helm.Module) (drifted []helm.Change, known bool, err error)
}

// width is how many charts are planned at the same time. A plan waits for the API server, not for
// the processor.
const width = 4

// Known is what a plan is made from, collected by actors.Plan or Operator.Plan. Make changes
// nothing in it: sections are immutable, and maps that it adds to are copied first.
type Known struct {
	Helm Helm // nil: there are no plans
	// Script runs an enabled script. Package hooks implements it.
	Script func(ctx context.Context, script hooks.EnabledScript) (hooks.Answer, error)
	// Reload is what is known of the next reload. Make fills in which modules are enabled or under
	// maintenance.
	Reload Reload
	// Config and Secret are the contents of the ConfigMap and of the Secret with values that are in force.
	Config, Secret map[string]string
	// Sections are those of all modules and of global, by key; none is nil. They include
	// what hooks have set. Make exchanges the parts of ConfigMap and Secret.
	Sections map[string]*values.Section
	Enabling Enabling
	// Suspended are the modules, and releases, that people have suspended (H27).
	Suspended map[string]bool
	// Running are the modules that would not have to be started.
	Running map[string]bool
	// HooksRan are the owners whose hooks have run: the values that they set are known.
	HooksRan map[string]bool
	Notes    []string // what the plan cannot know
}

// planner makes one plan. Make fills it step by step; when the first complete begins, nothing in it
// changes any more, so that several may read it.
type planner struct {
	Known
	Request
	// hider hides the secrets in the values, unless all is shown. Every text that quotes values, charts or
	// the output of scripts goes through it: notes, reasons and errors.
	hider *values.Hider
}

// Make plans with the ConfigMap in force, or with the proposed one of the request. It goes the way
// of a reload: flags, enabled scripts, steps, charts. A ConfigMap that would be refused is no
// error: the plan says so. What fails for one module is an error of its step, so that the plan has
// the others. Errors are those that concern all modules, for example of an enabled script, or the
// end of ctx.
func Make(ctx context.Context, known Known, request Request) (Plan, error) {
	p := &planner{Known: known, Request: request}
	doc, err := p.propose()
	if err != nil {
		return Plan{Refused: err.Error(), Modules: []Module{}}, nil //nolint:nilerr // the plan says it
	}
	if p.unknown(messages.GlobalHooks, values.GlobalKey) {
		p.Notes = append(p.Notes, "global hooks were not run: values and flags that they would set are unknown")
	}
	script := func(m addons.Module, before []string) (hooks.Answer, error) {
		return p.Script(ctx, Script(m, p.Sections[values.GlobalKey], p.Sections[m.Key], before))
	}
	enabled, verdicts, err := Enabled(p.Reload.Tree.Modules, p.Enabling.Dynamic, doc.Flags, script)
	if err != nil {
		return Plan{}, fmt.Errorf("enabled scripts: %s", p.hider.Text(err.Error()))
	}
	p.Reload.Enabled, p.Reload.Verdicts = enabled, verdicts
	p.Reload.Maintenance = WithSuspended(doc.Maintenance, p.Suspended)
	plan := Plan{Notes: p.Notes, Modules: p.modules(p.Reload.Steps(), verdicts)}
	var group errgroup.Group
	group.SetLimit(width)
	for i := range plan.Modules {
		group.Go(func() error {
			p.complete(ctx, &plan.Modules[i])
			return ctx.Err() // errors of the module are in its step
		})
	}
	if err := group.Wait(); err != nil {
		return Plan{}, err
	}
	handOver(plan.Modules)
	plan.Count()
	return plan, nil
}

// propose gives every section its parts of ConfigMap and Secret. The error says why the operator would refuse
// them. It also sets hider to the secrets of the sections as they are then.
func (p *planner) propose() (values.Document, error) {
	data := p.Config
	if p.Proposed != nil {
		data = p.Proposed
	}
	schemas := Schemas{Sections: p.Sections, Modules: p.Reload.Tree.Modules, Enabling: p.Enabling}
	doc, err := schemas.Check(data, p.Secret)
	if err != nil {
		return doc, err
	}
	p.Sections = map[string]*values.Section{}
	var secrets []string
	for key := range schemas.Sections {
		p.Sections[key] = schemas.Section(key, doc)
		if !p.Secrets {
			secrets = append(secrets, p.Sections[key].Secrets().Texts()...)
		}
	}
	p.hider = values.NewHider(secrets)
	return doc, nil
}

// unknown reports whether it is unknown which values the hooks of an owner would set, because they have not run. It
// looks for files only: asking them for --config would run programs.
func (p *planner) unknown(owner, key string) bool {
	return !p.HooksRan[owner] && !Hookless(p.Reload.Tree.Global, p.Reload.Tree.Modules, key)
}

// modules are the modules of a plan in the order in which their turn comes: runs, deletes, purges
// (E8). Those that are kept follow; a suspended module is kept in its place among the runs. It asks
// nothing and does not wait; complete fills in the rest.
func (p *planner) modules(steps Steps, verdicts map[string]Verdict) []Module {
	why := func(name string) string {
		if m := p.Reload.Tree.Module(name); m != nil {
			return p.hider.Text(verdicts[name].Why(*m))
		}
		return "there is no module directory"
	}
	plans := []Module{}
	for _, name := range steps.Run {
		plan := Module{Module: name, Step: StepRun, Why: why(name)}
		if p.unknown(name, p.Reload.Tree.Module(name).Key) {
			plan.Notes = []string{"values of hooks unknown: its hooks have not run"}
		}
		switch {
		case p.Suspended[name]:
			plan.Step, plan.Why = StepKeep, plan.Why+butSuspended
		case !p.Running[name]:
			plan.Step = StepStart
		}
		plans = append(plans, plan)
	}
	for _, off := range []struct {
		names     []string
		step, but string
	}{
		{steps.Delete, StepStop, ""}, {steps.Purge, StepPurge, ""},
		{steps.Held, StepKeep, ", but its purge is held back: " + steps.HeldWhy},
		{steps.Keep, StepKeep, ", but under maintenance"},
	} {
		for _, name := range off.names {
			but := off.but
			if off.step == StepKeep && p.Suspended[name] {
				but = butSuspended
			}
			plans = append(plans, Module{Module: name, Step: off.step, Why: why(name) + but})
		}
	}
	return plans
}

// butSuspended is why a module is kept as it is.
const butSuspended = ", but suspended"

// complete adds to a step what Helm would do. It runs in parallel for several steps, so it writes
// to its step only. Errors become a text of the step.
func (p *planner) complete(ctx context.Context, step *Module) {
	var would helm.Plan
	var err error
	switch m := p.Reload.Tree.Module(step.Module); step.Step {
	case StepKeep:
		return
	case StepStop:
		would, err = p.Helm.PlanRemoval(ctx, HelmModule(*m, p.merged(*m)), nil)
	case StepPurge:
		purge := &helm.Purging{Data: p.Reload.MayDeleteData(step.Module)}
		would, err = p.Helm.PlanRemoval(ctx, helm.Module{Name: step.Module}, purge)
	default:
		if !p.reachesHelm(step, *m) {
			return
		}
		chart := HelmModule(*m, p.merged(*m))
		chart.Orphaned = func(release string) (bool, error) { return p.Reload.Orphaned(release), nil }
		would, err = p.Helm.Plan(ctx, chart)
	}
	p.describe(step, would, err)
}

// reachesHelm goes the way of a run up to Helm: maintenance, and the checks for Helm (D36). Hooks are
// left out, so what they would still set is missing. If a section is incomplete because
// hooks have not run, a violation proves nothing: it is shown as unknown and not as an error.
func (p *planner) reachesHelm(step *Module, m addons.Module) bool {
	if Maintained(m, p.Reload.Maintenance) != "" {
		step.Notes = append(step.Notes, "it is under maintenance: its release is left alone")
		return false
	}
	if !charts.Exists(m.Dir) {
		return false
	}
	for _, of := range [][2]string{{messages.GlobalHooks, values.GlobalKey}, {m.Name, m.Key}} {
		err := p.Sections[of[1]].ValidateForHelm()
		switch {
		case err == nil:
		case p.unknown(of[0], of[1]):
			step.Unknown = p.hider.Text(err.Error())
			return false
		default:
			step.Error = p.hider.Text(fmt.Sprintf("values for helm: %v", err))
			return false
		}
	}
	return true
}

// HelmModule is a module as package helm gets it, with its merged values.
func HelmModule(m addons.Module, merged map[string]any) helm.Module {
	return helm.Module{
		Name: m.Name, Key: m.Key, Dir: m.Dir, Shown: m.Shown(m.Dir), Files: m.Files(), Namespace: m.File.Namespace, Values: merged,
	}
}

// Objects renders a chart for a tool. All documents that cannot be read are in the error.
func Objects(ctx context.Context, client *helm.Client, m helm.Module) (objects []*unstructured.Unstructured, err error) {
	documents, err := client.Show(ctx, m)
	for _, d := range documents {
		err = errors.Join(err, d.Err)
		for _, o := range d.Objects {
			objects = append(objects, &unstructured.Unstructured{Object: o})
		}
	}
	return objects, err
}

// merged are the values of a module as Helm sees them, without the list of enabled modules (D9).
func (p *planner) merged(m addons.Module) map[string]any {
	return map[string]any{values.GlobalKey: p.Sections[values.GlobalKey].Merged(), m.Key: p.Sections[m.Key].Merged()}
}

// describe writes what Helm would do into a step, with everything hidden that the person must not
// see. An error may come with changes that were found before it; they are shown, because they would
// be done. That does not hold when an API is away: then an upgrade waits and changes nothing (P13).
func (p *planner) describe(step *Module, would helm.Plan, err error) {
	switch {
	case helm.IsAway(err): // what was found until then would not be done
		step.Unknown = p.hider.Text(err.Error())
		return
	case err != nil:
		step.Error = p.hider.Text(err.Error())
	}
	step.Release, step.Reason = string(would.Action), would.Reason
	if h := would.Held; h != nil {
		step.Confirm = h.Confirm
		step.Notes = append(step.Notes, HeldUpgrade(h, "the Event UpgradeHeld has the command then"))
	}
	for _, h := range would.Hooks {
		step.Notes = append(step.Notes, fmt.Sprintf("Helm hook %s would run: %s", h.Object, h.Events))
	}
	for _, c := range would.Changes {
		c.Mask = p.hider.Object // c is a copy; Diff uses the mask unless secrets are shown
		object := Object{Object: c.Object.String(), Verb: string(c.Verb), Note: c.Note, Diff: c.Diff(p.Secrets)}
		step.Objects = append(step.Objects, object)
	}
}

// handOver leaves out of purges what modules take over before (H7): a purge is planned with what the
// release has now.
func handOver(modules []Module) {
	taken := map[string]bool{}
	for _, m := range modules {
		for _, o := range m.Objects {
			taken[o.Object] = taken[o.Object] || m.Step == StepStart || m.Step == StepRun
		}
	}
	for i, m := range modules {
		if m.Step == StepPurge {
			modules[i].Objects = slices.DeleteFunc(m.Objects, func(o Object) bool { return taken[o.Object] })
		}
	}
}

// Renderer renders charts, and reads records of releases. It changes nothing. Package helm implements it.
type Renderer interface {
	// Show returns the documents in the order in which Helm applies them, Helm hooks last. One that
	// cannot be read has its own error; the error of Show means that there is no text.
	Show(ctx context.Context, m helm.Module) ([]helm.Document, error)
	// Deployed returns the objects of a revision; 0 stands for the deployed one. The revision 0
	// comes back when it is not recorded.
	Deployed(ctx context.Context, release string, earlier int) (objects []map[string]any, revision int, err error)
}

// Render renders the chart of a module with the values in m, and compares it with the deployed
// release, or with the revision request.Since, if that is asked. Helm hooks are rendered but not
// compared: they are no part of the release (H14). With an error the result has what was rendered
// until then, hidden as far as the request asks. A document that cannot be read cannot be masked, so its text is
// shown only with request.Broken and request.Secrets together.
func Render(ctx context.Context, renderer Renderer, m helm.Module, hider *values.Hider, request RenderRequest) (Rendered, error) {
	if !charts.Exists(m.Dir) {
		return Rendered{}, fmt.Errorf("module %s has no chart, so there is nothing to render", m.Name)
	}
	documents, err := renderer.Show(ctx, m)
	if err != nil {
		return Rendered{}, fmt.Errorf("render: %w", err)
	}
	rendered := Rendered{Module: m.Name, Objects: []any{}}
	var text strings.Builder
	var errs []error
	var now []map[string]any
	for _, d := range documents {
		if !d.Hook {
			now = append(now, d.Objects...)
		}
		fmt.Fprintf(&text, "---\n# Source: %s\n", d.Source)
		switch {
		case d.Err != nil && !request.Broken:
			errs = append(errs, fmt.Errorf("%s: %w; use debug to show its output", d.Source, d.Err))
		case d.Err != nil && !request.Secrets:
			const hidden = "# cannot be parsed, so secrets in it cannot be masked; use show-secrets to show it\n# %v\n"
			fmt.Fprintf(&text, hidden, d.Err)
		case request.Secrets:
			text.WriteString(d.Text)
		}
		for i, object := range d.Objects { // of one that cannot be read there are none
			if !request.Secrets { // they are written again; comments and the order of keys are lost thereby
				object = hider.Object(object)
				written, err := yaml.Marshal(object)
				if errs = append(errs, err); i > 0 {
					text.WriteString("---\n")
				}
				text.Write(written)
			}
			rendered.Objects = append(rendered.Objects, object)
		}
	}
	rendered.Text = text.String()
	// A document that cannot be read has no objects; a difference without them would show them as
	// removed.
	if err := errors.Join(errs...); err != nil || !request.Diff {
		return rendered, err
	}
	deployed, revision, err := renderer.Deployed(ctx, m.Name, request.Since)
	if err != nil {
		return rendered, fmt.Errorf("the deployed release: %w", err)
	}
	mask := hider.Object
	if request.Secrets {
		mask = nil
	}
	rendered.Revision, rendered.Changes = revision, differences(deployed, now, mask)
	return rendered, nil
}

// differences returns what differs between the objects of two renders, sorted by name. Objects are compared as they
// are and masked afterwards, so that a changed secret is a difference: it is hidden on both sides, also where only
// one of them looks like one, and it is said that it differs. A nil mask shows secrets. The result is never nil: nil
// in Rendered.Changes means that no difference was asked for.
func differences(before, after []map[string]any, mask func(map[string]any) map[string]any) []Object {
	old, now := byIdentity(before), byIdentity(after)
	names := maps.Clone(old)
	maps.Copy(names, now)
	changes := []Object{}
	sorted := slices.SortedFunc(maps.Keys(names), func(a, b manifest.Object) int {
		return cmp.Or(cmp.Compare(a.String(), b.String()), cmp.Compare(a.GVK.Group, b.GVK.Group))
	})
	for _, name := range sorted {
		was, is := old[name], now[name]
		if reflect.DeepEqual(was, is) {
			continue
		}
		action := "changed"
		switch {
		case was == nil:
			action = "added"
		case is == nil:
			action = "removed"
		}
		if mask != nil {
			was, is = helm.HideBoth(was, is, mask)
		}
		// An empty text means that only masked values differ: equal objects do not get here.
		diff := cmp.Or(manifest.Unified(was, is, "deployed", "now"), "only masked values differ; use show-secrets to show them\n")
		changes = append(changes, Object{Object: name.String(), Verb: action, Diff: diff})
	}
	return changes
}

// byIdentity has the objects by group, kind, namespace and name. The version of the API is left
// out: an object whose version was raised has changed, and was not replaced by another one.
func byIdentity(objects []map[string]any) map[manifest.Object]map[string]any {
	out := make(map[manifest.Object]map[string]any, len(objects))
	for _, object := range objects {
		of := manifest.Of(&unstructured.Unstructured{Object: object})
		of.GVK.Version = ""
		out[of] = object
	}
	return out
}

// HeldUpgrade is the text about an upgrade that waits until a person allows it, short enough for an Event.
func HeldUpgrade(hold *helm.Hold, confirm string) string {
	var names []string
	for _, o := range hold.Objects {
		names = append(names, o.String())
	}
	return fmt.Sprintf("the upgrade is held back, because %s: %s; to allow it: %s", hold.Why, messages.Few(10, names), confirm)
}
