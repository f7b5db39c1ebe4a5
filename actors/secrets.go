package actors

import (
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"addon-operator/values"
)

// Secrets are the texts that may never be shown: what is in the Secret with values, and what schemas mark with x-secret (D41).
// Whoever writes to people hides them: the log, events, pages, traces and plans. The zero value knows none.
type Secrets struct {
	hider atomic.Pointer[values.Hider]

	mu    sync.Mutex
	known map[string][]string // by who knows them
	past  []string            // what was replaced: a release or an error may still have it
}

// maxPast bounds how many texts are remembered that were replaced.
const maxPast = 1000

// Know replaces the texts of one source.
func (s *Secrets) Know(who string, texts []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before := s.known[who]
	if slices.Equal(before, texts) {
		return
	}
	if s.known == nil {
		s.known = map[string][]string{}
	}
	s.known[who] = texts
	all := map[string]bool{}
	for _, list := range s.known {
		for _, text := range list {
			all[text] = true
		}
	}
	for _, text := range before {
		if !all[text] && !slices.Contains(s.past, text) {
			s.past = append(s.past, text)
		}
	}
	if surplus := len(s.past) - maxPast; surplus > 0 {
		s.past = slices.Delete(s.past, 0, surplus)
	}
	s.hider.Store(values.NewHider(append(slices.Collect(maps.Keys(all)), s.past...)))
}

// Hide gives a text without them.
func (s *Secrets) Hide(text string) string { return s.hider.Load().Text(text) }

// Hider hides them in trees.
func (s *Secrets) Hider() *values.Hider { return s.hider.Load() }
