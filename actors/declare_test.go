package actors_test

import (
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"addon-operator/actors"
)

// What documentation is made of: every metric has a name with the prefix, a type, a help
// text, and no label twice, also before it has a series (I2).
func TestFamilies(t *testing.T) {
	m := actors.NewMetrics("x_")
	byName := map[string]actors.Family{}
	for _, f := range m.Families {
		byName[f.Name] = f
		if f.Help == "" || !slices.Contains([]string{"counter", "gauge", "histogram", "summary"}, f.Type) || len(f.Labels) != len(slices.Compact(slices.Sorted(slices.Values(f.Labels)))) {
			t.Errorf("%+v", f)
		}
	}
	for name, want := range map[string]actors.Family{
		"x_live_ticks":                 {Type: "counter"},
		"x_config_values_errors_total": {Type: "counter"},
		"x_module_run_seconds":         {Type: "summary", Labels: []string{"module", "activation"}},
		"x_tasks_queue_length":         {Type: "gauge", Labels: []string{"queue"}},
		"x_kube_binding_state":         {Type: "gauge", Labels: []string{"module", "hook", "binding", "queue", "kind", "state"}},
		"x_build_info":                 {Type: "gauge", Labels: []string{"version", "goversion"}},
	} {
		if got := byName[name]; got.Type != want.Type || !slices.Equal(got.Labels, want.Labels) {
			t.Errorf("%s is %+v, want %+v", name, got, want)
		}
	}
}

// What is not offered: bytes of a snapshot, because memory that several watches share
// belongs to none of them (I4); and the names of an operator without modules.
func TestFamiliesThatAreNotOffered(t *testing.T) {
	m := actors.NewMetrics("x_")
	others := regexp.MustCompile(`^x_(hook_run_.*|hook_enable_kubernetes_bindings_.*)$`)
	snapshots := 0
	for _, f := range m.Families {
		if others.MatchString(f.Name) {
			t.Errorf("%s is offered", f.Name)
		}
		if strings.Contains(f.Name, "snapshot") {
			snapshots++
			if strings.Contains(f.Name, "bytes") {
				t.Errorf("%s is offered", f.Name)
			}
		}
	}
	if snapshots == 0 {
		t.Error("no metric describes snapshots")
	}
}

// A scrape emits only metrics that are declared: another name would end the process.
func TestStatesAreDeclared(t *testing.T) {
	source, err := os.ReadFile("metrics.go")
	if err != nil {
		t.Fatal(err)
	}
	declared, emitted := map[string]bool{}, map[string]bool{}
	for _, m := range regexp.MustCompile(`Name: "(\w+)"|emit\("(\w+)"`).FindAllSubmatch(source, -1) {
		declared[string(m[1])], emitted[string(m[2])] = true, true
	}
	if !maps.Equal(declared, emitted) || len(declared) < 20 {
		t.Errorf("declared: %v, emitted: %v", declared, emitted)
	}
}
