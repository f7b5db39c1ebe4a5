package decide

import (
	"slices"

	"addon-operator/addons"
	"addon-operator/helm/charts"
	"addon-operator/hooks"
	"addon-operator/values"
)

// ChartModule is a module as package charts gets it.
func ChartModule(m addons.Module) charts.Module {
	return charts.Module{Name: m.Name, Key: m.Key, Dir: m.Dir, Shown: m.Shown(m.Dir)}
}

// Fitting is the section of a module, or of global, with its part of a document; nil when it does not fit.
func Fitting(base *values.Section, doc values.Document) *values.Section {
	if base == nil {
		return nil
	}
	section, err := Stored(base, doc, values.Origin{}, values.Origin{})
	if err != nil {
		return nil
	}
	return section
}

// Hookless reports whether no hook can change the section with a key.
func Hookless(global addons.Global, modules []addons.Module, key string) bool {
	dir, prefix, scope := global.HooksDir, "", hooks.Global
	if key != values.GlobalKey {
		i := slices.IndexFunc(modules, func(m addons.Module) bool { return m.Key == key })
		if i < 0 {
			return false
		}
		dir, prefix, scope = modules[i].HooksDir(), modules[i].Base+"/hooks", hooks.Module
	}
	found, _, err := hooks.Find(dir, prefix, scope)
	return err == nil && len(found) == 0
}
