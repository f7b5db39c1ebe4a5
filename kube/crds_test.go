package kube

import (
	"context"
	"encoding/base64"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"addon-operator/testkit/devclustertest"
)

// crdTest has an API group of its own.
type crdTest struct {
	*world
	t     *testing.T
	group string
	files []CRD
}

func newCRDTest(t *testing.T) *crdTest {
	t.Helper()
	t.Parallel()
	cluster := devclustertest.Start(t)
	c := &crdTest{world: newWorld(t, cluster), t: t, group: cluster.Namespace(t) + ".example.com"}
	t.Cleanup(func() {
		_ = c.client.dynamic.Resource(crdResource()).Delete(context.Background(), c.name(), metav1.DeleteOptions{})
	})
	return c
}

func (c *crdTest) name() string { return "widgets." + c.group }

// text is a definition with the given versions, the last of which is stored.
func (c *crdTest) text(extra string, versions ...string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata:\n  name: %s\nspec:\n  group: %s\n  scope: Namespaced\n  names: {plural: widgets, kind: Widget}\n", c.name(), c.group)
	b.WriteString(extra + "  versions:\n")
	for i, v := range versions {
		fmt.Fprintf(&b, "  - {name: %s, served: true, storage: %v, schema: {openAPIV3Schema: {type: object}}}\n", v, i == len(versions)-1)
	}
	return b.String()
}

// file sets the definition of a file.
func (c *crdTest) file(name, text string) {
	c.t.Helper()
	object := &unstructured.Unstructured{}
	must(c.t, yaml.Unmarshal([]byte(text), &object.Object))
	c.files = append(slices.DeleteFunc(c.files, func(d CRD) bool { return d.File == name }), CRD{name, object})
}

func (c *crdTest) ensure(want ...string) {
	c.t.Helper()
	got, err := c.client.EnsureCRDs(c.t.Context(), crdOptions(), c.files)
	if err != nil {
		c.t.Fatal(err)
	}
	if !slices.Equal(slices.Sorted(maps.Keys(got)), want) {
		c.t.Fatalf("written: %v, want %v", got, want)
	}
}

func crdOptions() CRDOptions {
	return CRDOptions{Labels: map[string]string{"heritage": "addon-operator"}}
}

func (c *crdTest) live() *unstructured.Unstructured {
	c.t.Helper()
	live, err := c.client.dynamic.Resource(crdResource()).Get(c.t.Context(), c.name(), metav1.GetOptions{})
	if err != nil {
		c.t.Fatal(err)
	}
	return live
}

func (c *crdTest) patch(patch string, subresources ...string) {
	c.t.Helper()
	_, err := c.client.dynamic.Resource(crdResource()).Patch(c.t.Context(), c.name(), types.MergePatchType, []byte(patch), metav1.PatchOptions{FieldManager: "somebody"}, subresources...)
	if err != nil {
		c.t.Fatal(err)
	}
}

// M2, M3, M6: definitions are labelled and installed; at the end their kinds can be
// used at once.
func TestEnsureCRDsInstalls(t *testing.T) {
	c := newCRDTest(t)
	c.file("widgets.yaml", c.text("", "v1"))
	if got, err := c.client.EnsureCRDs(t.Context(), crdOptions(), c.files); err != nil || got[c.name()] == "" {
		t.Fatalf("written: %v, %v", got, err)
	}
	live := c.live()
	if live.GetLabels()["heritage"] != "addon-operator" {
		t.Errorf("labels: %v", live.GetLabels())
	}
	widget := &unstructured.Unstructured{Object: map[string]any{"apiVersion": c.group + "/v1", "kind": "Widget", "metadata": map[string]any{"name": "a"}}}
	found, err := c.client.kinds.resolve(t.Context(), c.group+"/v1", "Widget", false)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.client.dynamic.Resource(found.resource).Namespace("default").Create(t.Context(), widget, metav1.CreateOptions{}); err != nil {
		t.Error(err)
	}
	c.ensure() // an unchanged file changes nothing
}

// M3: the spec follows the file; what others added stays.
func TestEnsureCRDsUpdates(t *testing.T) {
	c := newCRDTest(t)
	c.file("widgets.yaml", c.text("", "v1alpha1"))
	c.ensure(c.name())
	c.patch(`{"metadata":{"labels":{"theirs":"yes"},"annotations":{"theirs":"yes"}}}`)
	c.file("widgets.yaml", c.text("", "v1alpha1", "v1"))
	c.ensure(c.name())
	live := c.live()
	if live.GetLabels()["theirs"] != "yes" || live.GetAnnotations()["theirs"] != "yes" {
		t.Errorf("labels %v, annotations %v", live.GetLabels(), live.GetAnnotations())
	}
}

// M3: a file that drops a version in which objects may be stored is refused, whether a later version or, after a
// rollback, an earlier one takes its place.
func TestEnsureCRDsRefusesToLoseObjects(t *testing.T) {
	for dropped, versions := range map[string][2][]string{"v1alpha1": {{"v1alpha1"}, {"v1"}}, "v1": {{"v1alpha1", "v1"}, {"v1alpha1"}}} {
		t.Run(dropped, func(t *testing.T) {
			c := newCRDTest(t)
			c.file("widgets.yaml", c.text("", versions[0]...))
			c.ensure(c.name())
			c.file("widgets.yaml", c.text("", versions[1]...))
			_, err := c.client.EnsureCRDs(t.Context(), crdOptions(), c.files)
			for _, want := range []string{c.name(), "widgets.yaml", dropped, "keep the version in the file, with served: false"} {
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("got %v\nwant %s", err, want)
				}
			}
			if stored, _, _ := unstructured.NestedStringSlice(c.live().Object, "status", "storedVersions"); !slices.Contains(stored, dropped) {
				t.Errorf("stored versions: %v", stored)
			}
		})
	}
}

const (
	noBundle    = "  conversion: {strategy: Webhook, webhook: {conversionReviewVersions: [v1], clientConfig: {service: {namespace: default, name: hook, path: /%s}}}}\n"
	webhookSpec = `{"spec":{"conversion":{"strategy":"Webhook","webhook":{"conversionReviewVersions":["v1"],"clientConfig":{"url":"https://example.com/convert","caBundle":%q}}}}}`
)

// M3: a conversion that was set at run time is kept, whatever the file says; so are
// certificates that others put into the conversion of the file.
func TestEnsureCRDsKeepsConversion(t *testing.T) {
	bundle := base64.StdEncoding.EncodeToString(devclustertest.Start(t).RESTConfig().CAData)
	t.Run("set at run time", func(t *testing.T) {
		c := newCRDTest(t)
		c.file("widgets.yaml", c.text("", "v1"))
		c.ensure(c.name())
		c.patch(fmt.Sprintf(webhookSpec, bundle))
		c.file("widgets.yaml", c.text("  conversion: {strategy: None}\n", "v1", "v2"))
		c.ensure(c.name())
		if url, _, _ := unstructured.NestedString(c.live().Object, "spec", "conversion", "webhook", "clientConfig", "url"); url != "https://example.com/convert" {
			t.Errorf("url: %q", url)
		}
	})
	t.Run("certificates in the conversion of the file", func(t *testing.T) {
		c := newCRDTest(t)
		c.file("widgets.yaml", c.text(fmt.Sprintf(noBundle, "one"), "v1"))
		c.ensure(c.name())
		c.patch(`{"spec":{"conversion":{"webhook":{"clientConfig":{"caBundle":"` + bundle + `"}}}}}`)
		c.file("widgets.yaml", c.text(fmt.Sprintf(noBundle, "two"), "v1"))
		c.ensure(c.name())
		config, _, _ := unstructured.NestedMap(c.live().Object, "spec", "conversion", "webhook", "clientConfig")
		if service, _ := config["service"].(map[string]any); config["caBundle"] != bundle || service["path"] != "/two" {
			t.Errorf("clientConfig: %v", config)
		}
	})
}

// M4: what the API server refuses is reported with the file; the others are installed, and a
// second definition of the same plural is refused by name.
func TestEnsureCRDsReportsRefusal(t *testing.T) {
	c := newCRDTest(t)
	c.file("a.yaml", c.text("", "v1"))
	c.file("b.yaml", strings.Replace(c.text("", "v1"), "name: widgets.", "name: wrong.", 1))
	written, err := c.client.EnsureCRDs(t.Context(), crdOptions(), c.files)
	if err == nil || !strings.Contains(err.Error(), "b.yaml") || strings.Contains(err.Error(), "a.yaml") || len(written) != 1 || !strings.HasSuffix(written[c.name()], "a.yaml") {
		t.Errorf("written %v, %v", written, err)
	}
}

// M2, M4: a definition that was written but is not served is waited for again: it counts
// as installed only when its kind is there.
func TestEnsureCRDsWaitsAgain(t *testing.T) {
	c := newCRDTest(t)
	c.file("a.yaml", c.text("", "v1"))
	c.ensure(c.name())
	twin := "gizmos." + c.group
	c.file("b.yaml", strings.NewReplacer(c.name(), twin, "plural: widgets", "plural: gizmos").Replace(c.text("", "v1")))
	t.Cleanup(func() {
		_ = c.client.dynamic.Resource(crdResource()).Delete(context.Background(), twin, metav1.DeleteOptions{})
	})
	soon, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if written, err := c.client.EnsureCRDs(soon, crdOptions(), c.files); err == nil || len(written) > 0 {
		t.Errorf("written %v, %v; want the end of the wait", written, err)
	}
	written, err := c.client.EnsureCRDs(t.Context(), crdOptions(), c.files)
	if err == nil || !strings.Contains(err.Error(), "b.yaml: its kinds are not served after 20s: ") || !strings.Contains(err.Error(), "is already in use") || len(written) > 0 {
		t.Errorf("written %v, %v; want a refusal of the names", written, err)
	}

	c.files = c.files[:1]
	c.client.kinds.known, c.client.kinds.fetched = nil, time.Now()
	c.ensure(c.name()) // M6: who asks must learn of it
	c.ensure()
}

// Two modules may ship the same definition.
func TestEnsureCRDsOfTwoModules(t *testing.T) {
	c := newCRDTest(t)
	c.file("a.yaml", c.text("", "v1"))
	c.file("b.yaml", c.text("", "v1", "v2"))
	c.ensure(c.name())
	if _, err := c.client.kinds.resolve(t.Context(), c.group+"/v2", "Widget", false); err != nil {
		t.Errorf("the second does not count: %v", err)
	}
}

// M3: what a file says of labels wins over the options.
func TestEnsureCRDsKeepsLabelsOfTheFile(t *testing.T) {
	c := newCRDTest(t)
	c.file("widgets.yaml", strings.Replace(c.text("", "v1"), "metadata:\n", "metadata:\n  labels: {heritage: Helm}\n", 1))
	c.ensure(c.name())
	if got := c.live().GetLabels()["heritage"]; got != "Helm" {
		t.Errorf("heritage is %q", got)
	}
}
