package actors

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

	"addon-operator/addons"
	"addon-operator/helm"
	"addon-operator/helm/charts"
	"addon-operator/helm/rehearsal"
	"addon-operator/hooks"
	"addon-operator/messages"
	"addon-operator/values"
)

// A forecast shows what a reload of all modules would do. It goes the way of a reload
// (flags, enabled scripts, plan, charts) with the same pure functions, and leaves out what
// has effects: hooks are not run, and Helm is rehearsed. Enabled scripts are run, because
// only they know what they say; they are part of the discovery and have no effects.

// Previews returns what Helm would do, without doing it. Package helm implements it.
type Previews interface {
	Preview(ctx context.Context, m helm.Module) (helm.Preview, error)
	PreviewUninstall(ctx context.Context, release string) (helm.Preview, error)
	PreviewPurge(ctx context.Context, release string) (helm.Preview, error)
	Drift(ctx context.Context, m helm.Module) (drifted []rehearsal.Change, known bool, err error)
}

// forecastWidth is how many charts are rehearsed side by side.
const forecastWidth = 4

// outlook is what a forecast is made from.
type outlook struct {
	world    World
	tree     *addons.Tree
	sections map[string]*values.Section // by key, with the ConfigMap of the forecast
	config   values.Document
	dynamic  map[string]bool // flags of global hooks
	scripts  map[string]bool // what the enabled scripts have said, by module
	deployed map[string]bool
	purges   purges
	// running returns which modules would not have to be started.
	running func(m addons.Module, release bool) bool
	// hookValues returns what is known of the values that hooks of a module set.
	hookValues map[string]string
	// globalUnknown: there are global hooks, and none has run.
	globalUnknown bool
	secrets       bool
	hider         *values.Hider // of the secrets in the values
	notes         []string
}

// choose returns the data of the ConfigMap that is planned with. Hooks write into the one
// in the cluster, so what a proposed one leaves out may be theirs.
func (o *outlook) choose(current, proposed map[string]string) map[string]string {
	if proposed == nil {
		return current
	}
	var missing []string
	for _, key := range slices.Sorted(maps.Keys(current)) {
		if _, ok := proposed[key]; !ok {
			missing = append(missing, key)
		}
	}
	if len(missing) > 0 {
		o.notes = append(o.notes, "the ConfigMap in the cluster has keys that the proposed one lacks, and hooks may have written some of them: "+strings.Join(missing, ", "))
	}
	return proposed
}

// propose gives every section its part of a ConfigMap. refused says why the operator
// would not take it.
func (o *outlook) propose(data map[string]string) (refused string) {
	doc, err := checkStored(data, nil, o.sections, o.tree.Modules, enabling{o.dynamic, o.scripts})
	if err != nil {
		return err.Error()
	}
	o.config = doc
	sections := make(map[string]*values.Section, len(o.sections))
	for key, section := range o.sections {
		next, err := section.WithConfig(doc.Sections[key], values.Origin{})
		if err != nil { // of a disabled module, whose values are not checked (D37)
			next = section
		}
		sections[key] = next
	}
	o.sections = sections
	var secrets []string
	for _, section := range sections {
		secrets = append(secrets, section.SecretTexts()...)
	}
	o.hider = values.NewHider(secrets)
	return ""
}

// hide gives a text as the one who asked may see it.
func (o *outlook) hide(text string) string {
	if o.secrets {
		return text
	}
	return o.hider.Text(text)
}

// masker hides in objects what is or looks like a secret, and known secrets wherever they stand.
func masker(hider *values.Hider) func(map[string]any) map[string]any {
	return func(object map[string]any) map[string]any {
		masked, _ := hider.Tree(values.MaskObject(object)).(map[string]any)
		return masked
	}
}

// forecast plans and rehearses with the ConfigMap in force, or with a proposed one.
func (o *outlook) forecast(ctx context.Context, current, proposed map[string]string) (messages.Forecast, error) {
	if refused := o.propose(o.choose(current, proposed)); refused != "" {
		return messages.Forecast{Refused: refused, Modules: []messages.ModuleForecast{}}, nil
	}
	if o.world.Previews == nil {
		return messages.Forecast{}, errors.New("this operator cannot rehearse Helm")
	}
	script := func(m addons.Module, before []string) (hooks.Answer, error) { return o.enabledScript(ctx, m, before) }
	enabled, verdicts, err := judge(o.tree.Modules, o.dynamic, o.config.Flags, script)
	if err != nil {
		return messages.Forecast{}, fmt.Errorf("enabled scripts: %s", o.hide(err.Error()))
	}
	p := plan(o.tree.Modules, enabled, o.deployed, o.world.IgnoredRelease, untouchable(o.tree.Modules, o.config.Maintenance))
	p, _ = o.purges.holdBack(p, o.world.Purges, countReleases(o.deployed, o.world.IgnoredRelease), o.tree.Empty)
	f := messages.Forecast{Notes: o.notes, Modules: o.steps(p, verdicts)}
	var group errgroup.Group
	group.SetLimit(forecastWidth)
	for i := range f.Modules {
		group.Go(func() error {
			o.rehearse(ctx, &f.Modules[i])
			return ctx.Err()
		})
	}
	if err := group.Wait(); err != nil {
		return messages.Forecast{}, err
	}
	f.Count()
	return f, nil
}

// steps are the modules of a plan in the order in which their turn comes.
func (o *outlook) steps(p Plan, verdicts map[string]Verdict) []messages.ModuleForecast {
	steps := []messages.ModuleForecast{}
	for _, name := range p.Run {
		m := o.module(name)
		step := messages.ModuleForecast{Module: name, Step: messages.StepRun, Why: "enabled by " + verdicts[name].Source, HookValues: o.hookValues[name]}
		if !o.running(*m, o.deployed[name]) {
			step.Step = messages.StepStart
		}
		steps = append(steps, step)
	}
	disabled := func(name string) string {
		if v, ok := verdicts[name]; ok && v.Reason != "" {
			return "disabled by " + v.Source + ": " + o.hide(v.Reason)
		} else if ok {
			return "disabled by " + v.Source
		}
		return "there is no module directory"
	}
	for _, name := range p.Delete {
		steps = append(steps, messages.ModuleForecast{Module: name, Step: messages.StepStop, Why: disabled(name)})
	}
	for _, name := range p.Purge {
		steps = append(steps, messages.ModuleForecast{Module: name, Step: messages.StepPurge, Why: disabled(name)})
	}
	for _, name := range p.Held {
		steps = append(steps, messages.ModuleForecast{Module: name, Step: messages.StepKeep, Why: disabled(name) + ", but its purge is held back: " + p.HeldWhy})
	}
	for _, name := range p.Keep {
		steps = append(steps, messages.ModuleForecast{Module: name, Step: messages.StepKeep, Why: disabled(name) + ", but under maintenance"})
	}
	return steps
}

func (o *outlook) module(name string) *addons.Module {
	i := slices.IndexFunc(o.tree.Modules, func(m addons.Module) bool { return m.Name == name })
	if i < 0 {
		return nil
	}
	return &o.tree.Modules[i]
}

// rehearse completes a step with what Helm would do.
func (o *outlook) rehearse(ctx context.Context, step *messages.ModuleForecast) {
	m := o.module(step.Module)
	switch step.Step {
	case messages.StepKeep:
	case messages.StepStop:
		p, err := o.world.Previews.PreviewUninstall(ctx, step.Module)
		o.describe(step, p, err)
	case messages.StepPurge:
		p, err := o.world.Previews.PreviewPurge(ctx, step.Module)
		o.describe(step, p, err)
	default:
		o.rehearseRun(ctx, step, *m)
	}
}

func (o *outlook) rehearseRun(ctx context.Context, step *messages.ModuleForecast, m addons.Module) {
	if maintained(m, o.config.Maintenance) != "" {
		step.Notes = append(step.Notes, "it is under maintenance: its release is left alone")
		return
	}
	if !charts.Exists(m.Dir) {
		return
	}
	if step.Step == messages.StepStart && bringsCRDs(m, o.merged(m)) {
		step.Notes = append(step.Notes, "its CRDs would be installed first")
	}
	if !o.validForHelm(step, values.GlobalKey, o.globalUnknown) || !o.validForHelm(step, m.Key, step.HookValues == messages.HookValuesUnknown) {
		return
	}
	p, err := o.world.Previews.Preview(ctx, helm.Module{Name: m.Name, Key: m.Key, Dir: m.Dir, Values: o.merged(m)})
	o.describe(step, p, err)
}

// bringsCRDs reports whether a module, or a subchart that its values enable, has definitions.
func bringsCRDs(m addons.Module, merged map[string]any) bool {
	if entries, err := os.ReadDir(filepath.Join(m.Dir, "crds")); err == nil && len(entries) > 0 {
		return true
	}
	if !charts.HasSubcharts(m.Dir) {
		return false
	}
	loaded, err := new(charts.Cache).Load(charts.Module{Name: m.Name, Key: m.Key, Dir: m.Dir})
	if err != nil {
		return false // the preview says it
	}
	files, err := loaded.SubchartCRDs(merged)
	return err == nil && len(files) > 0
}

// validForHelm checks a section before a chart is rendered with it. When it is incomplete
// because hooks have not run, what is wrong with it proves nothing.
func (o *outlook) validForHelm(step *messages.ModuleForecast, key string, incomplete bool) bool {
	err := o.sections[key].ValidateForHelm()
	switch {
	case err == nil:
		return true
	case incomplete:
		step.Unknown = o.hide(err.Error())
	default:
		step.Error = o.hide(fmt.Sprintf("values for helm: %v", err))
	}
	return false
}

// merged are the values of a module as Helm sees them.
func (o *outlook) merged(m addons.Module) map[string]any {
	return map[string]any{values.GlobalKey: o.sections[values.GlobalKey].Merged(), m.Key: o.sections[m.Key].Merged()}
}

func (o *outlook) describe(step *messages.ModuleForecast, p helm.Preview, err error) {
	switch {
	case awaitsAPI(err): // what was found until then would not be done
		step.Unknown = o.hide(err.Error())
		return
	case err != nil:
		step.Error = o.hide(err.Error())
	}
	step.Release, step.Reason = string(p.Action), p.Reason
	for _, h := range p.Hooks {
		step.Notes = append(step.Notes, fmt.Sprintf("Helm hook %s would run: %s", h.Object, h.Events))
	}
	for _, c := range p.Changes {
		c.Mask = masker(o.hider)
		object := messages.ObjectForecast{Object: c.Object.String(), Verb: string(c.Verb), Note: c.Note, Diff: c.Diff(o.secrets)}
		if c.Verb == rehearsal.Changed {
			for _, field := range c.Fields(o.secrets) {
				object.Fields = append(object.Fields, field.Path)
			}
		}
		step.Objects = append(step.Objects, object)
	}
}

func (o *outlook) enabledScript(ctx context.Context, m addons.Module, before []string) (hooks.Answer, error) {
	merged := o.merged(m)
	merged[values.GlobalKey] = withEnabledModules(merged[values.GlobalKey], before)
	config := map[string]any{values.GlobalKey: o.sections[values.GlobalKey].Config(), m.Key: o.sections[m.Key].Config()}
	return o.world.Hooks.Enabled(ctx, hooks.EnabledScript{Module: m.Name, Path: m.EnabledScript, Values: merged, ConfigValues: config})
}

// Forecast returns what an operator that is started now would do. No hooks have run for
// it, so what they would set is unknown. The ConfigMap is read from the cluster, unless
// one is proposed; running modules are known by their releases.
func Forecast(ctx context.Context, w World, request messages.ForecastRequest) (messages.Forecast, error) {
	tree, err := addons.Load(w.Dirs)
	if err != nil {
		return messages.Forecast{}, err
	}
	b := &boot{tree: tree, sections: map[string]*values.Section{}}
	if err := b.makeSections(); err != nil {
		return messages.Forecast{}, err
	}
	current, err := w.ConfigMap.Read(ctx)
	if err != nil {
		return messages.Forecast{}, fmt.Errorf("read the ConfigMap: %w", err)
	}
	if err := b.layerSecret(ctx, w); err != nil {
		return messages.Forecast{}, err
	}
	releases, _, err := w.concerned(ctx, tree.Modules)
	if err != nil {
		return messages.Forecast{}, err
	}
	o := &outlook{world: w, tree: tree, sections: b.sections, deployed: setOf(releases), secrets: request.Secrets, hookValues: map[string]string{}, purges: purges{confirmed: current.ConfirmPurge}, scripts: map[string]bool{}}
	before, _ := values.ParseConfigMap(current.Data) // one that is refused has enabled nothing
	o.running = func(m addons.Module, release bool) bool {
		return release || !charts.Exists(m.Dir) && switchedOn(m, nil, before.Flags).Enabled
	}
	if err := o.lookForGlobalHooks(); err != nil {
		return messages.Forecast{}, err
	}
	if err := o.lookForHooks(); err != nil {
		return messages.Forecast{}, err
	}
	return o.forecast(ctx, current.Data, request.Proposed)
}

func (o *outlook) lookForGlobalHooks() error {
	global, _, err := hooks.Find(o.tree.Global.HooksDir, "", hooks.Global)
	if err != nil {
		return err
	}
	if len(global) > 0 {
		o.globalUnknown = true
		o.notes = append(o.notes, fmt.Sprintf("global hooks were not run (%d): values and flags that they would set are unknown", len(global)))
	}
	return nil
}

// lookForHooks notes whose values are not known because their hooks have not run.
func (o *outlook) lookForHooks() error {
	for _, m := range o.tree.Modules {
		if _, known := o.hookValues[m.Name]; known {
			continue
		}
		files, _, err := hooks.Find(m.HooksDir(), filepath.Join(m.Base, "hooks"), hooks.Module)
		if err != nil {
			return err
		}
		if len(files) > 0 {
			o.hookValues[m.Name] = messages.HookValuesUnknown
		}
	}
	return nil
}

func setOf(names []string) map[string]bool {
	all := make(map[string]bool, len(names))
	for _, name := range names {
		all[name] = true
	}
	return all
}
