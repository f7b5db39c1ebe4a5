package apiserver

import "fmt"

// Forbid takes the permission to read a kind away from the watches of the operator, or gives it back.
// Meanwhile they see no changes, and those that begin have no first list; after it they see what they
// have missed. Clients that ask by HTTP may go on.
func (s *Server) Forbid(word string, forbidden bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	k := s.find("", word)
	if k == nil {
		return fmt.Errorf("there is no kind %q", word)
	}
	if s.forbidden[k.resource()] == forbidden {
		return nil
	}
	s.forbidden[k.resource()] = forbidden
	if forbidden {
		return nil
	}
	for _, w := range s.sortedWatches() {
		if on := w.server.find(w.spec.APIVersion, w.spec.Kind); on == nil || on.resource() != k.resource() || w.ctx.Err() != nil {
			continue
		}
		w.catchUp(k)
	}
	return nil
}

// catchUp sees what was missed; the caller holds the server's lock.
func (w *watch) catchUp(k *kind) {
	w.mu.Lock()
	complete := w.complete
	w.mu.Unlock()
	if !complete {
		w.begin()
		return
	}
	missed := map[key]bool{}
	w.mu.Lock()
	for at := range w.kept {
		missed[at] = true
	}
	w.mu.Unlock()
	for _, at := range w.server.sortedKeys(k.resource()) {
		missed[at] = true
	}
	for _, at := range sortedAt(missed) {
		w.seeObject(at, w.server.objects[at])
	}
	w.synced()
}
