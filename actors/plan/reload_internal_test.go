package plan

import (
	"fmt"
	"reflect"
	"strconv"
	"testing"

	"addon-operator/addons"
	"addon-operator/values"
)

func modules(names ...string) (all []addons.Module) {
	for i, name := range names {
		all = append(all, addons.Module{Name: name, Key: name, Order: i})
	}
	return all
}

func set(names ...string) map[string]bool {
	all := map[string]bool{}
	for _, name := range names {
		all[name] = true
	}
	return all
}

// E7, E8, E9, E10, B6, X6.
func TestStepsOfAReload(t *testing.T) {
	const mode = values.NoResourceReconciliation
	for name, c := range map[string]struct {
		all      []addons.Module
		enabled  []string
		deployed map[string]bool
		ignored  string
		frozen   map[string]string // under maintenance
		want     Steps
	}{
		"nothing there":                        {want: Steps{}},
		"enabled modules run in order":         {all: modules("a", "b", "c"), enabled: []string{"c", "a"}, want: Steps{Run: []string{"a", "c"}}},
		"disabled and never deployed: nothing": {all: modules("a", "b"), enabled: []string{"a"}, want: Steps{Run: []string{"a"}}},
		"disabled and deployed: deleted in reverse order": {
			all: modules("a", "b", "c", "d"), enabled: []string{"b"}, deployed: set("a", "b", "c", "d"),
			want: Steps{Run: []string{"b"}, Delete: []string{"d", "c", "a"}},
		},
		"releases without a directory are purged, sorted in reverse": {
			all: modules("a"), enabled: []string{"a"}, deployed: set("a", "old", "very-old", "gone"),
			want: Steps{Run: []string{"a"}, Purge: []string{"very-old", "old", "gone"}},
		},
		"the operator's own release stays": {deployed: set("addon-operator", "old"), ignored: "addon-operator", want: Steps{Purge: []string{"old"}}},
		"a module called like the ignored release is a module": {
			all: modules("a"), deployed: set("a"), ignored: "a", want: Steps{Delete: []string{"a"}},
		},
		"under maintenance nothing is deleted or purged, H15": {
			all: modules("a", "b", "c"), enabled: []string{"c"}, deployed: set("a", "b", "c", "old", "older"), frozen: map[string]string{"bMaintenance": mode, "cMaintenance": mode, "oldMaintenance": mode},
			want: Steps{Run: []string{"c"}, Delete: []string{"a"}, Purge: []string{"older"}, Keep: []string{"b", "old"}},
		},
		"enabled, but its directory is gone": {enabled: []string{"a"}, deployed: set("a"), want: Steps{Purge: []string{"a"}}},
	} {
		t.Run(name, func(t *testing.T) {
			got := Reload{Tree: &addons.Tree{Modules: c.all}, Enabled: c.enabled, Deployed: c.deployed, Ignored: c.ignored, Maintenance: c.frozen, AllowPurge: true}.Steps()
			if !reflect.DeepEqual(got, c.want) {
				t.Errorf("got %+v, want %+v", got, c.want)
			}
		})
	}
}

// H15: the ConfigMap wins over files, also when it says none; a release without a directory
// is spoken for by the ConfigMap alone.
func TestUntouchable(t *testing.T) {
	all := []addons.Module{{Name: "dns", Key: "dns", Maintenance: values.NoResourceReconciliation}, {Name: "my-web", Key: "myWeb"}}
	for name, c := range map[string]struct {
		config map[string]string
		want   []string
	}{
		"a file":               {nil, []string{"dns"}},
		"the ConfigMap":        {map[string]string{"myWebMaintenance": values.NoResourceReconciliation}, []string{"dns", "my-web"}},
		"the ConfigMap: none":  {map[string]string{"dnsMaintenance": ""}, nil},
		"a release of nobody":  {map[string]string{"dnsMaintenance": "", "oldOneMaintenance": values.NoResourceReconciliation}, []string{"old-one"}},
		"no name of a module":  {map[string]string{"dnsMaintenance": "", "Old_OneMaintenance": values.NoResourceReconciliation}, nil},
		"others do not matter": {map[string]string{"dnsMaintenance": "", "webMaintenance": values.NoResourceReconciliation}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			test := Reload{Tree: &addons.Tree{Modules: all}, Maintenance: c.config}.Untouchable
			var got []string
			for _, release := range []string{"dns", "my-web", "old-one", "Old_One"} {
				if test(release) {
					got = append(got, release)
				}
			}
			if !reflect.DeepEqual(got, c.want) {
				t.Errorf("got %v, want %v", got, c.want)
			}
		})
	}
}

// E3, E4, X4, X5: what comes later in the chain wins when it is there.
func TestSwitchedOn(t *testing.T) {
	on, off := map[string]bool{"dnsEnabled": true}, map[string]bool{"dnsEnabled": false}
	roots := func(value bool) addons.Flag { return addons.Flag{Source: "modules/values.yaml", Value: value} }
	own := func(value bool) addons.Flag { return addons.Flag{Source: "dns/values.yaml", Value: value} }
	for name, c := range map[string]struct {
		flags           []addons.Flag
		dynamic, config map[string]bool
		want            Verdict
	}{
		"nothing is set":                    {nil, nil, nil, Verdict{false, "default", ""}},
		"others are spoken of":              {nil, map[string]bool{"webEnabled": true}, map[string]bool{"dns": true}, Verdict{false, "default", ""}},
		"values.yaml of the roots":          {[]addons.Flag{roots(true)}, nil, nil, Verdict{true, "modules/values.yaml", ""}},
		"the module's own values.yaml wins": {[]addons.Flag{roots(true), own(false)}, nil, nil, Verdict{false, "dns/values.yaml", ""}},
		"a global hook beats files":         {[]addons.Flag{own(false)}, on, nil, Verdict{true, "global hook", ""}},
		"a person beats a global hook":      {[]addons.Flag{own(true)}, on, off, Verdict{false, "the ConfigMap", ""}},
		"a person beats files":              {[]addons.Flag{own(false)}, nil, on, Verdict{true, "the ConfigMap", ""}},
	} {
		t.Run(name, func(t *testing.T) {
			got := SwitchedOn(addons.Module{Name: "dns", Key: "dns", Flags: c.flags}, c.dynamic, c.config)
			if got.Enabled != c.want.Enabled || got.Source != c.want.Source {
				t.Errorf("got %+v, want %+v", got, c.want)
			}
		})
	}
}

// P1: a module whose link leads to nothing, or whose files do not load, keeps its release.
func TestReleasesOfModulesThatCannotBeRead(t *testing.T) {
	tree := &addons.Tree{Modules: modules("a"), Broken: modules("b"), Unreachable: []string{"c"}}
	got := Reload{Tree: tree, Enabled: []string{"a"}, Deployed: set("a", "b", "c", "d"), AllowPurge: true}.Steps()
	if want := (Steps{Run: []string{"a"}, Purge: []string{"d"}}); !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

// D9: the list is added for the hook and never stored.
func TestWithEnabledModules(t *testing.T) {
	for name, c := range map[string]struct {
		section any
		names   []string
		want    any
	}{
		"a section":         {map[string]any{"a": 1}, []string{"dns", "web"}, map[string]any{"a": 1, "enabledModules": []any{"dns", "web"}}},
		"no section":        {nil, []string{"dns"}, map[string]any{"enabledModules": []any{"dns"}}},
		"nobody is enabled": {map[string]any{}, nil, map[string]any{"enabledModules": []any{}}},
		"an old list":       {map[string]any{"enabledModules": "old"}, []string{"dns"}, map[string]any{"enabledModules": []any{"dns"}}},
	} {
		t.Run(name, func(t *testing.T) {
			before := fmt.Sprint(c.section)
			if got := WithEnabledModules(c.section, c.names); !reflect.DeepEqual(got, c.want) {
				t.Errorf("got %v, want %v", got, c.want)
			}
			if fmt.Sprint(c.section) != before {
				t.Error("the values of the owner were written to")
			}
		})
	}
}

// Objects may be taken over from a release that has no module any more, if that is certain, and no person keeps it.
// H7, P1, H15.
func TestOrphaned(t *testing.T) {
	reload := func() Reload {
		return Reload{
			Tree:     &addons.Tree{Modules: []addons.Module{{Name: "web", Key: "web"}}, Broken: []addons.Module{{Name: "broken", Key: "broken"}}},
			Deployed: map[string]bool{"web": true, "broken": true, "gone": true, "ignored": true},
			Ignored:  "ignored",
		}
	}
	for release, want := range map[string]bool{"web": false, "broken": false, "gone": true, "ignored": false, "never": false} {
		if got := reload().Orphaned(release); got != want {
			t.Errorf("%s: %t, want %t", release, got, want)
		}
	}
	empty, maintained := reload(), reload()
	empty.Tree.Empty = []string{"/modules"}
	maintained.Maintenance = map[string]string{values.MaintenanceKey("gone"): values.Suspended}
	if empty.Orphaned("gone") || maintained.Orphaned("gone") {
		t.Error("a release is taken from that may be of a module, or that is under maintenance")
	}
}

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
			r := Reload{Tree: &addons.Tree{Empty: c.empty}, Purges: c.known, Deployed: set(many(c.releases)...)}
			got := r.holdBack(Steps{Run: []string{"r"}, Delete: []string{"d"}, Purge: c.purge})
			if !reflect.DeepEqual(got, want) {
				t.Errorf("got %+v, want %+v", got, want)
			}
		})
	}
}

// P1, E9: a module that is off for want of a flag, and whose release is of an earlier process, is deleted only within
// the share: the file with the flags may be lost. A flag that says false, or a flag that was there in this process,
// is an order.
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
