package actors

import (
	"reflect"
	"testing"

	"addon-operator/hooks"
	"addon-operator/messages"
)

func objects(names ...string) (list []hooks.Object) {
	for _, name := range names {
		list = append(list, hooks.Object{FilterResult: []byte(name)})
	}
	return list
}

// C31, C35, X26: a context shows what it asks for; a binding without objects is there, too.
func TestPick(t *testing.T) {
	snapshots := messages.Snapshots{Bindings: []messages.BindingSnapshot{
		{Name: "pods", Objects: objects("a", "b")},
		{Name: "nodes"},
		{Name: "twins", Objects: objects("c")},
		{Name: "twins", Objects: objects("d")},
		{Name: "twins"},
	}}
	for name, c := range map[string]struct {
		names []string
		want  map[string][]hooks.Object
	}{
		"none asked: no field":       {nil, nil},
		"asked for nothing: a field": {[]string{}, map[string][]hooks.Object{}},
		"one":                        {[]string{"pods"}, map[string][]hooks.Object{"pods": objects("a", "b")}},
		"one without objects":        {[]string{"nodes"}, map[string][]hooks.Object{"nodes": nil}},
		"bindings of one name":       {[]string{"twins"}, map[string][]hooks.Object{"twins": objects("c", "d")}},
		"one asked for twice":        {[]string{"pods", "pods"}, map[string][]hooks.Object{"pods": objects("a", "b")}},
		"one that is not there":      {[]string{"gone"}, map[string][]hooks.Object{"gone": nil}},
	} {
		t.Run(name, func(t *testing.T) {
			if got := pick(snapshots, c.names); !reflect.DeepEqual(got, c.want) {
				t.Errorf("got %v, want %v", got, c.want)
			}
		})
	}
	if &pick(snapshots, []string{"pods"})["pods"][0] != &snapshots.Bindings[0].Objects[0] {
		t.Error("the snapshot of a single binding is copied: it can be large")
	}
	if len(snapshots.Bindings[2].Objects) != 1 {
		t.Error("a snapshot was written to")
	}
}

// P5: a Synchronization in place of events shows the objects of its binding, not those of another one with the same
// name, and nothing if the hook has changed. One that a person repeats shows what it has shown.
func TestSynchronizationInPlaceOfEvents(t *testing.T) {
	snapshots := messages.Snapshots{Bindings: []messages.BindingSnapshot{{Name: "twins", Objects: objects("a")}, {Name: "twins", Objects: objects("b")}}}
	trigger := func(name string, index int, shown []hooks.Object) messages.Trigger {
		return messages.Trigger{Context: hooks.Context{Binding: name, Type: hooks.TypeSynchronization, Objects: shown}, Binding: hooks.OnKubernetes, Index: index}
	}
	got := contexts([]messages.Trigger{trigger("twins", 1, nil), trigger("other", 0, nil), trigger("twins", 2, nil), trigger("twins", 0, []hooks.Object{})}, snapshots)
	if len(got) != 2 || !reflect.DeepEqual(got[0].Objects, objects("b")) || len(got[1].Objects) != 0 {
		t.Errorf("got %+v", got)
	}
}

// C41, X24: one run for each binding, in the order of definition; one for the bindings
// of a group that share a queue.
func TestSynchronizations(t *testing.T) {
	binding := func(name, group, queue string) hooks.KubernetesBinding {
		return hooks.KubernetesBinding{Binding: hooks.Binding{Name: name, Group: group, Queue: queue}}
	}
	run := func(names []string, bindings ...int) messages.SynchronizeHook {
		return messages.SynchronizeHook{Hook: "a.sh", Bindings: bindings, Names: names}
	}
	for name, c := range map[string]struct {
		bindings []hooks.KubernetesBinding
		want     []messages.SynchronizeHook
	}{
		"no bindings": {nil, nil},
		"no groups": {
			[]hooks.KubernetesBinding{binding("b", "", "main"), binding("a", "", "main"), binding("a", "", "slow")},
			[]messages.SynchronizeHook{run([]string{"b"}, 0), run([]string{"a"}, 1), run([]string{"a"}, 2)},
		},
		"a group with a stranger inside": {
			[]hooks.KubernetesBinding{binding("a", "g", "main"), binding("b", "", "main"), binding("c", "g", "main")},
			[]messages.SynchronizeHook{run([]string{"a", "c"}, 0, 2), run([]string{"b"}, 1)},
		},
		"two groups": {
			[]hooks.KubernetesBinding{binding("a", "g", "main"), binding("b", "h", "main"), binding("c", "g", "main"), binding("d", "h", "main")},
			[]messages.SynchronizeHook{run([]string{"a", "c"}, 0, 2), run([]string{"b", "d"}, 1, 3)},
		},
		"a group in two queues": {
			[]hooks.KubernetesBinding{binding("a", "g", "main"), binding("b", "g", "slow"), binding("c", "g", "slow")},
			[]messages.SynchronizeHook{run([]string{"a"}, 0), run([]string{"b", "c"}, 1, 2)},
		},
	} {
		t.Run(name, func(t *testing.T) {
			hook := hooks.Hook{File: hooks.File{Name: "a.sh"}, Config: &hooks.Config{Kubernetes: c.bindings}}
			if got := synchronizations(hook); !reflect.DeepEqual(got, c.want) {
				t.Errorf("got %+v, want %+v", got, c.want)
			}
		})
	}
}
