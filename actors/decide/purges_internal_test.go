package decide

import (
	"reflect"
	"strconv"
	"testing"

	"addon-operator/addons"
)

// P1: which purges of a reload are held back, and what allows them.
func TestHoldBack(t *testing.T) {
	many := func(n int) (names []string) {
		for i := range n {
			names = append(names, strconv.Itoa(n-1-i)) // in reverse order, as in a reload
		}
		return names
	}
	sorted := []string{"0", "1", "2"}
	const gone = "there is no module in /modules"
	for name, c := range map[string]struct {
		purge     []string
		known     Purges
		releases  int
		empty     []string
		held      []string
		why       string
		confirmed bool
	}{
		"nothing to purge":                        {releases: 4, empty: []string{"/modules"}},
		"a single one":                            {purge: many(1), releases: 1},
		"a single one, and none may go":           {purge: many(1), releases: 1},
		"a single one, but a root is empty":       {purge: many(1), releases: 9, empty: []string{"/modules"}, held: []string{"0"}, why: gone},
		"two roots are empty":                     {purge: many(1), releases: 9, empty: []string{"/modules", "/b"}, held: []string{"0"}, why: gone + ", /b"},
		"a quarter":                               {purge: many(3), releases: 12},
		"more than a quarter":                     {purge: many(3), releases: 11, held: sorted, why: "they are 3 of 11 releases, and one reload may purge at most 25%"},
		"confirmed":                               {purge: many(3), known: Purges{Confirmed: Confirmation(sorted)}, releases: 3, confirmed: true},
		"confirmed, with an empty root":           {purge: many(3), known: Purges{Confirmed: Confirmation(sorted)}, releases: 3, empty: []string{"/modules"}, confirmed: true},
		"confirmed for fewer":                     {purge: many(3), known: Purges{Confirmed: Confirmation(sorted[:2])}, releases: 8, held: sorted, why: "they are 3 of 8 releases, and one reload may purge at most 25%"},
		"confirmed for more":                      {purge: many(3), known: Purges{Confirmed: Confirmation([]string{"0", "1", "2", "3"})}, releases: 8, held: sorted, why: "they are 3 of 8 releases, and one reload may purge at most 25%"},
		"a confirmation that is not needed":       {purge: many(1), known: Purges{Confirmed: Confirmation([]string{"0"})}, releases: 8},
		"allowed before, and not purged yet":      {purge: many(3), known: Purges{Allowed: set("0", "1", "2")}, releases: 3},
		"one more than was allowed":               {purge: many(3), known: Purges{Allowed: set("0", "1")}, releases: 3},
		"two more than were allowed":              {purge: many(3), known: Purges{Allowed: set("0")}, releases: 3, held: []string{"1", "2"}, why: "they are 2 of 3 releases, and one reload may purge at most 25%"},
		"held back before, and some are back":     {purge: many(1), known: Purges{Held: sorted}, releases: 8, held: []string{"0"}, why: "not all of them are back since it was held back"},
		"others were held back, and all are back": {purge: many(1), known: Purges{Held: []string{"x", "y"}}, releases: 8},
		"held back, and there are more releases":  {purge: many(3), known: Purges{Held: sorted}, releases: 100, held: sorted, why: "not all of them are back since it was held back"},
	} {
		t.Run(name, func(t *testing.T) {
			want := Steps{Run: []string{"r"}, Delete: []string{"d"}, Purge: c.purge, Held: c.held, HeldWhy: c.why}
			if len(c.held) > 0 {
				want.Purge = []string{}
				for _, name := range c.purge {
					if c.known.Allowed[name] {
						want.Purge = append(want.Purge, name)
					}
				}
			}
			if c.confirmed {
				want.Confirmed = sorted
			}
			ordered := func(string) bool { return false }
			got := c.known.holdBack(Steps{Run: []string{"r"}, Delete: []string{"d"}, Purge: c.purge}, ordered, c.releases, (Reload{Tree: &addons.Tree{Empty: c.empty}}).lost(Steps{}))
			if !reflect.DeepEqual(got, want) {
				t.Errorf("got %+v, want %+v", got, want)
			}
		})
	}
}

// P1, E9: a module that is off for want of a flag, and whose release is of an earlier process, is deleted only within the
// share: the file with the flags may be lost. A flag that says false, or a flag that was there in this process, is an order.
func TestForgottenModules(t *testing.T) {
	off := map[string]Verdict{"a": {Source: ByDefault}, "b": {Source: ByDefault}, "c": {Source: byConfigMap}, "d": {Source: ByDefault}}
	r := Reload{Tree: &addons.Tree{Modules: modules("a", "b", "c", "d")}, Deployed: set("a", "b", "c", "d", "gone"), Verdicts: off, Ran: set("d")}
	want := Steps{Delete: []string{"d", "c"}, Purge: []string{}, Held: []string{"a", "b", "gone"}, HeldWhy: "they are 3 of 5 releases, and one reload may purge at most 25%"}
	if got := r.Steps(); !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
	r.Purges.Confirmed = Confirmation(want.Held)
	if got := r.Steps(); !reflect.DeepEqual(got.Delete, []string{"d", "c", "b", "a"}) || !reflect.DeepEqual(got.Confirmed, want.Held) {
		t.Errorf("confirmed: %+v", got)
	}
	r.Purges = Purges{Allowed: set("a", "b", "gone")}
	if got := r.Steps(); len(got.Held) > 0 || len(got.Delete) != 4 || len(got.Purge) != 1 {
		t.Errorf("allowed before: %+v", got)
	}
	delete(r.Deployed, "gone")
	r.Purges, r.Verdicts["b"] = Purges{}, Verdict{Source: byConfigMap}
	if got := r.Steps(); len(got.Held) > 0 || len(got.Delete) != 4 {
		t.Errorf("a single one: %+v", got)
	}
}

// P1: the share is of what could be purged; the release of the operator itself is none.
func TestShareOfReleases(t *testing.T) {
	r := Reload{Tree: &addons.Tree{}, Deployed: set("self", "a", "b", "c"), Ignored: "self"}
	if steps := r.Steps(); steps.HeldWhy != "they are 3 of 3 releases, and one reload may purge at most 25%" {
		t.Error(steps.HeldWhy)
	}
	r.Ignored = ""
	if steps := r.Steps(); steps.HeldWhy != "they are 4 of 4 releases, and one reload may purge at most 25%" {
		t.Errorf("without an ignored release: %s", steps.HeldWhy)
	}
	r.Tree.Empty, r.Purges.Held = []string{"/modules"}, []string{"a"}
	r.AllowPurge = true
	if steps := r.Steps(); len(steps.Purge) != 4 {
		t.Errorf("any, by an option: %+v", steps)
	}
}

// P1.2: a confirmation is for these releases and no others.
func TestConfirmation(t *testing.T) {
	seen := map[string][]string{}
	for _, releases := range [][]string{{}, {"a"}, {"b"}, {"a", "b"}, {"ab"}, {"a,b"}, {"a", "b", "c"}} {
		text := Confirmation(releases)
		if other, ok := seen[text]; ok || len(text) != 12 {
			t.Errorf("%q: %s, as %q", releases, text, other)
		}
		seen[text] = releases
	}
}
