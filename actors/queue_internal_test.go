package actors

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"addon-operator/hooks"
	"addon-operator/messages"
)

// event is the task of one event for a hook; about is "kind:detail" of its trigger.
func event(id, owner, hook string, details ...string) messages.Task {
	work := messages.RunHook{Hook: hook, Binding: hooks.OnKubernetes}
	for _, d := range details {
		work.Triggers = append(work.Triggers, messages.Trigger{Context: hooks.Context{Binding: d, Type: hooks.TypeEvent}})
	}
	return messages.Task{ID: id, Owner: owner, Work: work}
}

func bindings(t messages.Task) string {
	var names []string
	if w, ok := t.Work.(messages.RunHook); ok {
		for _, trigger := range w.Triggers {
			names = append(names, trigger.Context.Binding)
		}
	}
	return strings.Join(names, " ")
}

// C41, C43: neighbours are merged, and only they.
func TestCombine(t *testing.T) {
	schedule := event("s", "dns", "a.sh", "cron")
	schedule.Work = messages.RunHook{Hook: "a.sh", Binding: hooks.OnSchedule, Triggers: []messages.Trigger{{Context: hooks.Context{Binding: "cron", Type: hooks.TypeSchedule}}}}
	allowed := event("allowed", "dns", "a.sh", "p9")
	allowed.AllowFailure = true
	old := event("v0", "dns", "a.sh", "p0")
	old.Work = messages.RunHook{Hook: "a.sh", Binding: hooks.OnKubernetes, Triggers: []messages.Trigger{{Context: hooks.Context{Binding: "p0"}}}}
	order := event("order", "dns", "a.sh", "beforeHelm")
	order.Work = messages.RunHook{Hook: "a.sh", Binding: hooks.BeforeHelm, Triggers: []messages.Trigger{{Context: hooks.Context{Binding: "beforeHelm"}}}}
	module := messages.Task{ID: "module", Owner: "dns", Work: messages.RunModule{}}
	one, two, three := event("1", "dns", "a.sh", "p1"), event("2", "dns", "a.sh", "p2"), event("3", "dns", "a.sh", "p3", "p4")
	for name, c := range map[string]struct {
		pending []messages.Task
		merged  string // bindings of the head
		rest    []string
	}{
		"one task":                        {[]messages.Task{one}, "p1", nil},
		"neighbours":                      {[]messages.Task{one, two, three}, "p1 p2 p3 p4", nil},
		"events and ticks of one hook":    {[]messages.Task{one, schedule, two}, "p1 cron p2", nil},
		"another hook is between":         {[]messages.Task{one, event("x", "dns", "b.sh", "q"), two}, "p1", []string{"x", "2"}},
		"the same file of another module": {[]messages.Task{one, event("x", "web", "a.sh", "q")}, "p1", []string{"x"}},
		"another allowFailure":            {[]messages.Task{one, allowed}, "p1", []string{"allowed"}},
		"a module run is between":         {[]messages.Task{one, module, two}, "p1", []string{"module", "2"}},
		"a module run is the head":        {[]messages.Task{module, one, two}, "", []string{"1", "2"}},
		"protocol v0 is not merged":       {[]messages.Task{old, old}, "p0", []string{"v0"}},
		"v0 behind v1":                    {[]messages.Task{one, old}, "p1", []string{"v0"}},
		"order bindings are never merged": {[]messages.Task{order, one}, "beforeHelm", []string{"1"}},
		"nor are they merged into others": {[]messages.Task{one, order}, "p1", []string{"order"}},
	} {
		t.Run(name, func(t *testing.T) {
			before := fmt.Sprint(c.pending)
			head, rest := combine(c.pending)
			var ids []string
			for _, task := range rest {
				ids = append(ids, task.ID)
			}
			if got := bindings(head); got != c.merged || !slices.Equal(ids, c.rest) || head.ID != c.pending[0].ID {
				t.Errorf("head %s with %q, rest %q; want %q, %q", head.ID, got, ids, c.merged, c.rest)
			}
			if fmt.Sprint(c.pending) != before {
				t.Error("a message was written to")
			}
		})
	}
}

// C45: however long a queue is, its order is kept: runs of one hook that are not
// neighbours stay apart.
func TestCombineKeepsTheOrderOfALongQueue(t *testing.T) {
	var pending []messages.Task
	for i := range 1000 {
		hook := "ab"[i/2%2 : i/2%2+1] // aabbaabb…
		pending = append(pending, event(fmt.Sprint(i), "dns", hook, fmt.Sprint("p", i)))
	}
	for i := 0; len(pending) > 0; i += 2 {
		head, rest := combine(pending)
		if got, want := bindings(head), fmt.Sprintf("p%d p%d", i, i+1); got != want {
			t.Fatalf("run %d has %q, want %q", i/2, got, want)
		}
		pending = rest
	}
}

// Two queues that hold the same triggers must not write into each other's memory.
func TestCombineCopies(t *testing.T) {
	roomy := make([]messages.Trigger, 1, 10)
	roomy[0] = messages.Trigger{Context: hooks.Context{Binding: "p1", Type: hooks.TypeEvent}}
	one := messages.Task{ID: "1", Owner: "dns", Work: messages.RunHook{Hook: "a.sh", Binding: hooks.OnKubernetes, Triggers: roomy}}
	first, _ := combine([]messages.Task{one, event("2", "dns", "a.sh", "p2")})
	second, _ := combine([]messages.Task{one, event("3", "dns", "a.sh", "p3")})
	if bindings(first) != "p1 p2" || bindings(second) != "p1 p3" {
		t.Errorf("got %q and %q", bindings(first), bindings(second))
	}
}

// BenchmarkCombine: a hook that was slow finds ten thousand events.
func BenchmarkCombine(b *testing.B) {
	var pending []messages.Task
	for range 10_000 {
		pending = append(pending, event("1", "dns", "a.sh", "pods"))
	}
	for b.Loop() {
		if _, rest := combine(pending); len(rest) != 0 {
			b.Fatal("not merged")
		}
	}
}

// F9: a run serves every other run of the same modules, and a reload every other reload.
func TestServes(t *testing.T) {
	task := func(owner string, work messages.Work) messages.Task { return messages.Task{Owner: owner, Work: work} }
	dns, web := task("dns", messages.RunModule{}), task("web", messages.RunModule{})
	group := task(messages.Converge, messages.RunModules{Names: []string{"dns", "mail"}})
	reload := task(messages.Converge, messages.ReloadModules{})
	for name, c := range map[string]struct {
		task, other messages.Task
		want        bool
	}{
		"the same module":                       {dns, dns, true},
		"another module":                        {dns, web, false},
		"a group serves one of its modules":     {group, dns, true},
		"a group and a module beside it":        {group, web, false},
		"one module does not serve its group":   {dns, group, false},
		"the same group":                        {group, group, true},
		"two reloads":                           {reload, reload, true},
		"a reload and a run":                    {reload, dns, false},
		"a run and a reload":                    {dns, reload, false},
		"a run and a delete of the same module": {dns, task("dns", messages.DeleteModule{}), false},
		"two deletes":                           {task("dns", messages.DeleteModule{}), task("dns", messages.DeleteModule{}), false},
		"two events of the same hook":           {event("1", "dns", "a.sh", "p"), event("1", "dns", "a.sh", "p"), false},
	} {
		t.Run(name, func(t *testing.T) {
			if got := serves(c.task, c.other); got != c.want {
				t.Errorf("got %v, want %v", got, c.want)
			}
		})
	}
}
