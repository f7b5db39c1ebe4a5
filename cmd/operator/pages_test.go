package operator

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"sigs.k8s.io/yaml"

	"addon-operator/cmd/cli"
	"addon-operator/helm"
	"addon-operator/server"
)

// renderedByHand stands for Helm.
type renderedByHand struct{}

func (renderedByHand) Show(_ context.Context, m helm.Module) ([]helm.Document, error) {
	secret := map[string]any{"apiVersion": "v1", "kind": "Secret", "metadata": map[string]any{"name": m.Name}, "stringData": map[string]any{"a": "s3cret"}}
	return []helm.Document{{Source: m.Name + "/templates/secret.yaml", Text: "kind: Secret # s3cret\n", Objects: []map[string]any{secret}}}, nil
}

func (renderedByHand) Deployed(_ context.Context, name string, revision int) (objects []map[string]any, found int, err error) {
	old := map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": name}, "data": map[string]any{"url": "a"}}
	if revision == 2 {
		old = map[string]any{"apiVersion": "v1", "kind": "Secret", "metadata": map[string]any{"name": name}, "stringData": map[string]any{"a": "s3cret"}}
	}
	return []map[string]any{old}, 3, nil
}

// asked are the paths under which a route is asked for, in the fixture of the tests.
func asked(r server.Route) []string {
	fill := strings.NewReplacer("/module/{name}", "/module/ingress", "/hook/{name}", "/hook/010-ingress/hooks/h.sh", "/queue/{name}", "/queue/main")
	path := fill.Replace(r.Path)
	switch r.Path {
	case "/module/{name}/snapshots":
		return []string{path, "/module/dns-server/snapshots"}
	case "/module/{name}/values":
		return []string{path, "/module/dnsServer/values"}
	case "/values/explain":
		return []string{path + "?path=ingress"}
	}
	return []string{path}
}

// J4: every page of the debug address answers as JSON, YAML and text, by its extension and
// by a parameter, and never shows a secret that was not asked for.
func TestEveryPageInEveryFormat(t *testing.T) {
	r := startRunning(t)
	types := map[string]string{"json": "application/json", "yaml": "application/yaml", "text": "text/plain; charset=utf-8"}
	pages := 0
	for _, route := range server.Routes() {
		if route.Method != http.MethodGet || route.Public && route.Path != "/discovery" || strings.HasPrefix(route.Path, "/debug/") || strings.HasSuffix(route.Path, "{page}") {
			continue
		}
		for _, path := range asked(route) {
			bare, query, _ := strings.Cut(path, "?")
			for format, contentType := range types {
				for _, spelling := range []string{bare + "." + format + "?" + query, bare + "?output=" + format + "&" + query} {
					pages++
					status, header, body := r.fetch(http.MethodGet, spelling, nil)
					if status != http.StatusOK || header.Get("Content-Type") != contentType || body == "" {
						t.Errorf("%s: %d, %s, %q", spelling, status, header.Get("Content-Type"), body)
					}
					if err := parses(format, body); err != nil {
						t.Errorf("%s: %v\n%s", spelling, err, body)
					}
					if strings.Contains(body, "s3cret") {
						t.Errorf("%s shows a secret:\n%s", spelling, body)
					}
				}
			}
		}
	}
	if pages < 100 {
		t.Errorf("only %d pages", pages)
	}
}

func parses(format, body string) error {
	var tree any
	switch format {
	case "json":
		return json.Unmarshal([]byte(body), &tree)
	case "yaml":
		return yaml.Unmarshal([]byte(body), &tree)
	}
	return nil
}

func (r *running) fetch(method, path string, form url.Values) (status int, header http.Header, body string) {
	r.t.Helper()
	req, err := http.NewRequestWithContext(r.t.Context(), method, r.pages.URL+path, strings.NewReader(form.Encode()))
	if err != nil {
		r.t.Fatal(err)
	}
	if form != nil {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		r.t.Fatal(err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		r.t.Fatal(err)
	}
	return resp.StatusCode, resp.Header, string(text)
}

// What there is not is answered by a sentence that names what was probably meant.
func TestUnknownNames(t *testing.T) {
	r := startRunning(t)
	for path, want := range map[string]string{
		"/module/ingres/values":                  `404 module "ingres" not found; did you mean ingress?`,
		"/module/ingres/render":                  `404 module "ingres" not found; did you mean ingress?`,
		"/module/nothing/snapshots":              `404 module "nothing" not found; available: dns-server, ingress`,
		"/module/ingress/valeus":                 `404 page /module/ingress/valeus not found; did you mean /module/ingress/values?; /discovery lists all`,
		"/module/ingress/values.xml":             `404 page /module/ingress/values.xml not found; did you mean /module/ingress/values?; /discovery lists all`,
		"/module/list.xml":                       `404 page /module/list.xml not found; did you mean /module/list?; /discovery lists all`,
		"/module/list?output=xml":                `400 the format "xml" is not one of json, yaml, text, table, wide, name`,
		"/actors?format=png":                     `400 the format "png" is not one of json, yaml, text, table, wide, name`,
		"/modul/list":                            `404 page /modul/list not found; did you mean /module/list?; /discovery lists all`,
		"/favicon":                               `404 page /favicon not found; /discovery lists all`,
		"/global/nothing":                        `404 page /global/nothing not found; /discovery lists all`,
		"/queue/mian":                            `404 page /queue/mian not found; did you mean /queue/main?; /discovery lists all`,
		"/hook/010-ingress/hooks/g.sh/snapshots": `404 hook "010-ingress/hooks/g.sh" not found; did you mean 010-ingress/hooks/h.sh?`,
		"/hook/h.sh/snapshots":                   `404 hook "h.sh" not found; did you mean 010-ingress/hooks/h.sh?`,
		"/hook/h.sh":                             `404 page /hook/h.sh not found; available: /hook/list and /hook/NAME/snapshots`,
		"/hook/list?module=ingres":               `404 module "ingres" not found; did you mean ingress?`,
		"/module/dns-server/render":              `422 module dns-server has no chart, so there is nothing to render`,
		"/module/global/render":                  `404 there is nothing to render`,
		"/config/set":                            `405 /config/set accepts only POST`,
	} {
		status, header, body := r.fetch(http.MethodGet, path, nil)
		if got := fmt.Sprint(status, " ", strings.TrimSpace(body)); got != want || header.Get("Content-Type") != "text/plain; charset=utf-8" {
			t.Errorf("%s: %s, want %s", path, got, want)
		}
	}
	for command, want := range map[string]string{
		"why ingres":           `module "ingres" not found; did you mean ingress?`,
		"module values ingres": `module "ingres" not found; did you mean ingress?`,
		"queue list mian":      `queue "mian" not found; did you mean main?`,
		"raw modul/list":       `page /modul/list not found; did you mean /module/list?; /discovery lists all`,
	} {
		_, err := r.run(strings.Fields(command)...)
		if err == nil || err.Error() != want || errors.As(err, new(cli.UsageError)) { // J6
			t.Errorf("%s: %v", command, err)
		}
	}
}

// J4: parameters are changed by POST, with names that exist and values they can have.
func TestParametersAreChanged(t *testing.T) {
	r := startRunning(t)
	for query, want := range map[string]string{
		"":                           `400 name=NAME and value=VALUE are required, and duration=10m is optional`,
		"name=log.level&value=loud":  `400 log.level: "loud" is not one of debug, info, warn, error`,
		"name=log.levle&value=debug": `404 parameter "log.levle" not found; did you mean log.level?`,
		"name=log.level&value=debug&duration=ten": `400 the duration must be above 0 and have units, such as 90s or 10m, not "ten"`,
		"name=log.level&value=debug&duration=-1s": `400 the duration must be above 0 and have units, such as 90s or 10m, not "-1s"`,
	} {
		form, err := url.ParseQuery(query)
		must(t, err)
		for _, where := range []string{"the query", "a form"} {
			path, sent := "/config/set?"+query, url.Values(nil)
			if where == "a form" {
				path, sent = "/config/set", form
			}
			if status, _, body := r.fetch(http.MethodPost, path, sent); fmt.Sprint(status, " ", strings.TrimSpace(body)) != want {
				t.Errorf("%s in %s: %d %s", query, where, status, body)
			}
		}
	}
	const head = "NAME VALUE DEFAULT UNTIL CHOICES MEANING\n"
	r.want("config set log.level debug", head+"log.level debug info - debug|info|warn|error log level")
	r.want("config set log.level WARN 10m", head+"log.level warn info TIME debug|info|warn|error log level")
	r.want("config list", head+"log.level warn info TIME debug|info|warn|error log level")
	r.want("config set log.level info", head+"log.level info info - debug|info|warn|error log level")
	for _, args := range []string{"config set log.level loud", "config set log.levle debug"} {
		if _, err := r.run(strings.Fields(args)...); err == nil || errors.As(err, new(cli.UsageError)) {
			t.Errorf("%s: %v", args, err)
		}
	}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, r.pages.URL+"/config/set?name=log.level&value=debug", http.NoBody)
	must(t, err)
	req.Header.Set("Sec-Fetch-Site", "cross-site")
	resp, err := http.DefaultClient.Do(req)
	must(t, err)
	if resp.Body.Close(); resp.StatusCode != http.StatusForbidden {
		t.Errorf("a page of another site changes a parameter: %s", resp.Status)
	}
}

// J6: what the commands print for people.
func TestTables(t *testing.T) {
	r := startRunning(t)
	r.want("hook list", `
MODULE   HOOK                    BINDING     ON         NAME    QUEUE
global   g.sh                    schedule    0 3 * * *  -       main
ingress  010-ingress/hooks/h.sh  onStartup   1          -       -
                                 schedule    0 3 * * *  tick    slow
                                 kubernetes  Secret     tokens  main`)
	r.want("hook list --module dns-server", "No hooks are loaded. The hooks of a module are loaded when it is enabled.")
	r.want("global list", "MODULE HOOK BINDING ON NAME QUEUE\nglobal g.sh schedule 0 3 * * * - main")
	r.want("global list -o name", "g.sh")
	r.want("module snapshots ingress", `
HOOK                    BINDING  KIND    STATE     OBJECTS
010-ingress/hooks/h.sh  tokens   Secret  complete  1`)
	r.want("hook snapshots 010-ingress/hooks/h.sh -o yaml", `
010-ingress/hooks/h.sh:
  tokens:
    kind: Secret
    objects:
    - filterResult:
        a: '***'
    state: complete`)
	r.want("hook snapshots 010-ingress/hooks/h.sh -o json --show-secrets", `{"010-ingress/hooks/h.sh": {"tokens": {"kind": "Secret", "state": "complete", "objects": [{"filterResult": {"a": "s3cret"}}]}}}`)
	r.want("global snapshots", "No hook watches objects.")
	r.want("module values dns-server -o text", "zone: cluster.local")
	r.want("module patches ingress -o text", `
OP   PATH            VALUE          HOOK                    TASK  SINCE
add  /ingress/nodes  ["one","two"]  010-ingress/hooks/h.sh  3     TIME`)
	r.want("module patches dns-server -o text", "No hook has patched these values.")
	r.want("module resource-monitor", "MODULE OBJECT STATE MESSAGE\ningress No monitor - -\ndns-server No monitor - -")
	r.want("module render ingress", "---\n# Source: ingress/templates/secret.yaml\napiVersion: v1\nkind: Secret\nmetadata:\n  name: ingress\nstringData:\n  a: '***'")
	r.want("module render ingress --show-secrets", "---\n# Source: ingress/templates/secret.yaml\nkind: Secret # s3cret")
	r.want("module render ingress --diff", `
ConfigMap ingress is removed
--- deployed
+++ now
@@ -1,6 +0,0 @@
-apiVersion: v1
-data:
-  url: a
-kind: ConfigMap
-metadata:
-  name: ingress
Secret ingress is added
--- deployed
+++ now
@@ -0,0 +1,6 @@
+apiVersion: v1
+kind: Secret
+metadata:
+  name: ingress
+stringData:
+  a: '***'`)
	r.want("why dns-server", "module dns-server is off: no flag anywhere (dnsServerEnabled); 'addon-operator values set dnsServerEnabled true' enables it")
	r.want("raw module/dns-server/values", `{"zone": "cluster.local"}`)
	if out, err := r.run("module", "list"); err != nil || !strings.HasPrefix(squeeze(out), squeeze("NAME ORDER STATE REVISION HOOKS RAN WHY-OFF PROBLEM ingress 10 ready")) {
		t.Errorf("module list: %v\n%s", err, out)
	}
	if out, err := r.run("why", "ingress", "-o", "yaml"); err != nil || !strings.Contains(out, "phase: ready") || !strings.Contains(out, "name: ingress") {
		t.Errorf("why: %v\n%s", err, out)
	}
}

// A shell completes the names of the running operator, or those on disk.
func TestCompletion(t *testing.T) {
	r := startRunning(t)
	for args, want := range map[string][]string{
		"module values ":         {"dns-server", "ingress"},
		"module values ingress ": nil,
		"why ":                   {"dns-server", "ingress"},
		"values explain ":        {"dns-server", "ingress"},
		"hook snapshots ":        {"010-ingress/hooks/h.sh"},
		"hook list --module ":    {"dns-server", "ingress"},
		"queue list ":            {"main"},
		"config set ":            {"log.level"},
		"module list -o ":        {"text", "json", "yaml"},
		"raw ":                   {"/module/list"},
		"module ":                {"values", "render", "snapshots"},
	} {
		words := strings.Split(args, " ")
		r.completes(args, append([]string{"__complete", "--debug-address", strings.TrimPrefix(r.pages.URL, "http://")}, words...), want)
	}
	none := []string{"__complete", "--debug-address", "127.0.0.1:1"}
	r.completes("without an operator", append(none, "hook", "snapshots", ""), nil)
}

func (r *running) completes(what string, args, want []string) {
	r.t.Helper()
	out, err := commanded(args...)
	if err != nil {
		r.t.Errorf("%s: %v", what, err)
	}
	for _, name := range want {
		if !strings.Contains("\n"+out, "\n"+name) {
			r.t.Errorf("%s: %q is not in\n%s", what, name, out)
		}
	}
	if want == nil && !strings.HasPrefix(out, ":") {
		r.t.Errorf("%s: something is in\n%s", what, out)
	}
}

// Watching prints again and again until it is interrupted, which is no failure.
func TestWatch(t *testing.T) {
	r := startRunning(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	out := &counting{enough: 3, done: cancel}
	root := program(nil)
	root.SetOut(out)
	root.SetArgs([]string{"queue", "main", "--watch", "--every", "1ms", "--debug-address", strings.TrimPrefix(r.pages.URL, "http://")})
	must(t, root.ExecuteContext(ctx))
	if out.written < out.enough {
		t.Errorf("printed %d times", out.written)
	}
}

// counting calls done when enough was written.
type counting struct {
	written, enough int
	done            func()
}

func (c *counting) Write(p []byte) (int, error) {
	if c.written++; c.written == c.enough {
		c.done()
	}
	return len(p), nil
}

// J6: command lines of existing installations work as they are written there.
func TestCommandLinesOfExistingInstallations(t *testing.T) {
	r := startRunning(t)
	for line, want := range map[string]string{
		"queue list":                                   "is empty",
		"queue list -o json -e":                        `"empty"`,
		"queue list --show-empty -o yaml":              "summary:",
		"queue list -t 2s":                             "is empty",
		"queue list --watchInterval 2s -o text":        "is empty",
		"queue main -o text":                           "is empty",
		"config list -o text":                          "log.level",
		"config set log.level debug":                   "debug",
		"config set log.level info 10m":                "info",
		"raw /queue/list.json":                         "summary",
		"raw queue/main.text":                          "is empty",
		"raw":                                          "/module/list",
		"hook list":                                    "h.sh",
		"hook snapshot 010-ingress/hooks/h.sh -o yaml": "state: complete",
		"global list -o json":                          "globalHooks",
		"global values -o text":                        "clusterName",
		"global config -o yaml":                        "",
		"global patches":                               "",
		"global snapshots -o json":                     "{",
		"module list -o yaml":                          "enabledModules:",
		"module list -o text":                          "ingress",
		"module values ingress -g":                     "global:",
		"module values ingress --global -o json":       `"global"`,
		"module config ingress":                        "replicas: 2",
		"module config ingress -g -o text":             "replicas",
		"module patches ingress":                       "",
		"module render ingress --debug --diff":         "",
		"module render ingress":                        "kind: Secret",
		"module resource-monitor":                      "ingress",
		"module resource-monitor ingress -o json":      `"ingress"`,
		"module snapshots ingress -o yaml":             "hooks/h.sh",
	} {
		out, err := r.run(strings.Fields(line)...)
		if err != nil || !strings.Contains(out, want) {
			t.Errorf("%s: %v, no %q in\n%s", line, err, want, out)
		}
	}
}

// J6: lists are printed in the formats that kubectl has.
func TestFormatsAsKubectlHasThem(t *testing.T) {
	r := startRunning(t)
	for line, want := range map[string]string{
		"module list -o name": "ingress\n",
		"module list -o jsonpath={.modules[?(@.enabled==true)].name}": "ingress",
		"module list -o jsonpath={.modules[0].order}":                 "10\n",
		"module list -o jsonpath={.nothing.here}":                     "\n",
		"module list -o wide":                                         "NAME",
		"hook list -o name":                                           "010-ingress/hooks/h.sh\n",
		"queue list -o name":                                          "main\n",
		"queue list main -o jsonpath={.tasksCount}":                   "0\n",
		"module values ingress -o jsonpath={.replicas}":               "2\n",
		"status -o jsonpath={.namespace}":                             "addons",
		"module render ingress -o wide":                               "kind: Secret",
	} {
		if out, err := r.run(strings.Fields(line)...); err != nil || !strings.Contains(out, want) {
			t.Errorf("%s: %v, no %q in\n%s", line, err, want, out)
		}
	}
	for _, line := range []string{"module list --no-headers", "hook list --no-headers", "config list --no-headers", "module drift ingress --no-headers"} {
		out, err := r.run(strings.Fields(line)...)
		if err != nil || strings.Contains(out, "NAME") || strings.Contains(out, "MODULE") || strings.Contains(out, "Drift") || strings.Contains(out, "\n\n") {
			t.Errorf("%s: %v\n%s", line, err, out)
		}
	}
	for line, want := range map[string]string{
		"module list -o jsonpath=":           "is not one of",
		"module list -o jsonpath={.modules[": "cannot be parsed",
		"module values ingress -o name":      "lists nothing that has a name",
		"module list -o xml":                 "is not one of text, wide, yaml, json, name",
	} {
		if out, err := r.run(strings.Fields(line)...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q\n%s", line, err, want, out)
		}
	}
}

// J4: the level of the log changes at once, goes back by itself when that was asked for,
// and a later change replaces an earlier one with its time.
func TestLogLevelAtRunTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out bytes.Buffer
		c := cli.Config{LogLevel: "info", LogType: "text"}
		log, level, err := c.Logger(&out, strings.Clone)
		must(t, err)
		p := &logLevel{log: slog.New(slog.DiscardHandler), level: level}
		logs := func() string {
			out.Reset()
			log.Debug("debug")
			log.Info("info")
			log.Warn("warn")
			return strings.Join(strings.Fields(out.String()), " ")
		}
		set := func(value string, back time.Duration) {
			t.Helper()
			p.Set("log.level", value, back)
		}
		want := func(what string, texts ...string) {
			t.Helper()
			got := logs()
			for _, level := range []string{"debug", "info", "warn"} {
				if strings.Contains(got, level) != strings.Contains(strings.Join(texts, " "), level) {
					t.Errorf("%s: %s", what, got)
				}
			}
		}
		want("as started", "info", "warn")
		set("debug", 0)
		want("changed for good", "debug", "info", "warn")
		<-time.After(time.Hour) // virtual
		want("an hour later", "debug", "info", "warn")
		set("warn", time.Minute)
		want("for a minute", "warn")
		if list := p.List(); len(list) != 1 || list[0].Value != "warn" || list[0].Default != "info" || !list[0].Until.Equal(time.Now().Add(time.Minute)) {
			t.Errorf("the list is %+v", list)
		}
		<-time.After(30 * time.Second) // virtual
		set("debug", time.Minute)
		<-time.After(45 * time.Second) // virtual
		want("the first minute is over, the second is not", "debug", "info", "warn")
		<-time.After(16 * time.Second) // virtual
		want("both are over", "info", "warn")
		set("debug", time.Minute)
		set("info", time.Minute)
		if list := p.List(); !list[0].Until.IsZero() {
			t.Errorf("the default goes back to itself at %s", list[0].Until)
		}
	})
}
