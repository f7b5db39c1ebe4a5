package kube

import (
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
)

func (c *crdTest) widgets(version string) dynamic.ResourceInterface {
	return c.client.dynamic.Resource(schema.GroupVersionResource{Group: c.group, Version: version, Resource: "widgets"}).Namespace("default")
}

// widget creates an object with a field of its own.
func (c *crdTest) widget(version, name, field string) {
	c.t.Helper()
	widget := &unstructured.Unstructured{Object: map[string]any{"apiVersion": c.group + "/" + version, "kind": "Widget", "metadata": map[string]any{"name": name}, field: "5"}}
	if _, err := c.widgets(version).Create(c.t.Context(), widget, metav1.CreateOptions{}); err != nil {
		c.t.Fatal(err)
	}
}

func (c *crdTest) wantStored(want ...string) {
	c.t.Helper()
	if stored, _, _ := unstructured.NestedStringSlice(c.live().Object, "status", "storedVersions"); !slices.Equal(stored, want) {
		c.t.Errorf("stored versions: %v, want %v", stored, want)
	}
}

// renamed is text with a field that is size in v1alpha1 and width in v1.
func (c *crdTest) renamed(extra string, versions ...string) string {
	text := c.text(extra, versions...)
	for version, field := range map[string]string{"v1alpha1": "size", "v1": "width"} {
		for _, storage := range []string{"true", "false"} {
			head := fmt.Sprintf("{name: %s, served: true, storage: %s, schema: {openAPIV3Schema: {type: object", version, storage)
			text = strings.Replace(text, head, head+fmt.Sprintf(", properties: {%s: {type: string}}", field), 1)
		}
	}
	return text
}

// renames is a conversion webhook for this field: its URL, and the certificate that callers must trust.
func renames(t *testing.T) (url, bundle string) {
	t.Helper()
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var review unstructured.Unstructured
		if err := json.NewDecoder(r.Body).Decode(&review.Object); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		request, _, _ := unstructured.NestedMap(review.Object, "request")
		objects, _ := request["objects"].([]any)
		for _, o := range objects {
			object, _ := o.(map[string]any)
			object["apiVersion"] = request["desiredAPIVersion"]
			from, to := "size", "width"
			if object[from] == nil {
				from, to = to, from
			}
			if object[from] != nil {
				object[to] = object[from]
				delete(object, from)
			}
		}
		_ = json.NewEncoder(w).Encode(map[string]any{"apiVersion": review.GetAPIVersion(), "kind": "ConversionReview", "response": map[string]any{
			"uid": request["uid"], "convertedObjects": objects, "result": map[string]any{"status": "Success"},
		}})
	}))
	t.Cleanup(server.Close)
	certificate := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	return server.URL + "/convert", base64.StdEncoding.EncodeToString(certificate)
}

// M3: the webhook that converts objects does so until all of them are written again, also when the file that drops a
// version no longer has it.
func TestEnsureCRDsConvertsWhatItWritesAgain(t *testing.T) {
	c := newCRDTest(t)
	url, bundle := renames(t)
	c.file("widgets.yaml", c.renamed(fmt.Sprintf("  conversion: {strategy: Webhook, webhook: {conversionReviewVersions: [v1], clientConfig: {url: %q, caBundle: %q}}}\n", url, bundle), "v1", "v1alpha1"))
	c.ensure(c.name())
	c.widget("v1alpha1", "a", "size")
	c.file("widgets.yaml", c.renamed("", "v1"))
	c.ensure(c.name())
	c.wantStored("v1")
	if strategy, _, _ := unstructured.NestedString(c.live().Object, "spec", "conversion", "strategy"); strategy != "None" {
		t.Errorf("strategy = %q", strategy)
	}
	converted, err := c.widgets("v1").Get(t.Context(), "a", metav1.GetOptions{})
	if err != nil || converted.Object["width"] != "5" {
		t.Errorf("the object is %v, %v; want its width", converted, err)
	}
}

// M3: an earlier file, as after a rollback, does not take the fields of later versions out of objects.
func TestEnsureCRDsNeverWritesBack(t *testing.T) {
	c := newCRDTest(t)
	c.file("widgets.yaml", c.renamed("", "v1alpha1", "v1"))
	c.ensure(c.name())
	c.widget("v1", "a", "width")
	c.file("widgets.yaml", c.renamed("", "v1alpha1"))
	_, err := c.client.EnsureCRDs(t.Context(), crdOptions(), c.dir)
	for _, want := range []string{"widgets.yaml", "no longer has version v1,", "earlier version v1alpha1", "keep v1 in the file", "status.storedVersions of " + c.name()} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v\nwant %s", err, want)
		}
	}
	c.wantStored("v1")
	if kept, err := c.widgets("v1").Get(t.Context(), "a", metav1.GetOptions{}); err != nil || kept.Object["width"] != "5" {
		t.Errorf("the object is %v, %v; want its width", kept, err)
	}
	if err := c.widgets("v1").Delete(t.Context(), "a", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	c.ensure(c.name()) // nothing can be lost
	c.wantStored("v1alpha1")
}
