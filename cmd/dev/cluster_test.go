package dev

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"addon-operator/kube"
	"addon-operator/kube/apiserver"
	"addon-operator/kube/fields"

	"addon-operator/values"
)

// --cluster names who uses the namespace: an operator that runs there is never joined, and what it would take over is said.
func TestClusterThatAnotherOperatorUses(t *testing.T) {
	lease := func(renewed time.Duration) string {
		return fmt.Sprintf(`{apiVersion: coordination.k8s.io/v1, kind: Lease, metadata: {name: addon-operator-leader-election, namespace: addon-operator-dev}, spec: {holderIdentity: pod-1_a, leaseDurationSeconds: 15, renewTime: %q}}`,
			time.Now().Add(-renewed).UTC().Format(metav1.RFC3339Micro))
	}
	for _, c := range []struct {
		name, objects string
		says          []string
		refuses       string
		hidden        string // resource that the person may not list
	}{
		{name: "nothing", says: []string{"!exists already"}},
		{name: "lease", objects: lease(time.Second), refuses: "another operator runs in the namespace addon-operator-dev: pod-1_a holds the Lease addon-operator-leader-election; stop it"},
		{name: "expired lease", objects: lease(time.Hour)},
		{name: "hidden lease", hidden: "leases", refuses: "read the Lease addon-operator-dev/addon-operator-leader-election: "},
		{name: "lease elsewhere", objects: strings.ReplaceAll(lease(0), "namespace: addon-operator-dev", "namespace: other")},
		{
			name: "left behind", objects: `{apiVersion: v1, kind: ConfigMap, metadata: {name: addon-operator, namespace: addon-operator-dev}, data: {webEnabled: "true"}}`,
			says: []string{"The ConfigMap addon-operator exists already, and the operator continues with it."},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			server := apiserver.New(fields.Newest)
			must(t, server.Start())
			defer server.Close()
			server.OnRequest(func(r apiserver.Request) error {
				if r.Resource == c.hidden {
					return apierrors.NewForbidden(schema.GroupResource{Resource: r.Resource}, "", errors.New("of this test"))
				}
				return nil
			})
			for text := range strings.Lines(c.objects) {
				object, err := values.ParseYAML([]byte(text))
				if err == nil {
					err = server.Apply(object.(map[string]any))
				}
				must(t, err)
			}
			f := newTree(t)
			must(t, server.WriteKubeconfig(f.path("kubeconfig"), "default"))
			options := configured(t, nil)
			options.Kubeconfig = f.path("kubeconfig")
			var out bytes.Buffer
			err := (&place{tmp: t.TempDir(), what: "modules"}).current(t.Context(), options, &out, true, false)
			if c.refuses == "" && err != nil || c.refuses != "" && (err == nil || !strings.Contains(err.Error(), c.refuses) || !strings.Contains(err.Error(), "nothing was written")) {
				t.Errorf("got %v, want %q", err, c.refuses)
			}
			if err == nil && !options.HA {
				t.Error("it takes no Lease, so the next one does not see it")
			}
			for _, text := range append(c.says, "Your cluster: context ") {
				unwanted, not := strings.CutPrefix(text, "!")
				if strings.Contains(out.String(), unwanted) == not {
					t.Errorf("want %q in %s", text, &out)
				}
			}
		})
	}
}

// Hooks, and commands in a second terminal, use the context and the server that a person has agreed
// to, also when the kubeconfig names others, and when it is a list of files as kubectl accepts it.
func TestHooksUseTheClusterOfTheOperator(t *testing.T) {
	server := apiserver.New(fields.Newest)
	must(t, server.Start())
	defer server.Close()
	f := newTree(t)
	must(t, server.WriteKubeconfig(f.path("written"), "default"))
	text, err := os.ReadFile(f.path("written"))
	must(t, err)
	for name, change := range map[string][]string{
		"moved":   {server.URL(), "https://127.0.0.1:1"},
		"other":   {"current-context: memory", "current-context: other"},
		"nothing": {string(text), "apiVersion: v1\nkind: Config\ncurrent-context: memory\n"},
	} {
		must(t, os.WriteFile(f.path(name), []byte(strings.Replace(string(text), change[0], change[1], 1)), 0o600))
	}
	t.Chdir(f.path("."))
	for name, c := range map[string]struct{ files, context, server string }{
		"another context": {files: "other", context: "memory"},
		"several files":   {files: "nothing" + string(filepath.ListSeparator) + "missing" + string(filepath.ListSeparator) + string(filepath.ListSeparator) + "other"},
		"another server":  {files: "moved", server: server.URL()},
	} {
		t.Run(name, func(t *testing.T) {
			options := configured(t, nil)
			options.Kubeconfig, options.KubeContext, options.KubeServer = c.files, c.context, c.server
			p := &place{tmp: t.TempDir(), what: "modules"}
			must(t, p.current(t.Context(), options, io.Discard, true, false))
			t.Chdir(t.TempDir()) // hooks and terminals run in other directories
			t.Setenv("KUBECONFIG", p.kubeconfig)
			used, err := kube.FindTarget(kube.Options{}) // reads it as kubectl does
			if err != nil || used.Context != "memory" || used.Server != server.URL() {
				t.Errorf("hooks use %+v, %v", used, err)
			}
			if line := p.secondTerminal(options); !strings.Contains(line, "KUBECONFIG="+p.kubeconfig+" ") {
				t.Errorf("for a second terminal: %s", line)
			}
		})
	}
}

// must ends the test over an error of what it needs only.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
