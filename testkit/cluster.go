package testkit

import (
	"context"
	"fmt"
	"strings"

	"addon-operator/actors/scenario"
	"addon-operator/actors/shared"
	"addon-operator/kube"
)

// notices implements shared.Notices: the Events that people see are lines of the trace.
type notices struct{ *scenario.Trace }

// Record implements shared.Notices.
func (t notices) Record(n kube.Notice) {
	where := "event"
	if n.OnConfigMap {
		where = "event on the ConfigMap"
	}
	t.Add("%s: %s: %s", where, n.Reason, firstLine(n.Message))
}

// forbiddenSecret is a Secret with values that the operator may not read.
type forbiddenSecret struct{ shared.Secret }

// Read implements shared.Secret.
func (forbiddenSecret) Read(context.Context) (kube.ConfigMap, error) {
	return kube.ConfigMap{}, fmt.Errorf("read Secret %s/%s: %w", scenario.Namespace, scenario.ConfigMapName, kube.ErrForbidden)
}

// lastValid keeps the last valid content of the ConfigMap in a Secret of the cluster, as the
// operator does, and notes in the trace when it changes.
type lastValid struct{ cluster *scenario.Cluster }

// Read implements shared.LastValid.
func (v lastValid) Read(ctx context.Context) (*kube.LastValid, error) {
	return v.cluster.Client.LastValid(scenario.Namespace, scenario.ConfigMapName).Read(ctx)
}

// Write implements shared.LastValid.
func (v lastValid) Write(ctx context.Context, kept kube.LastValid) error {
	before, err := v.Read(ctx)
	if err != nil || before == nil {
		before = &kube.LastValid{} // Write fails, too
	}
	err = v.cluster.Client.LastValid(scenario.Namespace, scenario.ConfigMapName).Write(ctx, kept)
	switch {
	case err != nil || before.Equal(kept):
	case len(kept.Secret) > 0 || len(before.Secret) > 0:
		v.cluster.Note("last valid values: operator keeps %q and of the Secret %q", kept.Config, kept.Secret)
	default:
		v.cluster.Note("last valid values: operator keeps %q", kept.Config)
	}
	return err
}

// String implements shared.LastValid.
func (v lastValid) String() string {
	return "Secret " + scenario.Namespace + "/" + kube.LastValidName(scenario.ConfigMapName)
}

// kindsGroup is the API group of kinds that a script makes.
const kindsGroup = "testkit.example.org"

// setKind makes a kind that Kubernetes does not have exist or not. Watches of a kind that
// comes into being are complete from then on.
func setKind(p *player, kind string, exists bool) error {
	plural := strings.ToLower(kind) + "s"
	if !exists {
		_, err := p.Cluster.Delete(scenario.Reference{Kind: "CustomResourceDefinition", Name: plural + "." + kindsGroup})
		return err
	}
	return p.Cluster.Apply(map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
		"metadata": map[string]any{"name": plural + "." + kindsGroup},
		"spec": map[string]any{
			"group": kindsGroup, "scope": "Namespaced", "names": map[string]any{"kind": kind, "plural": plural},
			"versions": []any{map[string]any{"name": "v1", "served": true, "storage": true}},
		},
	})
}
