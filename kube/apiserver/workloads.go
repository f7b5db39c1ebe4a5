package apiserver

import (
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// RunWorkloads has workloads count as running from now on, without Pods: Deployments and their like
// have all replicas ready, Jobs have succeeded, and claims of volumes are bound. What a client
// writes into their status has no effect.
func (s *Server) RunWorkloads() {
	s.store.mu.Lock()
	defer s.store.mu.Unlock()
	s.store.running = true
}

// runWorkload sets the status that controllers of a cluster with free nodes would come to, with the
// fields by which kstatus and Helm judge: the observed generation must be the current one, so it
// comes after the generation. It is called with each write, and replaces the whole status. Hooks of Helm always run,
// unless they are suspended: Helm waits for them. Other workloads stay as they are until RunWorkloads.
func (s *store) runWorkload(k *kind, u *unstructured.Unstructured) {
	_, helmHook := u.GetAnnotations()["helm.sh/hook"]
	suspended, _, _ := unstructured.NestedBool(u.Object, "spec", "suspend")
	if !s.running && (!helmHook || suspended) {
		return
	}
	replicas, found, _ := unstructured.NestedInt64(u.Object, "spec", "replicas")
	if !found {
		replicas = 1 // the default of the API
	}
	condition := func(kind string) any { return map[string]any{"type": kind, "status": "True"} }
	switch k.resource().String() {
	case "deployments.apps", "statefulsets.apps", "replicasets.apps", "daemonsets.apps", "replicationcontrollers":
		status := map[string]any{"observedGeneration": u.GetGeneration(), "conditions": []any{condition("Available"), condition("Progressing")}}
		for field := range strings.FieldsSeq("replicas updatedReplicas readyReplicas availableReplicas currentReplicas fullyLabeledReplicas") {
			status[field] = replicas
		}
		for field := range strings.FieldsSeq("currentNumberScheduled desiredNumberScheduled numberAvailable numberReady updatedNumberScheduled") {
			status[field] = int64(1) // as if there were one node
		}
		status["currentRevision"], status["updateRevision"] = u.GetName(), u.GetName()
		u.Object["status"] = status
	case "jobs.batch":
		u.Object["status"] = map[string]any{"succeeded": int64(1), "conditions": []any{condition("Complete")}}
	case "pods":
		u.Object["status"] = map[string]any{"phase": "Running", "conditions": []any{condition("Ready")}}
		if policy, _, _ := unstructured.NestedString(u.Object, "spec", "restartPolicy"); helmHook || policy == "Never" {
			u.Object["status"] = map[string]any{"phase": "Succeeded"}
		}
	case "persistentvolumeclaims":
		u.Object["status"] = map[string]any{"phase": "Bound"}
	case "services": // kstatus waits for the cluster address of a load balancer
		if kind, _, _ := unstructured.NestedString(u.Object, "spec", "type"); kind == "LoadBalancer" {
			setDefault(u, "10.96.0.1", "spec", "clusterIP")
		}
	}
}
