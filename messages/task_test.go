package messages_test

import (
	"fmt"
	"slices"
	"testing"

	"addon-operator/hooks"
	"addon-operator/messages"
)

func triggers(contexts ...hooks.Context) (list []messages.Trigger) {
	for _, c := range contexts {
		list = append(list, messages.Trigger{Context: c})
	}
	return list
}

// F17: every task describes itself in one line, without values.
func TestTaskAsText(t *testing.T) {
	secret := []byte(`{"data":"secret"}`)
	cases := map[string]messages.Task{
		"RunHook dns 010-dns/hooks/a.sh pods/Added,pods/Deleted": {Owner: "dns", Work: messages.RunHook{
			Hook: "010-dns/hooks/a.sh", Binding: hooks.OnKubernetes, Triggers: triggers(
				hooks.Context{Binding: "pods", Type: hooks.TypeEvent, WatchEvent: hooks.Added, Object: secret},
				hooks.Context{Binding: "pods", Type: hooks.TypeEvent, WatchEvent: hooks.Deleted},
			),
		}},
		"RunHook dns a.sh pods/Synchronization,cfg/Modified,cron/Schedule": {Owner: "dns", Work: messages.RunHook{
			Hook: "a.sh", Binding: hooks.OnKubernetes, Triggers: triggers(
				hooks.Context{Binding: "pods", Type: hooks.TypeSynchronization},
				hooks.Context{Binding: "cfg", Type: hooks.TypeEvent, WatchEvent: hooks.Modified},
				hooks.Context{Binding: "cron", Type: hooks.TypeSchedule},
				hooks.Context{Binding: "cfg", Type: hooks.TypeEvent, WatchEvent: hooks.Modified},
			),
		}},
		"RunHook global-hooks a.sh every-minute/Schedule": {Owner: messages.GlobalHooks, Work: messages.RunHook{
			Hook: "a.sh", Binding: hooks.OnSchedule, Triggers: triggers(hooks.Context{Binding: "every-minute", Type: hooks.TypeSchedule}),
		}},
		"RunHook global-hooks a.sh beforeAll": {Owner: messages.GlobalHooks, Work: messages.RunHook{
			Hook: "a.sh", Binding: hooks.BeforeAll, Triggers: triggers(hooks.Context{Binding: "beforeAll"}),
		}},
		"SynchronizeHook dns a.sh pods,nodes": {Owner: "dns", Work: messages.SynchronizeHook{Hook: "a.sh", Bindings: []int{0, 2}, Names: []string{"pods", "nodes"}}},
		"RunModule dns":                       {Owner: "dns", Work: messages.RunModule{}},
		"RunModules converge dns,web":         {Owner: messages.Converge, Work: messages.RunModules{Names: []string{"dns", "web"}}},
		"DeleteModule dns":                    {Owner: "dns", Work: messages.DeleteModule{}},
		"ReloadModules converge":              {Owner: messages.Converge, Work: messages.ReloadModules{}},
		"DiscoverModules converge":            {Owner: messages.Converge, Work: messages.DiscoverModules{}},
		"PurgeRelease converge old":           {Owner: messages.Converge, Work: messages.PurgeRelease{Release: "old"}},
		"AwaitSynchronization global-hooks":   {Owner: messages.GlobalHooks, Work: messages.AwaitSynchronization{}},
		"FinishReload converge":               {Owner: messages.Converge, Work: messages.FinishReload{}},
	}
	for want, task := range cases {
		if got := task.String(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// I3: the reason of a task, and what in particular it was.
func TestCauseAsText(t *testing.T) {
	for want, cause := range map[string]messages.Cause{
		"OperatorStartup":                   {Activation: messages.Startup},
		"Kubernetes: Pod default/web Added": {Activation: messages.ByKubernetes, Detail: "Pod default/web Added"},
	} {
		if got := cause.String(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// I3: a cause remembers what led to it, the latest first; a loop does not make it grow
// without end, and no chain is changed by what follows from it.
func TestChainOfCauses(t *testing.T) {
	event := messages.Cause{Activation: messages.ByKubernetes, Detail: "Pod default/web Added"}
	hook := messages.By(messages.ByHook, "a.sh", event)
	if got, want := hook.Chain(), []messages.Cause{{Activation: messages.ByHook, Detail: "a.sh"}, event}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	const limit = 40
	long := event
	for i := range 100 {
		before := len(long.Chain())
		next := messages.By(messages.ByHook, fmt.Sprint(i), long)
		if len(long.Chain()) != before {
			t.Fatalf("cause %d changed the one before", i)
		}
		if got, want := len(next.Chain()), min(i+2, limit); got != want {
			t.Fatalf("after %d causes the chain has %d links, want %d", i, got, want)
		}
		long = next
	}
	if got := long.Chain()[0].Detail; got != "99" {
		t.Errorf("the latest cause is %s", got)
	}
	if got := long.First(); got != event {
		t.Errorf("the chain began with %s", got)
	}
}

// A task that stands for another one has what a person did as its cause, or what followed from that.
func TestCausesOfMergedTasks(t *testing.T) {
	files := messages.Task{Cause: messages.Cause{Activation: messages.ByFiles, Detail: "modules"}}
	edit := messages.Task{Cause: messages.Cause{Activation: messages.ByConfigMap, Detail: "a.x in ConfigMap"}}
	hook := messages.Task{Cause: messages.By(messages.ByHook, "h.sh changed a.y", edit.Cause)}
	tick := messages.Task{Cause: messages.Cause{Activation: messages.BySchedule}}
	for _, c := range [][3]messages.Task{{files, edit, edit}, {files, hook, hook}, {edit, hook, edit}, {hook, edit, hook}, {tick, files, tick}} {
		if got := c[0].Instead(c[1]).Cause; got != c[2].Cause {
			t.Errorf("%s instead of %s: got %s", c[0].Cause, c[1].Cause, got)
		}
	}
}
