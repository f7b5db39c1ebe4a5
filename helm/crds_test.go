package helm

import (
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// M7, H7: the definitions in crds/ of a chart are not Helm's business, at no install.
func TestApplySkipsCRDs(t *testing.T) {
	f := start(t)
	m := moduleOf(t, "definer", `
-- crds/things.yaml --
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: things.`+groupOf(f.namespace)+`}
spec:
  group: `+groupOf(f.namespace)+`
  scope: Namespaced
  names: {plural: things, kind: Thing}
  versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}]
-- templates/a.yaml --
apiVersion: v1
kind: ConfigMap
metadata: {name: definer}
`)
	f.apply(m, Installed, 1)
	if _, err := f.crds().Get(f.Context(), "things."+groupOf(f.namespace), metav1.GetOptions{}); !apierrors.IsNotFound(err) {
		t.Errorf("Helm has installed the definition: %v", err)
	}
}
