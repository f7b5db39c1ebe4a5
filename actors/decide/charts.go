package decide

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"addon-operator/addons"
	"addon-operator/helm/charts"
	"addon-operator/hooks"
	"addon-operator/values"
)

// ChartRules check values against the values.schema.json of charts and their subcharts before
// anything is written (H22). Helm does the same, but in the middle of a run, when the ConfigMap
// already says so.
type ChartRules struct {
	Charts *charts.Cache // nil for one of its own
	// Section returns the section with a key over its part of ConfigMap and Secret; nil when there
	// is none. whole reports whether it also has what hooks set. Without that a violation proves
	// nothing: a hook may add what is missing.
	Section func(key string, doc values.Document) (s *values.Section, whole bool)
	// Static also reports what only files say.
	Static bool
}

// chartError is what schemas of charts refuse. At the start it fails the module, and not the
// operator as D36 asks for the module's own schemas.
type chartError struct{ error }

// Unwrap returns the cause.
func (e chartError) Unwrap() error { return e.error }

// Check implements Enabling.Charts.
func (r ChartRules) Check(m addons.Module, doc values.Document) error {
	if !mayHaveSchema(m.Dir) {
		return nil
	}
	cache := cmp.Or(r.Charts, &charts.Cache{})
	loaded, _ := cache.Load(ChartModule(m))
	if loaded == nil || !loaded.HasSchema() {
		return nil // what does not load is a problem of the module alone
	}
	own, ownWhole := r.Section(m.Key, doc)
	global, globalWhole := r.Section(values.GlobalKey, doc)
	if own == nil || global == nil {
		return nil
	}
	found, err := loaded.Violations(map[string]any{values.GlobalKey: global.Merged(), m.Key: own.Merged()})
	if err != nil && r.Static && !errors.Is(err, charts.ErrElsewhere) {
		return fmt.Errorf("chart of module %s in %s: %w", m.Name, m.Shown(m.Dir), err)
	}
	found = slices.DeleteFunc(found, func(v charts.Violation) bool {
		switch v.Key {
		case m.Key:
			return !ownWhole
		case values.GlobalKey:
			return !globalWhole
		}
		return !r.Static // no ConfigMap changes it
	})
	return refusal(m, doc, found)
}

// ChartModule is a module as package charts gets it.
func ChartModule(m addons.Module) charts.Module {
	return charts.Module{Name: m.Name, Key: m.Key, Dir: m.Dir, Shown: m.Shown(m.Dir)}
}

// mayHaveSchema avoids loading a chart that cannot have a schema, as most cannot.
func mayHaveSchema(dir string) bool {
	_, err := os.Stat(filepath.Join(charts.Root(dir), "values.schema.json"))
	return err == nil || charts.HasSubcharts(dir)
}

// refusal words violations like those of the operator's own schemas, with the key that a person has
// to edit.
func refusal(m addons.Module, doc values.Document, found []charts.Violation) error {
	type place struct{ key, file string }
	var order []place
	byPlace := map[place][]values.Violation{}
	for _, v := range found {
		at := place{v.Key, v.File}
		if byPlace[at] == nil {
			order = append(order, at)
		}
		byPlace[at] = append(byPlace[at], values.Violation{Path: v.Path, Message: v.Message})
	}
	var errs []error
	for _, at := range order {
		var err error = &values.ValidationError{Section: at.key, Schema: filepath.Join(ChartModule(m).Where(), at.file), Violations: byPlace[at]}
		switch {
		case doc.Sections[at.key] != nil:
			err = fmt.Errorf("ConfigMap key %s: %w", at.key, err)
		case doc.Secrets[at.key] != nil:
			err = fmt.Errorf("key %s of the Secret: %w", at.key, err)
		}
		errs = append(errs, chartError{err})
	}
	return errors.Join(errs...)
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

// ChartsAtStart are the rules of a start, or of files: hooks have not run. Sections are those of the tree, by key.
func ChartsAtStart(cache *charts.Cache, tree *addons.Tree, sections map[string]*values.Section) ChartRules {
	return ChartRules{Charts: cache, Section: func(key string, doc values.Document) (*values.Section, bool) {
		return Fitting(sections[key], doc), Hookless(tree.Global, tree.Modules, key)
	}}
}

// OnlyCharts reports whether nothing but schemas of charts refuses values.
func OnlyCharts(err error) bool {
	var refused chartError
	return errors.As(err, &refused)
}
