package work

import (
	"time"

	"addon-operator/messages"
)

// mostParts is how many parts of one task are kept.
const mostParts = 50

// Parts are what a task has spent its time on, in all of its attempts. Its run writes them, its owner reads them when the run has
// ended.
type Parts struct {
	List []messages.Part
	Cut  int
}

// add remembers a hook, or Helm without one.
func (p *Parts) add(hook string, began time.Time) {
	if p == nil {
		return
	}
	if len(p.List) >= mostParts {
		p.Cut++
		return
	}
	p.List = append(p.List, messages.Part{Hook: hook, Began: began, Took: time.Since(began)})
}
