package decide

import (
	"maps"
	"slices"

	"addon-operator/addons"
	"addon-operator/values"
)

// Maintained is the mode of maintenance of a module: what the ConfigMap says wins over
// values.yaml files, also when it says none (H15).
func Maintained(m addons.Module, config map[string]string) string {
	if mode, ok := config[values.MaintenanceKey(m.Key)]; ok {
		return mode
	}
	return m.Maintenance
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
