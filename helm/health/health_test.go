package health

import (
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"
)

// H25: the health of an object is what kstatus says of its status; an object without a status is current.
func TestOf(t *testing.T) {
	long := strings.Repeat("ä", 2*maxMessage)
	for name, c := range map[string]struct {
		object string
		want   string
		says   string
	}{
		"a ConfigMap":             {"{apiVersion: v1, kind: ConfigMap}", Current, ""},
		"no replica is available": {"{apiVersion: apps/v1, kind: Deployment, spec: {replicas: 1}, status: {replicas: 1, updatedReplicas: 1, conditions: [{type: Progressing, status: 'True', reason: NewReplicaSetAvailable}]}}", InProgress, "Available: 0/1"},
		"an older generation": {"{apiVersion: apps/v1, kind: Deployment, metadata: {generation: 2}, spec: {replicas: 0}, status: {observedGeneration: 1}}",
			InProgress, "generation is 2, but latest observed generation is 1"},
		"the deadline of a rollout is over": {`{apiVersion: apps/v1, kind: Deployment, spec: {replicas: 1},
  status: {conditions: [{type: Progressing, status: "False", reason: ProgressDeadlineExceeded}]}}`, Failed, "Progress deadline exceeded"},
		"a Job that failed": {`{apiVersion: batch/v1, kind: Job, status: {failed: 2, conditions: [{type: Failed, status: "True", message: no more}]}}`,
			Failed, "Job Failed. failed: 2/"},
		"a custom resource that is not ready": {`{apiVersion: x.io/v1, kind: Thing, status: {conditions: [{type: Ready, status: "False", reason: R, message: "no\nanswer"}]}}`,
			InProgress, "no answer"},
		"a custom resource that is stalled": {`{apiVersion: x.io/v1, kind: Thing, status: {conditions: [{type: Stalled, status: "True", message: no way}]}}`,
			Failed, "no way"},
		"it is deleted":                      {"{apiVersion: v1, kind: ConfigMap, metadata: {deletionTimestamp: '2026-01-01T00:00:00Z'}}", Terminating, "it is being deleted"},
		"a finalizer keeps it":               {"{apiVersion: apps/v1, kind: Deployment, metadata: {deletionTimestamp: '2026-01-01T00:00:00Z', finalizers: [a.io/b, c.io/d]}}", Terminating, "waits for its finalizers: a.io/b, c.io/d"},
		"a status that makes no sense":       {"{apiVersion: x.io/v1, kind: Thing, status: {conditions: 3}}", Unknown, "cannot restore slice"},
		"a generation that is a text":        {"{apiVersion: x.io/v1, kind: Thing, metadata: {generation: 1}, status: {observedGeneration: x}}", Unknown, "observedGeneration"},
		"a message that is longer than most": {`{apiVersion: x.io/v1, kind: Thing, status: {conditions: [{type: Ready, status: "False", message: ` + long + `}]}}`, InProgress, "ä …"},
	} {
		t.Run(name, func(t *testing.T) {
			object := &unstructured.Unstructured{}
			text, err := yaml.YAMLToJSON([]byte(c.object))
			if err == nil {
				err = object.UnmarshalJSON(text)
			}
			if err != nil {
				t.Fatal(err)
			}
			got := Of(object)
			if got.State != c.want || !strings.Contains(got.Message, c.says) || len(got.Message) > maxMessage+len(" …") || strings.Contains(got.Message, "\n") {
				t.Errorf("got %s %q, want %s and a message with %q on one short line", got.State, got.Message, c.want, c.says)
			}
		})
	}
}

// H25: only kinds that have a status are read.
func TestHasStatus(t *testing.T) {
	for kind, want := range map[schema.GroupKind]bool{
		{Kind: "ConfigMap"}:                 false,
		{Kind: "Service"}:                   true,
		{Kind: "Pod"}:                       true,
		{Group: "apps", Kind: "Deployment"}: true,
		{Group: "rbac.authorization.k8s.io", Kind: "Role"}:     false,
		{Group: "networking.k8s.io", Kind: "NetworkPolicy"}:    false,
		{Group: "networking.k8s.io", Kind: "Ingress"}:          true,
		{Group: "cert-manager.io", Kind: "Certificate"}:        true,
		{Group: "apiregistration.k8s.io", Kind: "APIService"}:  true,
		{Group: "storage.k8s.io", Kind: "StorageClass"}:        false,
		{Group: "x.rbac.authorization.k8s.io", Kind: "Things"}: true,
	} {
		if got := HasStatus(kind); got != want {
			t.Errorf("%s: got %t, want %t", kind, got, want)
		}
	}
}
