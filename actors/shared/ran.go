package shared

import (
	"sync"

	"addon-operator/values"
)

// ranSections are the sections of modules as their last successful run has left them, with what
// hooks have set: only with these is a violation of a chart's schema certain. Modules note them,
// config reads them.
type ranSections struct{ byKey sync.Map }

func (r *ranSections) Note(sections ...*values.Section) {
	for _, section := range sections {
		if section != nil {
			r.byKey.Store(section.Key(), section)
		}
	}
}

func (r *ranSections) Forget(key string) { r.byKey.Delete(key) }

func (r *ranSections) Of(key string) *values.Section {
	section, _ := r.byKey.Load(key)
	known, _ := section.(*values.Section)
	return known
}
