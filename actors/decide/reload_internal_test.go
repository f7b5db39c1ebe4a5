package decide

import (
	"reflect"
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
			test := Untouchable(all, c.config)
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
		"a person beats a global hook":      {[]addons.Flag{own(true)}, on, off, Verdict{false, "ConfigMap", ""}},
		"a person beats files":              {[]addons.Flag{own(false)}, nil, on, Verdict{true, "ConfigMap", ""}},
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
