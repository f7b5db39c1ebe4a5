package apiserver

import (
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// event is a change of one object; before or after is nil. Stored objects are never
// written to.
type event struct {
	number        int64 // the resource version: each change has its own, and they grow by one
	key           key
	before, after *unstructured.Unstructured
}

// history are the latest changes, for watches from a version.
type history struct {
	events []event
	floor  int64         // the version before the first of them
	news   chan struct{} // closed at each change
}

// longestHistory is how many changes are remembered. A watch that needs an older one is
// refused, and the client lists again.
const longestHistory = 10_000

func newHistory(version int64) history { return history{floor: version, news: make(chan struct{})} }

// add forgets the oldest change when there are too many. It copies the rest then, because answers
// may still read the slice that since has returned.
func (h *history) add(e event) {
	h.events = append(h.events, e)
	if n := len(h.events) - longestHistory; n > 0 {
		h.floor = h.events[n-1].number
		h.events = slices.Clone(h.events[n:])
	}
	close(h.news)
	h.news = make(chan struct{})
}

// since are the changes after a version; it reports false when they are forgotten.
func (h *history) since(version int64) ([]event, bool) {
	if version < h.floor {
		return nil, false
	}
	i, _ := slices.BinarySearchFunc(h.events, version+1, func(e event, number int64) int { return int(e.number - number) })
	return h.events[i:], true
}
