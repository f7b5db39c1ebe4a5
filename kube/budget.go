package kube

import (
	"cmp"
	"fmt"
	"sync"
)

// SnapshotLimit is how many bytes the snapshot of one binding may take (P5). It is a quarter
// of the memory of a container of usual size. Without a limit, any user with permission to create objects of a
// watched kind could exhaust the memory of the operator. All snapshots together may take one and a
// half times this size.
const SnapshotLimit = 128 << 20

// Budget bounds what several Watches keep together, and the lists on their way to them. When they
// would keep too much, the largest gives up what it has, then the next: which of them stay does not
// depend on their order in time, and small Watches do not suffer from a large one. A list gives way
// when all that is kept and listed would be too much.
//
// Budget never locks a Watch: set is called with the lock of one held, and the locks of two Watches
// that wait for each other would block both. It only names the Watches that must give up.
type Budget struct {
	keep, most int // bytes: of what is kept; with lists

	mu    sync.Mutex
	kept  map[*Watch]holding // without Watches that had to give up
	lists map[*batch]int     // bytes of each list that is on its way
	cut   map[*batch]bool    // lists that leave out the rest of their objects
	// atMost is an upper bound of what is kept: it counts objects that Watches share once for each
	// of them. Within the limit it spares each event the exact sum over all Watches.
	atMost  int
	listing int // sum of lists
}

// holding is what one Watch keeps: for itself, and JSON of objects that it shares with Watches of
// the same selection.
type holding struct {
	own, objects int
	selection    string
}

// NewBudget allows Watches to keep keep bytes, and most bytes with the lists that are on their way.
func NewBudget(keep, most int) *Budget {
	return &Budget{keep: keep, most: most, kept: map[*Watch]holding{}, lists: map[*batch]int{}, cut: map[*batch]bool{}}
}

// selectionText is equal for specs whose Watches share sources, and with them the JSON of objects.
func (s Spec) selectionText() string {
	return fmt.Sprintf("%q %q %q %q %v %v %q", s.APIVersion, s.Kind, s.Names, s.Namespaces, s.Labels, s.NamespaceLabels, s.Fields)
}

// set notes what a Watch keeps now, in bytes, and returns the Watches that must give up, which may
// include w. They no longer count, although the caller has yet to empty them.
func (b *Budget) set(w *Watch, own, objects int) (tooLarge []*Watch) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.forgetLocked(w)
	b.kept[w] = holding{own, objects, w.selectionText}
	b.atMost += own + objects
	for b.atMost > b.keep && b.sum() > b.keep {
		largest := b.largest()
		b.forgetLocked(largest)
		tooLarge = append(tooLarge, largest)
	}
	return tooLarge
}

// sum counts objects that several Watches share once.
func (b *Budget) sum() int {
	sum, shared := 0, map[string]int{}
	for _, h := range b.kept {
		sum += h.own
		shared[h.selection] = max(shared[h.selection], h.objects)
	}
	for _, n := range shared {
		sum += n
	}
	return sum
}

// largest breaks ties by name, so that the choice does not depend on the order of a map.
func (b *Budget) largest() (largest *Watch) {
	var most holding
	for w, h := range b.kept {
		if largest == nil || cmp.Or(cmp.Compare(h.own+h.objects, most.own+most.objects), cmp.Compare(w.spec.Name, largest.spec.Name)) > 0 {
			largest, most = w, h
		}
	}
	return largest
}

func (b *Budget) forget(w *Watch) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.forgetLocked(w)
}

func (b *Budget) forgetLocked(w *Watch) {
	b.atMost -= b.kept[w].own + b.kept[w].objects
	delete(b.kept, w)
}

// list notes how many bytes a list takes so far, and reports whether it must be cut. The largest
// list is cut, which may be another one: that finds out when it calls list with its next object.
func (b *Budget) list(of *batch, bytes int) (cut bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.listing += bytes - b.lists[of]
	b.lists[of] = bytes
	if b.atMost+b.listing > b.most && !b.cut[of] && b.sum()+b.listing > b.most {
		largest := of
		for other, n := range b.lists {
			if n > b.lists[largest] && !b.cut[other] {
				largest = other
			}
		}
		b.cut[largest] = true
	}
	return b.cut[of]
}

// listed ends a list: what is kept of it counts from the next set of its Watches. To end a list
// that is not known changes nothing.
func (b *Budget) listed(of *batch) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.listing -= b.lists[of]
	delete(b.lists, of)
	delete(b.cut, of)
}
