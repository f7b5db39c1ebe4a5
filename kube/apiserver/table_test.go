package apiserver_test

import (
	"encoding/json"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/yaml"

	"addon-operator/kube/apiserver"
)

// kubectl prints the columns that a definition has.
func TestTable(t *testing.T) {
	const definition = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: things.example.com}
spec:
  group: example.com
  scope: Namespaced
  names: {kind: Thing, plural: things}
  versions:
  - name: v1
    served: true
    storage: true
    additionalPrinterColumns:
    - {name: Ready, type: string, jsonPath: '.status.conditions[?(@.type=="Ready")].status'}
    - {name: Ran, type: date, jsonPath: .status.ran}
    - {name: Wide, type: string, priority: 1, jsonPath: .status.none}
    schema: {openAPIV3Schema: {type: object, x-kubernetes-preserve-unknown-fields: true}}
`
	const thing = `
apiVersion: example.com/v1
kind: Thing
metadata: {name: a, namespace: default}
status: {ran: "2020-01-01T00:00:00Z", conditions: [{type: Other, status: "False"}, {type: Ready, status: "True"}]}
`
	config := apiserver.New("v1.36.0").RESTConfig()
	objects, err := dynamic.NewForConfig(config)
	must(t, err)
	create := func(api dynamic.ResourceInterface, text string) {
		t.Helper()
		u := &unstructured.Unstructured{}
		err := yaml.Unmarshal([]byte(text), &u.Object)
		if err == nil {
			_, err = api.Create(t.Context(), u, metav1.CreateOptions{})
		}
		must(t, err)
	}
	create(objects.Resource(schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}), definition)
	create(objects.Resource(schema.GroupVersionResource{Group: "example.com", Version: "v1", Resource: "things"}).Namespace("default"), thing)
	client, err := kubernetes.NewForConfig(config)
	must(t, err)
	for _, path := range []string{"things", "things/a"} {
		data, err := client.CoreV1().RESTClient().Get().AbsPath("/apis/example.com/v1/namespaces/default/"+path).
			SetHeader("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io,application/json").DoRaw(t.Context())
		must(t, err)
		var table metav1.Table
		must(t, json.Unmarshal(data, &table))
		if len(table.ColumnDefinitions) != 4 || table.ColumnDefinitions[3].Priority != 1 || len(table.Rows) != 1 || table.Kind != "Table" {
			t.Fatalf("%s is %s", path, data)
		}
		cells := table.Rows[0].Cells
		ran, _ := cells[2].(string)
		if cells[0] != "a" || cells[1] != "True" || len(ran) < 2 || ran[len(ran)-1] != 'y' && ran[len(ran)-1] != 'd' || cells[3] != nil {
			t.Errorf("%s has the cells %v", path, cells)
		}
	}
}
