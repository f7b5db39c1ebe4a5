package apiserver_test

import (
	"cmp"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"k8s.io/client-go/discovery"

	"addon-operator/testkit/devclustertest"
)

// The table of kinds has all that a real API server serves.
func TestTableOfKindsIsTheOneOfAnAPIServer(t *testing.T) {
	text, err := os.ReadFile("kinds.txt")
	must(t, err)
	client, err := discovery.NewDiscoveryClientForConfig(devclustertest.Start(t).RESTConfig())
	must(t, err)
	// Other tests define kinds meanwhile; groups of Kubernetes have no dot, or end like this.
	foreign := func(group string) bool { return strings.Contains(group, ".") && !strings.HasSuffix(group, ".k8s.io") }
	_, lists, err := client.ServerGroupsAndResources()
	failed, ok := discovery.GroupDiscoveryFailedErrorGroups(err)
	if err != nil && !ok {
		t.Fatal(err)
	}
	for gv, err := range failed {
		if !foreign(gv.Group) {
			t.Fatal(err)
		}
	}
	for _, list := range lists {
		if group, _, _ := strings.Cut(list.GroupVersion, "/"); foreign(group) {
			continue
		}
		for _, r := range list.APIResources {
			if strings.Contains(r.Name, "/") || !slices.Contains(r.Verbs, "get") {
				continue
			}
			scope := "cluster"
			if r.Namespaced {
				scope = "namespaced"
			}
			short := cmp.Or(strings.Join(r.ShortNames, ","), "-")
			if line := fmt.Sprintln(list.GroupVersion, r.Kind, r.Name, r.SingularName, short, scope); !strings.Contains("\n"+string(text), "\n"+strings.TrimSpace(line)+" ") {
				t.Errorf("the table lacks %q", line)
			}
		}
	}
}
