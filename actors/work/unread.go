package work

import (
	"strings"
	"sync"

	"addon-operator/actors/plan"
	"addon-operator/helm"
)

// unreadValues remembers, by module, what was looked at and logged of values that reach nothing.
type unreadValues struct {
	mu    sync.Mutex
	known map[string]unreadOf
}

type unreadOf struct{ checksum, told string }

// look reports whether the values of a module have not been looked at yet, or are others than then.
func (u *unreadValues) look(module, checksum string) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.known == nil {
		u.known = map[string]unreadOf{}
	}
	before := u.known[module]
	u.known[module] = unreadOf{checksum, before.told}
	return before.checksum != checksum
}

// news reports whether a warning is another than the last of the module.
func (u *unreadValues) news(module, text string) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	before := u.known[module]
	u.known[module] = unreadOf{before.checksum, text}
	return before.told != text
}

// warnUnread logs values that reach nothing, once (H23). A start that finds its release as it should be looks at nothing: that
// would cost more than the start.
func (r releaseJob) warnUnread(outcome helm.Outcome, err error) {
	if r.job.Charts == nil {
		return
	}
	starts := !r.job.Known.Started && err == nil && outcome.Action == helm.Skipped
	if !r.job.unread.look(r.job.Owner, r.job.Known.Own.Checksum()) || starts {
		return
	}
	texts := plan.Unread(r.job.Charts, r.job.Module, r.job.Known.Global, r.job.Known.Own)
	if text := strings.Join(texts, "; "); r.job.unread.news(r.job.Owner, text) && text != "" {
		r.job.Log.Warn("values reach nothing", "values", text)
	}
}
