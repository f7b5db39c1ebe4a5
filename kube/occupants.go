package kube

import (
	"context"
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Occupants is what already uses a namespace in which a second operator is about to be started, as
// the command dev does: two operators would undo each other's work.
type Occupants struct {
	// Lease is the one that has not expired; without a holder there is none.
	Lease HeldLease
	// Running are other signs of another operator that acts there.
	Running []string
	// Left is what the new operator would take over: the ConfigMap, and releases.
	Left []string
	// Unknown are resources that may not be read, so another operator may go unnoticed.
	Unknown []string
}

// HeldLease is a Lease that a replica holds.
type HeldLease struct {
	Holder string // its identity
	// Renewed is how long ago, and Left how long until it expires.
	Renewed, Left time.Duration
}

// maxNamed bounds how many objects of one kind are named.
const maxNamed = 5

// Occupants looks for another operator in a namespace: one that holds the Lease, a workload that
// runs one, its ConfigMap and its releases. What may not be read is listed in Unknown and is no
// error.
func (c *Client) Occupants(ctx context.Context, namespace, lease, configMap string) (o Occupants, err error) {
	// It lists also what it looks up by name: a list without a result is no error, and a field
	// selector with the name is within roles that name the object (L6).
	of := func(group, version, resource string) func(string, metav1.ListOptions) ([]unstructured.Unstructured, error) {
		return func(name string, options metav1.ListOptions) ([]unstructured.Unstructured, error) {
			gvr := schema.GroupVersionResource{Group: group, Version: version, Resource: resource}
			if name != "" {
				options.FieldSelector = "metadata.name=" + name
			}
			list, err := c.dynamic.Resource(gvr).Namespace(namespace).List(ctx, options)
			switch {
			case apierrors.IsForbidden(err):
				o.Unknown = append(o.Unknown, resource)
				return nil, nil
			case err != nil:
				return nil, fmt.Errorf("look for %s in %s: %w", resource, namespace, err)
			}
			return list.Items, nil
		}
	}
	leases, err := of("coordination.k8s.io", "v1", "leases")(lease, metav1.ListOptions{})
	if err != nil {
		return o, err
	}
	for _, one := range leases {
		o.Lease = held(one, time.Now())
	}
	for kind, resource := range map[string]string{"Deployment": "deployments", "StatefulSet": "statefulsets", "DaemonSet": "daemonsets"} {
		workloads, err := of("apps", "v1", resource)("", metav1.ListOptions{})
		if err != nil {
			return o, err
		}
		for _, one := range workloads {
			replicas, set, _ := unstructured.NestedInt64(one.Object, "spec", "replicas") // a DaemonSet has none
			if runsOperator(one) && (!set || replicas > 0) {
				o.Running = append(o.Running, fmt.Sprintf("the %s %s runs an operator", kind, one.GetName()))
			}
		}
	}
	slices.Sort(o.Running)
	slices.Sort(o.Unknown)
	configMaps, err := of("", "v1", "configmaps")(configMap, metav1.ListOptions{})
	if err != nil {
		return o, err
	}
	for range configMaps {
		o.Left = append(o.Left, "the ConfigMap "+configMap)
	}
	records, err := of("", "v1", "secrets")("", metav1.ListOptions{LabelSelector: "owner=helm"})
	if text := releasesIn(records); text != "" {
		o.Left = append(o.Left, text)
	}
	return o, err
}

// releasesIn names the releases of records, at most maxNamed; empty without any. A release has a
// record for each revision.
func releasesIn(records []unstructured.Unstructured) string {
	var releases []string
	for _, record := range records {
		if name := record.GetLabels()["name"]; name != "" && !slices.Contains(releases, name) {
			releases = append(releases, name)
		}
	}
	if len(releases) == 0 {
		return ""
	}
	slices.Sort(releases)
	text := "the releases " + strings.Join(releases[:min(len(releases), maxNamed)], ", ")
	if more := len(releases) - maxNamed; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}

// held reads a Lease; it is empty when that has expired, or was never renewed. A clock of this
// machine that is behind makes renewals look as if they were in the future: they count as of now.
func held(lease unstructured.Unstructured, now time.Time) HeldLease {
	text, _, _ := unstructured.NestedString(lease.Object, "spec", "renewTime")
	seconds, _, _ := unstructured.NestedInt64(lease.Object, "spec", "leaseDurationSeconds")
	holder, _, _ := unstructured.NestedString(lease.Object, "spec", "holderIdentity")
	renewed, err := time.Parse(time.RFC3339Nano, text)
	since, duration := now.Sub(renewed), time.Duration(seconds)*time.Second
	if err != nil || since > duration {
		return HeldLease{}
	}
	since = max(since, 0)
	return HeldLease{holder, since, duration - since}
}

// runsOperator reports whether a workload has a container that looks like an operator, by its
// image, command or variables. It may be wrong: the answer is a warning for a person.
func runsOperator(workload unstructured.Unstructured) bool {
	containers, _, _ := unstructured.NestedSlice(workload.Object, "spec", "template", "spec", "containers")
	return slices.ContainsFunc(containers, func(one any) bool {
		container, _ := one.(map[string]any)
		image, _ := container["image"].(string)
		name, _, _ := strings.Cut(path.Base(image), ":")
		command, _ := container["command"].([]any)
		first, _ := append(command, "")[0].(string) // "" without a command
		variables, _ := container["env"].([]any)
		return strings.Contains(name, "addon-operator") || path.Base(first) == "addon-operator" || slices.ContainsFunc(variables, func(v any) bool {
			variable, _ := v.(map[string]any)
			text, _ := variable["name"].(string)
			return strings.HasPrefix(text, "ADDON_OPERATOR_")
		})
	})
}
