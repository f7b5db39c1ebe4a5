package apiserver

import (
	"context"
	"encoding/json"

	"addon-operator/kube"
)

// Content is a ConfigMap or Secret as the operator reads it; the zero value when there is none.
func (s *Server) Content(kind, namespace, name string) kube.ConfigMap {
	object := s.Object("v1", kind, namespace, name)
	if object == nil {
		return kube.ConfigMap{}
	}
	return kube.ContentOf(object)
}

// WatchContent notifies changes of a ConfigMap or Secret, first as it is now, until ctx ends. It calls back in the
// goroutine that makes a change. It notifies the first state itself: the Watch reports an object that exists only by
// synced, and one that does not exist not at all.
func (s *Server) WatchContent(ctx context.Context, kind, namespace, name string, notify func(kube.ConfigMap)) {
	notify(s.Content(kind, namespace, name))
	spec := kube.Spec{APIVersion: "v1", Kind: kind, Namespaces: []string{namespace}, Names: []string{name}, KeepObjects: true}
	// The spec is valid, and the kind exists.
	_, _ = s.WatchObjects(ctx, spec, func(c kube.Change) {
		var object map[string]any
		if c.Type != kube.Deleted && json.Unmarshal(c.Object.Object, &object) == nil {
			notify(kube.ContentOf(object))
			return
		}
		notify(kube.ConfigMap{})
	}, func() {})
}
