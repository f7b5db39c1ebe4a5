package kube

import (
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"path"
	"slices"
	"strings"
	"sync"
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

// between is a client whose requests for widgets a test can answer itself; nil: the API server does.
func (c *crdTest) between(answer func(*http.Request) *http.Response) {
	c.t.Helper()
	config := c.RESTConfig()
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return roundTrip(func(r *http.Request) (*http.Response, error) {
			if strings.HasPrefix(r.URL.Path, "/apis/"+c.group+"/") {
				if response := answer(r); response != nil {
					return response, nil
				}
			}
			return next.RoundTrip(r)
		})
	})
	client, err := Connect(Options{Config: config, Log: testLog(c.t)})
	if err != nil {
		c.t.Fatal(err)
	}
	c.client = client
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func reply(r *http.Request, code int, body string) *http.Response {
	header := http.Header{"Content-Type": {"application/json"}}
	return &http.Response{StatusCode: code, Header: header, Body: io.NopCloser(strings.NewReader(body)), Request: r}
}

// M3: a conflict, a webhook that fails once and an object that is deleted meanwhile concern only that object; all are listed
// before the first is written.
func TestEnsureCRDsWritesSingleObjectsAgain(t *testing.T) {
	c := newCRDTest(t)
	c.file("widgets.yaml", c.text("", "v1alpha1"))
	c.ensure(c.name())
	const objects = 20
	for i := range objects {
		c.widget("v1alpha1", fmt.Sprintf("w%d", i), "size")
	}
	var mu sync.Mutex
	patches, listed, served, widgets := map[string]int{}, false, false, c.widgets("v1alpha1")
	c.between(func(r *http.Request) *http.Response {
		mu.Lock()
		defer mu.Unlock()
		name := path.Base(r.URL.Path)
		if r.Method == http.MethodGet && name == "widgets" && len(patches) > 0 {
			listed = true
		}
		if r.Method == http.MethodGet && name == "widgets" && !served { // a moment after the version was added
			served = true
			return reply(r, http.StatusNotFound, `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"NotFound","message":"the server could not find the requested resource","code":404}`)
		}
		if r.Method != http.MethodPatch {
			return nil
		}
		patches[name]++
		failure := `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":%q,"message":"it fails","code":%d}`
		switch {
		case name == "w1":
			if err := widgets.Delete(r.Context(), name, metav1.DeleteOptions{}); err != nil {
				t.Error(err)
			}
		case patches[name] > 1:
		case name == "w2":
			return reply(r, http.StatusConflict, fmt.Sprintf(failure, metav1.StatusReasonConflict, http.StatusConflict))
		case name == "w3":
			return reply(r, http.StatusInternalServerError, fmt.Sprintf(failure, metav1.StatusReasonInternalError, http.StatusInternalServerError))
		}
		return nil
	})
	c.file("widgets.yaml", c.text("", "v1"))
	c.ensure(c.name())
	c.wantStored("v1")
	if listed {
		t.Error("objects were listed after one was written")
	}
	for i := range objects {
		name := fmt.Sprintf("w%d", i)
		if want := map[string]int{"w2": 2, "w3": 2}[name]; patches[name] != max(want, 1) {
			t.Errorf("%s was written %d times", name, patches[name])
		}
	}
}

// M3: more objects than the operator writes again are refused before anything is written.
func TestEnsureCRDsRefusesTooManyObjects(t *testing.T) {
	c := newCRDTest(t)
	c.file("widgets.yaml", c.text("", "v1alpha1"))
	c.ensure(c.name())
	c.widget("v1alpha1", "a", "size")
	c.between(func(r *http.Request) *http.Response {
		if r.Method == http.MethodPatch {
			t.Error("an object is written")
		}
		return reply(r, http.StatusOK, `{"kind":"PartialObjectMetadataList","apiVersion":"meta.k8s.io/v1","metadata":{"resourceVersion":"1","continue":"x","remainingItemCount":50000},"items":[{"metadata":{"name":"a"}}]}`)
	})
	c.file("widgets.yaml", c.text("", "v1"))
	_, err := c.client.EnsureCRDs(t.Context(), crdOptions(), c.dir)
	for _, want := range []string{c.name(), "50001 objects", "storage version migration", "status.storedVersions"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v\nwant %s", err, want)
		}
	}
}
