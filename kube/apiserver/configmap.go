package apiserver

import (
	"context"
	"encoding/json"

	"addon-operator/kube"
)

// ConfigMap is a ConfigMap as the operator reads it; the zero value when there is none.
func (s *Server) ConfigMap(namespace, name string) kube.ConfigMap {
	return contentOf(s, "ConfigMap", namespace, name, kube.ConfigMapOf)
}

// WatchConfigMap notifies changes of a ConfigMap, first as it is now, until ctx ends
// (shared.ConfigMap). It calls back in the goroutine that makes a change.
func (s *Server) WatchConfigMap(ctx context.Context, namespace, name string, notify func(kube.ConfigMap)) {
	watchContent(ctx, s, "ConfigMap", namespace, name, kube.ConfigMapOf, notify)
}

// Secret is a Secret as the operator reads it; the zero value when there is none.
func (s *Server) Secret(namespace, name string) kube.ConfigMap {
	return contentOf(s, "Secret", namespace, name, kube.SecretOf)
}

// WatchSecret is WatchConfigMap for a Secret (shared.Secret).
func (s *Server) WatchSecret(ctx context.Context, namespace, name string, notify func(kube.ConfigMap)) {
	watchContent(ctx, s, "Secret", namespace, name, kube.SecretOf, notify)
}

// contentOf reads an object with the function that kube reads it with, which takes the typed
// object: so both understand a ConfigMap or Secret in the same way.
func contentOf[T any](s *Server, kind, namespace, name string, read func(*T) kube.ConfigMap) kube.ConfigMap {
	object := s.Object("v1", kind, namespace, name)
	if object == nil {
		return kube.ConfigMap{}
	}
	data, _ := json.Marshal(object) // a tree of JSON can be written
	return decoded(data, read)
}

// watchContent notifies the first state itself: the Watch reports an object that exists only by
// synced, and one that does not exist not at all.
func watchContent[T any](ctx context.Context, s *Server, kind, namespace, name string, read func(*T) kube.ConfigMap, notify func(kube.ConfigMap)) {
	notify(contentOf(s, kind, namespace, name, read))
	spec := kube.Spec{APIVersion: "v1", Kind: kind, Namespaces: []string{namespace}, Names: []string{name}, KeepObjects: true}
	// The spec is valid, and the kind exists.
	_, _ = s.WatchObjects(ctx, spec, func(c kube.Change) {
		if c.Type == kube.Deleted {
			notify(kube.ConfigMap{})
			return
		}
		notify(decoded(c.Object.Object, read))
	}, func() {})
}

func decoded[T any](object []byte, read func(*T) kube.ConfigMap) kube.ConfigMap {
	var typed T
	_ = json.Unmarshal(object, &typed) // the server keeps no object of another form
	return read(&typed)
}
