package shared

import (
	"maps"
	"slices"

	"addon-operator/supervisor"
	"addon-operator/values"
)

// Secrets are the texts that may never be shown: what is in the Secret with values, and what schemas mark with x-secret (D41).
// Whoever writes to people hides them: the log, events, pages, traces and plans. The zero value knows none.
type Secrets struct{ now supervisor.Shared[secrets] }

// secrets are those of one moment.
type secrets struct {
	hider *values.Hider
	known map[string][]string // by who knows them
	past  []string            // what was replaced: a release or an error may still have it
}

// maxPast bounds how many texts are remembered that were replaced.
const maxPast = 1000

// Know replaces the texts of one source.
func (s *Secrets) Know(who string, texts []string) {
	s.now.Change(func(now secrets) secrets {
		before := now.known[who]
		if slices.Equal(before, texts) {
			return now
		}
		next := secrets{known: map[string][]string{}, past: slices.Clone(now.past)}
		maps.Copy(next.known, now.known)
		next.known[who] = texts
		all := map[string]bool{}
		for _, list := range next.known {
			for _, text := range list {
				all[text] = true
			}
		}
		for _, text := range before {
			if !all[text] && !slices.Contains(next.past, text) {
				next.past = append(next.past, text)
			}
		}
		if surplus := len(next.past) - maxPast; surplus > 0 {
			next.past = slices.Delete(next.past, 0, surplus)
		}
		next.hider = values.NewHider(append(slices.Collect(maps.Keys(all)), next.past...))
		return next
	})
}

// Hide gives a text without them.
func (s *Secrets) Hide(text string) string { return s.Hider().Text(text) }

// Hider hides them in trees.
func (s *Secrets) Hider() *values.Hider { return s.now.Get().hider }
