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
	"k8s.io/apimachinery/pkg/runtime/schema"

	"addon-operator/cmd/cli"
	"addon-operator/kube"
	"addon-operator/kube/apiserver"
	"addon-operator/kube/builtin"
	"addon-operator/values"
)

// --cluster names who uses the namespace: an operator that runs there is never joined, and what it would take over is said.
func TestClusterThatAnotherOperatorUses(t *testing.T) {
	const workload = `{apiVersion: apps/v1, kind: %s, metadata: {name: %s, namespace: addon-operator-dev}, spec: {replicas: %d, template: {spec: {containers: [%s]}}}}`
	lease := func(renewed time.Duration) string {
		return fmt.Sprintf(`{apiVersion: coordination.k8s.io/v1, kind: Lease, metadata: {name: addon-operator-leader-election, namespace: addon-operator-dev}, spec: {holderIdentity: pod-1_a, leaseDurationSeconds: 15, renewTime: %q}}`,
			time.Now().Add(-renewed).UTC().Format(time.RFC3339Nano))
	}
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, objects string
		says          []string
		refuses       string
		hidden        string // resource that the person may not list
	}{
		{name: "nothing", says: []string{"!These exist already"}},
		{name: "lease", objects: lease(time.Second), refuses: "another operator runs in the namespace addon-operator-dev: pod-1_a holds the Lease addon-operator-leader-election, and renewed it 1s ago; stop it"},
		{name: "lease of this machine", objects: strings.ReplaceAll(lease(time.Second), "pod-1_a", cli.NewIdentity(host, "127.0.0.1:9650")), refuses: "an operator of this machine holds the Lease addon-operator-leader-election, and renewed it 1s ago; stop it or, if it was killed, wait 14s; nothing was written"},
		{name: "expired lease", objects: lease(time.Hour)},
		{name: "hidden lease", hidden: "leases", refuses: "you have no permission to list leases in the namespace addon-operator-dev, so another operator may run there"},
		{name: "hidden workloads", hidden: "statefulsets", refuses: "you have no permission to list statefulsets"},
		{name: "lease elsewhere", objects: strings.ReplaceAll(lease(0), "namespace: addon-operator-dev", "namespace: other")},
		{name: "deployment by its image", objects: fmt.Sprintf(workload, "Deployment", "ours", 2, `{image: "example.com/team/addon-operator:v1"}`), refuses: "the Deployment ours runs an operator"},
		{name: "by its variables", objects: fmt.Sprintf(workload, "StatefulSet", "own", 1, `{image: web}, {env: [{name: ADDON_OPERATOR_NAMESPACE}]}`), refuses: "the StatefulSet own runs an operator"},
		{name: "by its command", objects: fmt.Sprintf(workload, "Deployment", "own", 1, `{image: web, command: [/usr/bin/addon-operator]}`), refuses: "the Deployment own runs an operator"},
		{name: "scaled to zero", objects: fmt.Sprintf(workload, "Deployment", "ours", 0, `{image: addon-operator}`)},
		{name: "of others", objects: fmt.Sprintf(workload, "Deployment", "web", 1, `{image: "addon-operator.example.com/web"}`)},
		{
			name: "left behind", objects: "{apiVersion: v1, kind: ConfigMap, metadata: {name: addon-operator, namespace: addon-operator-dev}}\n" +
				"{apiVersion: v1, kind: Secret, metadata: {name: sh.helm.release.v1.web.v1, namespace: addon-operator-dev, labels: {owner: helm, name: web}}}",
			says: []string{"These exist already, and the operator will take them over: the ConfigMap addon-operator; the releases web."},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			server := apiserver.New(builtin.Newest)
			if err := server.Start(""); err != nil {
				t.Fatal(err)
			}
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
				if err != nil {
					t.Fatal(err)
				}
			}
			f := newTree(t)
			if err := server.WriteKubeconfig(f.path("kubeconfig"), "default"); err != nil {
				t.Fatal(err)
			}
			options := configured(t, nil)
			options.Kubeconfig = f.path("kubeconfig")
			var out bytes.Buffer
			err := (&place{tmp: t.TempDir(), what: "modules"}).current(t.Context(), options, asking{in: strings.NewReader(""), out: &out, yes: true})
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
	server := apiserver.New(builtin.Newest)
	if err := server.Start(""); err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	f := newTree(t)
	if err := server.WriteKubeconfig(f.path("written"), "default"); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(f.path("written"))
	if err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string][]string{
		"moved":   {server.URL(), "https://127.0.0.1:1"},
		"other":   {"current-context: memory", "current-context: other"},
		"nothing": {string(text), "apiVersion: v1\nkind: Config\ncurrent-context: memory\n"},
	} {
		if err := os.WriteFile(f.path(name), []byte(strings.Replace(string(text), change[0], change[1], 1)), 0o600); err != nil {
			t.Fatal(err)
		}
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
			if err := p.current(t.Context(), options, asking{in: strings.NewReader(""), out: io.Discard, yes: true}); err != nil {
				t.Fatal(err)
			}
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
