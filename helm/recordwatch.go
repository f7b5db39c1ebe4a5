package helm

import (
	"context"
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/resourceversion"
)

// The memory of records has two sources, a watch and our own writes, and the
// watch is the slower one: it reports a write after the write has returned. So
// everything carries its resourceVersion, and what is older than what is known
// does not count.

// recordMemory is what is known of the records; guarded by the lock of records.
type recordMemory struct {
	listed  bool // all records were read once
	known   map[string]State
	doubted map[string]bool   // releases whose last operation failed
	removed map[string]string // secrets that we deleted, with their last resourceVersion
}

// watch prepares the memory to be fed by a watch on all release records, of
// which it is the store.
func (r *records) watch(changed func(release string), busy func(release string) bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.changed, r.busy, r.ready = changed, busy, make(chan struct{})
}

// Set implements metadataStore.
func (r *records) Set(m *metav1.PartialObjectMetadata) {
	if name, revision, err := revisionOf(&m.ObjectMeta); err == nil {
		r.seen(name, func() bool { return r.memory.put(name, revision) })
	}
}

// Unset implements metadataStore.
func (r *records) Unset(m *metav1.PartialObjectMetadata) {
	if name, revision, err := revisionOf(&m.ObjectMeta); err == nil {
		r.seen(name, func() bool { return r.memory.vanished(name, revision) })
	}
}

// Replace implements metadataStore.
func (r *records) Replace(all []*metav1.PartialObjectMetadata, at string) {
	metas := make([]*metav1.ObjectMeta, len(all))
	for i, m := range all {
		metas[i] = &m.ObjectMeta
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.memory.replaceAll(statesOf(metas), at)
}

// WentBack makes the memory forget: the API server has gone back to an earlier state, and
// what it reports next is not older than what is known. It is an optional method of a
// metadataStore.
func (r *records) WentBack() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.watched = false
	r.memory = recordMemory{}
}

// Alive implements metadataStore.
func (r *records) Alive() { r.connected(true) }

// Failed implements metadataStore: until the watch is alive again, everything is
// asked for.
func (r *records) Failed(error) { r.connected(false) }

func (r *records) connected(yes bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.watched = yes
	select {
	case <-r.ready:
	default:
		close(r.ready)
	}
}

// await waits for the watch to list all there is, and reports whether it is
// connected.
func (r *records) await(ctx context.Context) bool {
	r.mu.Lock()
	ready := r.ready
	r.mu.Unlock()
	if ready == nil {
		return false
	}
	select {
	case <-ready:
	case <-ctx.Done():
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.watched
}

// copied is a memory that begins with what is known, and goes its own way.
func (r *records) copied(ctx context.Context) *records {
	out := &records{client: r.client, driver: r.driver, namespace: r.namespace}
	if !r.await(ctx) {
		return out
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	out.memory.listed, out.watched, out.memory.known = true, true, maps.Clone(r.memory.known)
	out.memory.doubted = maps.Clone(r.memory.doubted)
	out.ready = make(chan struct{})
	close(out.ready)
	return out
}

// seen takes in what the watch reports; when it was not known and no operation of
// ours is under way, another client did it. Whether one is under way is asked
// first: the news of a write may come before the answer to it, and by the time it
// is taken in, the operation may have ended. One that ended before has said what
// it wrote, and one that begins later has not written yet.
func (r *records) seen(name string, take func() bool) {
	busy := r.busy(name)
	r.mu.Lock()
	news := take()
	r.mu.Unlock()
	if news && !busy {
		r.changed(name)
	}
}

func (m *recordMemory) stateOf(name string) State {
	if state, ok := m.known[name]; ok {
		return state
	}
	return State{Release: name}
}

// put remembers a revision unless it is older than what is known.
func (m *recordMemory) put(name string, fresh Revision) (changed bool) {
	if gone, ok := m.removed[fresh.secret]; ok && !isNewer(fresh.resourceVersion, gone) {
		return false
	}
	state := m.stateOf(name)
	i := slices.IndexFunc(state.Revisions, func(known Revision) bool { return known.secret == fresh.secret })
	if i >= 0 && !isNewer(fresh.resourceVersion, state.Revisions[i].resourceVersion) {
		return false
	}
	revisions := slices.Clone(state.Revisions) // a State that was handed out never changes
	if i >= 0 {
		revisions[i] = fresh
	} else {
		revisions = append(revisions, fresh)
		slices.SortFunc(revisions, byVersion)
	}
	m.setState(name, revisions)
	return true
}

// vanished forgets a revision that the watch reports as deleted.
func (m *recordMemory) vanished(name string, old Revision) (changed bool) {
	delete(m.removed, old.secret)
	state := m.stateOf(name)
	kept := slices.DeleteFunc(slices.Clone(state.Revisions), func(known Revision) bool {
		return known.secret == old.secret && !isNewer(known.resourceVersion, old.resourceVersion)
	})
	if len(kept) == len(state.Revisions) {
		return false
	}
	m.setState(name, kept)
	return true
}

// wrote remembers a revision that we created or changed.
func (r *records) wrote(name string, revision Revision) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.memory.removed, revision.secret)
	r.memory.put(name, revision)
}

// deleted forgets a revision that we deleted. Until the watch reports it, what
// it still says of the secret does not count.
func (r *records) deleted(name string, old Revision) {
	r.mu.Lock()
	defer r.mu.Unlock()
	revisions := slices.DeleteFunc(slices.Clone(r.memory.stateOf(name).Revisions), func(known Revision) bool { return known.secret == old.secret })
	r.memory.setState(name, revisions)
	if r.ready != nil {
		if r.memory.removed == nil {
			r.memory.removed = map[string]string{}
		}
		r.memory.removed[old.secret] = old.resourceVersion
	}
}

// replace takes over a list of one release that is as of at. What is known to be
// newer stays.
func (m *recordMemory) replace(name string, listed []Revision, at string) {
	kept := slices.DeleteFunc(slices.Clone(m.stateOf(name).Revisions), func(known Revision) bool {
		return !isNewer(known.resourceVersion, at)
	})
	m.setState(name, kept)
	for _, revision := range listed {
		m.put(name, revision)
	}
}

func (m *recordMemory) replaceAll(listed map[string]State, at string) {
	maps.DeleteFunc(m.removed, func(secret, _ string) bool {
		return !slices.ContainsFunc(slices.Collect(maps.Values(listed)), func(s State) bool {
			return slices.ContainsFunc(s.Revisions, func(v Revision) bool { return v.secret == secret })
		})
	})
	names := maps.Clone(m.known)
	if names == nil {
		names = map[string]State{}
	}
	maps.Copy(names, listed)
	for name := range names {
		m.replace(name, listed[name].Revisions, at)
	}
	m.listed = true
}

func (m *recordMemory) setState(name string, revisions []Revision) {
	if len(revisions) == 0 {
		delete(m.known, name)
		return
	}
	if m.known == nil {
		m.known = map[string]State{}
	}
	m.known[name] = State{Release: name, Revisions: revisions}
}

// isNewer compares resourceVersions of secrets. Ones that cannot be compared
// count as newer: a server that has such must be believed.
func isNewer(a, than string) bool {
	order, err := resourceversion.CompareResourceVersion(a, than)
	return err != nil || order > 0
}
