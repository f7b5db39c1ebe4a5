package work

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"addon-operator/actors/decide"
	"addon-operator/actors/plan"
	"addon-operator/addons"
	"addon-operator/helm/charts"
	"addon-operator/hooks"
	"addon-operator/supervisor"
	"addon-operator/values"
)

// OfferSections asks config to check static values and schemas that are to take the place of others, and to use those that
// fit from now on. SectionsOffered answers.
type (
	OfferSections struct {
		Modules  []addons.Module
		Global   addons.Global
		Sections map[string]*values.Section // by key
	}
	// SectionsOffered says why sections do not fit, by key.
	SectionsOffered struct{ Refused map[string]error }
)

// refreshed is a tree that is not in force yet.
//
// There is one way from the tree on disk to the tree in force (P8), for discoveries and for looks
// at the disk. addons.Tree.Refresh loads what differs; hooks that differ are asked for their
// configuration; config checks new static values and schemas together with what people wrote. Each
// step may refuse the new version of a module, which then keeps the version that is in force. At
// the end the root hands out what has changed.
type refreshed struct {
	// before is in force and not changed. tree belongs to the run until it is handed out: steps put
	// modules of before back into it.
	before, tree *addons.Tree
	globalHooks  []hooks.Hook // were asked for their configuration, because their files differ
	asked        bool
	modules      []string // whose hooks were asked
}

// read loads what differs on disk, as far as that asks neither hooks nor config.
func (j ReloadJob) read(before *addons.Tree) (r refreshed, err error) {
	tree, err := before.Refresh(j.Dirs)
	if err != nil {
		return r, err
	}
	r = refreshed{before: before, tree: tree}
	r.checkCharts(j)
	return r, nil
}

// refresh loads what differs on disk, and has it checked. inUse are the modules whose hooks are
// asked at once: those of other modules are loaded when they are enabled.
func (j ReloadJob) refresh(run *supervisor.Run, before *addons.Tree, inUse []string) (r refreshed, err error) {
	if r, err = j.read(before); err != nil {
		return r, err
	}
	if err := r.askHooks(run, j, inUse); err != nil {
		return r, err
	}
	if err := r.offerSections(run); err != nil {
		return r, err
	}
	r.holdCharts(j)
	return r, nil
}

// holdCharts makes Helm use the old charts of modules whose new files are refused. The other new
// charts are read into memory now: should their next version be refused, this one is there.
func (r *refreshed) holdCharts(j ReloadJob) {
	if j.Charts == nil {
		return
	}
	var held []string
	for _, m := range r.tree.Modules {
		if m.Stale() != "" {
			held = append(held, m.Name)
		}
	}
	j.Charts.Hold(held)
	for _, m := range r.tree.Modules {
		if old := r.before.Module(m.Name); m.Stale() == "" && charts.Exists(m.Dir) && !(old != nil && m.SameFiles(*old)) {
			chart := decide.ChartModule(m)
			chart.Current = func() error {
				if what := r.tree.Outdated(m.Name); what != "" {
					return &FilesChanged{what}
				}
				return nil
			}
			_, _ = j.Charts.Load(chart) // its run reports what is wrong with it
		}
	}
}

// checkCharts refuses charts and CRDs that cannot be read. A module that is new, and so has no
// older version, is dropped from the tree.
func (r *refreshed) checkCharts(j ReloadJob) {
	if j.Charts == nil {
		return
	}
	for _, m := range slices.Clone(r.tree.Modules) { // Keep and Drop change the list
		old := r.before.Module(m.Name)
		if old != nil && m.SameFiles(*old) || m.Stale() != "" {
			continue
		}
		err := charts.Check(decide.ChartModule(m))
		if err == nil && j.CRDs != nil {
			err = j.CRDs.CheckCRDs(plan.HelmModule(m, nil))
		}
		switch {
		case err == nil:
		case old != nil:
			r.tree.Keep(m.Name, r.before, err)
		default:
			r.tree.Drop(m.Name, err)
		}
	}
}

// askHooks asks hooks whose files differ for their configuration. A failure refuses the new version
// of the module, or of the global hooks, but the end of the run is an error.
func (r *refreshed) askHooks(run *supervisor.Run, j ReloadJob, inUse []string) error {
	if g := r.tree.Global; !g.SameFiles(r.before.Global) {
		run.Step("run global hooks with --config")
		found, err := j.LoadGlobalHooks(run.Context(), g)
		switch {
		case run.Context().Err() != nil:
			return run.Context().Err()
		case err != nil:
			r.tree.KeepGlobal(r.before, err)
		default:
			r.globalHooks, r.asked = found, true
		}
	}
	for _, m := range slices.Clone(r.tree.Modules) {
		old := r.before.Module(m.Name)
		if old == nil || m.Dir != old.Dir || m.SameFiles(*old) || !slices.Contains(inUse, m.Name) {
			continue // who uses them loads them
		}
		run.Step("run hooks of %s with --config", m.Name)
		_, err := j.LoadModuleHooks(run.Context(), m)
		switch r.modules = append(r.modules, m.Name); {
		case run.Context().Err() != nil:
			return run.Context().Err()
		case err != nil:
			r.tree.Keep(m.Name, r.before, err)
		}
	}
	return nil
}

// offerSections has config check what is new in values and schemas. A new module is not offered:
// the root makes its section, and it is checked when it is enabled (D37).
func (r *refreshed) offerSections(run *supervisor.Run) error {
	offer := OfferSections{Sections: map[string]*values.Section{}}
	if g := r.tree.Global; !g.Same(r.before.Global) {
		section, err := values.NewSection(values.GlobalKey, g.Schemas, g.Static...)
		if err != nil {
			r.keep(values.GlobalKey, err)
		} else {
			offer.Sections[values.GlobalKey] = section
		}
	}
	for _, m := range slices.Clone(r.tree.Modules) {
		old := r.before.Module(m.Name)
		if old != nil && m.SameValues(*old) {
			continue
		}
		section, err := decide.SectionFor(m)
		switch {
		case err != nil && old == nil:
			r.tree.Drop(m.Name, err)
		case err != nil:
			r.keep(m.Key, err)
		case old != nil:
			offer.Sections[m.Key] = section
		}
	}
	if len(offer.Sections) == 0 {
		return nil
	}
	offer.Modules, offer.Global = r.tree.Modules, r.tree.Global
	run.Step("check values")
	answer, err := supervisor.Ask[SectionsOffered](run, ConfigPath, offer)
	if err != nil {
		return err
	}
	for _, key := range slices.Sorted(maps.Keys(answer.Refused)) {
		r.keep(key, answer.Refused[key])
	}
	return nil
}

// keep leaves the old version in force, of a module or, with key global, of what belongs to all.
// Its new hooks are dropped with the values: they may need those.
func (r *refreshed) keep(key string, why error) {
	if key == values.GlobalKey {
		r.tree.KeepGlobal(r.before, why)
		r.globalHooks, r.asked = nil, false
		return
	}
	for _, m := range r.tree.Modules {
		if m.Key == key {
			r.tree.Keep(m.Name, r.before, why)
			return
		}
	}
}

// handOut gives the owners what has changed, and makes actors for modules that are new. From then
// on others use the tree, and it is not changed any more.
func (r refreshed) handOut(run *supervisor.Run) error {
	if r.same() {
		return nil
	}
	added, err := supervisor.Ask[SectionsAdded](run, Root, SpawnModules{Tree: r.tree, GlobalHooks: r.globalHooks, Asked: r.asked})
	if err != nil {
		return err
	}
	return added.Err
}

// same reports whether all that actors have of the tree is as before.
func (r refreshed) same() bool {
	return sameModules(r.tree, r.before) && r.tree.Global.Same(r.before.Global) &&
		!slices.ContainsFunc(r.tree.Modules, func(m addons.Module) bool { return !m.Same(*r.before.Module(m.Name)) })
}

// Looked is the result of a look at the disk.
type Looked struct {
	Tree *addons.Tree
	// Changed are the modules whose new version is in force, with what differs.
	Changed map[string]string
	// Unused are the files of those modules that look like hooks and are none.
	Unused map[string][]string
	// Reload says why all modules are to be discovered again, which puts the new tree in force; empty when nothing of that
	// kind has changed, and the tree is in force.
	Reload string
}

// gonePause is how long the directory of a module must be missing: it may be about to be replaced.
const gonePause = time.Second

// Look compares the tree with the disk (P8). What changes the set of modules, or whether they are
// enabled, or what belongs to all, is left to a reload. The rest is put in force here. The disk is
// read twice: only after the slow checks of refresh is it known that nothing of the first kind has
// come meanwhile.
func (j ReloadJob) Look(run *supervisor.Run, d Discovery) (looked Looked, err error) {
	run.Step("compare with the disk")
	r, err := j.read(d.Tree)
	if err != nil {
		return looked, err
	}
	if lacks(r.tree, d.Tree) {
		select {
		case <-time.After(gonePause):
		case <-run.Context().Done():
			return looked, run.Context().Err()
		}
		if r, err = j.read(d.Tree); err != nil {
			return looked, err
		}
	}
	looked.Tree = d.Tree
	if looked.Reload = restructured(d.Tree, r.tree); looked.Reload != "" {
		return looked, nil
	}
	if r, err = j.refresh(run, d.Tree, d.Before); err != nil {
		return looked, err
	}
	if looked.Reload = restructured(d.Tree, r.tree); looked.Reload != "" { // meanwhile
		return looked, nil
	}
	looked.Tree, looked.Changed, looked.Unused = r.tree, r.changed(), r.unused()
	if len(looked.Changed) == 0 {
		return looked, nil
	}
	return looked, r.handOut(run)
}

// changed says of each module what differs, for the log and for what must run because of it. New
// modules are not among them: a reload finds these.
func (r refreshed) changed() map[string]string {
	changed := map[string]string{}
	for _, m := range r.tree.Modules {
		if old := r.before.Module(m.Name); old != nil && !m.Same(*old) {
			changed[m.Name] = "files"
			if m.SameFiles(*old) {
				changed[m.Name] = "values.yaml of a root"
			}
		}
	}
	return changed
}

// unused looks into the modules whose hooks were asked.
func (r refreshed) unused() map[string][]string {
	return unusedFiles(r.tree, func(name string) bool { return slices.Contains(r.modules, name) })
}

// lacks reports whether a module has gone.
func lacks(now, before *addons.Tree) bool {
	return slices.ContainsFunc(before.Modules, func(old addons.Module) bool {
		return now.Module(old.Name) == nil
	})
}

// restructured says what differs that only a discovery can deal with; "" for nothing. Global files
// that were refused as they are now do not count: each look would ask for a reload that changes
// nothing.
func restructured(before, now *addons.Tree) string {
	if !now.Global.Same(before.Global) && !before.Global.Refused(now.Global) {
		return "global hooks or values"
	}
	if !sameModules(now, before) {
		return "directories of modules"
	}
	for i, m := range now.Modules {
		old := before.Modules[i]
		switch {
		case !slices.Equal(m.Flags, old.Flags), m.Maintenance != old.Maintenance:
			return fmt.Sprintf("flags of %s", m.Name)
		case m.EnabledScript != old.EnabledScript, m.EnabledScript != "" && !m.SameValues(old):
			return fmt.Sprintf("what decides whether %s is enabled", m.Name)
		case m.File != old.File:
			return fmt.Sprintf("module.yaml of %s", m.Name)
		}
	}
	return ""
}
