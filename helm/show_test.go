package helm

import (
	"strings"
	"testing"
)

// J4: what a chart renders to now, next to what is deployed: in the order Helm applies it,
// hooks of the chart at the end and marked, and what cannot be read with its error. Nothing
// is written.
func TestShowAndDeployed(t *testing.T) {
	f := start(t)
	m := moduleOf(t, "show", `
-- Chart.yaml --
apiVersion: v2
name: show
version: 1.0.0
-- templates/NOTES.txt --
thanks
-- templates/a.yaml --
apiVersion: v1
kind: ConfigMap
metadata: {name: show-a}
data: {size: {{ .Values.show.size | quote }}}
-- templates/b.yaml --
apiVersion: v1
kind: ServiceAccount
metadata: {name: show-b}
-- templates/hook.yaml --
apiVersion: v1
kind: ConfigMap
metadata: {name: show-hook, annotations: {helm.sh/hook: pre-delete}}
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
