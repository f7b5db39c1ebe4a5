package messages

import (
	"encoding/json"
	"fmt"
	"strings"

	"addon-operator/hooks"
	"addon-operator/values"
)

// ListHooks asks an owner for its hooks. The answer is [HookList].
type ListHooks struct{}

// HookList are the hooks of an owner. A module has none before its first run since it was
// enabled: only then they are asked for their configuration.
type HookList struct{ Hooks []hooks.Hook }

// HookInfo is a hook as people are shown it.
type HookInfo struct {
	// Owner is the name of a module, or "global".
	Owner         string        `json:"owner"`
	Hook          string        `json:"hook"`
	ConfigVersion string        `json:"configVersion"`
	Bindings      []BindingInfo `json:"bindings"`
	// Hanging is a run of it that lasts too long; nil for none.
	Hanging *RunningHook `json:"hanging,omitempty"`
	// Problems are why its snapshots are not what the cluster has.
	Problems []string `json:"problems,omitempty"`
}

// BindingInfo is one binding of a hook.
type BindingInfo struct {
	// Type is onStartup, schedule, kubernetes and so on; Name is that of a schedule or of a
	// kubernetes binding.
	Type string `json:"type"`
	Name string `json:"name,omitempty"`
	// On is what makes it run: an order, a crontab, the kind of objects.
	On           string `json:"on"`
	Queue        string `json:"queue,omitempty"`
	Group        string `json:"group,omitempty"`
	AllowFailure bool   `json:"allowFailure,omitempty"`
}

// String implements fmt.Stringer.
func (b BindingInfo) String() string {
	text := b.Type + " " + b.On
	if b.Queue != "" && b.Queue != MainQueue {
		text += " in " + b.Queue
	}
	return text
}

// Describe returns what the hooks of an owner run on.
func (l HookList) Describe(owner string) []HookInfo {
	out := make([]HookInfo, 0, len(l.Hooks))
	for _, h := range l.Hooks {
		out = append(out, HookInfo{Owner: owner, Hook: h.Name, ConfigVersion: h.Config.Version, Bindings: describeBindings(h.Config)})
	}
	return out
}

func describeBindings(c *hooks.Config) []BindingInfo {
	var all []BindingInfo
	orders := []hooks.BindingType{hooks.OnStartup, hooks.BeforeAll, hooks.BeforeHelm, hooks.AfterHelm, hooks.AfterAll, hooks.BeforeDeleteHelm, hooks.AfterDeleteHelm}
	for _, b := range orders {
		if order, ok := c.Order(b); ok {
			all = append(all, BindingInfo{Type: string(b), On: fmt.Sprint(order)})
		}
	}
	for _, s := range c.Schedules {
		all = append(all, bindingInfo(hooks.OnSchedule, s.Binding, s.Crontab))
	}
	for _, k := range c.Kubernetes {
		all = append(all, bindingInfo(hooks.OnKubernetes, k.Binding, strings.TrimSpace(k.APIVersion+" "+k.Kind)))
	}
	return all
}

func bindingInfo(kind hooks.BindingType, b hooks.Binding, on string) BindingInfo {
	return BindingInfo{Type: string(kind), Name: b.Name, On: on, Queue: b.Queue, Group: b.Group, AllowFailure: b.AllowFailure}
}

// DumpSnapshots asks monitors what it holds for the hooks of an owner, or for one of them
// when Hook is set. The answer is [SnapshotDump].
type DumpSnapshots struct{ Owner, Hook string }

// SnapshotDump are the snapshots of hooks, sorted by hook and binding.
type SnapshotDump struct{ Bindings []BindingDump }

// BindingDump is the snapshot of one binding: the objects as its hook gets them.
type BindingDump struct {
	BindingState
	Snapshot []hooks.Object
}

// Masked gives the snapshot without what is or looks like a secret: all that was read from
// a Secret, and in other objects what stands below keys that look like those of secrets.
func (d BindingDump) Masked() BindingDump {
	isSecret := strings.EqualFold(strings.TrimSuffix(d.Kind, "s"), "secret")
	masked := make([]hooks.Object, len(d.Snapshot))
	for i, o := range d.Snapshot {
		masked[i] = hooks.Object{
			Object:       maskedJSON(o.Object, values.MaskObject),
			FilterResult: maskedJSON(o.FilterResult, func(tree any) any { return values.Mask(tree, isSecret) }),
		}
	}
	d.Snapshot = masked
	return d
}

// maskedJSON changes a JSON text; one that is none is hidden as a whole.
func maskedJSON(text json.RawMessage, mask func(any) any) json.RawMessage {
	if text == nil {
		return nil
	}
	hidden, _ := json.Marshal(values.Hidden) // a text always has a JSON form
	var tree any
	if json.Unmarshal(text, &tree) != nil {
		return hidden
	}
	out, err := json.Marshal(mask(tree))
	if err != nil {
		return hidden
	}
	return out
}

// ListMonitored asks the healer which objects it looks after. The answer is [Monitored].
type ListMonitored struct{}

// Monitored are the objects of releases that are watched for deletion, by
// module: "namespace/Kind/name", or "Kind/name" for those of the cluster.
type Monitored map[string][]string
