package decide

import (
	"fmt"
	"strings"
	"testing"
)

func crd(name string) Object {
	return Object{Group: "apiextensions.k8s.io", Kind: "CustomResourceDefinition", Name: name}
}

// F6: which module provides what a failing run lacks.
func TestProviders(t *testing.T) {
	provides := map[string][]Object{
		"base": {crd("rules.a.io"), crd("policies.a.io")},
		"more": {crd("things.a.io")},
		"late": {crd("boxes.b.io"), {Kind: "Namespace", Name: "apps"}},
		"hook": {{Kind: "Service", Namespace: "n", Name: "svc"}},
		"apis": {{Group: "apiregistration.k8s.io", Kind: "APIService", Name: "v1beta1.metrics.k8s.io"}},
		"user": {{Group: "a.io", Kind: "Rule", Name: "r"}, {Kind: "Namespace", Name: "own"}},
	}
	order := strings.Fields("user base more late hook apis")
	for _, c := range []struct {
		name  string
		needs []Need
		want  string
	}{
		{"nothing", nil, ""},
		{"a kind, by its plural", []Need{{Group: "a.io", Kind: "Rule"}}, "base"},
		{"in -ies", []Need{{Group: "a.io", Kind: "Policy"}}, "base"},
		{"in -es", []Need{{Group: "b.io", Kind: "Box"}}, "late"},
		{"an unusual plural: all of the group", []Need{{Group: "a.io", Kind: "Datum"}}, "base more"},
		{"another group", []Need{{Group: "c.io", Kind: "Rule"}}, ""},
		{"a kind of Kubernetes itself", []Need{{Kind: "Podd"}}, ""},
		{"as the API server calls it", []Need{{Resource: "things.a.io"}}, "more"},
		{"a namespace", []Need{{Namespace: "apps"}}, "late"},
		{"its own namespace", []Need{{Namespace: "own"}}, ""},
		{"a webhook", []Need{{Service: "n/svc"}}, "hook"},
		{"of another namespace", []Need{{Service: "m/svc"}}, ""},
		{"an API", []Need{{API: "metrics.k8s.io"}}, "apis"},
		{"a kind of an API", []Need{{Group: "metrics.k8s.io", Kind: "NodeMetrics"}}, "apis"},
		{"a resource of an API", []Need{{Resource: "nodes.metrics.k8s.io"}}, "apis"},
		{"several, in the order of modules", []Need{{Namespace: "apps"}, {Group: "a.io", Kind: "Rule"}, {Group: "a.io", Kind: "Policy"}}, "base late"},
	} {
		var got []string
		for _, p := range Providers("user", c.needs, order, provides) {
			got = append(got, p.Module)
		}
		if strings.Join(got, " ") != c.want {
			t.Errorf("%s: %v, want %s", c.name, got, c.want)
		}
	}
}

// H13: heals run in the order of modules, and providers before who needs them.
func TestHealOrder(t *testing.T) {
	rule, web := Object{Group: "a.io", Kind: "Rule", Name: "r"}, Object{Group: "apps", Kind: "Deployment", Namespace: "n", Name: "web"}
	for _, c := range []struct {
		name string
		gone map[string][]Object
		want string
	}{
		{"the order of modules", map[string][]Object{"c": {web}, "a": {web}, "b": {web}}, "a b c"},
		{"a definition in a later module", map[string][]Object{"a": {rule}, "b": {web}, "c": {crd("rules.a.io")}}, "c a b"},
		{"a namespace in a later module", map[string][]Object{"a": {web}, "b": {{Kind: "Namespace", Name: "n"}}}, "b a"},
		{"over two steps", map[string][]Object{"a": {rule}, "b": {crd("rules.a.io"), web}, "c": {{Kind: "Namespace", Name: "n"}}}, "c b a"},
		{"each needs the other", map[string][]Object{"a": {rule, {Kind: "Namespace", Name: "n"}}, "b": {crd("rules.a.io"), web}}, "b a"},
		{"records only", map[string][]Object{"b": nil, "a": nil}, "a b"},
		{"modules that are not enabled", map[string][]Object{"z": {web}, "y": {web}, "b": {web}}, "b y z"},
	} {
		if got := HealOrder([]string{"a", "b", "c"}, c.gone); fmt.Sprint(got) != "["+c.want+"]" {
			t.Errorf("%s: %v, want %s", c.name, got, c.want)
		}
	}
}
