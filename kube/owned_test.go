package kube_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"addon-operator/kube"
	"addon-operator/kube/apiserver"
)

// refusing answers lists of Pods with 403.
type refusing struct{ next http.RoundTripper }

func (r refusing) RoundTrip(req *http.Request) (*http.Response, error) {
	if strings.HasSuffix(req.URL.Path, "/pods") {
		return &http.Response{
			StatusCode: http.StatusForbidden, Request: req, Header: http.Header{"Content-Type": {"application/json"}},
			Body: http.NoBody,
		}, nil
	}
	return r.next.RoundTrip(req)
}

// What is owned is bounded, and what is left out is counted; kinds that may not be listed are named.
func TestOwnedIsBounded(t *testing.T) {
	server := apiserver.New("v1.36.0")
	config := server.RESTConfig()
	people, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	maps := people.Resource(schema.GroupVersionResource{Version: "v1", Resource: "configmaps"}).Namespace("default")
	create := func(name string, owners ...metav1.OwnerReference) *unstructured.Unstructured {
		object := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap"}}
		object.SetName(name)
		object.SetOwnerReferences(owners)
		created, err := maps.Create(t.Context(), object, metav1.CreateOptions{})
		if err != nil {
			t.Fatal(err)
		}
		return created
	}
	root := create("root")
	for i := range 5 {
		create(fmt.Sprintf("owned-%d", i), metav1.OwnerReference{APIVersion: "v1", Kind: "ConfigMap", Name: "root", UID: root.GetUID()})
	}
	refused := rest.CopyConfig(config)
	refused.Wrap(func(next http.RoundTripper) http.RoundTripper { return refusing{next} })
	client, err := kube.Connect(kube.Options{Config: refused})
	if err != nil {
		t.Fatal(err)
	}
	kind := schema.GroupKind{Kind: "ConfigMap"}
	tree, err := client.Owned(t.Context(), []kube.ObjectName{
		{Kind: kind, Namespace: "default", Name: "root"}, {Kind: kind, Namespace: "default", Name: "gone"}, {Kind: schema.GroupKind{Group: "none", Kind: "Thing"}, Name: "x"},
	}, 3)
	if err != nil {
		t.Fatal(err)
	}
	if got := tree.Roots[0].Owned; len(got) != 3 || got[0].Name != "owned-0" || got[0].Object == nil || tree.Cut != 2 || tree.AtLeast {
		t.Errorf("%d owned, %d cut, at least: %t", len(got), tree.Cut, tree.AtLeast)
	}
	if tree.Roots[1].Err == nil || tree.Roots[2].Err == nil || !strings.Contains(tree.Roots[2].Err.Error(), "does not serve Thing.none") {
		t.Errorf("errors: %v, %v", tree.Roots[1].Err, tree.Roots[2].Err)
	}
	if got := fmt.Sprint(tree.Unlisted); got != "[pods in default: you are not allowed to list them]" {
		t.Errorf("not listed: %s", got)
	}
}
