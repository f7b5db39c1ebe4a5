package kube_test

import (
	"os"
	"testing"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"

	"addon-operator/kube"
	"addon-operator/kube/apiserver"
)

// J14, J15: without the kind there is one piece of news, and the next when it appears; what is written is read again
// as it was written, and what people change is reported.
func TestModuleObjects(t *testing.T) {
	t.Parallel()
	server := apiserver.New("v1.36.0")
	ctx := t.Context()
	config := server.RESTConfig()
	client, err := kube.Connect(kube.Options{Config: config})
	if err != nil {
		t.Fatal(err)
	}
	people, err := dynamic.NewForConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	create := func(resource schema.GroupVersionResource, file string) {
		t.Helper()
		data, err := os.ReadFile(file)
		object := &unstructured.Unstructured{}
		if err == nil {
			err = yaml.Unmarshal(data, &object.Object)
		}
		if err == nil {
			_, err = people.Resource(resource).Create(ctx, object, metav1.CreateOptions{})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	objects, err := client.ModuleObjects("default")
	if err != nil {
		t.Fatal(err)
	}
	if all, err := objects.Suspended(ctx); err != nil || len(all) > 0 {
		t.Fatalf("without the kind: %v, %v", all, err)
	}
	news := make(chan kube.ModuleNews, 100)
	objects.Watch(ctx, func(n kube.ModuleNews) { news <- n })
	next := func() kube.ModuleNews {
		t.Helper()
		select {
		case n := <-news:
			return n
		case <-time.After(time.Minute):
			t.Fatal("no news for a minute")
		}
		return kube.ModuleNews{}
	}
	if n := next(); !apierrors.IsNotFound(n.Absent) {
		t.Fatalf("first news %+v, want that there is no kind", n)
	}
	create(schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}, "../deploy/chart/module-crd.yaml")
	if n := next(); !n.Listed {
		t.Fatalf("news of the kind %+v, want an empty list", n)
	}
	created, err := objects.Create(ctx, "web", true)
	if err != nil || !created.Ours || !created.Suspend {
		t.Fatalf("created %+v, %v", created, err)
	}
	if again, err := objects.Create(ctx, "web", false); err != nil || !again.Suspend {
		t.Errorf("created again %+v, %v; want the one that is there", again, err)
	}
	at := metav1.NewTime(time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC))
	status := kube.ModuleStatus{
		Phase: "ready", Enabled: true, LastRun: kube.ModuleLastRun{Time: at}, Objects: kube.ModuleHealth{Summary: "1/1"},
		Conditions: []metav1.Condition{{Type: "Ready", Status: "True", Reason: "R", LastTransitionTime: at}},
	}
	stored, err := objects.Apply(ctx, "web", status)
	if err != nil || stored.Status.String() != status.String() || !stored.Newer(created) || stored.Newer(stored) {
		t.Errorf("written %s, stored %+v, %v", status, stored, err)
	}
	if _, err := objects.Apply(ctx, "nobody", status); err == nil {
		t.Error("a status without an object is written")
	}
	modules := people.Resource(schema.GroupVersionResource{Group: kube.ModuleGroup, Version: "v1alpha1", Resource: "modules"}).Namespace("default")
	const request = `{"metadata": {"annotations": {"addon-operator.io/requestedAt": "now", "addon-operator.io/retryRequestedAt": "then"}}, "spec": {"suspend": false}}`
	if _, err := modules.Patch(ctx, "web", types.MergePatchType, []byte(request), metav1.PatchOptions{}); err != nil {
		t.Fatal(err)
	}
	for {
		n := next()
		if n.Set == nil || n.Set.RequestedAt == "" {
			continue // what was written above
		}
		if n.Set.RequestedAt != "now" || n.Set.RetryRequestedAt != "then" || n.Set.Suspend || n.Set.Status.String() != status.String() {
			t.Errorf("a request is %+v", n.Set)
		}
		break
	}
	if err := objects.Delete(ctx, stored); !apierrors.IsConflict(err) {
		t.Errorf("what a person has changed since is deleted: %v", err)
	}
	now, err := objects.Create(ctx, "web", false) // reads it
	if err != nil {
		t.Fatal(err)
	}
	if err := objects.Delete(ctx, now); err != nil {
		t.Fatal(err)
	}
	if err := objects.Delete(ctx, now); err != nil {
		t.Errorf("deleted again: %v", err)
	}
	if n := next(); n.Gone != "web" {
		t.Errorf("news of the deletion %+v", n)
	}
}
