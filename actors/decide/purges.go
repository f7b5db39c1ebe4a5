package decide

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// purgeShare is the share of the releases, in percent, that one reload may purge: more at once looks like a directory that
// was not mounted, or the wrong image. A person allows it, so it is no option (P1).
const purgeShare = 25

// Purges is what converge knows of purges that are held back.
type Purges struct {
	// Held are the releases of the last reload that stay, sorted; Why says for what reason.
	Held []string
	Why  string
	// Allowed are releases that a person has allowed to purge, and that are not purged yet.
	Allowed map[string]bool
	// Confirmed is the confirmation that the next reload looks at.
	Confirmed string
}

// Clone returns a copy that may be read while the original changes.
func (g Purges) Clone() Purges {
	g.Allowed = maps.Clone(g.Allowed)
	return g
}

// holdBack takes out of the steps the purges, and the deletes of forgotten modules, that a person must
// allow: more of the releases than the share, or any when files were lost. If the confirmation is for these
// very releases, they stay among the steps.
//
// What was held back stays held back when only the reason is gone: while a volume comes back
// directory by directory, the last ones must not go.
func (g Purges) holdBack(s Steps, forgotten func(module string) bool, releases int, lost string) Steps {
	pending := slices.Clone(s.Purge)
	for _, module := range s.Delete {
		if forgotten(module) {
			pending = append(pending, module)
		}
	}
	pending = slices.DeleteFunc(pending, func(name string) bool { return g.Allowed[name] })
	slices.Sort(pending)
	why := g.suspicion(pending, releases, lost)
	if why == "" {
		return s
	}
	if g.Confirmed == Confirmation(pending) {
		s.Confirmed = pending
		return s
	}
	held := func(name string) bool { return slices.Contains(pending, name) }
	s.Purge, s.Delete = slices.DeleteFunc(slices.Clone(s.Purge), held), slices.DeleteFunc(slices.Clone(s.Delete), held)
	s.Held, s.HeldWhy = pending, why
	return s
}

// suspicion says why purges look like a mistake; nothing when they do not.
func (g Purges) suspicion(pending []string, releases int, lost string) string {
	switch n := len(pending); {
	case n == 0:
		return ""
	case lost != "":
		return lost
	case n > 1 && n*100 > purgeShare*releases:
		return fmt.Sprintf("they are %d of %d releases, and one reload may purge at most %d%%", n, releases, purgeShare)
	case slices.ContainsFunc(pending, func(name string) bool { return slices.Contains(g.Held, name) }):
		return "not all of them are back since it was held back"
	}
	return ""
}

// Confirmation is the text that allows to purge exactly these releases, which are sorted.
func Confirmation(releases []string) string {
	const digits = 12
	sum := sha256.Sum256([]byte(strings.Join(releases, "\n")))
	return hex.EncodeToString(sum[:])[:digits]
}
