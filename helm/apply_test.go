package helm

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"helm.sh/helm/v3/pkg/release"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"addon-operator/testkit/devclustertest"
)

func statusOf(s string) release.Status { return release.Status(s) }

// H1, H4, H5, H6, A17: the life of a release without trouble.
func TestApply(t *testing.T) {
	f := start(t)
	m := module(t, "simple").with("text", "one")
	m.Values["global"] = map[string]any{"zone": "z1"}
	f.apply(m, Installed, 1)
	if got, want := f.configMap("simple-a"), map[string]string{"text": "one", "global": "z1"}; !reflect.DeepEqual(got, want) {
		t.Errorf("simple-a = %v, want %v", got, want)
	}
	f.apply(m, Skipped, 1)
	f.apply(m.with("unused", "value"), Skipped, 1) // H6: no template uses it
	f.restart()
	f.apply(m, Skipped, 1)
	f.wantRevisions("simple", "1 deployed")
	f.apply(m.with("text", "two"), Upgraded, 2)
	if got := f.configMap("simple-a")["text"]; got != "two" {
		t.Errorf("text = %q after the upgrade", got)
	}
	f.wantRevisions("simple", "1 superseded", "2 deployed")
}

// H7: the history is limited.
func TestApplyHistoryMax(t *testing.T) {
	f := start(t)
	m := module(t, "simple")
	f.apply(m, Installed, 1)
	for i := range 5 {
		f.apply(m.with("text", strings.Repeat("x", i+1)), Upgraded, i+2)
	}
	f.wantRevisions("simple", "4 superseded", "5 superseded", "6 deployed")
}

// H7: an old record that cannot be deleted is no reason to stop.
func TestApplyOldRecordStays(t *testing.T) {
	f := start(t)
	f.client = f.limited(
		rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"get", "list", "watch", "create", "update", "patch"}},
		rbacv1.PolicyRule{APIGroups: []string{""}, Resources: []string{"configmaps"}, Verbs: []string{"*"}},
	)
	m := module(t, "simple")
	f.apply(m, Installed, 1)
	for i := range 4 {
		f.apply(m.with("text", strings.Repeat("x", i+1)), Upgraded, i+2)
	}
	f.wantRevisions("simple", "1 superseded", "2 superseded", "3 superseded", "4 superseded", "5 deployed")
}

// H1, H2: subcharts, helpers, tpl, files; the name of the chart is ignored.
func TestApplyFeatures(t *testing.T) {
	f := start(t)
	m := module(t, "features").with("expression", "{{ .Release.Name }}/{{ .Release.Namespace }}")
	m.Values["global"] = map[string]any{"zone": "z1"}
	f.apply(m, Installed, 1)
	want := map[string]string{"tpl": "features/" + f.namespace, "file": "content of a file\n", "kube": "true"}
	if got := f.configMap("features-another-name"); !reflect.DeepEqual(got, want) {
		t.Errorf("config = %v, want %v", got, want)
	}
	if got := f.configMap("features-sub"); got["word"] != "from-parent" || got["zone"] != "z1" {
		t.Errorf("subchart = %v", got)
	}
	f.gone("the disabled subchart was installed", "features-extra")
	f.restart()
	f.apply(m, Skipped, 1)
	f.apply(m, Skipped, 1) // the loaded chart is not changed by its use
}

// H2: a value that a hook removed does not come back through the defaults.
func TestApplyRemovedValue(t *testing.T) {
	f := start(t)
	m := module(t, "simple").with("text", "static")
	f.apply(m, Installed, 1)
	removed := m
	removed.Values = map[string]any{"global": map[string]any{}, "simple": map[string]any{}}
	f.apply(removed, Upgraded, 2)
	if got := f.configMap("simple-a")["text"]; got != "" {
		t.Errorf("text = %q, want it to be gone", got)
	}
	removed.Values = map[string]any{"global": map[string]any{}, "simple": map[string]any{"text": "back"}}
	f.apply(removed, Upgraded, 3)
}

// H2: templates see the numbers of Helm, and the values of the module keep theirs. What printf prints by mistake is
// installed, and named without the value, also after a restart.
func TestApplyNumbers(t *testing.T) {
	f := start(t)
	m := moduleOf(t, "numbers", `
-- templates/a.yaml --
apiVersion: v1
kind: ConfigMap
metadata: {name: numbers}
data:
  int: "{{ .Values.numbers.int }}, {{ int64 .Values.numbers.int }}"
  float: {{ printf "%d" .Values.numbers.float | quote }}
  beyond: "{{ .Values.numbers.beyond }}"
  yaml: {{ toYaml .Values.numbers.list | quote }}
`)
	m = m.with("int", int64(12345678901)).with("float", 0.5).with("beyond", json.Number("123456789012345678901234567890"))
	m = m.with("list", []any{int64(1000000), int64(9007199254740993)})
	before, _ := json.Marshal(m.Values)
	f.apply(m, Installed, 1)
	f.restart()
	f.apply(m, Skipped, 1)
	want := map[string]string{
		"int": "1.2345678901e+10, 12345678901", "float": "%!d(float64=0.5)", "beyond": "1.2345678901234568e+29", "yaml": "- 1000000\n- 9007199254740992",
	}
	if got := f.configMap("numbers"); !reflect.DeepEqual(got, want) {
		t.Errorf("numbers = %v, want %v", got, want)
	}
	if now, _ := json.Marshal(m.Values); !bytes.Equal(now, before) {
		t.Errorf("values changed from %s to %s", before, now)
	}
}

// H10: labels on metadata only, without replacing what the chart sets.
func TestApplyLabels(t *testing.T) {
	f := start(t)
	m := moduleOf(t, "labels", `
-- templates/a.yaml --
apiVersion: apps/v1
kind: Deployment
metadata:
  name: labels
  labels: {heritage: chart}
spec:
  replicas: 0
  selector: {matchLabels: {app: a}}
  template:
    metadata: {labels: {app: a}}
    spec: {containers: [{name: c, image: none}]}
`)
	f.apply(m, Installed, 1)
	f.labels = map[string]string{"heritage": "addon-operator", "team": "x"}
	f.restart()
	f.apply(m, Upgraded, 2)
	d, err := f.kube.AppsV1().Deployments(f.namespace).Get(t.Context(), "labels", metav1.GetOptions{})
	must(t, err)
	if d.Labels["heritage"] != "chart" || d.Labels["team"] != "x" || d.Generation != 1 {
		t.Errorf("labels %v, generation %d", d.Labels, d.Generation)
	}
	if want := map[string]string{"app": "a"}; !maps.Equal(d.Spec.Template.Labels, want) || !maps.Equal(d.Spec.Selector.MatchLabels, want) {
		t.Errorf("template labels %v, selector %v", d.Spec.Template.Labels, d.Spec.Selector.MatchLabels)
	}
	f.apply(m, Skipped, 2)
}

// H6, H14: tests of the chart are no reason for a revision: neither those that have random names, nor
// a change of one.
func TestApplyIgnoresHelmTests(t *testing.T) {
	f := start(t)
	m := module(t, "simple").with("text", "one")
	write(t, m, "templates/tests/a.yaml", "{apiVersion: v1, kind: Pod, metadata: {name: \"a-{{ randAlphaNum 9 | lower }}\", annotations: {helm.sh/hook: test-success}}}")
	f.apply(m, Installed, 1)
	f.restart()
	f.apply(m, Skipped, 1)
	write(t, m, "templates/tests/a.yaml", "{apiVersion: v1, kind: Pod, metadata: {name: another, annotations: {helm.sh/hook: test}}}")
	f.apply(m, Skipped, 1)
	if p, err := f.client.Plan(t.Context(), m); err != nil || p.Action != Skipped {
		t.Errorf("plan: %+v, %v", p, err)
	}
	f.apply(m.with("text", "two"), Upgraded, 2)
}

// H10: each object of a release has a label that no chart sets, with the name of the module. It is no reason
// for a revision: what an older operator has installed gets it with the next one.
func TestApplyMarksObjects(t *testing.T) {
	f := start(t)
	kind := devclustertest.Kind("Marked")
	f.createCRDOf(kind)
	m := moduleOf(t, "marked", `
-- templates/a.yaml --
apiVersion: v1
kind: ConfigMap
metadata: {name: marked, labels: {heritage: Helm, addon-operator/module: chart}}
data: {text: {{ .Values.marked.text | quote }}}
---
apiVersion: `+groupOf(f.namespace)+`/v1
kind: `+kind+`
metadata: {name: marked}
spec: {text: {{ .Values.marked.text | quote }}}
`)
	client, err := dynamic.NewForConfig(f.config)
	must(t, err)
	objects := []dynamic.ResourceInterface{
		client.Resource(schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}).Namespace(f.namespace),
		client.Resource(schema.GroupVersionResource{Group: groupOf(f.namespace), Version: "v1", Resource: "things"}).Namespace(f.namespace),
	}
	marks := func(want string) {
		t.Helper()
		for _, of := range objects {
			live, err := of.Get(t.Context(), "marked", metav1.GetOptions{})
			must(t, err)
			if got := live.GetLabels(); got[MarkLabel] != want || live.GetKind() == "ConfigMap" && got["heritage"] != "Helm" {
				t.Errorf("labels of the %s: %v, want the mark %q", live.GetKind(), got, want)
			}
		}
	}
	f.apply(m.with("text", "one"), Installed, 1)
	marks("marked")
	for _, of := range objects {
		must(t, second(of.Patch(t.Context(), "marked", types.MergePatchType, []byte(`{"metadata":{"labels":{"`+MarkLabel+`":null}}}`), metav1.PatchOptions{})))
	}
	f.restart()
	f.apply(m.with("text", "one"), Skipped, 1)
	if drifted, known, err := f.client.Drift(t.Context(), m.with("text", "one")); err != nil || !known || len(drifted) > 0 {
		t.Errorf("drift %+v, known %v, %v", drifted, known, err)
	}
	marks("")
	f.apply(m.with("text", "two"), Upgraded, 2)
	marks("marked")
	if drifted, known, err := f.client.Drift(t.Context(), m.with("text", "two")); err != nil || !known || len(drifted) > 0 {
		t.Errorf("drift %+v, known %v, %v", drifted, known, err)
	}
}

// H14: hooks of the chart run, and their objects may be absent.
func TestApplyHooks(t *testing.T) {
	f := start(t)
	m := module(t, "hooks").with("word", "one")
	f.apply(m, Installed, 1)
	if got := f.configMap("hooks-before")["step"]; got != "install" {
		t.Errorf("pre-install saw %q", got)
	}
	f.deleteConfigMap("hooks-before")
	f.apply(m, Skipped, 1)
	f.apply(m.with("word", "two"), Upgraded, 2)
	if got := f.configMap("hooks-before")["step"]; got != "upgrade" {
		t.Errorf("pre-upgrade saw %q", got)
	}
}

// H6: lookup reads the cluster, and a changed answer is a changed manifest.
func TestApplyLookup(t *testing.T) {
	f := start(t)
	m := module(t, "lookup")
	f.apply(m, Installed, 1)
	if got := f.configMap("lookup")["seen"]; got != "nothing" {
		t.Errorf("seen = %q", got)
	}
	f.apply(m, Skipped, 1)
	f.create("outside", map[string]string{"word": "hello"}, nil)
	f.apply(m, Upgraded, 2)
	if got := f.configMap("lookup")["seen"]; got != "hello" {
		t.Errorf("seen = %q", got)
	}
	f.apply(m, Skipped, 2)
}

// H6: charts that render by chance. The kinds of the API server are among their inputs, so they
// have one of their own: other tests define kinds in the one that is shared.
func TestApplyUnstable(t *testing.T) {
	t.Parallel()
	cluster := devclustertest.Borrow(t)
	for situation, test := range map[string]func(*fixture){
		"an input changes": unstableByChance, "time passes": unstableByTheClock, "lookup": unstableLookup,
	} {
		t.Run(situation, func(t *testing.T) { test(startOn(t, cluster)) })
	}
}

// The chart is upgraded when an input changes.
func unstableByChance(f *fixture) {
	t := f.T
	m := moduleOf(t, "unstable", `
-- templates/_helpers.tpl --
{{- define "word" }}{{ randAlphaNum 20 }}{{ end }}
-- templates/steady.yaml --
{apiVersion: v1, kind: ConfigMap, metadata: {name: steady}}
-- templates/random.yaml --
{apiVersion: v1, kind: ConfigMap, metadata: {name: random}, data: {word: "{{ include "word" . }}"}}
`)
	f.apply(m, Installed, 1)
	f.apply(m, Skipped, 1) // the render is remembered
	word := f.configMap("random")["word"]
	f.restart()
	held := f.apply(m, Skipped, 1)
	if !held.Unstable || f.configMap("random")["word"] != word {
		t.Errorf("held as %+v", held)
	}
	f.deleteConfigMap("random")
	f.apply(m, Upgraded, 2) // an absent object is brought back
	f.restart()
	f.apply(m.with("a", "b"), Upgraded, 3)
	f.apply(m.with("a", "b"), Skipped, 3)
	f.restart()
	write(t, m, "templates/steady.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: steady}\ndata: {a: b}\n")
	f.apply(m.with("a", "b"), Upgraded, 4)
}

// Two renders within a second may agree about the time, and one of another day does not. The
// inputs say that nothing has changed.
func unstableByTheClock(f *fixture) {
	t := f.T
	m := moduleOf(t, "clock", "-- templates/cm.yaml --\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: clock}\ndata: {year: \"{{ now | date \"2006\" }}\"}\n")
	f.apply(m, Installed, 1)
	f.editRecord("clock", 1, func(s *corev1.Secret) { s.Labels[ChecksumLabel] = "of-last-year" })
	f.restart()
	if held := f.apply(m, Skipped, 1); !held.Unstable {
		t.Errorf("held as %+v", held)
	}
	f.apply(m.with("a", "b"), Upgraded, 2)
}

// What lookup finds may be the reason for another render: then the chart is upgraded, unless it renders by chance.
func unstableLookup(f *fixture) {
	t := f.T
	m := moduleOf(t, "looks", `
-- templates/cm.yaml --
apiVersion: v1
kind: ConfigMap
metadata: {name: looks}
data:
  seen: {{ (lookup "v1" "ConfigMap" .Release.Namespace "outside").data | toJson | quote }}
  own: {{ (lookup "v1" "ConfigMap" .Release.Namespace "looks").data | toJson | b64enc | trunc 5 }}
`)
	f.apply(m, Installed, 1)
	f.apply(m, Upgraded, 2) // what it has made is there now
	f.apply(m, Skipped, 2)
	f.restart()
	f.apply(m, Skipped, 2)
	outside := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "outside"}, Data: map[string]string{"a": "1"}}
	must(t, second(f.kube.CoreV1().ConfigMaps(f.namespace).Create(t.Context(), outside, metav1.CreateOptions{})))
	f.apply(m, Upgraded, 3)
	f.apply(m, Skipped, 3)
	write(t, m, "templates/word.yaml", "{apiVersion: v1, kind: ConfigMap, metadata: {name: word}, data: {a: {{ randAlphaNum 20 }}}}\n")
	f.apply(m, Upgraded, 4)
	for _, value := range []string{"1", "2"} {
		f.patch("configmaps", "outside", `{"data":{"a":"`+value+`"}}`)
		if held := f.apply(m, Skipped, 4); !held.Unstable {
			t.Errorf("held as %+v", held)
		}
		f.restart()
	}
	f.apply(m.with("a", "b"), Upgraded, 5) // an input
}

// H6: a checksum of an older operator lies in the values of the release.
func TestApplyLegacyChecksum(t *testing.T) {
	f := start(t)
	m := module(t, "simple")
	f.apply(m, Installed, 1)
	f.editRecord("simple", 1, func(s *corev1.Secret) {
		rel, err := decodeRelease(s.Data["release"])
		must(t, err)
		rel.Config[legacyChecksumKey] = s.Labels[ChecksumLabel]
		delete(s.Labels, ChecksumLabel)
		delete(s.Labels, revisionLabel)
		s.Data["release"], err = new(encoder).encode(rel)
		must(t, err)
	})
	f.apply(m, Skipped, 1)
	f.restart()
	f.apply(m, Skipped, 1)
	f.apply(m.with("text", "other"), Upgraded, 2)
	f.apply(m.with("text", "other"), Skipped, 2)
}

// H11: a custom kind that appears after the client started.
func TestApplyNewKind(t *testing.T) {
	f := start(t)
	m := moduleOf(t, "newkind", strings.ReplaceAll(`
-- templates/a.yaml --
{apiVersion: GROUP/v1, kind: Thing, metadata: {name: thing}, spec: {size: {{ .Values.newkind.size }}}}
-- templates/b.yaml --
apiVersion: v1
kind: ConfigMap
metadata: {name: api}
data: {has: "{{ .Capabilities.APIVersions.Has "GROUP/v1" }}"}
`, "GROUP", groupOf(f.namespace))).with("size", int64(1))
	err := f.refuse(m, Invalid)
	if !strings.Contains(err.Error(), "Thing") || !strings.Contains(err.Error(), "install the CRD") {
		t.Errorf("error = %v", err)
	}
	f.wantRevisions("newkind") // nothing was stored

	f.createCRD()
	f.eventually(func() bool {
		_, err := f.client.Apply(t.Context(), m)
		return err == nil
	})
	if got := f.configMap("api")["has"]; got != "true" {
		t.Errorf("the capabilities do not show the new kind: %q", got)
	}
	f.apply(m, Skipped, 1)
	f.apply(m.with("size", int64(2)), Upgraded, 2)
	// The kind goes, then the release: neither its upgrade nor its end is blocked.
	f.deleteCRD()
	remove(t, m, "templates/a.yaml")
	f.eventually(func() bool {
		_, err := f.client.Apply(t.Context(), m)
		return err == nil
	})
	f.uninstall("newkind", true)
}

// H18: different releases at the same time, and the same one too.
func TestApplyConcurrently(t *testing.T) {
	f := start(t)
	modules := []Module{module(t, "simple"), module(t, "features").with("expression", "x"), module(t, "lookup"), module(t, "hooks").with("word", "x")}
	var wg sync.WaitGroup
	for range 3 {
		for _, m := range modules {
			wg.Go(func() {
				if _, err := f.client.Apply(t.Context(), m); err != nil {
					t.Error(err)
				}
			})
		}
	}
	wg.Wait()
	names, err := f.client.Releases(t.Context())
	if want := []string{"features", "hooks", "lookup", "simple"}; err != nil || !slices.Equal(names, want) {
		t.Errorf("releases = %v, %v; want %v", names, err, want)
	}
	for _, name := range names {
		f.wantRevisions(name, "1 deployed")
	}
}

// M7, H7: the definitions in crds/ of a chart are not Helm's business, at no install.
func TestApplySkipsCRDs(t *testing.T) {
	f := start(t)
	m := moduleOf(t, "definer", `
-- crds/things.yaml --
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: things.`+groupOf(f.namespace)+`}
spec:
  group: `+groupOf(f.namespace)+`
  scope: Namespaced
  names: {plural: things, kind: Thing}
  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}]
-- templates/a.yaml --
{apiVersion: v1, kind: ConfigMap, metadata: {name: definer}}
`)
	f.apply(m, Installed, 1)
	if _, err := f.crds().Get(f.Context(), "things."+groupOf(f.namespace), metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("Helm has installed the definition: %v", err)
	}
}

// noise is text that cannot be packed.
func noise(size int) string {
	rnd := rand.New(rand.NewPCG(1, 1))
	data := make([]byte, size*3/4)
	for i := range data {
		data[i] = byte(rnd.Uint32())
	}
	return base64.StdEncoding.EncodeToString(data)
}

// A manifest that no record can hold is refused before anything is applied, with what to
// do; large files of the chart that no object shows do not count.
func TestApplyTooLargeRecord(t *testing.T) {
	if raced {
		t.Skip("make test plays it without the race detector")
	}
	f := start(t)
	m := moduleOf(t, "large", "-- Chart.yaml --\napiVersion: v2\nname: large\nversion: 1.0.0\n-- templates/all.yaml --\n"+
		"{{ range $i := until (int .Values.large.count) }}\n---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: large-{{ $i }}}\ndata: {text: {{ $.Files.Get (printf \"files/%d\" $i) | quote }}}\n{{ end }}\n")
	for i := range 4 {
		write(t, m, fmt.Sprintf("files/%d", i), noise(600_000)+fmt.Sprint(i))
	}
	err := f.refuse(m.with("count", int64(2)), Invalid)
	wantError(t, err, "split the module")
	f.wantRevisions("large")
	f.gone("objects were applied without a record", "large-0")
	f.apply(m.with("count", int64(1)), Installed, 1)
	wantError(t, f.refuse(m.with("count", int64(2)), Invalid), "split the module")
	f.wantRevisions("large", "1 deployed")
	f.apply(m.with("count", int64(1)), Skipped, 1)
}

// operationsOf applies a module and returns what Began was told, failures marked.
func (f *fixture) operationsOf(m Module) []string {
	f.Helper()
	f.caughtUp()
	var ended []string
	m.Began = func(o Operation) func(error) {
		return func(err error) { ended = append(ended, fmt.Sprint(o, map[bool]string{true: " failed"}[err != nil])) }
	}
	_, err := f.client.Apply(f.Context(), m)
	if failed := slices.ContainsFunc(ended, func(o string) bool { return o[len(o)-1] == 'd' }); failed != (err != nil) {
		f.Errorf("operations %q, but Apply says %v", ended, err)
	}
	return ended
}

// I2: the operations that helm_operation_seconds measures.
func TestOperationsAreTold(t *testing.T) {
	f := start(t)
	m := module(t, "simple").with("text", "one")
	wants := func(what string, m Module, want ...string) {
		t.Helper()
		if got := f.operationsOf(m); !slices.Equal(got, want) {
			t.Errorf("%s: told %q, want %q", what, got, want)
		}
	}
	wants("install", m, "template", "check-upgrade", "upgrade")
	wants("nothing to do", m, "template", "check-upgrade")
	m = m.with("text", "two")
	wants("upgrade", m, "template", "check-upgrade", "upgrade")
	f.setStatus("simple", 2, "pending-upgrade")
	f.restart()
	wants("an interrupted revision", m, "template", "check-upgrade", "fallback", "upgrade")
	if got := f.apply(m, Skipped, 3); got.ChartVersion == "" {
		t.Error("the version of the chart is not told")
	}
	write(t, m, "templates/broken.yaml", "a: {{ .Values.none.deeper }}\n")
	wants("a chart that does not render", m, "template failed")
}

// helm.sh/resource-policy: keep. What a chart wants to keep stays when it leaves the chart,
// when a failed revision is repaired and when the release goes; a later install takes it
// over with its content.
func TestApplyKeeps(t *testing.T) {
	f := start(t)
	m := moduleOf(t, "keeper", `
-- templates/all.yaml --
{{ range .Values.keeper.kept }}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: {{ . }}, annotations: {helm.sh/resource-policy: keep}}
data: {text: chart}
{{ end }}
---
{apiVersion: v1, kind: Service, metadata: {name: web}, spec: {ports: [{port: {{ .Values.keeper.port }}}]}}
`)
	broken, fixed := m.with("port", int64(-1)), m.with("port", int64(80))
	there := func(when string, names ...string) {
		t.Helper()
		for _, name := range names {
			if f.configMap(name) == nil {
				t.Errorf("%s: %s is gone", when, name)
			}
		}
	}
	f.refuse(broken.with("kept", []any{"one", "two"}), Invalid)
	f.apply(fixed.with("kept", []any{"one"}), Installed, 1)
	there("after a failed first install", "one", "two")
	f.refuse(broken.with("kept", []any{"one", "three"}), Invalid)
	f.apply(fixed.with("kept", []any{"one"}), Upgraded, 3)
	there("after a failed upgrade", "one", "three")
	f.apply(fixed.with("kept", []any{}), Upgraded, 4)
	there("after it left the chart", "one")
	f.deleteConfigMap("one")
	f.apply(fixed.with("kept", []any{}), Skipped, 4) // it is not missed
	f.apply(fixed.with("kept", []any{"one"}), Upgraded, 5)
	f.uninstall("keeper", true)
	there("after the uninstall", "one", "two", "three")
	f.patch("configmaps", "one", `{"data":{"own":"kept"}}`)
	f.apply(fixed.with("kept", []any{"one", "two"}), Installed, 1)
	if data := f.configMap("one"); data["text"] != "chart" || data["own"] != "kept" {
		t.Errorf("what was kept is not taken over as it is: %v", data)
	}
}
