package scenario

import (
	"context"
	"encoding/json"

	"addon-operator/kube"
)

// configMap is the ConfigMap of the operator: read and written by the real client.
type configMap struct{ play *play }

// Read implements actors.ConfigMap.
func (m configMap) Read(ctx context.Context) (kube.ConfigMap, error) {
	return m.play.client.ReadConfigMap(ctx, Namespace, configMapName)
}

// Watch implements actors.ConfigMap.
func (m configMap) Watch(ctx context.Context, notify func(kube.ConfigMap)) {
	spec := kube.Spec{APIVersion: "v1", Kind: "ConfigMap", Namespaces: []string{Namespace}, Names: []string{configMapName}, KeepObjects: true}
	// The spec is valid, and the kind exists.
	_, _ = m.play.server.WatchObjects(ctx, spec, func(c kube.Change) {
		if ctx.Err() != nil {
			return
		}
		if c.Type == kube.Deleted {
			notify(kube.ConfigMap{})
			return
		}
		notify(parsed(c.Object.Object))
	}, func() {})
}

func parsed(object []byte) kube.ConfigMap {
	var cm struct {
		Metadata struct {
			ResourceVersion string `json:"resourceVersion"`
		} `json:"metadata"`
		Data map[string]string `json:"data"`
	}
	_ = json.Unmarshal(object, &cm) // the server keeps no ConfigMap that is none
	return kube.ConfigMap{ResourceVersion: cm.Metadata.ResourceVersion, Data: cm.Data}
}

// Write implements actors.ConfigMap.
func (m configMap) Write(ctx context.Context, base map[string]string, set map[string]*string) (kube.ConfigMap, error) {
	return m.play.client.WriteConfigMap(ctx, Namespace, configMapName, base, set)
}

// Warn implements actors.ConfigMap.
func (m configMap) Warn(_ context.Context, reason, message string) error {
	m.play.journal.add("EVENT " + reason + ": " + message)
	return nil
}

// configMapData is what the ConfigMap holds now; nil when there is none.
func (p *play) configMapData() map[string]string {
	for _, object := range p.server.Objects() {
		if identity(object) == "v1 ConfigMap "+Namespace+"/"+configMapName {
			data, _ := object["data"].(map[string]any)
			texts := map[string]string{}
			for key, value := range data {
				texts[key], _ = value.(string)
			}
			return texts
		}
	}
	return nil
}
