package kube

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"addon-operator/kube/objectpatch"
	"addon-operator/testkit/devclustertest"
)

// patch applies operations written as text, with $NS for the namespace.
func (w *world) patch(ns, text string) error {
	w.t.Helper()
	patches, err := objectpatch.Parse([]byte(strings.ReplaceAll(text, "$NS", ns)))
	must(w.t, err)
	if err := w.client.CheckObjectPatches(w.t.Context(), patches); err != nil {
		return err
	}
	_, err = w.client.ApplyObjectPatches(w.t.Context(), patches)
	return err
}

func (w *world) dataOf(ns, name string) string {
	w.t.Helper()
	object, err := w.admin.CoreV1().ConfigMaps(ns).Get(w.t.Context(), name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return "absent"
	}
	must(w.t, err)
	text, err := json.Marshal(object.Data)
	must(w.t, err)
	return string(text)
}

// K2, K3, X30: each operation on an object that is there and one that is not.
func TestApplyObjectPatches(t *testing.T) {
	world := newWorld(t, devclustertest.Start(t))
	object := func(operation string) string {
		return `{"operation":"` + operation + `","object":{"kind":"configmap","metadata":{"namespace":"$NS","name":"c"},"data":{"k":"new"}}}`
	}
	on := func(operation, rest string) string {
		return `{"operation":"` + operation + `","kind":"ConfigMap","namespace":"$NS","name":"c"` + rest + `}`
	}
	tests := map[string]struct {
		text            string
		present, absent string // data afterwards, or "error"
	}{
		"Create":             {object("Create"), "error", `{"k":"new"}`},
		"CreateIfNotExists":  {object("CreateIfNotExists"), `{"k":"old","o":"1"}`, `{"k":"new"}`},
		"CreateOrUpdate":     {object("CreateOrUpdate"), `{"k":"new"}`, `{"k":"new"}`},
		"ServerSideApply":    {object("ServerSideApply"), `{"k":"new","o":"1"}`, `{"k":"new"}`},
		"Delete":             {on("Delete", ""), "absent", "absent"},
		"DeleteInBackground": {on("DeleteInBackground", ""), "absent", "absent"},
		"DeleteNonCascading": {on("DeleteNonCascading", ""), "absent", "absent"},
		"MergePatch":         {on("MergePatch", `,"mergePatch":{"data":{"k":null,"n":"2"}}`), `{"n":"2","o":"1"}`, "error"},
		"MergePatch lenient": {on("MergePatch", `,"mergePatch":{"data":{"k":null}},"ignoreMissingObject":true`), `{"o":"1"}`, "absent"},
		"JSONPatch":          {on("JSONPatch", `,"jsonPatch":[{"op":"replace","path":"/data/k","value":"new"}]`), `{"k":"new","o":"1"}`, "error"},
		"JQPatch":            {on("JQPatch", `,"jqFilter":".data.k += \"er\""`), `{"k":"older","o":"1"}`, "error"},
		"JQPatch of nothing": {on("JQPatch", `,"jqFilter":"."`), `{"k":"old","o":"1"}`, "error"},
		"JQPatch to rename":  {on("JQPatch", `,"jqFilter":".metadata.name = \"d\""`), "error", "error"},
		"JQPatch to no one":  {on("JQPatch", `,"jqFilter":"empty"`), "error", "error"},
		"JQPatch to a text":  {on("JQPatch", `,"jqFilter":".kind"`), "error", "error"},
		"JQPatch that fails": {on("JQPatch", `,"jqFilter":"error(\"no\")"`), "error", "error"},
	}
	for situation, test := range tests {
		t.Run(situation, func(t *testing.T) {
			for _, present := range []bool{true, false} {
				ns := world.Namespace(t)
				want := test.absent
				if present {
					want = test.present
					world.createConfigMap(ns, "c", map[string]string{"k": "old", "o": "1"})
				}
				err := world.patch(ns, test.text)
				if (err != nil) != (want == "error") {
					t.Errorf("present %v: error %v, want %s", present, err, want)
				}
				if want == "absent" { // orphaning takes the controller a moment
					eventually(t, "the object is gone", func() bool { return world.dataOf(ns, "c") == want })
				}
				if got := world.dataOf(ns, "c"); want != "error" && got != want {
					t.Errorf("present %v: data %s, want %s", present, got, want)
				}
			}
		})
	}
}

// X30: CreateOrUpdate takes an object as a snapshot shows it, whose version is an old one,
// also when the object is gone meanwhile.
func TestCreateOrUpdateOfASnapshot(t *testing.T) {
	world := newWorld(t, devclustertest.Start(t))
	ns := world.Namespace(t)
	snapshot := world.createConfigMap(ns, "c", map[string]string{"k": "old"})
	text := `{"operation":"CreateOrUpdate","object":{"apiVersion":"v1","kind":"ConfigMap","metadata":{"namespace":"$NS","name":"c","uid":"` +
		string(snapshot.UID) + `","resourceVersion":"` + snapshot.ResourceVersion + `"},"data":{"k":"new"}}}`
	for _, situation := range []string{"present", "changed", "absent"} {
		switch situation {
		case "changed":
			world.updateConfigMap(ns, "c", func(c *corev1.ConfigMap) { c.Data["k"] = "other" })
		case "absent":
			world.deleteConfigMap(ns, "c")
		}
		if err := world.patch(ns, text); err != nil {
			t.Errorf("%s: %v", situation, err)
		}
		if got := world.dataOf(ns, "c"); got != `{"k":"new"}` {
			t.Errorf("%s: data %s", situation, got)
		}
	}
}

// K7: what cannot be right is found before anything is done.
func TestApplyObjectPatchesNamesNamespaces(t *testing.T) {
	world := newWorld(t, devclustertest.Start(t))
	ns := world.Namespace(t)
	err := world.patch(ns, `
{"operation":"Create","object":{"kind":"ConfigMap","metadata":{"name":"c","namespace":"$NS"}}}
{"operation":"Delete","kind":"ConfigMap","name":"c"}
{"operation":"Delete","kind":"Namespace","namespace":"x","name":"c"}`)
	if err == nil || !strings.Contains(err.Error(), "set the namespace") || !strings.Contains(err.Error(), "remove the namespace") {
		t.Errorf("error %v, want both mistakes", err)
	}
	if got := world.dataOf(ns, "c"); got != "absent" {
		t.Errorf("something was done: %s", got)
	}
}

// K5: after an error the rest is tried, and what failed is left.
func TestApplyObjectPatchesGoesOn(t *testing.T) {
	world := newWorld(t, devclustertest.Start(t))
	ns := world.Namespace(t)
	patches, err := objectpatch.Parse([]byte(strings.ReplaceAll(`
{"operation":"MergePatch","kind":"ConfigMap","namespace":"$NS","name":"absent-one","mergePatch":{}}
{"operation":"Create","object":{"kind":"ConfigMap","metadata":{"name":"c","namespace":"$NS"},"data":{"k":"v"}}}
{"operation":"MergePatch","kind":"ConfigMap","namespace":"$NS","name":"absent-two","mergePatch":{}}`, "$NS", ns)))
	must(t, err)
	left, err := world.client.ApplyObjectPatches(t.Context(), patches)
	if err == nil || !strings.Contains(err.Error(), "absent-one") || !strings.Contains(err.Error(), "absent-two") {
		t.Errorf("error %v, want the first and the last operation", err)
	}
	if got := world.dataOf(ns, "c"); got != `{"k":"v"}` {
		t.Errorf("the operation behind the first was not tried: %s", got)
	}
	if len(left) != 2 || left[0].Name != "absent-one" || left[1].Name != "absent-two" {
		t.Errorf("left %v, want what failed", left)
	}
	world.createConfigMap(ns, "absent-one", nil)
	world.createConfigMap(ns, "absent-two", nil)
	if left, err := world.client.ApplyObjectPatches(t.Context(), left); len(left) > 0 || err != nil {
		t.Errorf("left %v, %v", left, err)
	}
}

// K2: a Create whose answer was lost has succeeded when the object is there.
func TestCreateWithoutAnswer(t *testing.T) {
	world := newWorld(t, devclustertest.Start(t))
	ns := world.Namespace(t)
	patches, err := objectpatch.Parse([]byte(`{"operation":"Create","object":{"kind":"ConfigMap","metadata":{"name":"c","namespace":"` + ns + `"}}}`))
	must(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	must(t, world.client.CheckObjectPatches(t.Context(), patches)) // the kinds are known from here on
	left, err := world.client.ApplyObjectPatches(ctx, patches)
	if err == nil || len(left) != 1 {
		t.Fatalf("left %v, %v; want the operation", left, err)
	}
	world.createConfigMap(ns, "c", nil)
	if left, err = world.client.ApplyObjectPatches(t.Context(), left); err != nil || len(left) > 0 {
		t.Errorf("left %v, %v", left, err)
	}
	if left, err = world.client.ApplyObjectPatches(t.Context(), patches); !apierrors.IsAlreadyExists(err) || len(left) != 1 {
		t.Errorf("left %v, %v; want a refusal", left, err)
	}
}

// K3, K7: a kind that was never there refuses the whole file, also in a delete, unless the hook says that it may be
// missing.
func TestObjectPatchesOfNoKind(t *testing.T) {
	world := newWorld(t, devclustertest.Start(t))
	const unknown = `"kind":"Secrett","namespace":"$NS","name":"x"`
	for text, want := range map[string]string{
		`{"operation":"Delete",` + unknown + `}`:                                                       "Delete Secrett $NS/x: find Secrett: the API server has no such kind; check the kind",
		`{"operation":"DeleteInBackground",` + unknown + `}`:                                           "no such kind",
		`{"operation":"MergePatch",` + unknown + `,"mergePatch":{}}`:                                   "no such kind",
		`{"operation":"Create","object":{"kind":"Secrett","metadata":{"namespace":"$NS","name":"x"}}}`: "no such kind",
		`{"operation":"Delete","apiVersion":"v2",` + strings.Replace(unknown, "tt", "t", 1) + `}`:      "find v2/Secret",
		`{"operation":"Delete",` + unknown + `,"ignoreMissingObject":true}`:                            "",
		`{"operation":"MergePatch",` + unknown + `,"mergePatch":{},"ignoreMissingObject":true}`:        "",
		`{"operation":"Delete","kind":"Secret","namespace":"$NS","name":"x"}`:                          "",
	} {
		ns := world.Namespace(t)
		want = strings.ReplaceAll(want, "$NS", ns)
		err := world.patch(ns, `{"operation":"CreateIfNotExists","object":{"kind":"ConfigMap","metadata":{"name":"c","namespace":"$NS"}}}`+text)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
		if done := world.dataOf(ns, "c") != "absent"; done != (want == "") {
			t.Errorf("%s: the operation before it was done: %v", text, done)
		}
	}
}

// K5: of very many failures the first hundred are written out.
func TestApplyObjectPatchesTellsTheFirstFailures(t *testing.T) {
	world := newWorld(t, devclustertest.Start(t))
	ns := world.Namespace(t)
	err := world.patch(ns, strings.Repeat(`{"operation":"MergePatch","kind":"Unheard","namespace":"$NS","name":"absent","mergePatch":{}}`+"\n", 150))
	if err == nil || strings.Count(err.Error(), "absent") != 100 || !strings.Contains(err.Error(), "and 50 more operations failed") {
		t.Errorf("error %v, want 100 failures and the number of the others", err)
	}
}

// A file may define a kind and make an object of it, which is left for the next attempt while the kind is not served.
func TestApplyObjectPatchesOfANewKind(t *testing.T) {
	t.Parallel()
	world := newWorld(t, devclustertest.Start(t))
	ns := world.Namespace(t)
	widget := newTestKind("Widget")
	t.Cleanup(func() {
		must(t, world.client.dynamic.Resource(crdResource()).Delete(context.Background(), widget.definition(), metav1.DeleteOptions{}))
	})
	object := `{"operation":"Create","object":{"apiVersion":"test.example.com/v1","kind":"` + widget.name + `","metadata":{"name":"w","namespace":"$NS"}}}`
	if err := world.patch(ns, `{"operation":"Create","object":`+widget.definitionText()+`}`+object); err != nil {
		if !errors.Is(err, errNoKind) {
			t.Fatal(err)
		}
		eventually(t, "the next attempt makes the object", func() bool { return world.patch(ns, object) == nil })
	}
	l := listenSynced(t, world.watcher(), Spec{Kind: widget.name, Namespaces: []string{ns}, Filter: nothing})
	// The API server may list a kind that is a moment old from a cache that is older than the object.
	eventually(t, "the object is there", func() bool { return len(l.snapshot()) == 1 })
}

// K3: subresources.
func TestApplyObjectPatchesToStatus(t *testing.T) {
	world := newWorld(t, devclustertest.Start(t))
	ns := world.Namespace(t)
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "p"}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "i"}}}}
	must(t, second(world.admin.CoreV1().Pods(ns).Create(t.Context(), pod, metav1.CreateOptions{})))
	must(t, world.patch(ns, `
{"operation":"MergePatch","kind":"Pod","namespace":"$NS","name":"p","subresource":"/status","mergePatch":{"status":{"phase":"Running"}}}
{"operation":"JQPatch","kind":"po","namespace":"$NS","name":"p","subresource":"status","jqFilter":".status.message = \"hello\""}`))
	pod, err := world.admin.CoreV1().Pods(ns).Get(t.Context(), "p", metav1.GetOptions{})
	must(t, err)
	if pod.Status.Phase != corev1.PodRunning || pod.Status.Message != "hello" {
		t.Errorf("status %+v", pod.Status)
	}
}
