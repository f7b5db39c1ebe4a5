package helm

import (
	"context"
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/resourceversion"
)

// recordMemory is what is known of the records. The lock of records guards it.
//
// It has two sources, a watch and our own writes, and the watch is the slower one: it reports a
// write after the write has returned. So everything carries its resourceVersion, and what is older
// than what is known does not count.
type recordMemory struct {
	listed  bool              // all records were read once; without it, absence in known means nothing
	known   map[string]State  // by release; none without revisions
	doubted map[string]bool   // releases whose last operation failed: read them again
	removed map[string]string // records that we deleted and the watch still lists, with their last resourceVersion
}

// watch prepares the memory for a watch of all release records, whose store it is. changed is
// called for what other clients do; busy distinguishes their writes from ours.
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

// Alive implements metadataStore.
func (r *records) Alive() { r.connected(true) }

// Failed implements metadataStore: until the watch is alive again, reads do not trust the memory.
func (r *records) Failed(error) { r.connected(false) }

// connected notes whether the memory is up to date. The first call, also after a failure, lets
// those continue that wait for the first list: without a permission to watch they make requests.
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

// copied is a memory for a dry run: it begins with what is known, and gets the pretended writes.
// Without a watch it begins empty, and reads.
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

// seen applies what the watch reports to the memory. If that was not known, and no operation of
// ours is under way, another client has done it. The order matters: busy is called before the
// memory is changed. The watch may report a write before its response arrives, and by the time that
// the report is applied, the operation may have ended. An operation that ended before that call has
// noted its writes in the memory (wrote), and one that begins later has written nothing yet.
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

// put remembers a revision unless it is older than what is known, or than its deletion by us.
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

// vanished forgets a revision that the watch reports as deleted, unless a newer record of the same
// name is known: we have created it again since.
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

// deleted forgets a revision that we deleted. Until the watch reports the deletion, older reports
// about the record do not count.
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

// replace replaces what is known of one release by a list of its records. at is the resourceVersion
// of the list; records that are known to be newer stay.
func (m *recordMemory) replace(name string, listed []Revision, at string) {
	kept := slices.DeleteFunc(slices.Clone(m.stateOf(name).Revisions), func(known Revision) bool {
		return !isNewer(known.resourceVersion, at)
	})
	m.setState(name, kept)
	for _, revision := range listed {
		m.put(name, revision)
	}
}

// replaceAll is replace for a list of all records. A deletion that the list confirms need not be
// remembered any longer.
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

// isNewer compares resourceVersions of records, which are of one resource. Some API servers have
// resourceVersions without an order: there, the latest report counts.
func isNewer(a, than string) bool {
	order, err := resourceversion.CompareResourceVersion(a, than)
	return err != nil || order > 0
}
