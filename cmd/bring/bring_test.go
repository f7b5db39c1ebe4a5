package bring_test

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"addon-operator/cmd/bring"
	"addon-operator/cmd/cli"
	"addon-operator/cmd/local"
	"addon-operator/helm/fetch/fetchtest"
)

// home is a place with modules, where Helm knows nothing.
func home(t *testing.T) {
	t.Helper()
	t.Chdir(t.TempDir())
	for _, name := range []string{"HELM_REPOSITORY_CONFIG", "HELM_REGISTRY_CONFIG", "HELM_REPOSITORY_CACHE", "HELM_CACHE_HOME", "HELM_PLUGINS", "DOCKER_CONFIG"} {
		t.Setenv(name, filepath.Join(t.TempDir(), "none"))
	}
	if err := os.Mkdir("global-hooks", 0o755); err != nil {
		t.Fatal(err)
	}
}

// commanded runs a command line.
func commanded(args ...string) (string, error) {
	root, c := cli.Root("test", func(string) (string, bool) { return "", false })
	module, values := cli.Group("module", ""), cli.Group("values", "")
	module.AddCommand(bring.UpgradeChart(c))
	values.AddCommand(local.CheckValues(c))
	root.AddCommand(bring.Init(), local.Test(c), module, values)
	var out bytes.Buffer
	root.SetOut(&out)
	root.SetErr(io.Discard)
	root.SetArgs(append(args, "--modules-dir", "modules", "--global-hooks-dir", "global-hooks"))
	err := root.Execute()
	return out.String(), err
}

func must(t *testing.T, args ...string) string {
	t.Helper()
	out, err := commanded(args...)
	if err != nil {
		t.Fatalf("%s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return out
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func expectAll(t *testing.T, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(text, part) {
			t.Errorf("no %q in\n%s", part, text)
		}
	}
}

// nothingLeft wants the modules directory to hold these entries only.
func nothingLeft(t *testing.T, want ...string) {
	t.Helper()
	entries, err := os.ReadDir("modules")
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		t.Fatal(err)
	}
	var got []string
	for _, e := range entries {
		got = append(got, e.Name())
	}
	if strings.Join(got, " ") != strings.Join(want, " ") {
		t.Errorf("modules/ holds %q, want %q", got, want)
	}
}

// web is a chart with a definition and a subchart, in two versions.
func web(t *testing.T, version string) []byte {
	const crd = `apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: shops.web.example.com}
spec:
  group: web.example.com
  scope: Namespaced
  names: {kind: Shop, plural: shops, singular: shop}
  versions: [VERSIONS]
`
	const v1 = "{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}"
	const v2 = "{name: v2, served: true, storage: false, schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}}"
	replicas, versions := "replicas", v1
	if version != "1.0.0" {
		replicas, versions = "count", v1+", "+v2
	}
	return fetchtest.Chart(t, strings.NewReplacer("REPLICAS", replicas, "VERSION", version, "CRD", strings.Replace(crd, "VERSIONS", versions, 1)).Replace(`
-- Chart.yaml --
{apiVersion: v2, name: web, version: VERSION, description: A shop, dependencies: [{name: cache, version: 1.0.0, condition: cache.enabled}]}
-- values.yaml --
REPLICAS: 1
color: red
cache: {enabled: true}
-- crds/shop.yaml --
CRD
-- templates/web.yaml --
apiVersion: v1
kind: ConfigMap
metadata: {name: "{{ .Release.Name }}", labels: {chart: "{{ .Chart.Version }}"}}
data: {replicas: "{{ .Values.REPLICAS }}", color: {{ .Values.color }}}
---
{apiVersion: web.example.com/v1, kind: Shop, metadata: {name: main}}
-- templates/test.yaml --
apiVersion: v1
kind: Pod
metadata: {name: "test-{{ randAlpha 5 | lower }}", annotations: {helm.sh/hook: test}}
spec: {containers: [{name: a, image: a}]}
-- charts/cache/Chart.yaml --
{apiVersion: v2, name: cache, version: 1.0.0}
-- charts/cache/values.yaml --
size: 5
-- charts/cache/templates/cache.yaml --
{apiVersion: v1, kind: ConfigMap, metadata: {name: cache}, data: {size: "{{ .Values.size }}"}}
`))
}

// A chart of a registry becomes a module with a test that passes, and moves to the next version with what its owner
// wrote.
func TestBringAndUpgrade(t *testing.T) {
	home(t)
	registry := fetchtest.Registry(t, false, web(t, "1.0.0"), web(t, "1.1.0"))
	if err := os.WriteFile("own.yaml", []byte("# as many as there are doors\nreplicas: 2\ncache: {size: 7}\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	out := must(t, "init", "module", "--from-chart", registry+"/web", "--version", "1.0.0", "--plain-http", "--values", "own.yaml")
	expectAll(t, out, "modules/010-web\n", "addon-operator test modules/010-web")
	expectAll(t, read(t, "modules/010-web/module.yaml"), "repository: "+registry, "name: web", "version: 1.0.0", "digest: sha256:")
	expectAll(t, read(t, "modules/010-web/values.yaml"), "web:\n  # as many as there are doors\n  replicas: 2\n")
	expectAll(t, read(t, "modules/010-web/tests/objects.golden.yaml"), `replicas: "2"`, `size: "7"`, "kind: Shop", "app.kubernetes.io/managed-by: Helm")
	expectAll(t, read(t, "modules/010-web/README.md"), "A shop", registry)
	expectAll(t, must(t, "test", "modules"), "1 scenario passed")
	expectAll(t, must(t, "values", "check"), "The global values and the values of")
	nothingLeft(t, "010-web")

	before := read(t, "modules/010-web/chart/Chart.yaml")
	out = must(t, "module", "upgrade-chart", "web", "--version", "1.1.0", "--plain-http", "--dry-run")
	expectAll(t, out, "web: web 1.0.0 -> 1.1.0", "010-web/openapi/config-values.yaml\n", "Nothing is written.")
	if read(t, "modules/010-web/chart/Chart.yaml") != before {
		t.Error("a dry run wrote")
	}
	out = must(t, "module", "upgrade-chart", "web", "--plain-http")
	expectAll(t, out, "web: web 1.0.0 -> 1.1.0", "010-web/chart\n", "010-web/module.yaml\n")
	expectAll(t, read(t, "modules/010-web/module.yaml"), "# Where chart/ is from.", "repository: "+registry, "version: 1.1.0")
	expectAll(t, read(t, "modules/010-web/values.yaml"), "# as many as there are doors\n  replicas: 2\n")
	expectAll(t, read(t, "modules/010-web/openapi/config-values.yaml"), "count:")
	if _, err := commanded("test", "modules"); err == nil {
		t.Error("golden files were rewritten")
	}
	nothingLeft(t, "010-web")

	schema := "# mine\n" + read(t, "modules/010-web/openapi/config-values.yaml")
	if err := os.WriteFile("modules/010-web/openapi/config-values.yaml", []byte(schema), 0o644); err != nil {
		t.Fatal(err)
	}
	out = must(t, "module", "upgrade-chart", "web", "--version", "1.0.0", "--plain-http")
	expectAll(t, must(t, "test", "modules", "--update"), "1 scenario passed")
	if strings.Contains(out, "config-values.yaml") {
		t.Errorf("an edited schema was written:\n%s", out)
	}
	if read(t, "modules/010-web/openapi/config-values.yaml") != schema || read(t, "modules/010-web/chart/Chart.yaml") != before {
		t.Error("the schema is another one, or the chart is not the first one again")
	}
}

// mergedDefinition has a key that overrides a merged one, and a key twice: kubectl and Helm install it.
const mergedDefinition = `-- crds/a.yaml --
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: flags.example.com}
spec:
  group: example.com
  scope: Namespaced
  scope: Namespaced
  names: {kind: Flag, plural: flags}
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        properties:
          a: &a {type: string, description: one}
          b: {<<: *a, description: another}
`

// Charts that need values, others or luck become modules with a test that passes, too.
func TestDifficultCharts(t *testing.T) {
	home(t)
	const head = "-- Chart.yaml --\n{apiVersion: v2, name: NAME, version: 1.0.0, dependencies: [SUB]}\n"
	for name, c := range map[string]struct{ files, base, test, note string }{
		"needy":  {files: "-- templates/a.yaml --\n{{ required \"password is missing\" .Values.password }}\n", base: "010-needy", test: "failing:\n    needy: \"\"", note: "password is missing"},
		"random": {files: "-- templates/a.yaml --\napiVersion: v1\nkind: Secret\nmetadata: {name: a}\nstringData: {p: {{ randAlpha 8 }}}\n", base: "010-random", test: "modules:\n    random: ready"},
		"guest":  {files: "-- templates/a.yaml --\napiVersion: example.com/v1\nkind: Host\nmetadata: {name: a, namespace: far}\n", base: "010-guest", test: "hosts.example.com"},
		"drafty": {
			files: "-- values.schema.json --\n{\"$schema\": \"https://json-schema.org/draft/2019-09/schema\", \"examples\": 1}\n-- templates/a.yaml --\n",
			base:  "010-drafty", test: "failing:\n    drafty: \"\"", note: "at '/examples': got number, want array",
		},
		"merged": {files: mergedDefinition + "-- templates/a.yaml --\n{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}\n", base: "010-merged", test: "modules:\n    merged: ready"},
		"partly": {
			files: "-- values.yaml --\nsub: {enabled: false}\n-- templates/a.yaml --\napiVersion: example.com/v1\nkind: Host\nmetadata: {name: a}\n" +
				"-- charts/sub/Chart.yaml --\n{apiVersion: v2, name: sub, version: 1.0.0}\n-- charts/sub/crds/a.yaml --\n" +
				"{apiVersion: apiextensions.k8s.io/v1, kind: CustomResourceDefinition, metadata: {name: hosts.example.com}, spec: {group: example.com, names: {kind: Host, plural: hosts}}}\n",
			base: "010-partly", test: "hosts.example.com",
		},
		"hooked": {files: "-- templates/a.yaml --\napiVersion: batch/v1\nkind: Job\nmetadata: {name: a, annotations: {helm.sh/hook: post-install}}\n", base: "010-hooked", test: "rendered:"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Chdir(t.TempDir())
			sub := ""
			if strings.Contains(c.files, "charts/sub") {
				sub = "{name: sub, version: 1.0.0, condition: sub.enabled}"
			}
			dir := fetchtest.Dir(t, strings.NewReplacer("NAME", name, "SUB", sub).Replace(head)+c.files)
			out := must(t, "init", "module", "--from-chart", dir)
			expectAll(t, out, c.note)
			expectAll(t, read(t, filepath.Join("modules", c.base, "tests/objects.yaml")), c.test)
			expectAll(t, must(t, "test", "modules"), "1 scenario passed")
			if text := read(t, filepath.Join("modules", c.base, "module.yaml")); strings.Contains(text, dir) || strings.Contains(out, os.TempDir()) && !strings.Contains(out, "Try it") {
				t.Errorf("a path of this machine is in\n%s", text)
			}
		})
	}
}

// A chart with a wrong file in crds/ fails, and who brings it reads why.
func TestWrongDefinition(t *testing.T) {
	home(t)
	out := must(t, "init", "module", "--from-chart", fetchtest.Dir(t, "-- Chart.yaml --\n{apiVersion: v2, name: odd, version: 1.0.0}\n-- crds/a.yaml --\n{apiVersion: v1, kind: Namespace, metadata: {name: a}}\n"))
	expectAll(t, out, "Note: the chart does not install with these values", "read CRDs: 010-odd/chart/crds/a.yaml: kind \"Namespace\" does not belong in crds/")
	expectAll(t, read(t, "modules/010-odd/tests/objects.yaml"), "failing:\n    odd: \"\"")
}

// What fails leaves nothing behind, and says why.
func TestNothingHalfWritten(t *testing.T) {
	home(t)
	repository := fetchtest.Repository(t, false, web(t, "1.0.0"))
	library := fetchtest.Dir(t, "-- Chart.yaml --\n{apiVersion: v2, name: lib, version: 1.0.0, type: library}\n")
	strange := fetchtest.Dir(t, "-- Chart.yaml --\n{apiVersion: v2, name: Web-2, version: 1.0.0}\n")
	lacking := fetchtest.Dir(t, "-- Chart.yaml --\n{apiVersion: v2, name: web, version: 1.0.0, dependencies: [{name: none, version: 1.0.0, repository: '"+repository+"'}]}\n")
	if err := os.WriteFile("list.yaml", []byte("[1]"), 0o644); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		args string
		want string
	}{
		"library":            {"--from-chart " + library, "is a library"},
		"strange name":       {"--from-chart " + strange, "specify one before --from-chart"},
		"missing dependency": {"--from-chart " + lacking, "none"},
		"wrong name":         {"Web --from-chart " + strange, "web"},
		"a path":             {"../010-web --from-chart " + strange, "010-web"},
		"no version":         {"--from-chart web --repo " + repository + " --version 3", "not found"},
		"values are a list":  {"--from-chart web --repo " + repository + " --values list.yaml", "must be a map"},
		"no values":          {"--from-chart web --repo " + repository + " --values none.yaml", "none.yaml"},
		"without a chart":    {"010-a --version 3", "need --from-chart"},
		"too many names":     {"010-a 010-b --from-chart " + strange, "one name"},
	} {
		t.Run(name, func(t *testing.T) {
			out, err := commanded(append([]string{"init", "module"}, strings.Fields(c.args)...)...)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q\n%s", err, c.want, out)
			}
			if _, err := os.Stat("modules"); err == nil {
				t.Error("modules/ was made")
			}
		})
	}
	must(t, "init", "module", "030-web", "--from-chart", "web", "--repo", repository)
	if _, err := commanded("init", "module", "--from-chart", "web", "--repo", repository); err == nil || !strings.Contains(err.Error(), "in modules/030-web;") {
		t.Errorf("got %v", err)
	}
	expectAll(t, must(t, "init", "module", "--from-chart", fetchtest.Dir(t, "-- Chart.yaml --\n{apiVersion: v2, name: next, version: 1.0.0}\n")), "modules/040-next\n")
	nothingLeft(t, "030-web", "040-next")
}

// An upgrade that cannot be is refused, and the module stays what it was.
func TestUpgradeRefused(t *testing.T) {
	home(t)
	repository := fetchtest.Repository(t, false, web(t, "1.0.0"))
	must(t, "init", "module", "--from-chart", "web", "--repo", repository)
	must(t, "init", "module", "010-own")
	if err := os.WriteFile("modules/010-web/values.yaml", []byte("web: {color: blue}\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	broken := fetchtest.Dir(t, "-- Chart.yaml --\n{apiVersion: v2, name: web, version: 2.0.0}\n-- templates/a.yaml --\n{apiVersion: v1, kind: ConfigMap, metadata: {name: web}, data: {shade: {{ required \"color is wanted\" .Values.shade }}}}\n")
	strict := fetchtest.Dir(t, "-- Chart.yaml --\n{apiVersion: v2, name: web, version: 2.0.0}\n-- values.schema.json --\n{\"additionalProperties\": false}\n-- values.yaml --\n{}\n")
	other := fetchtest.Dir(t, "-- Chart.yaml --\n{apiVersion: v2, name: else, version: 2.0.0}\n")
	for name, c := range map[string]struct{ args, want string }{
		"no such module":  {"wep", "module wep not found in modules"},
		"no chart/":       {"own", "has no third-party chart"},
		"no such version": {"web --version 9.0.0", "not found"},
		"another chart":   {"web --from-chart " + other, "is another chart than web"},
		"does not render": {"web --from-chart " + broken, "color is wanted"},
		"stricter schema": {"web --from-chart " + strict, "additional properties 'color' not allowed"},
	} {
		t.Run(name, func(t *testing.T) {
			out, err := commanded(append([]string{"module", "upgrade-chart"}, strings.Fields(c.args)...)...)
			if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), ".addon-operator-") {
				t.Errorf("got %v, want %q\n%s", err, c.want, out)
			}
			expectAll(t, read(t, "modules/010-web/module.yaml"), "version: 1.0.0", "repository: "+repository)
			expectAll(t, read(t, "modules/010-web/chart/Chart.yaml"), "version: 1.0.0")
			nothingLeft(t, "010-own", "010-web")
		})
	}
	expectAll(t, must(t, "module", "upgrade-chart", "web", "--from-chart", broken, "--force"), "color is wanted", "010-web/chart\n")
	expectAll(t, read(t, "modules/010-web/module.yaml"), "version: 2.0.0", "repository: "+repository)
	if strings.Contains(read(t, "modules/010-web/module.yaml"), "digest") {
		t.Error("the digest of another archive stays")
	}
}

// A name that the operator would refuse is not written: the number is separated by a dash.
func TestInitRefusesANameThatDoesNotLoad(t *testing.T) {
	home(t)
	for _, base := range []string{"010dns", "010-", "modules/010-dns"} {
		if out, err := commanded("init", "module", base); err == nil {
			t.Errorf("%s is written: %s", base, out)
		}
	}
	if entries, err := os.ReadDir("modules"); err == nil {
		t.Errorf("something is written: %v", entries)
	}
}
