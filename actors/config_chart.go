package actors

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"addon-operator/actors/decide"
	"addon-operator/actors/plan"
	"addon-operator/addons"
	"addon-operator/helm/charts"
	"addon-operator/hooks"
	"addon-operator/values"
)

// chartRules checks values against the values.schema.json of charts and their subcharts, before anything is written (H22).
// Helm does the same in the middle of a run.
type chartRules struct {
	charts *charts.Cache
	// section gives the section with a key and its part of ConfigMap and Secret; nil when there is none. whole reports whether
	// it has what hooks set: without it nothing is certain.
	section func(key string, doc values.Document) (s *values.Section, whole bool)
	// static also reports what only files say.
	static bool
}

// chartError is what schemas of charts refuse. An operator starts with it: only the module fails.
type chartError struct{ error }

// Unwrap returns the cause.
func (e chartError) Unwrap() error { return e.error }

// check implements decide.Enabling.Charts.
func (r chartRules) check(m addons.Module, doc values.Document) error {
	if !mayHaveSchema(m.Dir) {
		return nil
	}
	loaded, err := r.charts.Load(charts.Module{Name: m.Name, Key: m.Key, Dir: m.Dir})
	if err != nil || !loaded.HasSchema() {
		return nil // what does not load is a problem of the module alone
	}
	own, ownWhole := r.section(m.Key, doc)
	global, globalWhole := r.section(values.GlobalKey, doc)
	if own == nil || global == nil {
		return nil
	}
	found, err := loaded.Violations(m.Key, map[string]any{values.GlobalKey: global.Merged(), m.Key: own.Merged()})
	if err != nil && r.static && !errors.Is(err, charts.ErrElsewhere) {
		return fmt.Errorf("chart of module %s in %s: %w", m.Name, m.Dir, err)
	}
	found = slices.DeleteFunc(found, func(v charts.Violation) bool {
		switch v.Key {
		case m.Key:
			return !ownWhole
		case values.GlobalKey:
			return !globalWhole
		}
		return !r.static // no ConfigMap changes it
	})
	return refusal(m, doc, found)
}

// mayHaveSchema is quick: most charts have none.
func mayHaveSchema(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, "values.schema.json"))
	return err == nil || charts.HasSubcharts(dir)
}

// refusal words violations as those of the operator's own schemas, with the key that a person has to edit.
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
		var err error = &values.ValidationError{Section: at.key, Schema: filepath.Join(m.Dir, at.file), Violations: byPlace[at]}
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

// stored is the section of a module, or of global, with its part of a document; nil when it does not fit.
func stored(base *values.Section, doc values.Document) *values.Section {
	if base == nil {
		return nil
	}
	section, err := decide.Stored(base, doc, values.Origin{}, values.Origin{})
	if err != nil {
		return nil
	}
	return section
}

// hookless reports whether no hook can change the section with a key.
func hookless(global addons.Global, modules []addons.Module, key string) bool {
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

// ranSections are the sections of modules as their last successful run has left them, with what hooks have set.
type ranSections struct{ byKey sync.Map }

func (r *ranSections) note(sections ...*values.Section) {
	for _, section := range sections {
		if section != nil {
			r.byKey.Store(section.Key(), section)
		}
	}
}

func (r *ranSections) forget(key string) { r.byKey.Delete(key) }

func (r *ranSections) of(key string) *values.Section {
	section, _ := r.byKey.Load(key)
	known, _ := section.(*values.Section)
	return known
}

// rules are what config checks a new content by. What the charts say counts where the content changes something: a chart that
// has come with a stricter schema must not stop edits of all other modules.
func (c *config) rules() decide.Schemas {
	rules, before := c.schemas, c.doc
	inForce := chartRules{charts: c.program.Charts, section: func(key string, doc values.Document) (*values.Section, bool) {
		if ran := c.program.ran.of(key); ran != nil {
			return stored(ran, doc), true
		}
		return stored(c.schemas.Sections[key], doc), hookless(c.global, c.schemas.Modules, key)
	}}
	rules.Enabling.Charts = func(m addons.Module, doc values.Document) error {
		if c.schemas.Enabling.Concerns(m, before.Flags) && !decide.Changed(before, doc, m.Key) && !decide.Changed(before, doc, values.GlobalKey) {
			return nil
		}
		return inForce.check(m, doc)
	}
	return rules
}

// rules are what a start checks by. Hooks have not run.
func (b *boot) rules(cache *charts.Cache) decide.Enabling {
	return decide.Enabling{Charts: b.chartRules(cache).check}
}

func (b *boot) chartRules(cache *charts.Cache) chartRules {
	return chartRules{charts: cache, section: func(key string, doc values.Document) (*values.Section, bool) {
		return stored(b.templates()[key], doc), hookless(b.tree.Global, b.tree.Modules, key)
	}}
}

// onlyCharts reports whether nothing but schemas of charts refuses values.
func onlyCharts(err error) bool {
	var refused chartError
	return errors.As(err, &refused)
}

// planRules are what a plan asks about a ConfigMap that is proposed: the sections are as the plan knows them, the Secret
// included.
func planRules(cache *charts.Cache, known plan.Known, tree *addons.Tree) func(addons.Module, values.Document) error {
	rules := chartRules{charts: cache, section: func(key string, doc values.Document) (*values.Section, bool) {
		whole := key == values.GlobalKey && known.GlobalHooksRan || hookless(tree.Global, tree.Modules, key)
		for _, m := range tree.Modules {
			if _, ran := known.HookValues[m.Name]; ran && m.Key == key {
				whole = true
			}
		}
		base := known.Sections[key]
		if base == nil {
			return nil, false
		}
		next, err := base.WithConfig(doc.Sections[key], values.Origin{})
		if err != nil {
			return nil, false
		}
		return next, whole
	}}
	return rules.check
}
