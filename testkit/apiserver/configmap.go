package apiserver

import (
	"context"
	"encoding/json"

	"addon-operator/kube"
)

// ConfigMap is a ConfigMap as the operator reads it; the zero value when there is none.
func (s *Server) ConfigMap(namespace, name string) kube.ConfigMap {
	object, err := json.Marshal(s.Object("v1", "ConfigMap", namespace, name))
	if err != nil {
		return kube.ConfigMap{}
	}
	return parseConfigMap(object)
}

// WatchConfigMap notifies changes of a ConfigMap, first as it is now, until ctx ends
// (actors.ConfigMap). It calls back in the goroutine that makes a change.
func (s *Server) WatchConfigMap(ctx context.Context, namespace, name string, notify func(kube.ConfigMap)) {
	notify(s.ConfigMap(namespace, name))
	spec := kube.Spec{APIVersion: "v1", Kind: "ConfigMap", Namespaces: []string{namespace}, Names: []string{name}, KeepObjects: true}
	// The spec is valid, and the kind exists.
	_, _ = s.WatchObjects(ctx, spec, func(c kube.Change) {
		if c.Type == kube.Deleted {
			notify(kube.ConfigMap{})
			return
		}
		notify(parseConfigMap(c.Object.Object))
	}, func() {})
}

// Secret is a Secret as the operator reads it; the zero value when there is none.
func (s *Server) Secret(namespace, name string) kube.ConfigMap {
	object, err := json.Marshal(s.Object("v1", "Secret", namespace, name))
	if err != nil {
		return kube.ConfigMap{}
	}
	return parseSecret(object)
}

// WatchSecret is WatchConfigMap for a Secret (actors.Secret).
func (s *Server) WatchSecret(ctx context.Context, namespace, name string, notify func(kube.ConfigMap)) {
	notify(s.Secret(namespace, name))
	spec := kube.Spec{APIVersion: "v1", Kind: "Secret", Namespaces: []string{namespace}, Names: []string{name}, KeepObjects: true}
	// The spec is valid, and the kind exists.
	_, _ = s.WatchObjects(ctx, spec, func(c kube.Change) {
		if c.Type == kube.Deleted {
			notify(kube.ConfigMap{})
			return
		}
		notify(parseSecret(c.Object.Object))
	}, func() {})
}

func parseSecret(object []byte) kube.ConfigMap {
	var secret struct {
		Metadata struct {
			ResourceVersion string `json:"resourceVersion"`
		} `json:"metadata"`
		Data map[string][]byte `json:"data"`
	}
	_ = json.Unmarshal(object, &secret) // the server keeps no Secret that is none
	out := kube.ConfigMap{ResourceVersion: secret.Metadata.ResourceVersion}
	for key, text := range secret.Data {
		if out.Data == nil {
			out.Data = map[string]string{}
		}
		out.Data[key] = string(text)
	}
	return out
}

func parseConfigMap(object []byte) kube.ConfigMap {
	var cm struct {
		Metadata struct {
			ResourceVersion string            `json:"resourceVersion"`
			Annotations     map[string]string `json:"annotations"`
		} `json:"metadata"`
		Data map[string]string `json:"data"`
	}
	_ = json.Unmarshal(object, &cm) // the server keeps no ConfigMap that is none
	return kube.ConfigMap{ResourceVersion: cm.Metadata.ResourceVersion, Data: cm.Data, ConfirmPurge: cm.Metadata.Annotations[kube.ConfirmPurgeAnnotation], Written: cm.Metadata.Annotations[kube.WrittenAnnotation]}
}
