package helm

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"
	corev1 "k8s.io/api/core/v1"

	"addon-operator/testkit/devclustertest"
)

// recordedChart has all that a record can hold.
const recordedChart = `-- Chart.yaml --
# a comment
{apiVersion: v2, name: recorded, version: 1.2.3, appVersion: "4", description: a chart}
-- values.yaml --
# a comment
big: 12345678901234567890
million: 1000000
half: 0.5
no: null
list: [1, "1", true]
-- values.schema.json --
{"type": "object"}
-- .helmignore --
ignored.txt
-- ignored.txt --
nobody packs this
-- files/data.txt --
data
-- crds/things.yaml --
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: things.GROUP}
spec:
  group: GROUP
  names: {kind: KIND, plural: things}
  scope: Namespaced
  versions:
  - {name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}
-- templates/_helpers.tpl --
{{- define "name" -}}{{ .Release.Name }}{{- end -}}
-- templates/cm.yaml --
apiVersion: v1
kind: ConfigMap
metadata: {name: {{ include "name" . }}}
data: {file: {{ .Files.Get "files/data.txt" | quote }}, million: {{ .Values.million | quote }}}
-- templates/hook.yaml --
{apiVersion: v1, kind: ConfigMap, metadata: {name: hook, annotations: {helm.sh/hook: "pre-install,post-upgrade"}}}
-- templates/tests/test.yaml --
{apiVersion: v1, kind: ConfigMap, metadata: {name: test, annotations: {helm.sh/hook: test}}}
-- templates/NOTES.txt --
Notes.
`

// A record gives back the chart that was installed, but for comments and what .helmignore names, and the values that
// the user gave.
func TestRecordHasTheChart(t *testing.T) {
	f := start(t)
	own := strings.NewReplacer("GROUP", groupOf(f.namespace), "KIND", devclustertest.Kind("Recorded"))
	m := moduleOf(t, "recorded", own.Replace(recordedChart))
	m.Values = map[string]any{"list": []any{"mine"}, "no": nil, "big": 12345678901234567}
	f.helmInstall(m.Name, m)
	r, err := f.client.Record(t.Context(), "recorded")
	must(t, err)
	if r.Release != "recorded" || r.Namespace != f.namespace || r.Revision != 1 || r.Status != "deployed" || r.Ours || r.Chart != "recorded" || r.Version != "1.2.3" || len(r.Absent) != 0 {
		t.Errorf("record: %+v", r)
	}
	if got, want := string(r.Values), `{"big":12345678901234567,"list":["mine"],"no":null}`; got != want {
		t.Errorf("values: %s, want %s", got, want)
	}
	dir := filepath.Join(t.TempDir(), "chart")
	must(t, r.WriteChart(dir))
	want, got := loadedFiles(t, m.Dir), loadedFiles(t, dir)
	if !slices.Equal(got, want) {
		t.Errorf("files:\n%q\nwant\n%q", got, want)
	}
	if _, err := os.Stat(filepath.Join(dir, "ignored.txt")); err == nil {
		t.Error("a file that .helmignore names is there")
	}
	if err := r.WriteChart(dir); err == nil {
		t.Error("a chart was written over another one")
	}
	m.Dir = dir
	f.apply(m, Adopted, 1)
	if r, err := f.client.Record(t.Context(), "recorded"); err != nil || !r.Ours {
		t.Errorf("record after it was taken over: %+v, %v", r, err)
	}
}

// loadedFiles are the files of a chart as "name: content", with defaults and metadata in JSON.
func loadedFiles(t *testing.T, dir string) (all []string) {
	t.Helper()
	loaded, err := loader.LoadDir(dir)
	must(t, err)
	add := func(files []*chart.File) {
		for _, f := range files {
			all = append(all, f.Name+": "+string(f.Data))
		}
	}
	add(loaded.Templates)
	add(loaded.Files)
	slices.Sort(all)
	return append(all, jsonOf(loaded.Metadata), jsonOf(loaded.Values), string(loaded.Schema))
}

// Subcharts are no part of a record; it shows that there are some.
func TestRecordLacksSubcharts(t *testing.T) {
	f := start(t)
	const sub = "{apiVersion: v2, name: NAME, version: 0.1.0}"
	const template = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: {{ .Release.Name }}-{{ .Chart.Name }}}\n"
	m := moduleOf(t, "parent", `-- Chart.yaml --
apiVersion: v2
name: parent
version: 1.0.0
dependencies:
- {name: declared, version: 0.1.0, repository: "https://charts.example.com"}
- {name: off, version: 0.1.0, repository: "https://charts.example.com", condition: off.enabled}
-- templates/cm.yaml --
`+template)
	m.Values = map[string]any{"off": map[string]any{"enabled": false}}
	for _, name := range []string{"declared", "off", "found"} {
		write(t, m, "charts/"+name+"/Chart.yaml", strings.ReplaceAll(sub, "NAME", name))
		write(t, m, "charts/"+name+"/templates/cm.yaml", template)
	}
	f.helmInstall(m.Name, m)
	r, err := f.client.Record(t.Context(), "parent")
	if err != nil || !slices.Equal(r.Absent, []string{"declared 0.1.0", "found"}) {
		t.Errorf("absent: %q, %v", r.Absent, err)
	}
}

func TestRecordThatIsNotThere(t *testing.T) {
	f := start(t)
	m := moduleOf(t, "plain", plainChart).with("text", "one")
	f.helmInstall(m.Name, m)
	wantError(t, second(f.client.Record(t.Context(), "absent")), "there is no such release in namespace "+f.namespace+", in secrets")
	f.editRecord("plain", 1, func(s *corev1.Secret) { s.Data["release"] = []byte("garbage") })
	wantError(t, second(f.client.Record(t.Context(), "plain")), "corrupted")
}
