package health

import (
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/cli-utils/pkg/kstatus/status"
)

// The states of an object, in the words of kstatus.
const (
	// Current: its status reports that the desired state of its spec is reached. An object without a status is
	// current.
	Current = "Current"
	// InProgress: its controller is at work, or has not begun.
	InProgress = "InProgress"
	// Failed: its controller has given up.
	Failed = "Failed"
	// Terminating: it is deleted, and a finalizer keeps it.
	Terminating = "Terminating"
	// Unknown: it was not read yet, may not be read, or has a status that makes no sense.
	Unknown = "Unknown"
)

// Health is the state of one object, one of the constants. Message is a sentence for people, empty
// when it is current; Images are those of a workload, separated by spaces. Both have at most
// maxMessage bytes.
type Health struct {
	State   string
	Message string
	Images  string
}

// maxMessage bounds what a controller can make the operator keep of each object.
const maxMessage = 512

// Of assesses an object, which must have its status.
func Of(object *unstructured.Unstructured) Health {
	h, deleted := deleting(object)
	h.Images = images(object)
	if deleted {
		return h
	}
	result, err := status.Compute(object)
	switch {
	case err != nil:
		h.State, h.Message = Unknown, brief(err.Error())
	case result.Status == status.CurrentStatus:
		h.State = Current
	default:
		h.State, h.Message = result.Status.String(), brief(result.Message)
	}
	return h
}

// images are those of the containers of a workload; empty for other objects.
func images(object *unstructured.Unstructured) string {
	found, _, _ := unstructured.NestedFieldNoCopy(object.Object, "spec", "template", "spec", "containers") // what has another form is no workload
	containers, _ := found.([]any)
	var all []string
	for _, c := range containers {
		container, _ := c.(map[string]any)
		if image, ok := container["image"].(string); ok && !slices.Contains(all, image) {
			all = append(all, image)
		}
	}
	return brief(strings.Join(all, " "))
}

// deleting is the health of an object that is being deleted.
func deleting(o metav1.Object) (h Health, deleted bool) {
	if o.GetDeletionTimestamp() == nil {
		return Health{}, false
	}
	message := "it is being deleted"
	if keep := o.GetFinalizers(); len(keep) > 0 {
		message += ", and waits for its finalizers: " + strings.Join(keep, ", ")
	}
	return Health{State: Terminating, Message: brief(message)}, true
}

// brief is a message on one line.
func brief(message string) string {
	message = strings.Join(strings.Fields(message), " ")
	if len(message) <= maxMessage {
		return message
	}
	return strings.ToValidUTF8(message[:maxMessage], "") + " …"
}

// HasStatus reports whether objects of a kind must be read to assess their health: the others, such
// as ConfigMaps, are current as long as they exist and are not being deleted. Custom resources are
// taken to have a status.
func HasStatus(kind schema.GroupKind) bool {
	switch kind.Group {
	case "rbac.authorization.k8s.io", "admissionregistration.k8s.io", "scheduling.k8s.io", "storage.k8s.io", "node.k8s.io", "coordination.k8s.io":
		return false
	case "networking.k8s.io":
		return kind.Kind == "Ingress"
	case "":
		switch kind.Kind {
		case "ConfigMap", "Secret", "ServiceAccount", "Endpoints", "LimitRange", "PodTemplate", "Event":
			return false
		}
	}
	return true
}
