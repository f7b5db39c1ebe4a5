package devclustertest

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const workloads = `
{apiVersion: apps/v1, kind: Deployment, metadata: {name: web}, spec: {replicas: 2, selector: {matchLabels: {a: web}}, template: {metadata: {labels: {a: web}}, spec: {containers: [{name: c, image: none}]}}}}
---
{apiVersion: apps/v1, kind: DaemonSet, metadata: {name: agent}, spec: {selector: {matchLabels: {a: agent}}, template: {metadata: {labels: {a: agent}}, spec: {containers: [{name: c, image: none}]}}}}
---
{apiVersion: batch/v1, kind: Job, metadata: {name: once}, spec: {template: {spec: {restartPolicy: Never, containers: [{name: c, image: none}]}}}}
---
{apiVersion: apps/v1, kind: StatefulSet, metadata: {name: db}, spec: {serviceName: db, replicas: 2, selector: {matchLabels: {a: db}}, template: {metadata: {labels: {a: db}}, spec: {containers: [{name: c, image: none}]}},
  volumeClaimTemplates: [{metadata: {name: data}, spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}]}}
`

// On the node all workloads come to their end: they are available, or complete, and their Pods go when they are
// deleted.
func TestWorkloadsRunOnTheNode(t *testing.T) {
	OnlyInFull(t)
	cluster := StartWithNode(t)
	client, namespace := clientFor(t, cluster.RESTConfig()), cluster.Namespace(t)
	kubectl := func(stdin string, args ...string) {
		t.Helper()
		cmd := exec.Command(filepath.Join(cluster.root, "bin", "kubectl"), append([]string{"--kubeconfig", cluster.Kubeconfig(), "-n", namespace}, args...)...)
		cmd.Stdin = strings.NewReader(stdin)
		if output, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("kubectl %v: %v\n%s", args, err, output)
		}
	}
	kubectl(workloads, "apply", "-f", "-")
	kubectl("", "rollout", "status", "deployment/web", "--timeout=1m")
	kubectl("", "rollout", "status", "daemonset/agent", "--timeout=1m")
	kubectl("", "rollout", "status", "statefulset/db", "--timeout=1m")
	kubectl("", "wait", "--for=condition=Complete", "job/once", "--timeout=1m")
	kubectl("", "wait", "--for=jsonpath={.status.phase}=Bound", "pvc/data-db-1", "--timeout=1m")
	kubectl("", "rollout", "restart", "daemonset/agent")
	kubectl("", "rollout", "status", "daemonset/agent", "--timeout=1m")
	kubectl("", "delete", "deployment,daemonset,job,statefulset", "--all")
	eventually(t, "the Pods to go", func(ctx context.Context) (bool, error) {
		list, err := client.CoreV1().Pods(namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return false, err
		}
		for _, pod := range list.Items {
			if pod.Status.Phase == corev1.PodFailed {
				return false, fmt.Errorf("Pod %s has failed", pod.Name)
			}
		}
		return len(list.Items) == 0, nil
	})
}
