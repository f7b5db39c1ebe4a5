package operator

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"addon-operator/actors"
	"addon-operator/actors/scenario"

	"addon-operator/addons"
	"addon-operator/cmd/cli"
	"addon-operator/kube"
	"addon-operator/server"
	"addon-operator/testkit"
)

// running is a real operator with a cluster in memory, and its debug pages.
type running struct {
	t       *testing.T
	dir     string
	cluster *scenario.Cluster
	pages   *httptest.Server
}

// ingressFiles are the modules and hooks of the tests, by path.
func ingressFiles() map[string]string {
	return map[string]string{
		"modules/values.yaml":             "global: {clusterName: dev}\ningressEnabled: true\ningress: {replicas: 1, image: nginx}\n",
		"modules/010-ingress/values.yaml": "ingress: {service: {type: ClusterIP}}\n",
		"modules/010-ingress/openapi/config-values.yaml": `
type: object
properties:
  replicas: {type: integer}
  image: {type: string}
  adminPassword: {type: string}
  logLevel: {type: string, default: info}
  service: {type: object, properties: {type: {type: string}}}
`,
		"modules/010-ingress/openapi/values.yaml": "x-extend: {schema: config-values.yaml}\ntype: object\nproperties: {nodes: {type: array}}\n",
		"global-hooks/g.sh":                       "#!testkit\nconfig: {configVersion: v1, schedule: [{crontab: '0 3 * * *'}]}\n",
		"modules/010-ingress/hooks/h.sh": `#!testkit
config:
  configVersion: v1
  onStartup: 1
  schedule: [{name: tick, crontab: "0 3 * * *", queue: slow}]
  kubernetes: [{name: tokens, kind: Secret, nameSelector: {matchNames: [t]}, jqFilter: .data, executeHookOnSynchronization: false, keepFullObjectsInMemory: false}]
runs:
  onStartup:
    values: [{op: add, path: /ingress/nodes, value: [one, two]}]
    config: [{op: add, path: /ingress/adminPassword, value: s3cret}]
`,
		"modules/010-ingress/Chart.yaml":     "apiVersion: v2\nname: ingress\nversion: 1.0.0\n",
		"modules/020-dns-server/values.yaml": "dnsServer: {zone: cluster.local}\n",
	}
}

func startRunning(t *testing.T) *running {
	t.Helper()
	r := &running{t: t, dir: t.TempDir()}
	for name, text := range ingressFiles() {
		mode := os.FileMode(0o644)
		if strings.HasSuffix(name, ".sh") {
			mode = 0o755
		}
		path := filepath.Join(r.dir, name)
		must(t, errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), mode), os.MkdirAll(filepath.Join(r.dir, "global-hooks"), 0o755)))
	}
	trace := testkit.NewTrace()
	r.cluster = scenario.NewCluster(scenario.DefaultVersion, nil)
	must(t, r.cluster.ConfigMap.Set(map[string]string{"ingress": "replicas: 2"}))
	must(t, r.cluster.Server.Apply(map[string]any{"apiVersion": "v1", "kind": "Secret", "metadata": map[string]any{"name": "t", "namespace": "n"}, "data": map[string]any{"a": "s3cret"}}))
	releases, err := testkit.NewReleases(r.cluster, trace)
	must(t, err)
	operator := actors.New(actors.World{
		Services: actors.Services{
			Log: slog.New(slog.DiscardHandler), Hooks: testkit.NewHooks(trace), Releases: releases, Plans: releases, WriteContext: t.Context(),
			Dirs: addons.Dirs{Modules: []string{filepath.Join(r.dir, "modules")}, Global: filepath.Join(r.dir, "global-hooks"), UnnumberedOrder: 1},
		},
		ConfigMap: r.cluster.ConfigMap,
		Watch: func(ctx context.Context, spec kube.Spec, notify func(kube.Change), synced func()) (actors.Watch, error) {
			return r.cluster.WatchObjects(ctx, spec, notify, synced)
		},
		Renderer: renderedByHand{},
	})
	r.pages = httptest.NewServer(server.Debug(server.Source{
		Inspector: operator.Inspector(), Converge: operator.Converge, Ask: operator.Ask, Version: "v1.2.3",
		Metrics: operator.Metrics().Registry, HookMetrics: operator.Metrics().HookRegistry, Render: operator.Render, ConfigMap: "addons/addon-operator", Parameters: &logLevel{log: slog.New(slog.DiscardHandler), level: &slog.LevelVar{}}, Plan: operator.Plan,
		Hide: operator.Hide, History: &server.History{}, Hanging: operator.HangingHooks, NotInForce: operator.NotInForce, Observed: operator.Observed,
	}))
	t.Cleanup(r.pages.Close)
	if _, err := r.run("values", "explain", "global"); err == nil {
		t.Error("somebody answers before the start")
	}
	must(t, operator.Start(t.Context()))
	t.Cleanup(func() {
		must(t, operator.Stop(context.Background()))
	})
	r.until("the first converge", func() bool {
		return operator.Converge().Ready
	})
	// The converge ends before its last task has left the queue; a queue, or a disabled module, is listed when its actor
	// has started.
	r.until("idle queues", func() bool {
		out, err := r.run("queue", "list", "-o", "json")
		modules, _ := r.run("module", "list")
		return err == nil && strings.Contains(out, `"totalTasks": 0`) && strings.Contains(out, `"empty": 1`) && strings.Contains(modules, "dns-server")
	})
	return r
}

// until polls: the actors run in real time.
func (r *running) until(what string, done func() bool) {
	r.t.Helper()
	for deadline := time.Now().Add(2 * time.Minute); !done(); <-time.After(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			r.t.Fatalf("%s does not come", what)
		}
	}
}

// run executes a command line against the operator. Times, versions and the directory are masked.
func (r *running) run(args ...string) (string, error) {
	out, err := commanded(append(args, "--debug-address", strings.TrimPrefix(r.pages.URL, "http://"))...)
	out = regexp.MustCompile(`\d{4}-\d\d-\d\dT[0-9:.]+(Z|[+-]\d\d:\d\d)`).ReplaceAllString(out, "TIME")
	out = regexp.MustCompile(`resourceVersion \d+`).ReplaceAllString(out, "resourceVersion N")
	return strings.ReplaceAll(out, r.dir, "$DIR"), err
}

func (r *running) want(command, want string) {
	r.t.Helper()
	got, err := r.run(strings.Fields(command)...)
	if squeeze(got) != squeeze(want) || err != nil {
		r.t.Errorf("%s: %v\n%s\nwant\n%s", command, err, got, want)
	}
}

// squeeze forgets space: how wide the columns of a table are, and how JSON is indented.
func squeeze(text string) string { return strings.Join(strings.Fields(text), "") }

// Issue 4, provenance: explain names layer, file or hook, task and time, and what was overridden; secrets are shown
// on request only.
func TestExplain(t *testing.T) {
	r := startRunning(t)
	r.want("values explain ingress", `
PATH                   VALUE          LAYER      FROM                                    TASK  SINCE
ingress.adminPassword  "***"          ConfigMap  010-ingress/hooks/h.sh                  3     TIME
ingress.image          "nginx"        file       values.yaml                             -     -
ingress.logLevel       "info"         default    010-ingress/openapi/config-values.yaml  -     -
ingress.nodes          ["one","two"]  patch      010-ingress/hooks/h.sh                  3     TIME
ingress.replicas       2              ConfigMap  resourceVersion N                       -     TIME
  overrides            1              file       values.yaml                             -     -
ingress.service.type   "ClusterIP"    file       010-ingress/values.yaml                 -     -`)
	zone := `
PATH            VALUE            LAYER  FROM                        TASK  SINCE
dnsServer.zone  "cluster.local"  file   020-dns-server/values.yaml  -     -`
	for _, command := range []string{"explain dns-server zone", "explain dnsServer.zone", "explain dns-server.zone", "explain /dnsServer/zone", "explain dnsServer dnsServer.zone"} {
		r.want("values "+command, zone)
	}
	r.want("values explain global.clusterName -o yaml", `
- path: global.clusterName
  sources:
  - file: values.yaml
    layer: file
    value: dev`)
	r.want("values explain ingress.adminPassword --show-secrets -o json", `
[{
  "path": "ingress.adminPassword", "secret": true,
  "sources": [{"layer": "ConfigMap", "hook": "010-ingress/hooks/h.sh", "task": "3", "time": "TIME", "value": "s3cret"}]
}]`)
}

// J6: the commands that show sections, and J4: the same pages for scripts.
func TestSectionsOfTheRunningOperator(t *testing.T) {
	r := startRunning(t)
	r.want("queue list -o json", `{"active": [], "summary": {"mainQueueTasks": 0, "otherQueues": {"active": 0, "empty": 1, "tasks": 0}, "totalTasks": 0}}`)
	r.want("queue list -e -o yaml", "active: [] empty: - name: main tasksCount: 0 - name: slow tasksCount: 0 summary: mainQueueTasks: 0 otherQueues: active: 0 empty: 1 tasks: 0 totalTasks: 0")
	r.want("queue main", `Queue "main" is empty. 0 tasks in 1 queues.`)
	r.want("module config ingress", "adminPassword: '***'\nreplicas: 2")
	r.want("module config ingress --show-secrets -o json", `{"adminPassword": "s3cret", "replicas": 2}`)
	r.want("module values dns-server --global", "dnsServer:\n  zone: cluster.local\nglobal:\n  clusterName: dev")
	r.want("global values", "clusterName: dev")
	r.want("global config", "{}")
	r.want("global patches -o json", "[]")
	r.want("module patches ingress", `
- hook: 010-ingress/hooks/h.sh
  op: add
  path: /ingress/nodes
  task: "3"
  time: "TIME"
  value:
  - one
  - two`)
	for path, want := range map[string]string{
		"/module/list.text":               "ingress",
		"/module/ingress/config.yaml":     "adminPassword: '***'\nreplicas: 2",
		"/global/values.json":             `{"clusterName": "dev"}`,
		"/global/values?global=true":      `{"clusterName": "dev"}`,
		"/module/ingress/secrets":         `page /module/ingress/secrets not found; /discovery lists all`,
		"/module/nothing/values":          `module "nothing" not found; available: dns-server, ingress`,
		"/module/something":               "page /module/something not found; did you mean /module/something/status?; /discovery lists all",
		"/values/explain":                 "a path is required: ?path=global.a.b or ?module=NAME&path=a.b",
		"/values/explain?path=x":          `module "x" not found; available: dns-server, ingress`,
		"/values/explain?path=ingress.no": "there is no ingress.no; ingress has adminPassword, image, logLevel, nodes, replicas, service",
	} {
		if _, body := fetch(t, r.pages.URL+path); squeeze(body) != squeeze(want) {
			t.Errorf("%s: %s, want %s", path, body, want)
		}
	}
}

func fetch(t *testing.T, url string) (status int, body string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	must(t, err)
	resp, err := http.DefaultClient.Do(req)
	must(t, err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	must(t, err)
	return resp.StatusCode, string(text)
}

// J7: values are not on the public address.
func TestValuesAreNotPublic(t *testing.T) {
	public := httptest.NewServer(server.Public(server.Source{Hide: strings.Clone}))
	defer public.Close()
	for _, path := range []string{"/global/values", "/module/a/values", "/module/list", "/values/explain?path=global"} {
		if status, _ := fetch(t, public.URL+path); status != http.StatusNotFound {
			t.Errorf("%s: %d", path, status)
		}
	}
}

func TestValuesCommandsRefuse(t *testing.T) {
	for _, args := range []string{
		"values explain", "values explain a b c", "values explain a -o xml", "module values",
		"module values a b", "module list x", "global values x", "module values a -o xml", "module list -w --every 0s",
		"module render", "queue list a b", "config set a", "raw a b", "why", "why a -o xml", "hook snapshots", "module snapshots",
	} {
		_, err := commanded(strings.Fields(args)...)
		var usage cli.UsageError
		if !errors.As(err, &usage) {
			t.Errorf("%s: %v", args, err)
		}
	}
}

// must ends the test over an error of what it needs only.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
