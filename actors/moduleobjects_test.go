package actors_test

import (
	"fmt"
	"regexp"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"

	"addon-operator/testkit"
)

// J15: of 60 modules an operator at rest writes no object. A start writes each twice, once to create it; a module
// that changes by itself writes one, and a restart that changes nothing none.
func TestWritesOfModuleObjects(t *testing.T) {
	t.Parallel()
	const modules = 60
	enabled, charts := &strings.Builder{}, &strings.Builder{}
	for i := range modules {
		name := fmt.Sprintf("m%03d", i)
		fmt.Fprintf(charts, "-- modules/%03d-%s/Chart.yaml --\nname: %s\nkeywords: [%s]\n", i, name, name, map[int]string{3: "deployment"}[i])
		fmt.Fprintf(enabled, "%sEnabled: true\n", name)
	}
	stage := testkit.NewStage(t, txtar.Parse([]byte("-- modules/values.yaml --\n"+enabled.String()+charts.String())))
	steps := []string{
		"module-objects", "start", "advance 1m", "#", // created, and shown
		"advance 30m", "#", // idle
		"configmap-set m007 x: 1", "advance 1m", "#", // one module
		"configmap-set global x: 1", "advance 1m", "#", // all
		"health m003-b Failed", "advance 1m", "health m003-b Current", "advance 10m", "#",
		"slow-helm m010 600ms", "slow-helm m011 700ms", "stop", "start", "advance 1m", "#",
	}
	written := regexp.MustCompile(`(?m)^ +\S+ {2}object (\w+): `)
	parts := strings.Split(stage.Play(t, strings.Join(steps, "\n"), 0).Trace, "#\n")
	for i, want := range []struct {
		when      string
		all, most int
	}{
		{"the start", 2*modules + 1, 3}, // the Deployment of m003 is in progress first
		{"an idle half hour", 0, 0},
		{"a module that changes", 1, 1},
		{"a reload in which all change", modules, 1},
		{"an object that fails and recovers", 2, 2},
		{"a restart with a run in progress when objects are compared", 0, 0},
	} {
		all, most, of := 0, 0, map[string]int{}
		for _, found := range written.FindAllStringSubmatch(parts[i], -1) {
			of[found[1]]++
			all, most = all+1, max(most, of[found[1]])
		}
		if all > want.all || most > want.most || all == 0 && want.all > 0 {
			t.Errorf("%s writes %d times, of one module %d times; at most %d and %d are wanted", want.when, all, most, want.all, want.most)
		}
	}
}
