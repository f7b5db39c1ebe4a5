package scenario

import (
	"context"

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
	m.play.server.WatchConfigMap(ctx, Namespace, configMapName, notify)
}

// Write implements actors.ConfigMap.
func (m configMap) Write(ctx context.Context, base map[string]string, set map[string]*string) (kube.ConfigMap, error) {
	return m.play.client.WriteConfigMap(ctx, Namespace, configMapName, base, set)
}

// RemoveConfirmation implements actors.ConfigMap.
func (m configMap) RemoveConfirmation(ctx context.Context, value string) (kube.ConfigMap, error) {
	return m.play.client.RemoveConfirmation(ctx, Namespace, configMapName, value)
}

// NoteWritten implements actors.ConfigMap.
func (m configMap) NoteWritten(ctx context.Context, text string) (kube.ConfigMap, error) {
	return m.play.client.NoteWritten(ctx, Namespace, configMapName, text)
}

// Warn implements actors.ConfigMap.
func (m configMap) Warn(_ context.Context, reason, message string) error {
	m.play.journal.add("EVENT " + reason + ": " + message)
	return nil
}

// configMapData is what the ConfigMap holds now; nil when there is none.
func (p *play) configMapData() map[string]string {
	return p.server.ConfigMap(Namespace, configMapName).Data
}

// secret is the Secret with values, of the same name.
type secret struct{ play *play }

// Read implements actors.Secret.
func (s secret) Read(ctx context.Context) (kube.ConfigMap, error) {
	return s.play.client.ReadSecret(ctx, Namespace, configMapName)
}

// Watch implements actors.Secret.
func (s secret) Watch(ctx context.Context, notify func(kube.ConfigMap)) {
	s.play.server.WatchSecret(ctx, Namespace, configMapName, notify)
}

// Write implements actors.Secret.
func (s secret) Write(ctx context.Context, base map[string]string, set map[string]*string) (kube.ConfigMap, error) {
	return s.play.client.WriteSecret(ctx, Namespace, configMapName, base, set)
}
