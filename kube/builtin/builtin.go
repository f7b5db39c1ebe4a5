// Package builtin has what the Kubernetes libraries that this program is built with know of Kubernetes
// itself, without a cluster.
package builtin

import (
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"
)

// Newest is the version of Kubernetes of the libraries: nothing is known of later ones. The API server
// in memory reports it.
const Newest = "v1.36.3"

// Has reports whether Kubernetes has a kind in a version, which may be a beta that an API server does
// not serve. The types in the libraries have in their methods the release that has removed them.
func Has(kind schema.GroupVersionKind) bool {
	object, err := scheme.Scheme.New(kind)
	if err != nil {
		return false
	}
	removed, ok := object.(interface{ APILifecycleRemoved() (major, minor int) })
	if !ok {
		return true
	}
	major, minor := removed.APILifecycleRemoved()
	now, _ := strconv.Atoi(strings.Split(Newest, ".")[1])
	return major > 1 || minor > now
}

// Owns reports whether a group is one of Kubernetes itself: no definition of other authors brings
// kinds of it.
func Owns(group string) bool {
	return !strings.Contains(group, ".") || scheme.Scheme.IsGroupRegistered(group)
}
