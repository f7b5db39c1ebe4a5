package helm

import (
	"errors"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// plan expects an action without a single write.
func (f *fixture) plan(w *requestLog, m Module, want Action) Plan {
	f.Helper()
	f.caughtUp()
	w.writes()
	got, err := f.client.Plan(f.Context(), m)
	if err != nil {
		f.Fatalf("plan: %v", err)
	}
	if got.Action != want {
		f.Fatalf("plan: %s (%s), want %s", got.Action, got.Reason, want)
	}
	if all := w.writes(); len(all) > 0 {
		f.Errorf("a plan wrote: %q", all)
	}
	return got
}

func verbs(changes []Change) string {
	var all []string
	for _, c := range changes {
		line := string(c.Verb) + " " + c.Object.GVK.Kind + " " + c.Object.Name
		if c.Note != "" {
			line += " (" + c.Note + ")"
		}
		all = append(all, line)
	}
	return strings.Join(all, ", ")
}

func expectText(t *testing.T, what, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("%s: %s, want %s", what, got, want)
	}
}

// A plan says what Apply then does, in every state of a release, and writes nothing.
func TestPlanIsWhatApplyDoes(t *testing.T) {
	f := start(t)
	w := f.record()
	m := module(t, "simple").with("text", "one")

	p := f.plan(w, m, Installed)
	expectText(t, "first install", verbs(p.Changes), "create ConfigMap simple-a, create ConfigMap simple-b")
	expectText(t, "reason", p.Reason, "there is no release")
	if f.configMap("simple-a") != nil || len(f.revisions("simple")) > 0 {
		t.Fatal("a plan installed the chart")
	}
	f.apply(m, Installed, 1)
	expectText(t, "nothing to do", verbs(f.plan(w, m, Skipped).Changes), "")

	write(t, m, "templates/c.yaml", "apiVersion: v1\nkind: Secret\nmetadata: {name: simple-c}\nstringData: {password: hunter2}\n")
	remove(t, m, "templates/b.yaml")
	p = f.plan(w, m.with("text", "two"), Upgraded)
	expectText(t, "upgrade", verbs(p.Changes), "change ConfigMap simple-a, delete ConfigMap simple-b, create Secret simple-c")
	if fields := p.Changes[0].Fields(false); len(fields) != 1 || fields[0].Path != "data.text" || fields[0].After != "two" {
		t.Errorf("fields of simple-a: %+v", fields)
	}
	if diff := p.Changes[2].Diff(false); strings.Contains(diff, "hunter2") || !strings.Contains(diff, "+  password: '***'") {
		t.Errorf("the secret is not masked:\n%s", diff)
	}
	f.wantRevisions("simple", "1 deployed")
	expectText(t, "the memory of the client is not touched", f.apply(m.with("text", "two"), Upgraded, 2).Reason, p.Reason)
	if f.configMap("simple-a")["text"] != "two" || f.configMap("simple-b") != nil {
		t.Error("Apply did something else than the plan said")
	}

	f.deleteConfigMap("simple-a")
	p = f.plan(w, m.with("text", "two"), Upgraded)
	expectText(t, "an absent object", verbs(p.Changes), "create ConfigMap simple-a")

	f.setStatus("simple", 2, "pending-upgrade")
	p = f.plan(w, m.with("text", "three"), Upgraded)
	expectText(t, "a stuck release", verbs(p.Changes), "create ConfigMap simple-a")
	f.wantRevisions("simple", "1 superseded", "2 pending-upgrade")

	f.caughtUp()
	w.writes()
	gone, err := f.client.PlanRemoval(f.Context(), m, nil)
	if err != nil || gone.Action != Uninstalled {
		t.Fatalf("plan of uninstall: %+v, %v", gone, err)
	}
	expectText(t, "uninstall", verbs(gone.Changes), "delete Secret simple-c")
	if none, err := f.client.PlanRemoval(f.Context(), Module{Name: "absent"}, nil); err != nil || none.Action != "" || len(none.Changes) > 0 {
		t.Errorf("uninstall of nothing: %+v, %v", none, err)
	}
	if all := w.writes(); len(all) > 0 {
		t.Errorf("a plan wrote: %q", all)
	}
}

// Helm hooks are named, not run; objects whose namespace or kind does not exist yet are
// listed all the same.
func TestPlanOfWhatCannotBeTried(t *testing.T) {
	f := start(t)
	w := f.record()
	m := moduleOf(t, "new", `
-- templates/job.yaml --
apiVersion: batch/v1
kind: Job
metadata:
  name: migrate
  annotations: {helm.sh/hook: "pre-install,post-delete"}
spec:
  template: {spec: {restartPolicy: Never, containers: [{name: a, image: none}]}}
-- templates/ns.yaml --
apiVersion: v1
kind: Namespace
metadata: {name: `+f.namespace+`-inner}
---
apiVersion: v1
kind: ConfigMap
metadata: {name: inside, namespace: `+f.namespace+`-inner}
---
apiVersion: `+f.namespace+`.example.com/v1
kind: Thing
metadata: {name: thing}
`)
	p := f.plan(w, m, Installed)
	expectText(t, "changes", verbs(p.Changes), "create ConfigMap inside ("+NoteNamespace+"), create Namespace "+f.namespace+"-inner, create Thing thing ("+NoteKind+")")
	if len(p.Hooks) != 1 || p.Hooks[0].Object != "Job migrate" || !slices.Equal(p.Hooks[0].Events, []string{"pre-install"}) {
		t.Errorf("hooks: %+v", p.Hooks)
	}
}

// What the API server would refuse is reported before anything is sent for good.
func TestPlanOfWhatIsRefused(t *testing.T) {
	f := start(t)
	w := f.record()
	m := moduleOf(t, "bad", "-- templates/svc.yaml --\napiVersion: v1\nkind: Service\nmetadata: {name: bad}\nspec: {ports: [{port: {{ .Values.bad.port }}}]}\n").with("port", 80)
	f.apply(m, Installed, 1)
	for port, kind := range map[any]Kind{99999: Invalid, "{": Render} {
		w.writes()
		_, err := f.client.Plan(f.Context(), m.with("port", port))
		var problem *Error
		if !errors.As(err, &problem) || problem.Kind != kind {
			t.Errorf("port %v: %v, want an error of kind %s", port, err, kind)
		}
	}
	f.wantRevisions("bad", "1 deployed")
	if all := w.writes(); len(all) > 0 {
		t.Errorf("a plan wrote: %q", all)
	}
}

const driftChart = `
-- templates/all.yaml --
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  {{- with .Values.web.replicas }}
  replicas: {{ . }}
  {{- end }}
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
      - name: a
        image: none:1
        resources: {limits: {cpu: 1000m, memory: 1024Mi}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: web}, data: {mode: fast}}
---
{apiVersion: v1, kind: Secret, metadata: {name: web}, stringData: {password: hunter2}}
---
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {name: web}
spec: {minAvailable: 1, selector: {matchLabels: {app: web}}}
`

// wantDrift expects these drifted objects and fields, found without a write.
func (f *fixture) wantDrift(w *requestLog, m Module, want string) []Object {
	f.Helper()
	f.caughtUp()
	w.writes()
	changes, known, err := f.client.Drift(f.Context(), m)
	if err != nil || !known {
		f.Fatalf("drift: known %v, %v", known, err)
	}
	var got []string
	var objects []Object
	for _, c := range changes {
		objects = append(objects, c.Object)
		for _, field := range c.Fields(false) {
			got = append(got, c.Object.GVK.Kind+" "+field.Path+" "+jsonOf(field.Before)+" → "+jsonOf(field.After))
		}
	}
	expectText(f.T, "drift", strings.Join(got, ", "), want)
	if all := w.writes(); len(all) > 0 {
		f.Errorf("a look for drift wrote: %q", all)
	}
	return objects
}

func (f *fixture) patch(resource, name, patch string) {
	f.Helper()
	path := "/api/v1"
	if resource == "deployments" {
		path = "/apis/apps/v1"
	}
	request := f.kube.CoreV1().RESTClient().Patch(types.MergePatchType).AbsPath(path, "namespaces", f.namespace, resource, name)
	must(f, request.Body([]byte(patch)).Do(f.Context()).Error())
}

// Drift is what others changed of what the chart sets; Apply puts exactly that back.
// What the chart does not set, how the API server writes a quantity, and defaults are none.
func TestDrift(t *testing.T) {
	f := start(t)
	w := f.record()
	m := moduleOf(t, "web", driftChart)
	f.apply(m, Installed, 1)
	f.wantDrift(w, m, "")

	f.patch("deployments", "web", `{"spec":{"replicas":5,"template":{"metadata":{"annotations":{"restarted":"now"}}}}}`) // an autoscaler, and a restart
	f.patch("configmaps", "web", `{"data":{"other":"key"}}`)
	f.wantDrift(w, m, "")

	f.patch("configmaps", "web", `{"data":{"mode":"slow"},"metadata":{"labels":{"app.kubernetes.io/managed-by":"me"}}}`)
	f.patch("deployments", "web", `{"spec":{"template":{"spec":{"containers":[{"name":"a","image":"none:2"}]}}}}`)
	f.patch("secrets", "web", `{"data":{"password":"bXk="}}`)
	drifted := f.wantDrift(w, m, `ConfigMap data.mode "slow" → "fast", ConfigMap metadata.labels["app.kubernetes.io/managed-by"] "me" → "Helm", `+
		`Deployment spec.template.spec.containers[0].image "none:2" → "none:1", `+
		`Deployment spec.template.spec.containers[0].resources.limits null → {"cpu":"1","memory":"1Gi"}, Secret data.password "***" → "*** (changed)"`)

	m.Drifted = drifted
	outcome := f.apply(m, Upgraded, 2)
	if !strings.Contains(outcome.Reason, "was changed by others, and 2 more") {
		t.Errorf("reason: %s", outcome.Reason)
	}
	m.Drifted = nil
	f.wantDrift(w, m, "")
	if cm := f.configMap("web"); cm["mode"] != "fast" || cm["other"] != "key" {
		t.Errorf("the ConfigMap has %v", cm)
	}
	deployment, err := f.kube.AppsV1().Deployments(f.namespace).Get(f.Context(), "web", metav1.GetOptions{})
	if err != nil || *deployment.Spec.Replicas != 5 {
		t.Errorf("what the chart does not set was touched: %v, %v", deployment.Spec.Replicas, err)
	}
	f.apply(m, Skipped, 2)

	// Set by the chart, replicas are drift.
	m = m.with("replicas", 2)
	if _, known, err := f.client.Drift(f.Context(), m); err != nil || known {
		t.Errorf("an upgrade that is due is taken for drift: %v, %v", known, err)
	}
	f.apply(m, Upgraded, 3)
	f.patch("deployments", "web", `{"spec":{"replicas":7}}`)
	f.wantDrift(w, m, "Deployment spec.replicas 7 → 2")
}

// Helm compares only manifests of custom resources; for drift the cluster counts, too.
func TestDriftOfACustomResource(t *testing.T) {
	f := start(t)
	w := f.record()
	group := groupOf(f.namespace)
	f.createCRD()
	m := moduleOf(t, "cr", "-- templates/thing.yaml --\napiVersion: "+group+"/v1\nkind: Thing\nmetadata: {name: thing}\nspec: {size: 1, list: [{a: 1}]}\n")
	f.apply(m, Installed, 1)
	f.wantDrift(w, m, "")
	path := "/apis/" + group + "/v1/namespaces/" + f.namespace + "/things/thing"
	must(t, f.kube.CoreV1().RESTClient().Patch(types.MergePatchType).AbsPath(path).Body([]byte(`{"spec":{"size":2,"mine":true}}`)).Do(f.Context()).Error())
	m.Drifted = f.wantDrift(w, m, "Thing spec.size 2 → 1")
	f.apply(m, Upgraded, 2)
	m.Drifted = nil
	f.wantDrift(w, m, "")
}

// The repair of a failed release deletes what the chart no longer has. A plan has
// it and does not do it, no more than it drops a corrupted record.
func TestPlanOfRepairs(t *testing.T) {
	f := start(t)
	w := f.record()
	m := moduleOf(t, "failed", `
-- templates/all.yaml --
{{ range .Values.failed.names }}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: {{ . }}}}
{{ end }}
---
{apiVersion: v1, kind: Service, metadata: {name: web}, spec: {ports: [{port: {{ .Values.failed.port }}}]}}
---
{apiVersion: v1, kind: ConfigMap, metadata: {name: bye, annotations: {helm.sh/hook: post-delete}}}
`)
	broken, fixed := m.with("port", int64(-1)), m.with("port", int64(80))
	f.refuse(broken.with("names", []any{"one", "two"}), Invalid)
	f.wantRevisions("failed", "1 failed")
	p := f.plan(w, fixed.with("names", []any{"one"}), Installed)
	expectText(t, "a failed first install", verbs(p.Changes), "delete ConfigMap two, create Service web")
	f.apply(fixed.with("names", []any{"one"}), Installed, 1)

	f.refuse(broken.with("names", []any{"one", "three"}), Invalid)
	p = f.plan(w, fixed.with("names", []any{"one"}), Upgraded)
	expectText(t, "a failed upgrade", verbs(p.Changes), "delete ConfigMap three")
	f.refuse(broken.with("names", []any{"one"}), Invalid)
	f.plan(w, fixed.with("names", []any{"one"}), Upgraded)
	f.caughtUp()
	w.writes()
	gone, err := f.client.PlanRemoval(f.Context(), fixed, nil)
	if err != nil || len(gone.Hooks) != 1 || gone.Hooks[0].Object != "ConfigMap bye" {
		t.Fatalf("hooks %+v, %v", gone.Hooks, err)
	}
	expectText(t, "uninstall after failed upgrades", verbs(gone.Changes), "delete ConfigMap one, delete ConfigMap three, delete Service web")
	if all := w.writes(); len(all) > 0 {
		t.Errorf("a plan wrote: %q", all)
	}

	f.apply(fixed.with("names", []any{"one"}), Upgraded, 4)
	f.editRecord("failed", 4, func(s *corev1.Secret) { s.Data["release"] = []byte("rubbish") })
	f.setStatus("failed", 1, "deployed")
	f.plan(w, fixed.with("names", []any{"one", "five"}), Upgraded)
	f.apply(fixed.with("names", []any{"one", "five"}), Upgraded, 0)
}

// J4: what a chart renders to now, next to what is deployed: in the order Helm applies it,
// hooks of the chart at the end and marked, and what cannot be read with its error. Nothing
// is written.
func TestShowAndDeployed(t *testing.T) {
	f := start(t)
	m := moduleOf(t, "show", `
-- Chart.yaml --
{apiVersion: v2, name: show, version: 1.0.0}
-- templates/NOTES.txt --
thanks
-- templates/a.yaml --
{apiVersion: v1, kind: ConfigMap, metadata: {name: show-a}, data: {size: {{ .Values.show.size | quote }}}}
-- templates/b.yaml --
{apiVersion: v1, kind: ServiceAccount, metadata: {name: show-b}}
-- templates/hook.yaml --
{apiVersion: v1, kind: ConfigMap, metadata: {name: show-hook, annotations: {helm.sh/hook: pre-delete}}}
`).with("size", "1")
	if objects, revision, err := f.client.Deployed(t.Context(), m.Name, 0); len(objects) != 0 || revision != 0 || err != nil {
		t.Errorf("before the install: %v, %d, %v", objects, revision, err)
	}
	f.apply(m, Installed, 1)
	documents, err := f.client.Show(t.Context(), m.with("size", "2"))
	must(t, err)
	var got []string
	for _, d := range documents {
		if d.Err != nil || len(d.Objects) != 1 {
			t.Fatalf("%s: %v, %v", d.Source, d.Objects, d.Err)
		}
		got = append(got, d.Source)
		if isHook := strings.HasSuffix(d.Source, "hook.yaml"); d.Hook != isHook {
			t.Errorf("%s: hook %v", d.Source, d.Hook)
		}
	}
	if want := "show/templates/b.yaml show/templates/a.yaml show/templates/hook.yaml"; strings.Join(got, " ") != want {
		t.Errorf("documents %s, want %s", got, want)
	}
	if !strings.Contains(documents[1].Text, `size: "2"`) && !strings.Contains(documents[1].Text, `{size: "2"}`) {
		t.Errorf("the text is %s", documents[1].Text)
	}
	objects, revision, err := f.client.Deployed(t.Context(), m.Name, 0)
	if err != nil || revision != 1 || len(objects) != 2 || jsonOf(objects[1]["data"]) != `{"size":"1"}` {
		t.Errorf("deployed: revision %d, %s, %v", revision, jsonOf(objects), err)
	}
	f.wantRevisions(m.Name, "1 deployed")
	if objects, revision, err = f.client.Deployed(t.Context(), m.Name, 1); err != nil || revision != 1 || len(objects) != 2 {
		t.Errorf("revision 1: %d, %s, %v", revision, jsonOf(objects), err)
	}
	if objects, revision, err = f.client.Deployed(t.Context(), m.Name, 7); err != nil || revision != 0 || len(objects) != 0 {
		t.Errorf("a revision that is not there: %d, %s, %v", revision, jsonOf(objects), err)
	}

	write(t, m, "templates/a.yaml", "a: b\n c: d\n")
	documents, err = f.client.Show(t.Context(), m)
	if err != nil || len(documents) != 3 || documents[0].Err == nil || !strings.Contains(documents[0].Text, "c: d") || documents[1].Err != nil {
		t.Errorf("with a broken template: %v, %v", documents, err)
	}
	write(t, m, "templates/a.yaml", "{{ fail \"no\" }}")
	wantError(t, second(f.client.Show(t.Context(), m)), "show/templates/a.yaml")
}
