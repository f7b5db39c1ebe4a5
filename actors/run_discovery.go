package actors

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"addon-operator/actors/plan"
	"addon-operator/addons"
	"addon-operator/helm"
	"addon-operator/helm/charts"
	"addon-operator/hooks"
	"addon-operator/kube"
	"addon-operator/messages"
	"addon-operator/messages/view"
	"addon-operator/supervisor"
	"addon-operator/values"
)

// getDiscovery asks converge for what a discovery would begin with. It answers [discovery].
type getDiscovery struct{}

// discovery is the input of a DiscoverModules task, which converge hands over before each attempt, and, completed, its
// result. No one writes to the maps of the input, and their fields in converge are replaced.
type discovery struct {
	// Reload is what converge knows; in the result, with the tree, the enabled modules and the verdicts of this
	// discovery.
	plan.Reload
	Config  map[string]bool // flags in the ConfigMap, by flag key
	Dynamic map[string]bool // flags of global hooks, by flag key (D25)
	// Suspended are the modules, and releases, that people have suspended (H27).
	Suspended map[string]bool
	// Noticed: the disk has changed since the discovery before.
	Noticed bool
	// Before are the modules that were enabled by the last discovery.
	Before []string
	// Global are the values that enabled scripts see.
	Global *values.Section

	// GlobalHooks are new ones, if GlobalAsked; GlobalChanged: they, or static global values, are in force since this
	// discovery.
	GlobalHooks                []hooks.Hook
	GlobalAsked, GlobalChanged bool
	Releases                   []string // of modules and of operators
	Others                     []string // releases that are left alone
}

// spawnModules asks the operator for the actors of modules, and to hand out what has changed in their files.
// sectionsAdded answers when they have their values. The path of a module is known to all, so nothing may be sent to
// it before that.
type spawnModules struct {
	Tree *addons.Tree
	// GlobalHooks are those of other files than before, if Asked.
	GlobalHooks []hooks.Hook
	Asked       bool
}

// discover is the work of a DiscoverModules task (G4). Nothing is written before the tree is handed
// out, so a failure leaves the old tree in force, and a retry begins with the state of converge as
// it is then.
func (j Job) discover(run *supervisor.Run, d discovery) (_ discovery, err error) {
	run, s := j.span(run, "discovery")
	defer func() { s.End(err) }()
	run.Step("find modules")
	r, err := j.refresh(run, d)
	if err != nil {
		return d, err
	}
	d.GlobalHooks, d.GlobalAsked, d.GlobalChanged = r.GlobalHooks, r.Asked, !r.Tree.Global.Same(d.Tree.Global)
	d.Tree = r.Tree
	if !r.same() { // owners get what has changed, new modules get actors; the tree is not changed any more
		added, err := supervisor.Ask[sectionsAdded](run, Root, r.spawnModules)
		if err := cmp.Or(err, added.Err); err != nil {
			return d, err
		}
	}
	run.Step("list releases")
	// Runs read from this list (H6).
	if d.Releases, d.Others, err = j.Concerned(run.Context(), d.Tree.Modules); err != nil {
		return d, err
	}
	if err := j.findEnabled(run, &d); err != nil {
		return d, err
	}
	// Before any module runs or is deleted (M2). They stay when the module is disabled (M5). Those of a module under
	// maintenance wait for its first run afterwards (H15). A failure that does not concern all, as an API server that is
	// away does, is repeated, and reported, by the run of the module that has it (M4).
	err = j.installCRDs(run, d.Tree, d.Global, func(m addons.Module) bool {
		return slices.Contains(d.Enabled, m.Name) && !slices.Contains(d.Before, m.Name) &&
			plan.Maintained(m, d.Maintenance) == ""
	})
	if err != nil && run.Context().Err() == nil && !kube.Unavailable(err) {
		j.Log.Debug("CRDs are left to the runs of their modules", "err", err)
		err = nil
	}
	return d, err
}

// askAgain is the work of a DiscoverModules task that is no step of a reload: it asks the enabled scripts, with the
// tree in force.
func (j Job) askAgain(run *supervisor.Run, d discovery) (_ discovery, err error) {
	run, s := j.span(run, "discovery")
	defer func() { s.End(err) }()
	err = j.findEnabled(run, &d)
	return d, err
}

// findEnabled finds out which modules are enabled, with the global values as they are now. They are asked for also
// without scripts: converge has received an edit before global-hooks may have it, and the modules that run next must
// see it.
func (j Job) findEnabled(run *supervisor.Run, d *discovery) (err error) {
	if d.Global, err = sectionOf(run, messages.GlobalHooks); err != nil {
		return err
	}
	script := func(m addons.Module, before []string) (hooks.Answer, error) {
		return j.EnabledScript(run, m, d.Global, before)
	}
	d.Enabled, d.Verdicts, err = plan.Enabled(d.Tree.Modules, d.Dynamic, d.Config, script)
	return err
}

// installCRDs installs the CRDs of some modules. The failure of one module does not keep the others from their CRDs.
func (j Job) installCRDs(
	run *supervisor.Run, tree *addons.Tree, global *values.Section, of func(addons.Module) bool,
) error {
	var modules []helm.Module
	for _, m := range tree.Modules {
		if !of(m) {
			continue
		}
		chart := plan.HelmModule(m, nil)
		if charts.HasSubcharts(m.Dir) { // which of them are enabled is a matter of values
			own, err := sectionOf(run, m.Name)
			if err != nil {
				return err
			}
			chart.Values, _ = (&known{Global: global, Own: own}).Values()
		}
		modules = append(modules, chart)
	}
	if j.CRDs == nil || len(modules) == 0 {
		return nil
	}
	run.Step("CRDs of %s", view.Count(len(modules), "module"))
	return j.CRDs.EnsureCRDs(run.Context(), modules)
}

// sectionOf asks an owner for its values.
func sectionOf(run *supervisor.Run, owner string) (*values.Section, error) {
	got, err := supervisor.Ask[handed](run, ownerPath(owner), handOver{})
	return got.Known.Own, err
}

// EnabledScript asks the enabled script of a module, which sees the modules that are enabled before it.
func (j Job) EnabledScript(run *supervisor.Run, m addons.Module, global *values.Section, before []string) (answer hooks.Answer, err error) {
	of := j
	of.Owner = m.Name
	run, s := of.span(run, "enabled script")
	defer func() { s.End(err) }()
	run.Step("enabled script of %s", m.Name)
	own, err := sectionOf(run, m.Name)
	if err != nil {
		return answer, err
	}
	defer of.hookBegins(m.Name+"/enabled", "")()
	script := plan.Script(m, global, own, before)
	script.Labels, script.Env = of.labels("enabled", ""), traceEnvironment(run)
	return j.Hooks.Enabled(run.Context(), script)
}

func sameModules(a, b *addons.Tree) bool {
	return slices.EqualFunc(a.Modules, b.Modules, func(a, b addons.Module) bool { return a.Dir == b.Dir })
}

// RunModules is the work of a RunModules task (X24): it runs modules of one order number in
// parallel, Width of them at a time. To each module it acts like a queue: it sends ExecuteTask and
// waits for TaskDone. It ends when all of them have ended or are parked.
func (j Job) RunModules(run *supervisor.Run, names []string) (err error) {
	run, s := j.span(run, "modules in parallel")
	defer func() { s.End(err) }()
	run.Step("%s, %d in parallel", view.Count(len(names), "module"), j.Width)
	var group errgroup.Group
	group.SetLimit(j.Width)
	for _, name := range names {
		begin := run.Turn()
		group.Go(func() error {
			begin()
			t := j.NewTask(name, messages.RunModule{}, j.Task.Cause)
			t.Reload, t.Group, t.QueuedAt, t.Trace = j.Task.Reload, j.Task.ID, j.Task.QueuedAt, traceOf(run)
			_, err := supervisor.Ask[messages.TaskDone](run, ownerPath(name), messages.ExecuteTask{Task: t})
			return err
		})
	}
	return group.Wait()
}

// getHooks asks a module for its hooks; they are loaded when they are not yet, and handed over.
type getHooks struct{}

// LoadGlobalHooks finds the global hooks.
func (s *Shared) LoadGlobalHooks(ctx context.Context, g addons.Global) ([]hooks.Hook, error) {
	return s.loadHooks(ctx, g.HooksDir, "", g.Dir, hooks.Global, s.Log)
}

// LoadModuleHooks finds the hooks of a module. A module may have none, but not because its
// directory is missing: it would be without hooks when the directory is back.
func (s *Shared) LoadModuleHooks(ctx context.Context, m addons.Module) ([]hooks.Hook, error) {
	prefix := filepath.Join(m.Base, "hooks")
	found, err := s.loadHooks(ctx, m.HooksDir(), prefix, m.Root, hooks.Module, s.Log.With("module", m.Name))
	if err == nil {
		err = stillThere(m)
	}
	return found, err
}

// loadHooks finds the hooks of a directory and asks each for its configuration (C1, C3). A hook
// that fails does not end the search, so that its error names all that are wrong; with an error,
// the hooks that are returned are not complete and must not be used. Hooks that fail are loaded again and again, so
// warnings have the attribute err: the log repeats them at growing intervals (J12).
func (s *Shared) loadHooks(
	ctx context.Context, dir, prefix, workingDir string, scope hooks.Scope, log *slog.Logger,
) ([]hooks.Hook, error) {
	files, unused, err := hooks.Find(dir, prefix, scope)
	if err != nil {
		return nil, err
	}
	for _, file := range unused {
		log.Warn("a file looks like a hook and is none", "err", file.String())
	}
	found := make([]hooks.Hook, 0, len(files))
	var errs []error
	for _, file := range files {
		inFile, err := s.Hooks.Configure(ctx, file, workingDir, scope)
		errs = append(errs, err)
		for _, hook := range inFile {
			if texts := hook.Config.Warnings; len(texts) > 0 {
				log.Warn("the configuration of a hook has mistakes", "hook", hook.Name, "err", strings.Join(texts, "; "))
			}
		}
		found = append(found, inFile...)
	}
	return found, errors.Join(errs...)
}

// stillThere distinguishes a module without hooks or chart from one whose directory was removed.
func stillThere(m addons.Module) error {
	if m.Gone() {
		return fmt.Errorf("directory %s of the module: %w", m.Shown(m.Dir), fs.ErrNotExist)
	}
	return nil
}

// filesChanged is the error of a module run that has found other files than those it began with, or
// than those that its values come from. Helm was not asked: a manifest that is made of two versions
// of the files may lack objects that both have (P8).
type filesChanged struct{ what string }

// Error implements error.
func (e *filesChanged) Error() string {
	return e.what + " has changed on disk since it was loaded; nothing is installed of a mixture of both"
}

// current returns why the chart that was read now must not be used with the values of the run. They
// go together if the files that a run reads, on disk and in force, are those that the values come from.
func (j Job) current() error {
	known, tree := j.Known, j.Tree.Load()
	m := tree.Module(j.Owner)
	switch what := tree.Outdated(j.Owner); {
	case what != "" && m != nil && m.Stale() != "":
		return fmt.Errorf("the chart was not loaded before, and %w: %s", charts.ErrRefused, m.Stale())
	case what != "":
		return &filesChanged{what}
	case !m.SameValues(known.Module) || !tree.Global.Same(known.GlobalFiles):
		return &filesChanged{m.Shown(m.Dir)} // what is in force was replaced since the values were handed over
	}
	return nil
}

// gonePause is how long the directory of a module must be missing when a change of the disk was noticed a moment ago:
// it may be about to be replaced.
const gonePause = time.Second

// refreshed is a tree that is not in force yet.
//
// There is one way from the tree on disk to the tree in force (P8). addons.Tree.Refresh loads what differs; charts
// are read, hooks that differ are asked for their configuration; config checks new static values and schemas together
// with what people wrote. Each step may refuse the new version of a module, which then keeps the version that is in
// force. At the end the root hands out what has changed.
type refreshed struct {
	// before is in force and not changed. The new tree belongs to the run until it is handed out: steps put
	// modules of before back into it.
	before *addons.Tree
	spawnModules
}

// refresh loads what differs on disk, and has it checked. Hooks of modules that were enabled before are asked at once:
// those of other modules are loaded when they are enabled.
func (j Job) refresh(run *supervisor.Run, d discovery) (r refreshed, err error) {
	before := d.Tree
	tree, err := before.Refresh(j.Dirs)
	if err == nil && d.Noticed && lacks(tree, before) {
		select {
		case <-time.After(gonePause):
		case <-run.Context().Done():
			return r, run.Context().Err()
		}
		tree, err = before.Refresh(j.Dirs)
	}
	if err != nil {
		return r, err
	}
	r = refreshed{before, spawnModules{Tree: tree}}
	offer := addSections{Check: true, Sections: map[string]*values.Section{}}
	r.checkGlobal(run, j, offer)
	for _, m := range slices.Clone(tree.Modules) { // Keep and Drop change the list
		old := before.Module(m.Name)
		if old != nil && m.Same(*old) {
			continue
		}
		section, err := j.check(run, m, old, slices.Contains(d.Before, m.Name))
		switch {
		case err != nil && old != nil:
			tree.Keep(m.Name, before, err)
		case err != nil: // no older version can be used
			tree.Drop(m.Name, err)
		case old != nil && !m.SameValues(*old): // that of a new one is checked when it is enabled (D37)
			offer.Sections[m.Key] = section
		}
	}
	if err = run.Context().Err(); err == nil { // else hooks were ended, which is no reason to keep old versions
		err = r.offer(run, offer)
	}
	if err != nil {
		return r, err
	}
	r.loadCharts(j)
	return r, nil
}

// check says what is wrong with the files of a module that differ from those in force. old is what is in force, nil
// for none. Hooks are asked for their configuration if they are in use. It returns the section of its values.
func (j Job) check(run *supervisor.Run, m addons.Module, old *addons.Module, inUse bool) (*values.Section, error) {
	if j.Charts != nil && m.Stale() == "" && (old == nil || !m.SameFiles(*old)) {
		err := charts.Check(plan.ChartModule(m))
		if err == nil && j.CRDs != nil {
			err = j.CRDs.CheckCRDs(plan.HelmModule(m, nil))
		}
		if err != nil {
			return nil, err
		}
	}
	if old != nil && m.Dir == old.Dir && !m.SameFiles(*old) && inUse {
		run.Step("run hooks of %s with --config", m.Name)
		if _, err := j.LoadModuleHooks(run.Context(), m); err != nil {
			return nil, err
		}
	}
	return plan.SectionFor(m)
}

// checkGlobal is check for global hooks and values.
func (r *refreshed) checkGlobal(run *supervisor.Run, j Job, offer addSections) {
	g := r.Tree.Global
	if g.Same(r.before.Global) {
		return
	}
	var err error
	if !g.SameFiles(r.before.Global) {
		run.Step("run global hooks with --config")
		r.GlobalHooks, err = j.LoadGlobalHooks(run.Context(), g)
		r.Asked = true
	}
	if err == nil {
		offer.Sections[values.GlobalKey], err = values.NewSection(values.GlobalKey, g.Schemas, g.Static...)
	}
	if err != nil {
		delete(offer.Sections, values.GlobalKey)
		r.keep(values.GlobalKey, err)
	}
}

// offer has config check what is new in values and schemas.
func (r *refreshed) offer(run *supervisor.Run, offer addSections) error {
	if len(offer.Sections) == 0 {
		return nil
	}
	offer.Modules = r.Tree.Modules
	run.Step("check values")
	answer, err := supervisor.Ask[sectionsAdded](run, configPath, offer)
	for _, key := range slices.Sorted(maps.Keys(answer.Refused)) {
		r.keep(key, answer.Refused[key])
	}
	return err
}

// keep leaves the old version in force, of a module or, with key global, of what belongs to all.
// Its new hooks are dropped with the values: they may need those.
func (r *refreshed) keep(key string, why error) {
	if key == values.GlobalKey {
		r.Tree.KeepGlobal(r.before, why)
		r.GlobalHooks, r.Asked = nil, false
		return
	}
	i := slices.IndexFunc(r.Tree.Modules, func(m addons.Module) bool { return m.Key == key })
	r.Tree.Keep(r.Tree.Modules[i].Name, r.before, why)
}

// loadCharts reads new charts into memory: should their next version be refused, this one is there.
func (r *refreshed) loadCharts(j Job) {
	if j.Charts == nil {
		return
	}
	for _, m := range r.Tree.Modules {
		if old := r.before.Module(m.Name); m.Stale() == "" && charts.Exists(m.Dir) && !(old != nil && m.SameFiles(*old)) {
			chart := plan.ChartModule(m)
			chart.Current = func() error {
				if what := r.Tree.Outdated(m.Name); what != "" {
					return &filesChanged{what}
				}
				return nil
			}
			_, _ = j.Charts.Load(chart) // its run reports what is wrong with it
		}
	}
}

// same reports whether all that actors have of the tree is as before.
func (r refreshed) same() bool {
	return sameModules(r.Tree, r.before) && r.Tree.Global.Same(r.before.Global) &&
		!slices.ContainsFunc(r.Tree.Modules, func(m addons.Module) bool { return !m.Same(*r.before.Module(m.Name)) })
}

// Differs says what on disk is not as it is in force, "" for nothing. What was refused counts as well: it may be
// another version by now. It changes nothing, so any goroutine may call it.
func (s *Shared) Differs() string {
	tree := s.Tree.Load()
	changed := slices.Sorted(maps.Keys(tree.Unloaded(s.Dirs)))
	switch {
	case len(changed) > 0 && changed[0] != "":
		return "files of " + messages.Few(3, changed)
	case len(changed) > 0:
		return "files of all modules, or a new one"
	case tree.Stale() || len(tree.Broken) > 0:
		return "files that were refused"
	}
	return ""
}

// lacks reports whether a module has gone.
func lacks(now, before *addons.Tree) bool {
	return slices.ContainsFunc(before.Modules, func(old addons.Module) bool {
		return now.Module(old.Name) == nil
	})
}
