package hooks

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v5"
	"golang.org/x/tools/txtar"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"addon-operator/testkit/golden"
	"addon-operator/values"
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
	for situation, test := range map[string]struct{ printed, want string }{
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
	} {
		t.Run(situation, func(t *testing.T) {
			wantError(t, second(ParseConfig(Module, []byte(test.printed))), test.want)
		})
	}
}

func TestParseConfigWarns(t *testing.T) {
	for situation, test := range map[string]struct {
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
	} {
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
		wantError(t, err, "schedule[0].allowFailure: must be a boolean, is a string")
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

func TestByOrder(t *testing.T) {
	hook := func(name string, orders map[BindingType]float64) Hook {
		return Hook{File: File{Name: name}, Config: &Config{Version: V1, Orders: orders}}
	}
	hooks := []Hook{
		hook("c", map[BindingType]float64{BeforeHelm: 10}),
		hook("b", map[BindingType]float64{BeforeHelm: 5}),
		hook("other", map[BindingType]float64{AfterHelm: 1}),
		{File: File{Name: "never asked"}},
		hook("a", map[BindingType]float64{BeforeHelm: 5}),
		hook("first", map[BindingType]float64{BeforeHelm: -0.5}),
	}

	var names []string
	for _, hook := range ByOrder(hooks, BeforeHelm) {
		names = append(names, hook.Name)
	}

	if want := []string{"first", "a", "b", "c"}; !slices.Equal(names, want) { // C9
		t.Errorf("order %v, want %v", names, want)
	}
	if hooks[0].Name != "c" {
		t.Error("the given slice was sorted in place")
	}
	if got := ByOrder(hooks, AfterAll); len(got) != 0 {
		t.Errorf("hooks without the binding: %v", got)
	}
}

func TestOrderSnapshots(t *testing.T) {
	bound := []KubernetesBinding{{Binding: Binding{Name: "nodes"}}, {Binding: Binding{Name: "cfg"}}, {Binding: Binding{Name: "nodes"}}}
	for situation, test := range map[string]struct {
		config  *Config
		binding BindingType
		want    []string
		absent  bool
	}{
		"all bindings, each once (C31)":    {&Config{Version: V1, Kubernetes: bound}, BeforeHelm, []string{"nodes", "cfg"}, false},
		"present for a hook without any":   {&Config{Version: V1}, AfterAll, []string{}, false},
		"absent for onStartup (C31)":       {&Config{Version: V1, Kubernetes: bound}, OnStartup, nil, true},
		"absent in protocol v0 (C20)":      {&Config{Version: V0, Kubernetes: bound}, BeforeHelm, nil, true},
		"absent for a hook without answer": {nil, BeforeHelm, nil, true},
	} {
		t.Run(situation, func(t *testing.T) {
			got := test.config.OrderSnapshots(test.binding)
			if !slices.Equal(got, test.want) || (got == nil) != test.absent {
				t.Errorf("got %#v, want %#v", got, test.want)
			}
		})
	}
}

func TestConfigure(t *testing.T) { // C1, C2, X1
	runner, log := newRunner(t, Options{})
	hook := script(t, `
[[ $# -eq 1 && $1 == --config && $WORKING_DIR == /hooks && $PWD == "$(dirname "$0")" ]] || exit 9
echo "asked for the configuration" >&2
echo "configVersion: v1"
echo "onStartup: 5"`)
	found, err := runner.Configure(t.Context(), hook.File, "/hooks", Global)
	if err != nil || len(found) != 1 {
		t.Fatalf("%d hooks, %v", len(found), err)
	}
	if order, ok := found[0].Config.Order(OnStartup); !ok || order != 5 {
		t.Errorf("config %+v", found[0].Config)
	}
	if got := log.messages(t); !slices.Equal(got, []string{"asked for the configuration"}) {
		t.Errorf("log %q", got)
	}
}

func TestConfigureFails(t *testing.T) { // C1
	for situation, test := range map[string]struct {
		script string
		want   []string
	}{
		"by its exit code": {`echo '{"onStartup": 1}'; echo "no jq here" >&2; exit 3`, []string{"--config: ", "exit code 3: no jq here"}},
		"by the schema, with what it printed": {
			`echo '{"configVersion": "v1", "beforeAll": true}'`,
			[]string{"beforeAll: must be a number, is a boolean", "it printed: {\"configVersion\": \"v1\", \"beforeAll\": true}"}},
		"by the first 200 bytes of a long output": {
			`printf 'x%.0s' {1..199}; printf '\x1by%.0s' {1..100}`, []string{strings.Repeat("x", 199) + `\x1b…`}},
		"by printing nothing":         {`echo hello >&2`, []string{"the hook printed nothing"}},
		"by printing too many values": {`printf 'a: ['; yes 1, | head -50000 | tr -d '\n'; echo ']'`, []string{"more than 50000 keys and values"}},
		"by printing too many keys":   {`for i in {1..30000}; do echo "a$i: 1"; done`, []string{"more than 50000 keys and values"}},
		"by many mistakes":            {`echo 'configVersion: v1'; for i in {1..200}; do echo "a$i: 1"; done`, []string{"has 101 mistakes", "there are more problems; fix these first"}},
		"by printing too much":        {`head -c 1100000 /dev/zero`, []string{"printed more than 1048576 bytes"}},
	} {
		t.Run(situation, func(t *testing.T) {
			runner, _ := newRunner(t, Options{})
			_, err := runner.Configure(t.Context(), script(t, test.script).File, "/", Global)
			wantError(t, err, append(test.want, "hook 001-m/hooks/hook.sh")...)
		})
	}
}

func TestConfigureIsCancelled(t *testing.T) {
	runner, _ := newRunner(t, Options{})
	hook := script(t, `touch ready; sleep 1000`)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		until(t, "the hook is ready", func() bool { return exists(filepath.Join(filepath.Dir(hook.Path), "ready")) })
		cancel()
	}()
	if _, err := runner.Configure(ctx, hook.File, "/", Global); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
}

func TestSchemasAreSchemas(t *testing.T) {
	for name, schema := range map[string][]byte{V0: configV0Schema, V1: configV1Schema} {
		if _, err := jsonschema.CompileString("config.json", string(schema)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// The schema is one for both scopes; together they allow exactly the table of C8.
func TestSchemasAllowTheBindingsOfBothScopes(t *testing.T) { // C8
	for version, schema := range map[string][]byte{V0: configV0Schema, V1: configV1Schema} {
		var parsed struct{ Properties map[string]any }
		must(t, json.Unmarshal(schema, &parsed))
		want := append(allowedBindings(Global, version), allowedBindings(Module, version)...)
		for key := range parsed.Properties {
			if key != "settings" && key != "configVersion" && !slices.Contains(want, key) {
				t.Errorf("%s: the schema allows %s, which is no binding", version, key)
			}
		}
		for _, binding := range want {
			if _, ok := parsed.Properties[binding]; !ok {
				t.Errorf("%s: the schema does not know %s", version, binding)
			}
		}
	}
}

// The schema that editors use is the one that validates.
func TestTheSchemaInDocsIsThisOne(t *testing.T) {
	shown, err := os.ReadFile("../docs/hook-config.v1.schema.json")
	must(t, err)
	if !bytes.Equal(shown, configV1Schema) {
		t.Error("docs/hook-config.v1.schema.json is not hooks/config.v1.schema.json; make it a symbolic link to it")
	}
}

// An editor shows title and description of each property, its own or those of what it refers to.
func TestTheSchemaExplainsEveryProperty(t *testing.T) {
	var schema map[string]any
	must(t, json.Unmarshal(configV1Schema, &schema))
	explained := func(rule map[string]any, word string) bool {
		if text, _ := rule[word].(string); text != "" {
			return true
		}
		pointer, _ := rule["$ref"].(string)
		definitions, _ := schema["$defs"].(map[string]any)
		below, _ := definitions[strings.TrimPrefix(pointer, "#/$defs/")].(map[string]any)
		text, _ := below[word].(string)
		return text != "" && pointer != ""
	}
	var visit func(path string, node any)
	visit = func(path string, node any) {
		rule, ok := node.(map[string]any)
		if !ok {
			return
		}
		properties, _ := rule["properties"].(map[string]any)
		for name, property := range properties {
			property, _ := property.(map[string]any)
			if !explained(property, "title") {
				t.Errorf("%s/%s has no title", path, name)
			}
			_, structured := property["properties"]
			if !structured && !explained(property, "description") && name != "settings" && name != "nameSelector" {
				t.Errorf("%s/%s has no description", path, name)
			}
		}
		for key, below := range rule {
			visit(path+"/"+key, below)
		}
	}
	visit("", any(schema))
}

// Every object is closed: a key that is ignored silently is the mistake that takes longest to find.
func TestSchemasCloseEveryObject(t *testing.T) { // C7
	var visit func(path string, node any)
	visit = func(path string, node any) {
		rule, ok := node.(map[string]any)
		if !ok {
			return
		}
		if rule["type"] == "object" {
			if _, closed := rule["additionalProperties"]; !closed {
				t.Errorf("%s is open", path)
			}
		}
		for key, below := range rule {
			visit(path+"/"+key, below)
		}
	}
	for version, schema := range map[string][]byte{V0: configV0Schema, V1: configV1Schema} {
		var parsed any
		must(t, json.Unmarshal(schema, &parsed))
		visit(version, parsed)
	}
}

func readDocs(t *testing.T) string {
	t.Helper()
	text, err := os.ReadFile("../docs/hooks.md")
	must(t, err)
	return string(text)
}

// The contexts that docs/hooks.md shows are those of the golden files.
func TestDocsShowContexts(t *testing.T) {
	shown := map[string]string{}
	for _, found := range regexp.MustCompile("(?s)<!-- context: ([a-z0-9-]+) -->\n```json\n(.*?)```").FindAllStringSubmatch(readDocs(t), -1) {
		shown[found[1]] = found[2]
	}
	if len(shown) < 8 {
		t.Errorf("%d contexts", len(shown))
	}
	for name, context := range shown {
		golden, err := os.ReadFile("testdata/contexts/" + name + ".json")
		if got, want := compacted(t, context), compacted(t, string(golden)); err != nil || got != want {
			t.Errorf("%s: %v; docs/hooks.md shows\n%s\nthe golden file has\n%s", name, err, got, want)
		}
	}
}

func compacted(t *testing.T, text string) string {
	t.Helper()
	var out bytes.Buffer
	if err := json.Compact(&out, []byte(text)); err != nil && text != "" {
		t.Errorf("%v in %s", err, text)
	}
	return out.String()
}

// The examples of docs/hooks.md are accepted.
func TestDocsAreRight(t *testing.T) {
	docs := readDocs(t)
	configs := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindAllStringSubmatch(docs, -1)
	if len(configs) == 0 {
		t.Error("no configuration is shown")
	}
	for _, config := range configs {
		if _, err := ParseConfig(Module, []byte(config[1])); err != nil {
			t.Errorf("%v\n%s", err, config[1])
		}
	}
	metrics := regexp.MustCompile("(?s)<!-- metrics -->\n```json\n(.*?)```").FindStringSubmatch(docs)
	if metrics == nil {
		t.Fatal("no metrics are shown")
	}
	parsed, warnings, err := ParseMetrics([]byte(metrics[1]))
	if err != nil || warnings != nil || len(parsed) != strings.Count(metrics[1], "\n") {
		t.Errorf("%d metrics, %v", len(parsed), err)
	}
}

// batchScript speaks as the module SDK does, and writes down what it is run with.
const batchScript = `#!/usr/bin/env bash
case "$1 $2" in
"hook config")
  echo '{"level":"info","msg":"a log record before the list"}'
  cat <<'END'
{"version": "v1", "has_settings_check": true, "hooks": [
  {"configVersion": "v1", "metadata": {"name": "nodes", "path": "x"}, "beforeHelm": 5, "logLevel": "debug", "allowFailure": true,
   "settings": {"executionMinInterval": 3000000000, "executionBurst": 2, "enableSchedulesOnStartup": true},
   "kubernetes": [{"name": "nodes", "apiVersion": "v1", "kind": "Node", "jqFilter": ".metadata.name", "keepFullObjectsInMemory": false,
     "executeHookOnEvent": false, "executeHookOnSynchronization": true, "queue": "slow"}],
   "schedule": [{"crontab": "* * * * *", "allowFailure": false}]},
  {"configVersion": "v1", "metadata": {"name": "nodes"}, "onStartup": 0, "kubernetes": [{"name": "pods", "kind": "Pod", "executeHookOnEvent": true}]}],
 "readiness": {"configVersion": "v1", "metadata": {"name": "readiness"}, "schedule": [{"name": "probe", "crontab": "*/15 * * * * *"}]}}
END
  ;;
"hook run" | "hook ready") echo "$*" >>"$(dirname "$0")/journal" ;;
"hook check")
  case $(cat "$SETTINGS_PATH") in
  '{}') ;;
  '{"replicas":2}') echo '{"valid": true, "message": "", "warnings": ["better three"]}' >&2; exit 1 ;;
  '{"replicas":0}') echo "a log line" >&2; echo '{"valid": false, "message": "replicas cannot be 0", "warnings": null}' >&2; exit 1 ;;
  *) exit 7 ;;
  esac ;;
*) exit 9 ;;
esac
`

func batchFile(t *testing.T, name, text string) File {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	must(t, os.WriteFile(path, []byte(text), 0o755))
	return File{Name: "010-dns/hooks/" + name, Path: path}
}

// One file is several hooks, each with a name of its own; the snapshots of each are one group, as
// the SDK reads them, and the probe of the module holds nothing up.
func TestBatchIsSeveralHooks(t *testing.T) {
	runner, _ := newRunner(t, Options{})
	file := batchFile(t, "batch", batchScript)
	found, err := runner.Configure(t.Context(), file, "/", Module)
	must(t, err)
	var names []string
	for _, hook := range found {
		names = append(names, hook.Name)
	}
	if want := []string{file.Name + ":nodes:0", file.Name + ":nodes:1", file.Name + ":ready", file.Name + ":check"}; !slices.Equal(names, want) {
		t.Fatalf("hooks %q, want %q", names, want)
	}

	first := found[0].Config
	watch, tick := first.Kubernetes[0], first.Schedules[0]
	if order, ok := first.Order(BeforeHelm); !ok || order != 5 {
		t.Errorf("beforeHelm: %v, %v", order, ok)
	}
	if watch.Group != "main" || tick.Group != "main" || len(watch.Events) != 0 || watch.KeepFullObjects || watch.Queue != "slow" || !watch.AllowFailure || tick.AllowFailure {
		t.Errorf("bindings %+v, %+v", watch, tick)
	}
	if want := (Settings{ExecutionMinInterval: 3 * time.Second, ExecutionBurst: 2}); first.Settings != want {
		t.Errorf("settings %+v, want %+v", first.Settings, want)
	}
	if bound := ByOrder(found, BeforeHelm); len(bound) != 2 || bound[0].Batch != "check" {
		t.Errorf("the settings are not checked first: %v", bound)
	}
	for section, want := range map[string]string{
		`{}`: "", `{"replicas": 2}`: "better three", `{"replicas": 0}`: "the settings are not valid: replicas cannot be 0", `{"replicas": 7}`: "exit code 7",
	} {
		config, err := values.ParseYAML([]byte(`{"global": {"replicas": 0}, "dns": ` + section + `}`))
		must(t, err)
		result, err := runner.Run(t.Context(), Run{Hook: found[3], WorkingDir: "/", ConfigValues: config})
		if got := fmt.Sprint(result.Warnings, err); want == "" && err != nil || !strings.Contains(got, want) {
			t.Errorf("settings %s: %s, want %q", section, got, want)
		}
	}
	if events := found[1].Config.Kubernetes[0].Events; len(events) != 3 {
		t.Errorf("executeHookOnEvent: true is events %q, want all", events)
	}
	if probe := found[2].Config.Schedules[0]; !probe.AllowFailure || probe.Queue != "ready:"+file.Name {
		t.Errorf("readiness %+v", probe)
	}

	for _, hook := range found {
		if _, err := runner.Run(t.Context(), Run{Hook: hook, WorkingDir: "/"}); err != nil {
			t.Error(err)
		}
	}
	journal, err := os.ReadFile(filepath.Join(filepath.Dir(file.Path), "journal"))
	if want := "hook run 0\nhook run 1\nhook ready\n"; err != nil || string(journal) != want {
		t.Errorf("ran %q, %v; want %q", journal, err, want)
	}
}

// The list of the first versions of the SDK has nothing around it.
func TestBatchOfTheFirstVersions(t *testing.T) {
	runner, _ := newRunner(t, Options{})
	found, err := runner.Configure(t.Context(), batchFile(t, "batch", "#!/bin/sh\n# hook config\necho '[{\"configVersion\": \"v1\", \"onStartup\": 1}]'\n"), "/", Global)
	if err != nil || len(found) != 1 || found[0].Batch != "0" {
		t.Errorf("%+v, %v; want one hook", found, err)
	}
}

// What is wrong in a batch is named by hook; the others are found all the same.
func TestMistakesInABatch(t *testing.T) {
	runner, _ := newRunner(t, Options{})
	for situation, test := range map[string]struct {
		printed, want string
		hooks         int
	}{
		"a webhook":          {`{"version": "v1", "hooks": [{"configVersion": "v1", "onStartup": 1}, {"configVersion": "v1", "metadata": {"name": "web"}, "kubernetesValidating": [{"name": "a.b.c"}]}]}`, "batch:web:1: ", 1},
		"another version":    {`{"version": "v2", "hooks": [{"onStartup": 1}]}`, `version "v2"`, 0},
		"no list":            {`hello`, "no list of hooks", 0},
		"nothing":            {``, "no list of hooks", 0},
		"bindings by chance": {`{"version": "v1", "hooks": [{"configVersion": "v1", "kubernetes": 5}]}`, "batch:0: ", 0},
	} {
		t.Run(situation, func(t *testing.T) {
			found, err := runner.Configure(t.Context(), batchFile(t, "batch", "#!/bin/sh\n# hook config\necho '"+test.printed+"'\n"), "/", Module)
			if err == nil || !strings.Contains(err.Error(), test.want) || len(found) != test.hooks {
				t.Errorf("%d hooks, error %v; want %d and %q", len(found), err, test.hooks, test.want)
			}
		})
	}
}

// A hook is never run to find out whether it is a batch: with those arguments it would do its work.
func TestOrdinaryHooksAreNotAskedForABatch(t *testing.T) {
	for name, text := range map[string]string{
		"plain":     "#!/bin/sh\nif [ \"$1\" = --config ]; then exit 1; fi\necho hook config >>journal\n",
		"library":   "#!/bin/bash\n. /lib.sh\n__config__() { echo; }\nhook::run \"$@\"\n",
		"hook.sh":   "#!/bin/sh\n# hook config\n",
		"no-script": "hook config",
	} {
		if isBatch(batchFile(t, name, text).Path) {
			t.Errorf("%s counts as a batch", name)
		}
	}
}

// A program that has the SDK among its modules is one, whatever its name.
func TestProgramWithTheSDKIsABatch(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.mod":     "module hooks.example.com/dns\n\ngo 1.24\n\nrequire github.com/deckhouse/module-sdk v0.1.0\n\nreplace github.com/deckhouse/module-sdk => ./sdk\n",
		"main.go":    "package main\n\nimport \"github.com/deckhouse/module-sdk/app\"\n\nfunc main() { app.Run() }\n",
		"sdk/go.mod": "module github.com/deckhouse/module-sdk\n\ngo 1.24\n",
		"sdk/app/app.go": "package app\n\nimport \"os\"\n\nfunc Run() {\n\tif len(os.Args) == 3 && os.Args[1] == \"hook\" && os.Args[2] == \"config\" {\n" +
			"\t\tos.Stdout.WriteString(`{\"version\": \"v1\", \"hooks\": [{\"configVersion\": \"v1\", \"afterHelm\": 1}]}`)\n\t\treturn\n\t}\n\tos.Exit(1)\n}\n",
	} {
		write(t, filepath.Join(dir, name), text, 0o644)
	}
	build := exec.Command("go", "build", "-o", "hooks.bin", ".")
	build.Dir = dir
	build.Env = append(os.Environ(), "GOWORK=off", "GOPROXY=off", "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	runner, _ := newRunner(t, Options{})
	found, err := runner.Configure(t.Context(), File{Name: "hooks.bin", Path: filepath.Join(dir, "hooks.bin")}, dir, Module)
	if err != nil || len(found) != 1 || found[0].Name != "hooks.bin:0" {
		t.Errorf("%+v, %v; want one hook", found, err)
	}
}
