package work

import (
	"strings"

	"addon-operator/actors/plan"
	"addon-operator/helm"
)

// Unread is what was looked at and logged of the values of a module that have no effect. It lives as long as the owner. Only
// runs that need the release for themselves use it.
type Unread struct{ looked, told string }

// look reports whether the values have not been looked at yet, or are others than then.
func (u *Unread) look(checksum string) (others bool) {
	others, u.looked = u.looked != checksum, checksum
	return others
}

// news reports whether a warning is another than the last.
func (u *Unread) news(text string) (other bool) {
	other, u.told = u.told != text, text
	return other
}

// warnUnread logs values that have no effect, once (H23). A start that finds its release as it should be looks at nothing: that
// would cost more than the start.
func (r releaseJob) warnUnread(outcome helm.Outcome, err error) {
	if r.job.Charts == nil {
		return
	}
	starts := !r.job.Known.Started && err == nil && outcome.Action == helm.Skipped
	if !r.job.Unread.look(r.job.Known.Own.Checksum()) || starts {
		return
	}
	texts := plan.Unread(r.job.Charts, r.job.Module, r.job.Known.Global, r.job.Known.Own)
	if text := strings.Join(texts, "; "); r.job.Unread.news(text) && text != "" {
		r.job.Log.Warn("values have no effect", "values", text)
	}
}
