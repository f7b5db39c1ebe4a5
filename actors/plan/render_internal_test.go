package plan

import (
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"addon-operator/values"
)

func objectsOf(t *testing.T, documents ...string) (all []map[string]any) {
	t.Helper()
	for _, text := range documents {
		object := map[string]any{}
		if err := yaml.Unmarshal([]byte(text), &object); err != nil {
			t.Fatal(err)
		}
		all = append(all, object)
	}
	return all
}

// J4: what differs is listed object by object; that a secret differs is said, the secret is not shown.
func TestDiffOfRenders(t *testing.T) {
	deployment := func(image string) string {
		return "{apiVersion: apps/v1, kind: Deployment, metadata: {name: web, namespace: ns}, spec: {image: " + image + "}}"
	}
	secret := func(value string) string { return "{kind: Secret, metadata: {name: s}, data: {a: " + value + "}}" }
	before := objectsOf(t, deployment("a"), secret("s3cret1"), "{kind: Service, metadata: {name: old}}", "{kind: Service, metadata: {name: same}}")
	after := objectsOf(t, "{kind: Service, metadata: {name: same}}", "{kind: Service, metadata: {name: new}}", secret("s3cret2"), deployment("b"))
	var got []string
	mask := (*values.Hider)(nil).Object
	changes := differences(before, after, mask)
	for _, c := range changes {
		got = append(got, c.Object+" "+c.Verb)
		if strings.Contains(c.Diff, "s3cret") {
			t.Errorf("%s shows a secret:\n%s", c.Object, c.Diff)
		}
	}
	if want := "Deployment ns/web changed, Secret s changed, Service new added, Service old removed"; strings.Join(got, ", ") != want {
		t.Errorf("got  %s\nwant %s", strings.Join(got, ", "), want)
	}
	if want := "-  image: a\n+  image: b\n"; !strings.Contains(changes[0].Diff, want) {
		t.Errorf("no %q in\n%s", want, changes[0].Diff)
	}
	if !strings.Contains(changes[1].Diff, " (changed)") {
		t.Errorf("the Secret: %s", changes[1].Diff)
	}
	if changes = differences(before, after, nil); !strings.Contains(changes[1].Diff, "-  a: s3cret1\n+  a: s3cret2\n") {
		t.Errorf("with secrets: %+v", changes)
	}
	if changes = differences(before, before, mask); len(changes) != 0 {
		t.Errorf("the same: %v", changes)
	}
}

// J9: a secret is hidden on both sides, also where it stands in a form that nothing is known of.
func TestDiffOfRendersHidesBothSides(t *testing.T) {
	one := func(text string) []map[string]any {
		return objectsOf(t, "{kind: ConfigMap, metadata: {name: c}, data: {conf: "+text+"}, env: [{name: PASSWORD, value: "+text+"}]}")
	}
	for name, c := range map[string][2]string{
		"a line":     {`"a=1\nlogin admin s3cret1\n"`, `"a=1\npassword = s3cret2\n"`},
		"a URL":      {`"https://u:s3cret1@db/x"`, `"https://db/x?t=s3cret2"`},
		"a name":     {`s3cret1`, `"token: s3cret2"`},
		"it is gone": {`"password: s3cret1"`, `""`},
	} {
		for _, turned := range []bool{false, true} {
			before, after := one(c[0]), one(c[1])
			if turned {
				before, after = after, before
			}
			changes := differences(before, after, (*values.Hider)(nil).Object)
			if len(changes) != 1 {
				t.Fatal(changes)
			}
			if strings.Contains(changes[0].Diff, "s3cret") {
				t.Errorf("%s, turned %v:\n%s", name, turned, changes[0].Diff)
			}
		}
	}
}

// Objects of one kind and name in two groups, such as Services of Kubernetes and of Knative, are compared each with
// itself.
func TestDifferenceKnowsGroups(t *testing.T) {
	both := func(core, other string) []map[string]any {
		return objectsOf(t, "{apiVersion: v1, kind: Service, metadata: {name: a}, spec: {x: "+core+"}}", "{apiVersion: other.io/v1, kind: Service, metadata: {name: a}, spec: {x: "+other+"}}")
	}
	changes := differences(both("1", "1"), both("2", "1"), nil)
	if len(changes) != 1 || changes[0].Object != "Service a" || changes[0].Verb != "changed" {
		t.Errorf("%+v", changes)
	}
	raised := objectsOf(t, "{apiVersion: other.io/v2, kind: Service, metadata: {name: a}, spec: {x: 1}}")
	if changes := differences(both("1", "1")[1:], raised, nil); len(changes) != 1 || changes[0].Verb != "changed" {
		t.Errorf("another version: %+v", changes)
	}
}
