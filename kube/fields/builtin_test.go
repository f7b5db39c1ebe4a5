package fields_test

import (
	"testing"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"addon-operator/kube/fields"
)

func TestWhatKubernetesHas(t *testing.T) {
	for _, c := range []struct {
		apiVersion, kind string
		has, owns        bool
	}{
		{"apps/v1", "Deployment", true, true},
		{"extensions/v1beta1", "Deployment", false, true},
		{"policy/v1beta1", "PodDisruptionBudget", false, true},
		{"v1", "Sercet", false, true},
		{"app/v1", "Deployment", false, true},
		{"admissionregistration.k8s.io/v1beta1", "MutatingAdmissionPolicy", true, true},
		{"gateway.networking.k8s.io/v1", "Gateway", false, false},
	} {
		gv, err := schema.ParseGroupVersion(c.apiVersion)
		if err != nil {
			t.Fatal(err)
		}
		if has, owns := fields.Has(gv.WithKind(c.kind)), fields.Owns(gv.Group); has != c.has || owns != c.owns {
			t.Errorf("%s %s: has %t, owns %t", c.apiVersion, c.kind, has, owns)
		}
	}
}
