package actors

import (
	"sync"

	"addon-operator/actors/decide"
	"addon-operator/addons"
	"addon-operator/values"
)

// ranSections are the sections of modules as their last successful run has left them, with what
// hooks have set: only with these is a violation of a chart's schema certain. Modules note them,
// config reads them.
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

// rules are what config checks a new content by. A chart's schema counts only where the content
// changes something for its module: a chart that arrived with a stricter schema must not stop edits
// of all other modules.
func (c *config) rules() decide.Schemas {
	rules, before := c.schemas, c.doc
	inForce := decide.ChartRules{Charts: c.program.Charts, Section: func(key string, doc values.Document) (*values.Section, bool) {
		if ran := c.program.ran.of(key); ran != nil {
			return decide.Fitting(ran, doc), true
		}
		return decide.Fitting(c.schemas.Sections[key], doc), decide.Hookless(c.global, c.schemas.Modules, key)
	}}
	rules.Enabling.Charts = func(m addons.Module, doc values.Document) error {
		if c.schemas.Enabling.Concerns(m, before.Flags) && !decide.Changed(before, doc, m.Key) && !decide.Changed(before, doc, values.GlobalKey) {
			return nil
		}
		return inForce.Check(m, doc)
	}
	return rules
}
