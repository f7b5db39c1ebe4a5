package helm

import (
	"slices"
	"strings"

	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/kube"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// RecreateAnnotation of Chart.yaml names kinds, separated by commas. An object of such a kind is
// deleted and created again when the chart changes a field that Kubernetes never changes: in
// upgrades, and in installs over objects that exist. Without it Apply fails as Immutable, because
// what depends on an object is deleted with it, for example the Pods of a Deployment.
const RecreateAnnotation = "addon-operator/recreate"

func recreatedKinds(c *chart.Metadata) []string {
	var kinds []string
	for kind := range strings.SplitSeq(c.Annotations[RecreateAnnotation], ",") {
		if kind = strings.TrimSpace(kind); kind != "" {
			kinds = append(kinds, kind)
		}
	}
	return kinds
}

// recreated replaces the result of an update that has failed for an immutable field: if the chart
// allows that, the object is deleted and created again.
func (k *cluster) recreated(target kube.ResourceList, updated *kube.Result, err error) (*kube.Result, error) {
	if err != nil && isImmutable(err.Error()) && k.mayRecreate(target) {
		return k.recreate(target)
	}
	return updated, err
}

func (k *cluster) mayRecreate(list kube.ResourceList) bool {
	return len(list) == 1 && slices.Contains(k.recreates, list[0].Mapping.GroupVersionKind.Kind)
}

// recreate replaces one object. It waits until the old one is gone, for as long as a hook may take,
// because a finalizer may keep it. After a failure the object may
// be missing; the next attempt creates it.
func (k *cluster) recreate(list kube.ResourceList) (*kube.Result, error) {
	k.op.log.Warn("an object is deleted and created again, because an immutable field changed",
		"object", objectOfInfo(list[0]).String(), "annotation", RecreateAnnotation)
	if _, errs := k.Client.DeleteWithPropagationPolicy(list, metav1.DeletePropagationBackground); len(errs) > 0 {
		return &kube.Result{}, errs[0]
	}
	if err := k.WaitForDelete(list, k.op.home.options.Timeout); err != nil {
		return &kube.Result{}, err
	}
	if _, err := k.Client.Create(list); err != nil {
		return &kube.Result{Created: list}, onlyError(err)
	}
	return &kube.Result{Updated: list}, nil
}
