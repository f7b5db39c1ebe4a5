package actors

import (
	"context"
	"testing"

	"addon-operator/addons"
	"addon-operator/kube"
	"addon-operator/messages"
	"addon-operator/messages/view"
	"addon-operator/values"
)

// unwatched is a Secret that may be read, and not watched.
type unwatched struct{ Secret }

func (unwatched) Watch(context.Context, func(kube.ConfigMap)) {}

type lastValid struct{ LastValid }

func (lastValid) Write(context.Context, kube.LastValid) error { return nil }
func (lastValid) String() string                              { return "the copy" }

// P3: after a start with the contents that were kept, a ConfigMap that is corrected is in force, also while nothing is
// heard of the Secret.
func TestCorrectedWithoutNewsOfTheSecret(t *testing.T) {
	p := testProgram(nil)
	p.WriteContext, p.LastValid, p.Secret = t.Context(), lastValid{}, unwatched{}
	c := newConfig(t.Context(), p, &boot{
		tree: &addons.Tree{}, templates: map[string]*values.Section{},
		inCluster: contents{configMap: kube.ConfigMap{Data: map[string]string{"aEnabled": "maybe"}, ResourceVersion: "1"}},
	})
	pid := spawnActor(t, p, configPath, c)
	p.Send(pid, contentSeen{of: c.configMap, content: kube.ConfigMap{Data: map[string]string{"aEnabled": "true"}, ResourceVersion: "2"}})
	askActor[messages.ConfigChecked](t, p, pid, messages.CheckConfig{})
	status, _ := p.Inspector.Status(configPath).(view.ConfigStatus)
	if status.Refused != "" || status.Revision != "2" {
		t.Errorf("the corrected ConfigMap is not in force: %+v", status)
	}
}
