package kube

import (
	"context"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/json"
)

// A part that joins a running source needs the objects that are there already. When another part
// keeps whole objects they are taken from it, without a request. Otherwise they are listed once for
// all parts that wait, and events that arrive meanwhile are put aside for them: afterwards those
// newer than the list are replayed, so no event is lost and none is notified twice.

// asideEvent is an event put aside, already filtered for the part that it waits for.
type asideEvent struct {
	update update
	apply  func(*part, update) // put or remove
}

// join makes parts wait for their objects. It raises the signal also without parts: those that wait
// already may be let in now that the reflector has a list. Called with s.mu.
func (s *source) join(parts ...*part) {
	s.joining = append(s.joining, parts...)
	s.joined.raise()
}

// admitJoining lets in the parts that wait, until ctx ends. Each source has one goroutine for it.
func (s *source) admitJoining(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-s.joined:
		}
		pause := newPause(pauseLost)
		for !s.admit(ctx) {
			if sleep(ctx, pause.Step()) != nil {
				return
			}
		}
	}
}

// admit lets in all parts that wait now. It returns false when it has to be tried again.
func (s *source) admit(ctx context.Context) bool {
	b, lists := s.beginAdmission()
	if len(b.parts) == 0 {
		return true
	}
	list, err := s.pages(ctx, b) // without the lock: events continue meanwhile
	b.end()
	s.feed.note(ctx, "list", err)
	if err != nil {
		return false
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lists != lists {
		return false // the reflector lost its place meanwhile, perhaps with events that were not put aside
	}
	objects := make([]any, len(list.Items))
	for i, object := range list.Items {
		objects[i] = object
	}
	for i, p := range b.parts {
		if !slices.Contains(s.joining, p) {
			continue // detached
		}
		p.replace(recordsOf(objects, i))
		p.known = list.ResourceVersion
		for _, event := range p.aside {
			event.apply(p, event.update)
		}
		s.activate(p)
	}
	return len(s.joining) == 0
}

// beginAdmission copies the objects from another part when it can; else it
// returns the batch to list for, and forgets the events put aside so far,
// which the list will contain.
func (s *source) beginAdmission() (b *batch, lists int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lists == 0 {
		return &batch{}, 0 // the end of the first list calls again
	}
	if keeper := s.keeper(); keeper != nil {
		s.copyFrom(keeper)
	}
	for _, p := range s.joining {
		p.aside = nil
	}
	return &batch{parts: slices.Clone(s.joining)}, s.lists
}

// keeper finds a part that keeps whole objects.
func (s *source) keeper() *part {
	for _, p := range s.active {
		if p.watch.spec.KeepObjects {
			return p
		}
	}
	return nil
}

// copyFrom fills all parts that wait with the objects of another part. Called with s.mu, so no
// event can come in between.
func (s *source) copyFrom(keeper *part) {
	texts, known := keeper.objects()
	if !known {
		return // its Watch ends at this moment; they are listed instead
	}
	b := &batch{parts: slices.Clone(s.joining)}
	var records []any
	for _, text := range texts {
		object := map[string]any{}
		if err := json.Unmarshal(text, &object); err != nil {
			s.log.Error("an object in the cache is not JSON", "watch", s.feed.name, "err", err)
			b.end()
			return // they are listed instead
		}
		whole := &unstructured.Unstructured{Object: object}
		records = append(records, b.record(&document{object: whole, encoded: text}, s.seed))
	}
	b.end()
	for i, p := range b.parts {
		p.replace(recordsOf(records, i))
		p.known = keeper.known
		s.activate(p)
	}
}

// activate moves a part from those that wait to those that receive each event. Called with s.mu.
func (s *source) activate(p *part) {
	p.aside = nil
	s.joining = slices.DeleteFunc(s.joining, func(other *part) bool { return other == p })
	s.active = append(s.active, p)
}
