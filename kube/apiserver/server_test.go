package apiserver

import (
	"context"
	"encoding/json"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/tools/clientcmd"

	"addon-operator/kube"
)

func started(t *testing.T) *Server {
	t.Helper()
	s := New("v1.33.0")
	must(t, s.Start())
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func secrets(t *testing.T, s *Server) dynamic.ResourceInterface {
	t.Helper()
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	must(t, s.WriteKubeconfig(kubeconfig, "default"))
	config, err := clientcmd.BuildConfigFromFlags("", kubeconfig)
	must(t, err)
	client, err := dynamic.NewForConfig(config)
	must(t, err)
	return client.Resource(schema.GroupVersionResource{Version: "v1", Resource: "secrets"}).Namespace("default")
}

func secret(name string, fields map[string]any) *unstructured.Unstructured {
	u := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Secret", "metadata": map[string]any{"name": name}}}
	maps.Copy(u.Object, fields)
	return u
}

func TestBuiltinKinds(t *testing.T) {
	if got, want := len(builtinKinds()), strings.Count(builtin, "\n"); got != want {
		t.Errorf("%d of %d lines of kinds.txt are kinds", got, want)
	}
}

// Rules C38 and C40: a filter result that stays the same is no change; the sequence has no gaps.
func TestWatchObjects(t *testing.T) {
	s := New("v1.33.0")
	var changes []string
	synced := false
	w, err := s.WatchObjects(t.Context(), kube.Spec{
		Kind: "secret", Namespaces: []string{"default"}, Labels: &metav1.LabelSelector{MatchLabels: map[string]string{"a": "b"}},
		Filter: func(map[string]any) (json.RawMessage, error) { return json.RawMessage("1"), nil },
	}, func(c kube.Change) { changes = append(changes, c.Type+" "+c.Object.Name) }, func() { synced = true })
	if err != nil || !synced {
		t.Fatal(err, synced)
	}
	labelled := map[string]any{"metadata": map[string]any{"namespace": "default", "name": "x", "labels": map[string]any{"a": "b"}}}
	plain := map[string]any{"metadata": map[string]any{"namespace": "default", "name": "x"}}
	elsewhere := map[string]any{"metadata": map[string]any{"namespace": "kube-system", "name": "x", "labels": map[string]any{"a": "b"}}}
	for _, fields := range []map[string]any{plain, elsewhere, labelled, labelled, plain, labelled} {
		must(t, s.Apply(secret("x", fields).Object))
	}
	if got, want := strings.Join(changes, ", "), "Added x, Deleted x, Added x"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if objects, seq := w.Snapshot(); len(objects) != 1 || seq != 3 {
		t.Errorf("snapshot %v, %d", objects, seq)
	}
	if state := w.State(); state.Phase != kube.Complete || state.Kind != "Secret" {
		t.Errorf("state %+v", state)
	}
}

// A watch waits for its kind.
func TestWatchOfAKindThatComes(t *testing.T) {
	s := New("v1.33.0")
	synced := false
	w, err := s.WatchObjects(t.Context(), kube.Spec{Kind: "Thing", APIVersion: "example.org/v1"}, func(kube.Change) {}, func() { synced = true })
	if err != nil || synced || w.State().Phase != kube.WaitingForKind {
		t.Fatalf("%v, synced %t, %+v", err, synced, w.State())
	}
	crd := map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": map[string]any{"name": "things.example.org"},
		"spec": map[string]any{
			"group": "example.org", "scope": "Cluster", "names": map[string]any{"kind": "Thing", "plural": "things"},
			"versions": []any{map[string]any{"name": "v1", "served": true, "storage": true}},
		},
	}
	must(t, s.Apply(crd))
	if !synced || w.State().Phase != kube.Complete {
		t.Errorf("synced %t, %+v", synced, w.State())
	}
}

// Streams of clients: what is there, then what changes.
func TestStream(t *testing.T) {
	s := started(t)
	api := secrets(t, s)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	stream, err := api.Watch(ctx, metav1.ListOptions{LabelSelector: "!skip"})
	must(t, err)
	for _, write := range []func() error{
		func() error { _, err := api.Create(ctx, secret("a", nil), metav1.CreateOptions{}); return err },
		func() error {
			_, err := api.Patch(ctx, "a", types.MergePatchType, []byte(`{"metadata": {"labels": {"skip": "yes"}}}`), metav1.PatchOptions{})
			return err
		},
	} {
		must(t, write())
	}
	for _, want := range []string{"ADDED", "DELETED"} {
		select {
		case e := <-stream.ResultChan():
			if string(e.Type) != want {
				t.Errorf("got %s, want %s", e.Type, want)
			}
		case <-ctx.Done():
			t.Fatalf("no %s", want)
		}
	}
}

// What hooks do with kubectl.
func TestKubectl(t *testing.T) {
	bin, err := filepath.Abs("../../bin/kubectl")
	must(t, err)
	if _, err := os.Stat(bin); err != nil {
		t.Skip("there is no bin/kubectl; 'make devcluster' builds it")
	}
	s := started(t)
	dir := t.TempDir()
	must(t, s.WriteKubeconfig(dir+"/kubeconfig", "default"))
	list := dir + "/list.yaml"
	must(t, os.WriteFile(list, []byte("{apiVersion: v1, kind: List, items: [{apiVersion: v1, kind: ConfigMap, metadata: {name: c}}, {apiVersion: apps/v1, kind: Deployment, metadata: {name: d}, spec: {replicas: 2}}]}"), 0o600))
	for _, c := range []struct{ args, says string }{
		{"version", "Server Version: v1.33.0"},
		{"create configmap a --from-literal=x=1", "configmap/a created"},
		{"create configmap a", "already exists"},
		{"create deployment d --image=i", "deployment.apps/d created"},
		{"get deploy d -o jsonpath={.spec.template.spec.containers[0].image}", "i"},
		{"set image deployment/d i=j", "image updated"},
		{"patch cm a --type merge -p {\"data\":{\"y\":\"2\"}}", "patched"},
		{"patch cm a --type json -p [{\"op\":\"remove\",\"path\":\"/data/x\"}]", "patched"},
		{"get cm a -o jsonpath={.data}", `{"y":"2"}`},
		{"get cm", "a"},
		{"label cm a k=v", "labeled"},
		{"get cm -l k=v -o name", "configmap/a"},
		{"get cm --field-selector metadata.name=b -o name", ""},
		{"annotate cm a n=m", "annotated"},
		{"apply -f -", "configmap/b created"},
		{"apply -f -", "configmap/b unchanged"},
		{"apply --server-side -f -", "configmap/b serverside-applied"},
		{"apply -f " + list, "deployment.apps/d configured"},
		{"wait --for=delete cm/none --timeout=1s", ""},
		{"delete cm a", "deleted"},
		{"get cm a", "NotFound"},
		{"get pods -A", "No resources found"},
		{"logs a", "NotFound"},
	} {
		cmd := exec.Command(bin, strings.Fields(c.args)...)
		cmd.Env = append(os.Environ(), "KUBECONFIG="+dir+"/kubeconfig", "KUBECACHEDIR="+dir+"/cache")
		cmd.Stdin = strings.NewReader("{apiVersion: v1, kind: ConfigMap, metadata: {name: b}, data: {z: w}}")
		out, _ := cmd.CombinedOutput() // its output names its failure, too
		if !strings.Contains(string(out), c.says) {
			t.Errorf("kubectl %s: %s", c.args, out)
		}
	}
}

// Who fails to start a server may still close it.
func TestCloseWithoutStart(t *testing.T) {
	must(t, New("v1.33.0").Close())
}

// must ends the test over an error of what it needs only.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
