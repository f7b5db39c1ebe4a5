package view

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"addon-operator/hooks"
	"addon-operator/messages"
)

// HookInfo is a hook as it is shown to people.
type HookInfo struct {
	// Owner is the name of a module, or "global".
	Owner         string        `json:"owner"`
	Hook          string        `json:"hook"`
	ConfigVersion string        `json:"configVersion"`
	Bindings      []BindingInfo `json:"bindings"`
	// Hanging is a run of it that takes too long; nil for none.
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
	if b.Queue != "" && b.Queue != messages.MainQueue {
		text += " in " + b.Queue
	}
	return text
}

// DescribeHooks returns what the hooks of an owner run on.
func DescribeHooks(owner string, loaded []hooks.Hook) []HookInfo {
	out := make([]HookInfo, 0, len(loaded))
	for _, h := range loaded {
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

// HookRun is a run of a hook that has ended.
type HookRun struct {
	Owner, Hook, Queue, Task string
	// Binding is the type of the binding, and Contexts what the hook got.
	Binding  hooks.BindingType
	Contexts []hooks.Context
	Cause    messages.Cause // of the task
	Took     time.Duration
	Err      error
	Output   string // its last lines
}

// Again is the work that runs the hook once more with the same contexts. Their snapshots are taken
// then.
func (r HookRun) Again() messages.RunHook {
	work := messages.RunHook{Hook: r.Hook, Binding: r.Binding}
	for _, c := range r.Contexts {
		work.Triggers = append(work.Triggers, messages.Trigger{Context: c, Snapshots: slices.Sorted(maps.Keys(c.Snapshots)), Binding: r.Binding})
	}
	return work
}
