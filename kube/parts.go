package kube

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"
)

// run finds the kind and reconciles the parts of the Watch, until ctx ends. It has
// two states: the kind is found, and the sources of the parts work by themselves until one
// of them reports that the API server does not serve the resource (lost); or there is no such kind,
// and the Watch waits for a change of definitions (C16). While the answer is unknown, the state stays.
//
// Meanwhile the Watch of the namespaces calls adjust from its own goroutine. So adjust compares
// the actual with the desired parts, whatever has changed, and w.adjusting admits one call at a
// time.
func (w *Watch) run(ctx context.Context) {
	defer w.removeParts()
	if w.spec.NamespaceLabels != nil {
		w.followNamespaces(ctx)
	}
	pause := newPause(pauseLost)
	for fresh := false; ctx.Err() == nil; {
		found, err := w.resolve(ctx, fresh)
		switch {
		case err == nil:
			w.kindFound(ctx, found)
			select {
			case <-ctx.Done():
			case <-w.lost:
				// Discovery may still list a kind that is being deleted; the source
				// retries, and calls again. A kind that was never looked up is looked up at once.
				if fresh || w.spec.known.name == "" {
					_ = sleep(ctx, discoveryInterval)
				}
			}
			pause, fresh = newPause(pauseLost), true // discovery must answer again: what is kept has the kind
		case errors.Is(err, errNoKind):
			w.kindGone(err)
			w.awaitKind(ctx)
			pause = newPause(pauseLost)
		default: // unknown for now; what is watched stays watched
			w.kindUnknown(err)
			_ = sleep(ctx, pause.Step())
		}
	}
}

// resolve finds the kind of the Watch. One that cannot be watched counts as missing: the Watch
// looks for it again and again.
func (w *Watch) resolve(ctx context.Context, fresh bool) (kind, error) {
	if !fresh && w.spec.known.name != "" {
		return w.spec.known, nil
	}
	if w.watcher.origin != nil {
		return w.kindOfOrigin()
	}
	found, err := w.watcher.client.kinds.resolve(ctx, w.spec.APIVersion, w.spec.Kind, fresh)
	if err == nil && !found.watchable {
		err = fmt.Errorf("%s/%s cannot be watched: %w", found.apiVersion(), found.name, errNoKind)
	}
	return found, err
}

// awaitKind returns when the kind may be there.
func (w *Watch) awaitKind(ctx context.Context) {
	for ctx.Err() == nil {
		changed, pause := w.watcher.client.definitions.next() // before the look: see there
		if _, err := w.resolve(ctx, true); !errors.Is(err, errNoKind) {
			return
		}
		select {
		case <-ctx.Done():
		case <-changed:
		case <-time.After(pause):
		}
	}
}

// followNamespaces keeps a Watch on the namespaces that the Watch covers. It comes before the kind is found: then
// the parts are adjusted, whatever that Watch has called before. It ends with ctx.
func (w *Watch) followNamespaces(ctx context.Context) {
	spec := Spec{APIVersion: "v1", Kind: "Namespace", Labels: w.spec.NamespaceLabels, Filter: nothing}
	adjust := func() { w.adjust(ctx) }
	namespaces, _ := w.watcher.Watch(ctx, spec, func(Change) { adjust() }, adjust) // the selector was checked before
	w.mu.Lock()
	w.namespaces = namespaces
	w.mu.Unlock()
}

func (w *Watch) kindFound(ctx context.Context, found kind) {
	w.mu.Lock()
	w.kind, w.problem = &found, nil
	w.mu.Unlock()
	w.adjust(ctx)
}

// kindGone removes all parts: a kind that does not exist has no objects.
func (w *Watch) kindGone(err error) {
	w.mu.Lock()
	first := w.problem == nil
	w.kind, w.problem = nil, err
	w.mu.Unlock()
	if first && w.spec.failed == nil {
		w.watcher.log.Warn("waiting for a kind", "kind", kindLabel(w.spec.APIVersion, w.spec.Kind), "err", err)
	}
	w.removeParts()
	w.mu.Lock()
	defer w.mu.Unlock()
	w.report(err)
}

// kindUnknown notes why the kind cannot be resolved now. A kind that is known stays, and one that
// was gone stays gone: an outage shows nothing new (P13).
func (w *Watch) kindUnknown(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.kind == nil && !errors.Is(w.problem, errNoKind) {
		w.problem = err
	}
}

// adjust removes parts that should not be there, and adds those that should. It does nothing before
// the kind, and with a selector of namespaces these, are known.
func (w *Watch) adjust(ctx context.Context) {
	w.adjusting.Lock()
	defer w.adjusting.Unlock()
	w.mu.Lock()
	found, selected := w.kind, w.namespaces
	w.mu.Unlock()
	if found == nil || ctx.Err() != nil {
		return
	}
	namespaces, known := w.covered(*found, selected)
	if !known {
		return
	}
	removed, added := w.divide(w.spec.scopes(namespaces), *found)
	// Without the lock of the Watch: a source takes its own lock first, and then that.
	for _, p := range removed {
		w.watcher.detach(p)
	}
	for _, share := range slices.SortedFunc(maps.Keys(added), scope.compare) {
		w.watcher.attach(ctx, added[share], sourceKey{
			resource:  found.resource,
			namespace: share.namespace,
			labels:    w.selection.labels,
			fields:    w.selection.fieldText(share.name),
			metadata:  w.spec.metadata,
		})
	}
	w.mu.Lock()
	w.settled = true
	w.checkSynced()
	w.mu.Unlock()
	w.fed(ctx)
}

// covered returns the namespaces of the Watch, and whether they are known yet. One empty name
// means all of them, or none for a cluster-wide kind; no name at all means that no
// namespace matches.
func (w *Watch) covered(found kind, selected *Watch) (names []string, known bool) {
	everywhere := []string{""}
	switch {
	case !found.namespaced:
		return everywhere, true
	case w.spec.NamespaceLabels != nil:
		return selected.names()
	case len(w.spec.Namespaces) > 0:
		return w.spec.Namespaces, true
	default:
		return everywhere, true
	}
}

// names returns the names of the objects of a complete Watch; it may be nil.
func (w *Watch) names() (names []string, known bool) {
	if w == nil {
		return nil, false
	}
	w.mu.Lock()
	known = w.synced
	w.mu.Unlock()
	if !known {
		return nil, false
	}
	objects, _ := w.Snapshot()
	for _, o := range objects {
		names = append(names, o.Name)
	}
	return names, true
}

// divide removes the parts that are not wanted, and notifies that their objects are gone. A part
// whose resource has moved to another version is removed, too, but its objects wait for the list of
// its successor, so that only differences are notified. It adds the parts that are wanted; a new one makes the Watch
// incomplete until it is listed. The caller detaches and attaches them.
func (w *Watch) divide(wanted map[scope]bool, found kind) (removed []*part, added map[scope]*part) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for share, p := range w.parts {
		if wanted[share] && p.source.key.resource == found.resource {
			continue
		}
		p.gone = true
		removed = append(removed, p)
		if wanted[share] {
			w.parts[share] = &part{watch: w, entries: p.entries, listed: p.listed}
			continue
		}
		delete(w.parts, share)
		p.removeAllBut(nil)
	}
	added = map[scope]*part{}
	for share := range wanted {
		p := w.parts[share]
		if p == nil {
			p = &part{watch: w}
			w.parts[share], w.whole = p, false
		}
		if p.source == nil {
			added[share] = p
		}
	}
	return removed, added
}

// setSource connects a part. It takes the lock because states read the source of each part.
func (w *Watch) setSource(p *part, s *source) {
	w.mu.Lock()
	defer w.mu.Unlock()
	p.source = s
}

// removeParts removes all parts, because the kind is gone, or at the end of the Watch. In the first
// case all objects are notified as deleted.
func (w *Watch) removeParts() {
	w.adjusting.Lock()
	defer w.adjusting.Unlock()
	w.mu.Lock()
	w.settled, w.whole = false, false
	w.mu.Unlock()
	removed, _ := w.divide(nil, kind{})
	for _, p := range removed {
		w.watcher.detach(p)
	}
}
