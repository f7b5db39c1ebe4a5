package apiserver

import "k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

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
// comes after the generation. It is called with each write, and replaces the whole status.
func runWorkload(k *kind, u *unstructured.Unstructured) {
	replicas, found, _ := unstructured.NestedInt64(u.Object, "spec", "replicas")
	if !found {
		replicas = 1 // the default of the API
	}
	var status map[string]any
	condition := func(kind, reason string) any {
		return map[string]any{"type": kind, "status": "True", "reason": reason}
	}
	switch k.resource().String() {
	case "deployments.apps":
		status = map[string]any{
			"replicas": replicas, "updatedReplicas": replicas, "readyReplicas": replicas, "availableReplicas": replicas,
			"conditions": []any{condition("Available", "MinimumReplicasAvailable"), condition("Progressing", "NewReplicaSetAvailable")},
		}
	case "statefulsets.apps":
		status = map[string]any{
			"replicas": replicas, "updatedReplicas": replicas, "readyReplicas": replicas, "availableReplicas": replicas,
			"currentReplicas": replicas, "currentRevision": u.GetName() + "-1", "updateRevision": u.GetName() + "-1",
		}
	case "replicasets.apps", "replicationcontrollers":
		status = map[string]any{"replicas": replicas, "fullyLabeledReplicas": replicas, "readyReplicas": replicas, "availableReplicas": replicas}
	case "daemonsets.apps":
		status = map[string]any{} // as if there were one node
		for _, field := range []string{"currentNumberScheduled", "desiredNumberScheduled", "numberAvailable", "numberReady", "updatedNumberScheduled"} {
			status[field] = int64(1)
		}
		status["numberMisscheduled"] = int64(0)
	case "jobs.batch":
		u.Object["status"] = map[string]any{"succeeded": int64(1), "conditions": []any{condition("Complete", "CompletionsReached")}}
		return
	case "pods":
		status = map[string]any{"phase": "Running", "conditions": []any{condition("Ready", "")}}
		if policy, _, _ := unstructured.NestedString(u.Object, "spec", "restartPolicy"); policy == "Never" {
			status = map[string]any{"phase": "Succeeded"}
		}
		u.Object["status"] = status
		return
	case "persistentvolumeclaims":
		u.Object["status"] = map[string]any{"phase": "Bound"}
		return
	case "services":
		// kstatus waits for the cluster address of a load balancer.
		if kind, _, _ := unstructured.NestedString(u.Object, "spec", "type"); kind == "LoadBalancer" {
			setDefault(u, "10.96.0.1", "spec", "clusterIP")
		}
		return
	default:
		return
	}
	status["observedGeneration"] = u.GetGeneration()
	u.Object["status"] = status
}
