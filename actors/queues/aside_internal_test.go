package queues

import (
	"testing"

	"addon-operator/actors/shared/sharedtest"
	"addon-operator/hooks"
	"addon-operator/messages"
)

func triggerOf(binding hooks.BindingType, about string) messages.Trigger {
	t := messages.Trigger{Binding: binding, Context: hooks.Context{Binding: about}}
	if binding == hooks.OnKubernetes {
		t.Context.Type = hooks.TypeEvent
	}
	return t
}

func hookTask(id string, triggers ...messages.Trigger) messages.Task {
	return messages.Task{ID: id, Owner: "a", Work: messages.RunHook{Hook: "h", Binding: triggers[0].Binding, Triggers: triggers}}
}

// carried describes the tasks of hooks in a line.
func carried(tasks []messages.Task) (texts []string) {
	for _, t := range tasks {
		_, about := t.Work.Describe()
		texts = append(texts, about)
	}
	return texts
}

// C17, C40: what was set aside comes before what has come since, and nothing of it twice; events
// that a Synchronization of all bindings has shown meanwhile do not come again.
func TestBroughtBack(t *testing.T) {
	event := func(name string) messages.Trigger { return triggerOf(hooks.OnKubernetes, name) }
	for name, test := range map[string]struct {
		resync bool
		want   string
	}{
		"as they were":             {false, "[h e1/Event,e2/Event,tick,e3/Event]"},
		"synchronized again since": {true, "[h tick,e3/Event]"},
	} {
		t.Run(name, func(t *testing.T) {
			q := newQueue(sharedtest.NewProgram(nil), "main")
			q.aside = []messages.Task{hookTask("1", event("e1"), event("e2"), triggerOf(hooks.OnSchedule, "tick"))}
			q.line.tasks = []messages.Task{hookTask("2", event("e3"))}
			q.bringBack(messages.SnapshotsComplete{Owner: "other", Hook: "h"})
			if len(q.aside) != 1 {
				t.Fatal("brought back for the hook of another module")
			}
			q.bringBack(messages.SnapshotsComplete{Owner: "a", Hook: "h", Resync: test.resync})
			if got := carried(q.line.tasks); len(got) != 1 || "["+got[0]+"]" != test.want || len(q.aside) != 0 {
				t.Errorf("in the line %q, set aside %q; want %s", got, carried(q.aside), test.want)
			}
		})
	}
}

// C17, C40: what comes for a hook joins what was set aside for it before.
func TestMergeAside(t *testing.T) {
	q := newQueue(sharedtest.NewProgram(nil), "main")
	q.aside = []messages.Task{hookTask("1", triggerOf(hooks.OnKubernetes, "e1"))}
	other := hookTask("3", triggerOf(hooks.OnKubernetes, "e3"))
	other.Owner = "b"
	q.line.tasks = []messages.Task{hookTask("2", triggerOf(hooks.OnKubernetes, "e2")), other}
	q.mergeAside()
	if got := carried(q.aside); len(got) != 1 || got[0] != "h e1/Event,e2/Event" || len(q.line.tasks) != 1 {
		t.Errorf("set aside %q, in the line %q", got, carried(q.line.tasks))
	}
}
