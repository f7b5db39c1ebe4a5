package work

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"addon-operator/actors/decide"
	"addon-operator/addons"
	"addon-operator/hooks"
	"addon-operator/messages"
	"addon-operator/supervisor"
	"addon-operator/values"
)

// There is one way by which the tree on disk becomes the tree in force (P8), and discoveries and the watch of the disk both go
// it. addons.Tree.Refresh loads what differs; hooks that differ are asked for their configuration; config checks new static
// values and schemas with what people wrote. Each of them may refuse the new version of a module, which then keeps the one
// that is in force. At the end the root hands out what has changed.

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

// LoadedHooks are hooks that were asked for their configuration because their files differ, by owner.
type LoadedHooks map[string][]hooks.Hook

// refreshed is a tree that is not in force yet.
type refreshed struct {
	before, tree *addons.Tree
	loaded       LoadedHooks
}

// refresh loads what differs on disk; loaded are the modules whose hooks may be in use.
func (j ReloadJob) refresh(run *supervisor.Run, before *addons.Tree, inUse []string) (r refreshed, err error) {
	tree, err := before.Refresh(j.Dirs)
	if err != nil {
		return r, err
	}
	r = refreshed{before, tree, LoadedHooks{}}
	if err := r.askHooks(run, j, inUse); err != nil {
		return r, err
	}
	if err := r.offerSections(run); err != nil {
		return r, err
	}
	var held []string
	for _, m := range tree.Modules {
		if m.Stale() != "" {
			held = append(held, m.Dir)
		}
	}
	j.Charts.Hold(held)
	j.Place(tree.Modules)
	return r, nil
}

// askHooks asks hooks whose files differ.
func (r *refreshed) askHooks(run *supervisor.Run, j ReloadJob, inUse []string) error {
	if g := r.tree.Global; !g.SameHooks(r.before.Global) {
		run.Step("ask global hooks for --config")
		found, err := LoadHooks(run.Context(), j.Hooks, g.HooksDir, "", g.Dir, hooks.Global, j.Log)
		switch {
		case run.Context().Err() != nil:
			return run.Context().Err()
		case err != nil:
			r.tree.KeepGlobal(r.before, err)
		default:
			r.loaded[messages.GlobalHooks] = found
		}
	}
	for _, m := range slices.Clone(r.tree.Modules) {
		old, ok := r.old(m)
		if !ok || m.Dir != old.Dir || m.SameHooks(old) || !slices.Contains(inUse, m.Name) {
			continue // who uses them loads them
		}
		run.Step("ask hooks of %s for --config", m.Name)
		found, err := LoadModuleHooks(run.Context(), j.Hooks, m, j.Log.With("module", m.Name))
		switch {
		case run.Context().Err() != nil:
			return run.Context().Err()
		case err != nil:
			r.tree.Keep(m.Name, r.before, err)
		default:
			r.loaded[m.Name] = found
		}
	}
	return nil
}

// old is the version of a module that is in force.
func (r *refreshed) old(m addons.Module) (addons.Module, bool) {
	i := slices.IndexFunc(r.before.Modules, func(old addons.Module) bool { return old.Name == m.Name })
	if i < 0 {
		return addons.Module{}, false
	}
	return r.before.Modules[i], true
}

// offerSections has config check what is new in values and schemas.
func (r *refreshed) offerSections(run *supervisor.Run) error {
	offer := OfferSections{Sections: map[string]*values.Section{}}
	if g := r.tree.Global; !g.SameValues(r.before.Global) {
		section, err := values.NewSection(values.GlobalKey, g.Schemas, g.Static...)
		if err != nil {
			r.keep(values.GlobalKey, err)
		} else {
			offer.Sections[values.GlobalKey] = section
		}
	}
	for _, m := range slices.Clone(r.tree.Modules) {
		old, ok := r.old(m)
		if ok && m.SameValues(old) {
			continue
		}
		section, err := decide.SectionFor(m)
		switch {
		case err != nil && !ok:
			r.tree.Drop(m.Name, err)
		case err != nil:
			r.keep(m.Key, err)
		case ok:
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

// keep leaves in force what is, of a module or of what belongs to all.
func (r *refreshed) keep(key string, why error) {
	if key == values.GlobalKey {
		r.tree.KeepGlobal(r.before, why)
		delete(r.loaded, messages.GlobalHooks)
		return
	}
	for _, m := range r.tree.Modules {
		if m.Key == key {
			r.tree.Keep(m.Name, r.before, why)
			delete(r.loaded, m.Name)
			return
		}
	}
}

// handOut gives the owners what has changed, and makes actors for modules that are new.
func (r refreshed) handOut(run *supervisor.Run) error {
	spawned, err := supervisor.Ask[ModulesSpawned](run, Root, SpawnModules{Tree: r.tree, Hooks: r.loaded})
	if err != nil {
		return err
	}
	return spawned.Err
}

// Looked is the result of a look at the disk.
type Looked struct {
	Tree *addons.Tree
	// Changed are the modules whose new version is in force, with what differs.
	Changed map[string]string
	// Reload says why all modules are to be discovered again, which puts the new tree in force; empty when nothing of that
	// kind has changed, and the tree is in force.
	Reload string
}

// gonePause is how long the directory of a module must be missing: it may be about to be replaced.
const gonePause = time.Second

// Look compares the tree with the disk. What changes which modules there are, whether they are enabled, and what belongs to all
// is left to a reload; the rest is put in force.
func (j ReloadJob) Look(run *supervisor.Run) (looked Looked, err error) {
	run.Step("compare with the disk")
	d, err := supervisor.Ask[Discovery](run, ConvergePath, GetDiscovery{})
	if err != nil {
		return looked, err
	}
	tree, err := d.Tree.Refresh(j.Dirs)
	if err != nil {
		return looked, err
	}
	if lacks(tree, d.Tree) {
		select {
		case <-time.After(gonePause):
		case <-run.Context().Done():
			return looked, run.Context().Err()
		}
		if tree, err = d.Tree.Refresh(j.Dirs); err != nil {
			return looked, err
		}
	}
	looked.Tree = d.Tree
	if looked.Reload = restructured(d.Tree, tree); looked.Reload != "" {
		return looked, nil
	}
	r, err := j.refresh(run, d.Tree, d.Before)
	if err != nil {
		return looked, err
	}
	if looked.Reload = restructured(d.Tree, r.tree); looked.Reload != "" { // meanwhile
		return looked, nil
	}
	looked.Tree, looked.Changed = r.tree, r.changed()
	if len(looked.Changed) == 0 {
		return looked, nil
	}
	return looked, r.handOut(run)
}

func (r refreshed) changed() map[string]string {
	changed := map[string]string{}
	for _, m := range r.tree.Modules {
		if old, ok := r.old(m); ok && !m.Same(old) {
			changed[m.Name] = strings.Join(m.Differs(old), " and ")
		}
	}
	return changed
}

// lacks reports whether a module has gone.
func lacks(now, before *addons.Tree) bool {
	return slices.ContainsFunc(before.Modules, func(old addons.Module) bool {
		return !slices.ContainsFunc(now.Modules, func(m addons.Module) bool { return m.Name == old.Name })
	})
}

// restructured says what differs that only a discovery can deal with; "" for nothing.
func restructured(before, now *addons.Tree) string {
	if !now.Global.Same(before.Global) {
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
		case !m.File.Equal(old.File), !slices.Equal(m.Awaits, old.Awaits):
			return fmt.Sprintf("module.yaml of %s", m.Name)
		}
	}
	return ""
}
