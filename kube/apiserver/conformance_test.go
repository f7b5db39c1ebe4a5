package apiserver_test

import (
	"bytes"
	"os"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"
	"k8s.io/client-go/rest"

	"addon-operator/kube/apiserver"
	"addon-operator/testkit/devclustertest"
	"addon-operator/testkit/golden"
)

const tableFile = "testdata/conformance.txtar"

// TestConformance asks both clusters the same and compares what they answer with what is
// written down. The answers that are written down are those of the real one: -update asks
// it again, and nothing else writes them.
func TestConformance(t *testing.T) {
	table, err := txtar.ParseFile(tableFile)
	must(t, err)
	if golden.Updating() {
		writeDown(t, table)
	}
	clusters := map[string]func(t *testing.T) (config *rest.Config, namespace string){
		"memory": func(*testing.T) (*rest.Config, string) {
			server := apiserver.New("v1.37.0")
			server.EnsureNamespace("conformance")
			return server.RESTConfig(), "conformance"
		},
		"devcluster": devcluster,
	}
	for name, start := range clusters {
		t.Run(name, func(t *testing.T) {
			for _, c := range table.Files {
				t.Run(c.Name, func(t *testing.T) {
					t.Parallel()
					config, namespace := start(t)
					if got := converse(t, config, namespace, string(c.Data)); got != string(c.Data) {
						t.Errorf("it answers otherwise than the real API server did (- want, + got):\n%s", golden.Diff(string(c.Data), got))
					}
				})
			}
		})
	}
}

func devcluster(t *testing.T) (*rest.Config, string) {
	cluster := devclustertest.Start(t)
	return cluster.RESTConfig(), cluster.Namespace(t)
}

func writeDown(t *testing.T, table *txtar.Archive) {
	t.Helper()
	for i, c := range table.Files {
		config, namespace := devcluster(t)
		table.Files[i].Data = []byte(converse(t, config, namespace, string(c.Data)))
	}
	must(t, os.WriteFile(tableFile, txtar.Format(table), 0o644))
}

// Each case says in its name what is proven, and asks something.
func TestConformanceTable(t *testing.T) {
	table, err := txtar.ParseFile(tableFile)
	must(t, err)
	seen := map[string]bool{}
	for _, c := range table.Files {
		if seen[c.Name] || !strings.Contains(c.Name, ": ") {
			t.Errorf("%q must be 'subject: sentence', and once", c.Name)
		}
		seen[c.Name] = true
		if !bytes.Contains(c.Data, []byte("\n"+answerMark)) {
			t.Errorf("%q has no answers; go test -update asks the real API server", c.Name)
		}
	}
}
