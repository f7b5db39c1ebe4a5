package actors

import (
	"maps"
	"slices"
	"time"

	"addon-operator/actors/plan"
	"addon-operator/addons"
	"addon-operator/helm/charts"
	"addon-operator/hooks"
	"addon-operator/messages"
	"addon-operator/supervisor"
	"addon-operator/values"
)

// offerSections asks config to check static values and schemas that are to take the place of others, and to use those that
// fit from now on. SectionsOffered answers.
type (
	offerSections struct {
		Modules  []addons.Module
		Sections map[string]*values.Section // by key
	}
	// sectionsOffered says why sections do not fit, by key.
	sectionsOffered struct{ Refused map[string]error }
)

// gonePause is how long the directory of a module must be missing when a change of the disk was noticed a moment ago: it
// may be about to be replaced.
const gonePause = time.Second

// refreshed is a tree that is not in force yet.
//
// There is one way from the tree on disk to the tree in force (P8). addons.Tree.Refresh loads what differs; hooks that differ are asked for their
// configuration; config checks new static values and schemas together with what people wrote. Each
// step may refuse the new version of a module, which then keeps the version that is in force. At
// the end the root hands out what has changed.
type refreshed struct {
	// before is in force and not changed. tree belongs to the run until it is handed out: steps put
	// modules of before back into it.
	before, tree *addons.Tree
	globalHooks  []hooks.Hook // were asked for their configuration, because their files differ
	asked        bool
}

// refresh loads what differs on disk, and has it checked. inUse are the modules whose hooks are
// asked at once: those of other modules are loaded when they are enabled.
func (j ReloadJob) refresh(run *supervisor.Run, before *addons.Tree, inUse []string) (r refreshed, err error) {
	tree, err := before.Refresh(j.Dirs)
	noticed := func(c messages.Cause) bool { return c.Activation == messages.ByFiles }
	if err == nil && lacks(tree, before) && slices.ContainsFunc(j.Task.Causes(), noticed) {
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
	r = refreshed{before: before, tree: tree}
	r.checkCharts(j)
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
			chart := plan.ChartModule(m)
			chart.Current = func() error {
				if what := r.tree.Outdated(m.Name); what != "" {
					return &filesChanged{what}
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
		err := charts.Check(plan.ChartModule(m))
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
		switch {
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
	offer := offerSections{Sections: map[string]*values.Section{}}
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
		section, err := plan.SectionFor(m)
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
	offer.Modules = r.tree.Modules
	run.Step("check values")
	answer, err := supervisor.Ask[sectionsOffered](run, configPath, offer)
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
	added, err := supervisor.Ask[sectionsAdded](run, Root, spawnModules{Tree: r.tree, GlobalHooks: r.globalHooks, Asked: r.asked})
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

// Differs says what on disk is not as it is in force, or was not when it was last compared; "" for nothing. It changes
// nothing, so any goroutine may call it.
func (s *Shared) Differs() string {
	before := s.Tree.Load()
	now, err := before.Refresh(s.Dirs)
	switch {
	case err != nil: // the next reload says so
		return ""
	case !now.Global.Same(before.Global) && !before.Global.Refused(now.Global):
		return "global hooks or values"
	case !sameModules(now, before):
		return "directories of modules"
	}
	for i, m := range now.Modules {
		if old := before.Modules[i]; !m.Same(old) || m.Stale() != old.Stale() {
			return "files of " + m.Name
		}
	}
	if !slices.Equal(now.Warnings, before.Warnings) {
		return "files of modules"
	}
	return ""
}

// lacks reports whether a module has gone.
func lacks(now, before *addons.Tree) bool {
	return slices.ContainsFunc(before.Modules, func(old addons.Module) bool {
		return now.Module(old.Name) == nil
	})
}
