package apiserver_test

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/cli-utils/pkg/kstatus/status"
	"sigs.k8s.io/yaml"

	"addon-operator/kube/apiserver"
)

// With RunWorkloads all kinds with a status are current by the rules of kstatus, also after a change; without, none is.
func TestWorkloadsRun(t *testing.T) {
	for _, text := range []string{
		"{apiVersion: apps/v1, kind: Deployment, metadata: {name: a, namespace: default}, spec: {replicas: 3}}",
		"{apiVersion: apps/v1, kind: StatefulSet, metadata: {name: a, namespace: default}, spec: {}}",
		"{apiVersion: apps/v1, kind: DaemonSet, metadata: {name: a, namespace: default}, spec: {}}",
		"{apiVersion: apps/v1, kind: ReplicaSet, metadata: {name: a, namespace: default}, spec: {replicas: 0}}",
		"{apiVersion: batch/v1, kind: Job, metadata: {name: a, namespace: default}, spec: {}}",
		"{apiVersion: v1, kind: Pod, metadata: {name: a, namespace: default}, spec: {}}",
		"{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: a, namespace: default}, spec: {}}",
		"{apiVersion: v1, kind: Service, metadata: {name: a, namespace: default}, spec: {type: LoadBalancer}}",
	} {
		for _, running := range []bool{true, false} {
			var object map[string]any
			must(t, yaml.Unmarshal([]byte(text), &object))
			server := apiserver.New("v1.36.0")
			if running {
				server.RunWorkloads()
			}
			u := &unstructured.Unstructured{Object: object}
			for _, label := range []string{"one", "two"} {
				_ = unstructured.SetNestedField(object, label, "spec", "changed")
				must(t, server.Apply(object))
				now := unstructured.Unstructured{Object: server.Object(u.GetAPIVersion(), u.GetKind(), "default", "a")}
				got, err := status.Compute(&now)
				if err != nil || (got.Status == status.CurrentStatus) != running && !strings.Contains(text, "Job") {
					t.Errorf("%s, running %t: %+v %v, status %v", text, running, got, err, now.Object["status"])
				}
			}
		}
	}
}
