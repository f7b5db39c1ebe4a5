package view_test

import (
	"reflect"
	"testing"

	"addon-operator/hooks"
	"addon-operator/messages"
	"addon-operator/messages/view"
)

// A hook that runs again gets the contexts of its last run; the snapshots in them are taken again.
func TestHookRunsAgain(t *testing.T) {
	event := hooks.Context{Binding: "pods", Type: "Event", WatchEvent: "Added", Snapshots: map[string][]hooks.Object{"b": nil, "a": nil}}
	tick := hooks.Context{Binding: "every-minute"}
	got := view.HookRun{Hook: "h", Binding: hooks.OnKubernetes, Contexts: []hooks.Context{event, tick}}.Again()
	want := messages.RunHook{Hook: "h", Binding: hooks.OnKubernetes, Triggers: []messages.Trigger{
		{Context: event, Snapshots: []string{"a", "b"}, Binding: hooks.OnKubernetes},
		{Context: tick, Binding: hooks.OnKubernetes},
	}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v, want %+v", got, want)
	}
}
