package helm

import (
	"context"
	"time"

	apiextensions "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
)

// groupOf is an API group that no other test uses.
func groupOf(namespace string) string { return namespace + ".example.com" }

func (f *fixture) crds() dynamic.ResourceInterface {
	f.Helper()
	client, err := dynamic.NewForConfig(f.config)
	must(f, err)
	return client.Resource(schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"})
}

// createCRD adds the kind Thing, and waits until it is served.
func (f *fixture) createCRD() { f.createCRDOf("Thing") }

// createCRDOf does the same for a kind of another name, for tests that run at the same time as those that need Thing
// unknown.
func (f *fixture) createCRDOf(kind string) {
	f.Helper()
	preserve := true
	crd := &apiextensions.CustomResourceDefinition{
		TypeMeta:   metav1.TypeMeta{APIVersion: "apiextensions.k8s.io/v1", Kind: "CustomResourceDefinition"},
		ObjectMeta: metav1.ObjectMeta{Name: "things." + groupOf(f.namespace)},
		Spec: apiextensions.CustomResourceDefinitionSpec{
			Group: groupOf(f.namespace),
			Scope: apiextensions.NamespaceScoped,
			Names: apiextensions.CustomResourceDefinitionNames{Plural: "things", Singular: "thing", Kind: kind, ListKind: kind + "List"},
			Versions: []apiextensions.CustomResourceDefinitionVersion{{
				Name: "v1", Served: true, Storage: true,
				Schema: &apiextensions.CustomResourceValidation{
					OpenAPIV3Schema: &apiextensions.JSONSchemaProps{Type: "object", XPreserveUnknownFields: &preserve},
				},
			}},
		},
	}
	object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(crd)
	must(f, err)
	must(f, second(f.crds().Create(f.Context(), &unstructured.Unstructured{Object: object}, metav1.CreateOptions{})))
	f.Cleanup(func() { _ = f.crds().Delete(context.Background(), crd.Name, metav1.DeleteOptions{}) })
	f.eventually(func() bool {
		return f.kube.CoreV1().RESTClient().Get().AbsPath("/apis/"+groupOf(f.namespace)+"/v1/things").Do(f.Context()).Error() == nil
	})
}

func (f *fixture) deleteCRD() {
	f.Helper()
	must(f, f.crds().Delete(f.Context(), "things."+groupOf(f.namespace), metav1.DeleteOptions{}))
}

// eventually waits until a condition holds.
func (f *fixture) eventually(condition func() bool) {
	f.Helper()
	deadline := time.Now().Add(2 * time.Minute) // nothing measures it
	for !condition() {
		if time.Now().After(deadline) {
			f.Fatalf("the condition does not become true\nlog:\n%s", f.log)
		}
		pause := time.NewTimer(50 * time.Millisecond)
		select {
		case <-pause.C:
		case <-f.Context().Done():
			f.Fatal(f.Context().Err())
		}
	}
}
