package hooks

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"addon-operator/testkit/golden"

	"golang.org/x/tools/txtar"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// everyField is a configuration of a module hook that uses each field of C10, C11 and C15.
const everyField = `
configVersion: v1
settings: {executionMinInterval: 30s, executionBurst: 2, timeout: 5m}
onStartup: 1
beforeHelm: 10.0
afterHelm: 2.5
beforeDeleteHelm: 0
afterDeleteHelm: -3
schedule:
- {name: hourly, crontab: "@hourly", allowFailure: true, queue: slow, includeSnapshotsFrom: [nodes], group: g}
- crontab: "*/5 * * * *"
kubernetes:
- name: nodes
  apiVersion: v1
  kind: Node
  executeHookOnEvent: [Added, Deleted]
  executeHookOnSynchronization: false
  waitForSynchronization: false
  keepFullObjectsInMemory: false
  nameSelector: {matchNames: [a, b]}
  labelSelector:
    matchLabels: {app.kubernetes.io/name: web}
    matchExpressions: [{key: tier, operator: In, values: [cache]}]
  fieldSelector: {matchExpressions: [{field: spec.unschedulable, operator: NotEquals, value: "true"}]}
  namespace: {nameSelector: {matchNames: [d]}}
  jqFilter: .metadata.name
  allowFailure: true
  includeSnapshotsFrom: [cfg]
  queue: nodes
  group: g
- {name: cfg, kind: ConfigMap, namespace: {labelSelector: {matchLabels: {a: b}}}, group: g}
- {kind: Pod, executeHookOnEvent: []}
`

func TestParseConfigV1ReadsEveryField(t *testing.T) { // C9, C10, C11, C15, C34
	config, err := ParseConfig(Module, []byte(everyField))
	must(t, err)
	if config.Version != V1 {
		t.Errorf("version %q", config.Version)
	}
	wantOrders := map[BindingType]float64{OnStartup: 1, BeforeHelm: 10, AfterHelm: 2.5, BeforeDeleteHelm: 0, AfterDeleteHelm: -3}
	if !reflect.DeepEqual(config.Orders, wantOrders) {
		t.Errorf("orders %v, want %v", config.Orders, wantOrders)
	}
	if want := (Settings{ExecutionMinInterval: 30 * time.Second, ExecutionBurst: 2, Timeout: 5 * time.Minute}); config.Settings != want {
		t.Errorf("settings %v, want %v", config.Settings, want)
	}

	hourly, plain := config.Schedules[0], config.Schedules[1]
	wantBinding := Binding{Name: "hourly", Queue: "slow", AllowFailure: true, Group: "g", Snapshots: []string{"nodes", "cfg"}}
	if !reflect.DeepEqual(hourly.Binding, wantBinding) || hourly.Crontab != "@hourly" || hourly.Parsed == nil {
		t.Errorf("schedule %+v", hourly)
	}
	if !reflect.DeepEqual(plain.Binding, Binding{Name: "schedule", Queue: "main"}) {
		t.Errorf("schedule with defaults %+v", plain)
	}

	if got := config.Kubernetes[0].Filter.String(); got != ".metadata.name" {
		t.Errorf("filter %q", got)
	}
	for i := range config.Kubernetes {
		config.Kubernetes[i].Filter = nil
	}
	want := []KubernetesBinding{
		{
			Binding: Binding{Name: "nodes", Queue: "nodes", AllowFailure: true, Group: "g", Snapshots: []string{"cfg", "nodes"}},
			Selection: Selection{
				APIVersion: "v1", Kind: "Node", Names: []string{"a", "b"}, Namespaces: []string{"d"}, Fields: "spec.unschedulable!=true",
				Labels: &metav1.LabelSelector{
					MatchLabels:      map[string]string{"app.kubernetes.io/name": "web"},
					MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "tier", Operator: "In", Values: []string{"cache"}}},
				},
			},
			Events: []string{Added, Deleted},
		},
		{
			Binding:                  Binding{Name: "cfg", Queue: "main", Group: "g", Snapshots: []string{"nodes", "cfg"}},
			Selection:                Selection{Kind: "ConfigMap", NamespaceLabels: &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}}},
			Events:                   []string{Added, Modified, Deleted},
			ExecuteOnSynchronization: true, WaitForSynchronization: true, KeepFullObjects: true,
		},
		{
			Binding:                  Binding{Name: "kubernetes", Queue: "main"},
			Selection:                Selection{Kind: "Pod"},
			Events:                   []string{},
			ExecuteOnSynchronization: true, WaitForSynchronization: true, KeepFullObjects: true,
		},
	}
	for i := range want {
		if !reflect.DeepEqual(config.Kubernetes[i], want[i]) {
			t.Errorf("kubernetes[%d]\n got %+v\nwant %+v", i, config.Kubernetes[i], want[i])
		}
	}
	if len(config.Warnings) != 0 {
		t.Errorf("warnings %q", config.Warnings)
	}
}

// The second sample of seed 003, with its trailing commas, which YAML allows and JSON does not.
const seedEvent = `{
  "onKubernetesEvent": [
    {
      "name": "Trigger on labels changes of Pods with myLabel:myLabelValue in any namespace",
      "kind": "pod",
      "event": ["update"],
      "selector": {
        "matchLabels": {"myLabel": "myLabelValue"},
        "matchExpressions": [{"key": "tier", "operation": "In", "values": ["cache"],},],
      },
      "namespaceSelector": {"any": true},
      "jqFilter": ".metadata.labels",
      "allowFailure": true,
      "disableDebug": false,
    },
    {"kind": "Node", "objectName": "n1", "namespaceSelector": {"matchNames": ["a", "b"], "any": false}}
  ],
  "schedule": [
    {"name": "incremental", "crontab": "0 2 */3 * * *", "allowFailure": yes},
    {"crontab": "0 59 23 * * *", "allowFailure": no}
  ],
  "onStartup": 10
}`

func TestParseConfigV0(t *testing.T) { // C18–C21, X9, X32
	config, err := ParseConfig(Global, []byte(seedEvent))
	must(t, err)
	if config.Version != V0 || config.Orders[OnStartup] != 10 {
		t.Errorf("version %q, orders %v", config.Version, config.Orders)
	}
	pods, node := config.Kubernetes[0], config.Kubernetes[1]
	if pods.Filter.String() != ".metadata.labels" || !reflect.DeepEqual(pods.Events, []string{Modified}) || !pods.AllowFailure || pods.Queue != MainQueue {
		t.Errorf("event binding %+v", pods)
	}
	if pods.ExecuteOnSynchronization || pods.WaitForSynchronization {
		t.Error("a v0 binding has a Synchronization") // C20
	}
	if got := metav1.FormatLabelSelector(pods.Labels); got != "myLabel=myLabelValue,tier in (cache)" {
		t.Errorf("selector %s", got)
	}
	wantNode := KubernetesBinding{
		Binding:   Binding{Name: "onKubernetesEvent", Queue: "main"},
		Selection: Selection{Kind: "Node", Names: []string{"n1"}, Namespaces: []string{"a", "b"}},
		Events:    []string{Added, Modified, Deleted},
	}
	if !reflect.DeepEqual(node, wantNode) {
		t.Errorf("\n got %+v\nwant %+v", node, wantNode)
	}
	if s := config.Schedules[0]; s.Name != "incremental" || !s.AllowFailure {
		t.Errorf("schedule %+v", s)
	}
	if s := config.Schedules[1]; s.Name != "schedule" || s.AllowFailure {
		t.Errorf("schedule %+v", s)
	}
}

// TestParseConfigRefuses plays testdata/refused: one file for each rule, with a configuration for a global or a module
// hook and the whole error, since the error is what the author of the hook has to work with. -update rewrites the
// errors.
func TestParseConfigRefuses(t *testing.T) { // C5, C7–C12, C15, C18, C19, C34, X9, X32
	files, err := filepath.Glob(filepath.Join("testdata", "refused", "*.txtar"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no files: %v", err)
	}
	for _, path := range files {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txtar"), func(t *testing.T) {
			archive, err := txtar.ParseFile(path)
			must(t, err)
			given := archive.Files[0]
			config, err := ParseConfig(Scope(given.Name), given.Data)
			var invalid *ConfigError
			if !errors.As(err, &invalid) {
				t.Fatalf("got %+v and error %v, want a ConfigError", config, err)
			}
			golden.Part(t, path, archive, "violations", err.Error()+"\n")
		})
	}
}

func TestParseConfigRefusesWhatItCannotRead(t *testing.T) { // C1, C4
	tests := map[string]struct{ printed, want string }{
		"nothing":                {" \n", "printed nothing"},
		"a word":                 {"hello", `printed "hello"; print a JSON or YAML object`},
		"a list":                 {"[]", "printed []; print"},
		"comments only":          {"# nothing\n", "printed null"},
		"text before the object": {"Loading…\n{\"onStartup\": 1}", "neither JSON nor YAML"},
		"broken JSON":            {`{"onStartup": `, "neither JSON nor YAML"},
		"a key twice in YAML":    {"onStartup: 1\nonStartup: 2", `line 2: key "onStartup" is already set in line 1`},
		"a key twice in JSON":    {`{"onStartup": 1, "onStartup": 2}`, `key "onStartup" is already set in line 1`},
		"two documents":          {"onStartup: 1\n---\nonStartup: 2", "line 2: a second document begins"},
		"a number that is none":  {"beforeHelm: .nan", "line 1: .nan: infinite and undefined numbers"},
		"keys that are no text":  {"on: 2", "line 1: key on is a boolean, not a string"},
	}
	for situation, test := range tests {
		t.Run(situation, func(t *testing.T) {
			_, err := ParseConfig(Module, []byte(test.printed))
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error %v, want one that says %q", err, test.want)
			}
		})
	}
}

func TestParseConfigWarns(t *testing.T) {
	tests := map[string]struct {
		config string
		want   []string
		wait   bool
	}{
		"waitForSynchronization without a queue is not honoured (X25)": {
			`{"configVersion": "v1", "kubernetes": [{"kind": "Pod", "waitForSynchronization": false}]}`,
			[]string{"kubernetes[0].waitForSynchronization: is false, which has no effect in queue main"}, true},
		"waitForSynchronization with queue main (X25)": {
			`{"configVersion": "v1", "kubernetes": [{"kind": "Pod", "waitForSynchronization": false, "queue": "main"}]}`,
			[]string{"kubernetes[0].waitForSynchronization: is false, which has no effect in queue main"}, false},
		"waitForSynchronization with another queue": {
			`{"configVersion": "v1", "kubernetes": [{"kind": "Pod", "waitForSynchronization": false, "queue": "q"}]}`, nil, false},
		"old name next to the new one (C15)": {
			`{"configVersion": "v1", "kubernetes": [{"kind": "Pod", "watchEvent": ["Added"], "executeHookOnEvent": ["Deleted"]}]}`,
			[]string{"kubernetes[0].watchEvent: is ignored because executeHookOnEvent is set, too"}, true},
		"names next to labels of namespaces (C15)": {
			`{"configVersion": "v1", "kubernetes": [{"kind": "Pod", "namespace": {"nameSelector": {"matchNames": ["a"]}, "labelSelector": {"matchLabels": {"a": "b"}}}}]}`,
			[]string{"kubernetes[0].namespace.nameSelector.matchNames: is ignored because namespace.labelSelector is set, too"}, true},
		"neither objects nor filter results": {
			`{"configVersion": "v1", "kubernetes": [{"kind": "Pod", "keepFullObjectsInMemory": false}]}`,
			[]string{"kubernetes[0].keepFullObjectsInMemory: is false without a jqFilter"}, true},
		"seconds of the seed's samples (X8)": {
			`{"configVersion": "v1", "schedule": [{"crontab": "* 30 12 * * *"}], "kubernetes": [{"kind": "Pod"}]}`,
			[]string{`schedule[0].crontab: "* 30 12 * * *" fires at each second of the minute`}, true},
		"any namespace next to names in v0 (C19)": {
			`{"onKubernetesEvent": [{"kind": "pod", "namespaceSelector": {"any": "yes", "matchNames": ["a"]}}]}`,
			[]string{"onKubernetesEvent[0].namespaceSelector.matchNames: is ignored because namespaceSelector.any is true"}, false},
		"a Synchronization that is repeated, and not wanted (C15)": {
			`{"configVersion": "v1", "kubernetes": [{"kind": "Pod", "resynchronizationPeriod": "1h"}]}`,
			[]string{"kubernetes[0].resynchronizationPeriod: has no effect; a schedule with includeSnapshotsFrom shows the hook all objects again"}, true},
		"a day that does not exist": {
			`{"configVersion": "v1", "schedule": [{"crontab": "0 0 30 2 *"}], "kubernetes": [{"kind": "Pod"}]}`,
			[]string{`schedule[0].crontab: "0 0 30 2 *" never fires`}, true},
	}
	for situation, test := range tests {
		t.Run(situation, func(t *testing.T) {
			config, err := ParseConfig(Module, []byte(test.config))
			must(t, err)
			if len(config.Warnings) != len(test.want) {
				t.Fatalf("warnings %q, want %q", config.Warnings, test.want)
			}
			for i, want := range test.want {
				if !strings.HasPrefix(config.Warnings[i], want) {
					t.Errorf("warning %q, want %q", config.Warnings[i], want)
				}
			}
			if got := config.Kubernetes[0].WaitForSynchronization; got != test.wait {
				t.Errorf("waitForSynchronization is %v", got)
			}
		})
	}
}

func TestParseConfigDetails(t *testing.T) {
	parse := func(t *testing.T, config string) *Config {
		t.Helper()
		parsed, err := ParseConfig(Module, []byte(config))
		must(t, err)
		return parsed
	}
	t.Run("the old name of executeHookOnEvent alone (C15)", func(t *testing.T) {
		config := parse(t, `{"configVersion": "v1", "kubernetes": [{"kind": "Pod", "watchEvent": ["Added", "Added"]}]}`)
		if got := config.Kubernetes[0].Events; !reflect.DeepEqual(got, []string{Added}) {
			t.Errorf("events %v", got)
		}
	})
	t.Run("words of YAML 1.1 for true and false, not in quotes (X32)", func(t *testing.T) {
		config := parse(t, `
configVersion: v1
schedule: [{crontab: "@daily", allowFailure: yes}]
kubernetes:
- {kind: Pod, name: "on", queue: 'off', executeHookOnSynchronization: no, waitForSynchronization: Off, keepFullObjectsInMemory: On, labelSelector: {matchLabels: {x: "yes"}}}
`)
		if got := config.Kubernetes[0]; got.ExecuteOnSynchronization || got.WaitForSynchronization || !got.KeepFullObjects || !config.Schedules[0].AllowFailure {
			t.Errorf("binding %+v, schedule %+v", got, config.Schedules[0])
		}
		if got := config.Kubernetes[0]; got.Name != "on" || got.Queue != "off" || got.Labels.MatchLabels["x"] != "yes" {
			t.Errorf("texts of binding %+v", got)
		}
		_, err := ParseConfig(Module, []byte(`{"configVersion": "v1", "schedule": [{"crontab": "@daily", "allowFailure": "yes"}]}`))
		if err == nil || !strings.Contains(err.Error(), "schedule[0].allowFailure: must be a boolean, is a string") {
			t.Errorf("in quotes: error %v", err)
		}
	})
	t.Run("one of the settings alone (C10)", func(t *testing.T) {
		config := parse(t, `{"configVersion": "v1", "onStartup": 1, "settings": {"executionMinInterval": "1m"}}`)
		if config.Settings != (Settings{ExecutionMinInterval: time.Minute}) {
			t.Errorf("settings %+v", config.Settings)
		}
	})
	t.Run("an empty list of names means all (C15)", func(t *testing.T) {
		config := parse(t, `{"configVersion": "v1", "kubernetes": [{"kind": "Pod", "nameSelector": {"matchNames": []}, "fieldSelector": {"matchExpressions": [{"field": "metadata.name", "operator": "==", "value": "a,b"}, {"field": "x", "operator": "!=", "value": "y"}]}}]}`)
		if got := config.Kubernetes[0]; len(got.Names) != 0 || got.Fields != `metadata.name=a\,b,x!=y` {
			t.Errorf("names %v, fields %s", got.Names, got.Fields)
		}
	})
	t.Run("empty texts mean the defaults", func(t *testing.T) {
		config := parse(t, `{"configVersion": "v1", "kubernetes": [{"kind": "Pod", "name": "", "queue": "", "group": "", "jqFilter": ""}]}`)
		if got := config.Kubernetes[0]; got.Name != "kubernetes" || got.Queue != MainQueue || got.Filter != nil {
			t.Errorf("binding %+v", got)
		}
	})
	t.Run("an order beyond 64 bits", func(t *testing.T) {
		config := parse(t, "configVersion: v1\nbeforeHelm: 18446744073709551615")
		if order, ok := config.Order(BeforeHelm); !ok || order != 18446744073709551615 {
			t.Errorf("order %v", order)
		}
	})
	t.Run("a group without kubernetes bindings (C34)", func(t *testing.T) {
		config := parse(t, `{"configVersion": "v1", "schedule": [{"crontab": "@daily", "group": "g"}]}`)
		if got := config.Schedules[0]; got.Group != "g" || len(got.Snapshots) != 0 {
			t.Errorf("schedule %+v", got)
		}
	})
}

// O1: webhooks are not served, so no hook may ask for one, and no context has their shapes.
func TestWebhooksAreRefused(t *testing.T) {
	for _, binding := range []string{"kubernetesValidating", "kubernetesMutating", "kubernetesCustomResourceConversion"} {
		for _, scope := range []Scope{Global, Module} {
			for _, version := range []string{"", `"configVersion": "v1", `} {
				_, err := ParseConfig(scope, []byte(`{`+version+`"onStartup": 1, "`+binding+`": [{"name": "a.example.com"}]}`))
				if err == nil || !strings.Contains(err.Error(), binding+": is a webhook, and webhooks are not served; see docs/hooks.md") {
					t.Errorf("%s in a %s hook with %q: error %v", binding, scope, version, err)
				}
			}
		}
	}
	shapes, err := filepath.Glob(filepath.Join("testdata", "contexts", "*.json"))
	if err != nil || len(shapes) == 0 {
		t.Fatalf("no golden files: %v", err)
	}
	for _, path := range shapes {
		text, err := os.ReadFile(path)
		must(t, err)
		for _, word := range []string{"Validating", "Mutating", "Conversion", `"review"`} {
			if strings.Contains(string(text), word) {
				t.Errorf("%s speaks of %s", path, word)
			}
		}
	}
}

// The report on a configuration in which everything is wrong and long is short. C7
func TestMistakesOfLongConfigurationsAreShort(t *testing.T) {
	var config strings.Builder
	config.WriteString("configVersion: v1\nonStartup: 1\n" + strings.Repeat("k", 1000) + ": 1\nkubernetes:\n")
	for i := range 200 {
		fmt.Fprintf(&config, "- {kind: Pod, name: %s%d, includeSnapshotsFrom: [none]}\n", strings.Repeat("n", 1000), i)
	}
	config.WriteString("settings: {executionBurst: 2000000}\n")
	_, err := ParseConfig(Module, []byte(config.String()))
	const most = 150_000
	if err == nil || len(err.Error()) > most || !strings.Contains(err.Error(), "settings.executionBurst: must be at most 1000000, is 2000000") {
		t.Errorf("%d bytes: %.2000s", len(fmt.Sprint(err)), err)
	}
	_, err = ParseConfig(Module, []byte(strings.ReplaceAll(strings.ReplaceAll(config.String(), "2000000", "2"), strings.Repeat("k", 1000)+": 1\n", "")))
	if err == nil || len(err.Error()) > most || !strings.Contains(err.Error(), "is not the name of a kubernetes binding of this hook") {
		t.Errorf("%d bytes: %.2000s", len(fmt.Sprint(err)), err)
	}
}
