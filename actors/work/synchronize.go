package work

import (
	"addon-operator/hooks"
	"addon-operator/messages"
)

// BindingKey is the name of the binding with the given index. Names of bindings may repeat in a
// hook, so the index identifies one.
func BindingKey(hook hooks.Hook, i int) messages.BindingKey {
	return messages.BindingKey{Hook: hook.Name, Index: i}
}

// Synchronizations are the Synchronization runs of a hook: one for each binding, in the order of
// definition, and one for all bindings of a group that share a queue (C41, X24). Bindings of a
// group in two queues have two runs: a run is a task of one queue.
func Synchronizations(hook hooks.Hook) []messages.SynchronizeHook {
	var out []messages.SynchronizeHook
	byGroup := map[string]int{}
	for i, b := range hook.Config.Kubernetes {
		if b.Group != "" {
			key := b.Group + "\x00" + b.Queue
			if at, ok := byGroup[key]; ok {
				out[at].Bindings = append(out[at].Bindings, i)
				out[at].Names = append(out[at].Names, b.Name)
				continue
			}
			byGroup[key] = len(out)
		}
		out = append(out, messages.SynchronizeHook{Hook: hook.Name, Bindings: []int{i}, Names: []string{b.Name}})
	}
	return out
}
