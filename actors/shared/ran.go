package shared

import (
	"sync"

	"addon-operator/values"
)

// RanSections are the sections of modules as their last successful run has left them, with what
// hooks have set: only with these is a violation of a chart's schema certain. Modules note them,
// config reads them.
type RanSections struct{ byKey sync.Map }

// Note remembers sections as a run has left them; nil ones are left out.
func (r *RanSections) Note(sections ...*values.Section) {
	for _, section := range sections {
		if section != nil {
			r.byKey.Store(section.Key(), section)
		}
	}
}

// Forget is called when the module is disabled.
func (r *RanSections) Forget(key string) { r.byKey.Delete(key) }

// Of returns the section of a key; nil when none is known.
func (r *RanSections) Of(key string) *values.Section {
	section, _ := r.byKey.Load(key)
	known, _ := section.(*values.Section)
	return known
}
