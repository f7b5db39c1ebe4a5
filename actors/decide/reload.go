package decide

import (
	"maps"
	"slices"
	"strings"

	"addon-operator/addons"
	"addon-operator/values"
)

// Steps are what a reload does, in this order (E7, E8).
type Steps struct {
	Run    []string // enabled modules, in their order
	Delete []string // disabled modules, in reverse order
	Purge  []string // releases without a module directory, sorted in reverse
	// Keep are those that would be deleted or purged, but are under maintenance (H15).
	Keep []string
	// Held are releases that would be purged, or deleted for want of a flag, which was not allowed (P1);
	// HeldWhy says why. Confirmed are those that a person has allowed now.
	Held      []string
	HeldWhy   string
	Confirmed []string
}

// Reload is what a discovery knows when the steps of its reload are decided.
type Reload struct {
	Tree    *addons.Tree
	Enabled []string
	// Deployed are the modules and releases that have left something in the cluster, in this process
	// or an earlier one (E9). Ignored is the one that is never purged (E10, B6).
	Deployed map[string]bool
	Ignored  string
	// Verdicts are those of the discovery. Ran are the modules that were enabled in this process.
	Verdicts map[string]Verdict
	Ran      map[string]bool
	// Maintenance are the modes in the ConfigMap (H15).
	Maintenance map[string]string
	Purges      Purges
	// AllowPurge allows all purges; without it one reload may purge only purgeShare percent of the
	// releases (P1), those that are forgotten included. A single one it may purge always.
	AllowPurge bool
}

// Steps decides what to do with each module and release.
func (r Reload) Steps() Steps {
	steps := r.modules()
	if r.AllowPurge {
		return steps
	}
	releases := len(r.Deployed)
	if r.Deployed[r.Ignored] {
		releases--
	}
	return r.Purges.holdBack(steps, r.forgotten, releases, r.lost(steps))
}

// lost says what shows that files were lost, and not removed on purpose; "" for nothing.
func (r Reload) lost(s Steps) string {
	if len(r.Tree.Empty) > 0 {
		return "there is no module in " + strings.Join(r.Tree.Empty, ", ")
	}
	for _, module := range s.Delete {
		if empty := addons.EmptyValues(r.Tree, module); len(empty) > 0 && r.forgotten(module) {
			return "its flag may have been in " + empty[0] + ", which is empty"
		}
	}
	return ""
}

// forgotten reports whether a module is off only because no flag names it any more, and an earlier process has left its
// release: the file with the flags may have been lost meanwhile. In the life of a process a flag that is removed is an edit.
func (r Reload) forgotten(module string) bool {
	return r.Verdicts[module].Source == ByDefault && !r.Ran[module]
}

func (r Reload) modules() Steps {
	var s Steps
	untouchable := Untouchable(r.Tree.Modules, r.Maintenance)
	known := make(map[string]bool, len(r.Tree.Modules))
	for _, m := range r.Tree.Modules {
		known[m.Name] = true
		switch {
		case slices.Contains(r.Enabled, m.Name):
			s.Run = append(s.Run, m.Name)
		case r.Deployed[m.Name] && untouchable(m.Name):
			s.Keep = append(s.Keep, m.Name)
		case r.Deployed[m.Name]:
			s.Delete = append(s.Delete, m.Name)
		}
	}
	slices.Reverse(s.Delete)
	for _, m := range r.Tree.Broken { // its directory is there, and does not load (P8)
		known[m.Name] = true
	}
	for _, name := range r.Tree.Unreachable { // its link may soon lead somewhere again
		known[name] = true
	}
	for name := range r.Deployed {
		switch {
		case known[name] || name == r.Ignored:
		case untouchable(name):
			s.Keep = append(s.Keep, name)
		default:
			s.Purge = append(s.Purge, name)
		}
	}
	slices.Sort(s.Keep)
	slices.Sort(s.Purge)
	slices.Reverse(s.Purge)
	return s
}

// MayDeleteData reports whether a purge of a release may delete objects that hold data: a person has
// allowed it, by the option or by a confirmation (P1).
func (r Reload) MayDeleteData(release string) bool { return r.AllowPurge || r.Purges.Allowed[release] }

// Orphaned reports whether a release has no module any more, so that a module may take over the
// objects that both have, as after a rename. It is unknown while a modules root is empty (P1), and a
// release under maintenance is left alone.
func (r Reload) Orphaned(release string) bool {
	named := func(m addons.Module) bool { return m.Name == release }
	return r.Deployed[release] && release != r.Ignored && len(r.Tree.Empty) == 0 &&
		!slices.ContainsFunc(r.Tree.Modules, named) && !slices.ContainsFunc(r.Tree.Broken, named) &&
		!slices.Contains(r.Tree.Unreachable, release) &&
		!Untouchable(r.Tree.Modules, r.Maintenance)(release)
}

// Groups are the modules that may run at the same time: those of the same order, when the width
// allows more than one (F15, X24).
func (s Steps) Groups(modules []addons.Module, width int) [][]string {
	order := make(map[string]int, len(modules))
	for _, m := range modules {
		order[m.Name] = m.Order
	}
	var groups [][]string
	for i, name := range s.Run {
		if width > 1 && i > 0 && order[name] == order[s.Run[i-1]] {
			last := len(groups) - 1
			groups[last] = append(groups[last], name)
			continue
		}
		groups = append(groups, []string{name})
	}
	return groups
}

// Maintained is the mode of maintenance of a module: what the ConfigMap says wins over
// values.yaml files, also when it says none (H15).
func Maintained(m addons.Module, config map[string]string) string {
	if mode, ok := config[values.MaintenanceKey(m.Key)]; ok {
		return mode
	}
	return m.Maintenance
}

// WithSuspended adds the modules that are suspended to the modes in the ConfigMap (H27).
func WithSuspended(config map[string]string, suspended map[string]bool) map[string]string {
	modes := make(map[string]string, len(config)+len(suspended))
	maps.Copy(modes, config)
	for name := range suspended {
		if key, err := values.Key(name); err == nil {
			modes[values.MaintenanceKey(key)] = values.Suspended
		}
	}
	return modes
}

// Untouchable returns which releases are under maintenance. One without a module directory
// has only the ConfigMap to speak for it.
func Untouchable(all []addons.Module, config map[string]string) func(release string) bool {
	return func(release string) bool {
		for _, m := range all {
			if m.Name == release {
				return Maintained(m, config) != ""
			}
		}
		key, err := values.Key(release)
		return err == nil && config[values.MaintenanceKey(key)] != ""
	}
}

// MaintenanceEnds compares the modes that were in the ConfigMap before with those of r. run are the
// modules that must run because they are no longer under maintenance; reload is due when a release is
// concerned that no enabled module has: it may have to be deleted, or not.
func (r Reload) MaintenanceEnds(before map[string]string) (run []string, reload bool) {
	was, is := Untouchable(r.Tree.Modules, before), Untouchable(r.Tree.Modules, r.Maintenance)
	for _, name := range slices.Sorted(maps.Keys(r.Deployed)) {
		switch {
		case was(name) == is(name):
		case !slices.Contains(r.Enabled, name):
			reload = true
		case was(name):
			run = append(run, name)
		}
	}
	return run, reload
}
