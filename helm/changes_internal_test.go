package helm

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"addon-operator/helm/manifest"
)

func tree(t *testing.T, text string) map[string]any {
	t.Helper()
	if text == "" {
		return nil
	}
	out := map[string]any{}
	if err := yaml.Unmarshal([]byte(text), &out); err != nil {
		t.Fatal(err)
	}
	return out
}

func changeOf(t *testing.T, kind, before, after string) Change {
	t.Helper()
	return Change{Object: manifest.Object{GVK: schema.GroupVersionKind{Version: "v1", Kind: kind}, Namespace: "ns", Name: "x"}, Verb: Changed, Before: tree(t, before), After: tree(t, after)}
}

func asJSON(v any) string {
	data, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(data)
}

func TestFieldsOfAChange(t *testing.T) {
	for name, c := range map[string]struct{ before, after, want string }{
		"nothing":                           {"a: {b: 1}", "a: {b: 1}", ""},
		"a scalar":                          {"spec: {replicas: 1}", "spec: {replicas: 2}", "spec.replicas 1 2"},
		"a number in another form":          {"a: 1", "a: 1.0", ""},
		"a field comes, another goes":       {"a: {b: 1}", "a: {c: 2}", "a.b 1 null|a.c null 2"},
		"in a list of the same length":      {"a: [{i: 1}, {i: 2}]", "a: [{i: 1}, {i: 3}]", "a[1].i 2 3"},
		"a longer list":                     {"a: [1]", "a: [1, 2]", "a [1] [1,2]"},
		"keys with dots":                    {"a: {x.y/z: 1}", "a: {x.y/z: 2}", `a["x.y/z"] 1 2`},
		"what the API server writes itself": {"metadata: {resourceVersion: '1', managedFields: [1], uid: a, generation: 1}\nstatus: {a: 1}", "metadata: {resourceVersion: '2', generation: 2}", ""},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, f := range changeOf(t, "ConfigMap", c.before, c.after).Fields(false) {
				got = append(got, f.Path+" "+asJSON(f.Before)+" "+asJSON(f.After))
			}
			if text := strings.Join(got, "|"); text != c.want {
				t.Errorf("got %s, want %s", text, c.want)
			}
		})
	}
}

// Values of Secrets are never shown, only that they differ; also not the copy that
// another tool keeps in an annotation.
func TestSecretsAreMasked(t *testing.T) {
	before := "data: {same: c2FtZQ==, other: b2xk, gone: Z29uZQ==}\nmetadata: {annotations: {kubectl.kubernetes.io/last-applied-configuration: '{b2xk}', plain: a}}"
	after := "data: {same: c2FtZQ==, other: bmV3, fresh: ZnJlc2g=}\nmetadata: {annotations: {kubectl.kubernetes.io/last-applied-configuration: '{bmV3}', plain: b}}\nstringData: {text: hunter2}"
	c := changeOf(t, "Secret", before, after)
	text := c.Diff(false) + asJSON(c.Fields(false))
	for _, secret := range []string{"c2FtZQ", "b2xk", "bmV3", "Z29uZQ", "ZnJlc2g", "hunter2"} {
		if strings.Contains(text, secret) {
			t.Errorf("%s is shown:\n%s", secret, text)
		}
	}
	for _, want := range []string{"-  other: '***'\n", "+  other: '*** (changed)'\n", "   same: '***'\n", "-  gone: '***'\n", "+  fresh: '***'\n", "-    plain: a\n", "+    plain: b\n"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in:\n%s", want, text)
		}
	}
	if shown := c.Diff(true); !strings.Contains(shown, "bmV3") {
		t.Errorf("asked to show secrets:\n%s", shown)
	}
	if other := changeOf(t, "ConfigMap", "data: {a: b2xk}", "data: {a: bmV3}"); !strings.Contains(other.Diff(false), "bmV3") {
		t.Error("a ConfigMap is masked")
	}
}

func TestDiffOfAChange(t *testing.T) {
	c := changeOf(t, "ConfigMap", "", "data: {a: b}\nkind: ConfigMap")
	c.Verb = Created
	if got, want := c.Diff(false), "--- ConfigMap ns/x (cluster)\n+++ ConfigMap ns/x (planned)\n@@ -0,0 +1,3 @@\n+data:\n+  a: b\n+kind: ConfigMap\n"; got != want {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
	c.Verb = Deleted
	if got := c.Diff(false); got != "" {
		t.Errorf("a deletion has a diff:\n%s", got)
	}
}

// J9: a mask hides both sides of a difference, also the one that it does not know, and says that they differ.
func TestMasksHideBothSides(t *testing.T) {
	var hide func(any) any
	hide = func(tree any) any {
		switch v := tree.(type) {
		case map[string]any:
			out := map[string]any{}
			for key, child := range v {
				out[key] = hide(child)
			}
			return out
		case []any:
			var out []any
			for _, child := range v {
				out = append(out, hide(child))
			}
			return out
		case string:
			return strings.ReplaceAll(v, "NEW", "***")
		}
		return tree
	}
	object := func(secret, other string) map[string]any {
		env := func(name, value string) any { return map[string]any{"name": name, "value": value} }
		list := []any{env("A", secret), env("B", "b")}
		args := []any{"run", "--x=" + secret}
		if other != "" {
			list, args = append(list, env("C", other)), append(args, other)
		}
		return map[string]any{"kind": "X", "env": list, "args": args, "text": "a = 1\nx " + secret + "\nb = " + other + "\n", "one": secret, "same": "same"}
	}
	for name, c := range map[string]Change{
		"one value differs": {Verb: Changed, Before: object("OLD", ""), After: object("NEW", "")},
		"more differs":      {Verb: Changed, Before: object("OLD", ""), After: object("NEW", "more")},
		"less":              {Verb: Changed, Before: object("NEW", "more"), After: object("OLD", "")},
		"created":           {Verb: Created, After: object("NEW", "")},
	} {
		c.Mask = func(o map[string]any) map[string]any { m, _ := hide(o).(map[string]any); return m }
		text := c.Diff(false)
		for _, f := range fieldsOf(c) {
			text += f.Path + "\n"
			text += fmt.Sprintln(f.Before, f.After)
		}
		if strings.Contains(text, "OLD") || strings.Contains(text, "NEW") || !strings.Contains(text, "***") {
			t.Errorf("%s:\n%s", name, text)
		}
		if c.Verb == Changed && !strings.Contains(text, "one") {
			t.Errorf("%s: that it differs is not told:\n%s", name, text)
		}
		if shown := c.Diff(true); !strings.Contains(shown, "NEW") {
			t.Errorf("%s: nothing is shown:\n%s", name, shown)
		}
	}
}

// fieldsOf are the fields of a change; an object that is created has none.
func fieldsOf(c Change) []Field {
	if c.Verb == Created {
		return nil
	}
	return c.Fields(false)
}
