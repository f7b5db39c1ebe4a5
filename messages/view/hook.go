package view

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"addon-operator/hooks"
	"addon-operator/messages"
	"addon-operator/values"
)

// HookInfo is a hook as it is shown to people.
type HookInfo struct {
	// Owner is the name of a module, or "global".
	Owner         string        `json:"owner"`
	Hook          string        `json:"hook"`
	ConfigVersion string        `json:"configVersion"`
	Bindings      []BindingInfo `json:"bindings"`
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
	for _, r := range c.Reviews {
		var resources []string
		for _, rule := range r.Webhook.Rules {
			resources = append(resources, rule.Resources...)
		}
		all = append(all, bindingInfo(r.Type, r.Binding, messages.Few(3, resources)))
	}
	for _, conversion := range c.Conversions {
		all = append(all, bindingInfo(hooks.OnConversion, conversion.Binding, conversion.CRD))
	}
	return all
}

func bindingInfo(kind hooks.BindingType, b hooks.Binding, on string) BindingInfo {
	return BindingInfo{Type: string(kind), Name: b.Name, On: on, Queue: b.Queue, Group: b.Group, AllowFailure: b.AllowFailure}
}

// HookRun is a run of a hook that has ended.
type HookRun struct {
	Owner, Hook, Queue string
	Binding            hooks.BindingType
	Cause              messages.Cause // of the task
	Took               time.Duration
	Err                error
	Output             string // its last lines
}

// HangsAfter is how long a hook may run before it is reported as hanging. Its time limit ends it
// much later.
const HangsAfter = time.Minute

// RunningHook is a hook or an enabled script that runs now.
type RunningHook struct {
	// Module is empty for global hooks.
	Module  string    `json:"module,omitempty"`
	Hook    string    `json:"hook"`
	Binding string    `json:"binding,omitempty"`
	Began   time.Time `json:"began"`
}

// Hangs reports whether it has been running for too long.
func (r RunningHook) Hangs() bool { return time.Since(r.Began) >= HangsAfter }

// String implements fmt.Stringer. The time is absolute: the text is the same as long as the hook runs.
func (r RunningHook) String() string {
	return fmt.Sprintf("hook %s hangs: it has been running since %s", r.Hook, r.Began.Local().Format(time.TimeOnly))
}

// Snapshot is that of one binding: the objects as its hook gets them.
type Snapshot struct {
	messages.BindingState
	Objects []hooks.Object
}

// Masked returns the snapshot without what is or looks like a secret: everything that was
// read from a Secret, and in other objects values below keys that look like those of secrets.
func (s Snapshot) Masked() Snapshot {
	isSecret := strings.EqualFold(strings.TrimSuffix(s.Kind, "s"), "secret")
	masked := make([]hooks.Object, len(s.Objects))
	for i, o := range s.Objects {
		masked[i] = hooks.Object{
			Object:       maskedJSON(o.Object, values.MaskObject),
			FilterResult: maskedJSON(o.FilterResult, func(tree any) any { return values.Mask(tree, isSecret) }),
		}
	}
	s.Objects = masked
	return s
}

// maskedJSON masks a JSON text; text that is no JSON is hidden as a whole.
func maskedJSON(text json.RawMessage, mask func(any) any) json.RawMessage {
	if text == nil {
		return nil
	}
	var tree any = values.Hidden // stays for what is no JSON
	_ = json.Unmarshal(text, &tree)
	out, _ := json.Marshal(mask(tree)) // what was JSON always has such a form
	return out
}
