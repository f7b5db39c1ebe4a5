package helm

import (
	"fmt"
	"testing"

	"helm.sh/helm/v3/pkg/kube"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/cli-runtime/pkg/resource"
)

// An upgrade that takes over objects has them in both lists, and Helm writes to them what the API server answers. No
// comparison of another object may read them meanwhile: the race detector watches.
func TestUpdateOfSharedObjects(t *testing.T) {
	var list kube.ResourceList
	mapping := &meta.RESTMapping{GroupVersionKind: schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}}
	for i := range 4 * writeWidth {
		list = append(list, &resource.Info{Name: fmt.Sprintf("n%d", i), Mapping: mapping})
	}
	result, err := (&cluster{}).updateByKind(list, list, func(original, target kube.ResourceList) (*kube.Result, error) {
		if len(original) != 1 || len(target) != 1 || original[0] != target[0] {
			return &kube.Result{}, fmt.Errorf("%d objects are to become %d", len(original), len(target))
		}
		target[0].Name += "-as-answered"
		return &kube.Result{Updated: target}, nil
	})
	if err != nil || len(result.Updated) != len(list) {
		t.Errorf("%d of %d objects are updated: %v", len(result.Updated), len(list), err)
	}
}
