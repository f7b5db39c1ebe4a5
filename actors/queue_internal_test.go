package actors

import (
	"fmt"
	"strings"
	"testing"

	"addon-operator/hooks"
	"addon-operator/kube"
	"addon-operator/messages"
)

// event is the task of events for a hook, one for each of the given names of bindings; the
// object of each has ten bytes.
func event(id, owner, hook string, bindings ...string) messages.Task {
	run := messages.RunHook{Hook: hook, Binding: hooks.OnKubernetes}
	for _, b := range bindings {
		run.Triggers = append(run.Triggers, messages.Trigger{
			Context: hooks.Context{Binding: b, Type: hooks.TypeEvent, Object: []byte("0123456789")}, Binding: hooks.OnKubernetes, Index: int(b[0]),
		})
	}
	return messages.Task{ID: id, Owner: owner, Work: run}
}

// tick is the task of a schedule of a hook.
func tick(id, owner, hook, name string, index int) messages.Task {
	t := messages.Trigger{Context: hooks.Context{Binding: name, Type: hooks.TypeSchedule}, Binding: hooks.OnSchedule, Index: index}
	return messages.Task{ID: id, Owner: owner, Work: messages.RunHook{Hook: hook, Binding: hooks.OnSchedule, Triggers: []messages.Trigger{t}}}
}

// grouped is the task of a change for a binding with a group.
func grouped(id, owner, hook, name string, index int, group string) messages.Task {
	t := messages.Trigger{Context: hooks.Context{Binding: name, Type: hooks.TypeGroup, GroupName: group}, Binding: hooks.OnKubernetes, Index: index}
	return messages.Task{ID: id, Owner: owner, Work: messages.RunHook{Hook: hook, Binding: hooks.OnKubernetes, Triggers: []messages.Trigger{t}}}
}

// old is the task of an event in protocol v0.
func old(id, hook, object, watchEvent string) messages.Task {
	t := messages.Trigger{Context: hooks.Context{Binding: "old", WatchEvent: watchEvent, Resource: &hooks.Resource{Name: object}}, Binding: hooks.OnKubernetes}
	return messages.Task{ID: id, Owner: "dns", Work: messages.RunHook{Hook: hook, Binding: hooks.OnKubernetes, Triggers: []messages.Trigger{t}}}
}

// quiet makes a program that reports to the test only.
func quiet() (*program, *toldNotices) {
	p, told := testProgram(nil), &toldNotices{}
	p.Notices = told
	return p, told
}

type toldNotices struct{ notices []kube.Notice }

func (t *toldNotices) Record(n kube.Notice) { t.notices = append(t.notices, n) }

// lined writes waiting tasks as text: their IDs, and what they carry.
func lined(waiting []messages.Task) string {
	var all []string
	for _, t := range waiting {
		text := []string{t.ID}
		w, _ := t.Work.(messages.RunHook)
		for _, trigger := range w.Triggers {
			name := trigger.Context.Binding
			if trigger.Context.Type == hooks.TypeSynchronization {
				name = "all-" + name
			}
			text = append(text, name)
		}
		all = append(all, strings.Join(text, " "))
	}
	return strings.Join(all, ", ")
}

// C41, C43, C45: what comes for a hook joins the task that waits for it, wherever that is in
// the line. Other work keeps apart, and messages are never written to.
func TestWaiting(t *testing.T) {
	order := func(id string) messages.Task {
		hook := hooks.Hook{File: hooks.File{Name: "a.sh"}, Config: &hooks.Config{}}
		return messages.Task{ID: id, Owner: "dns", Work: orderWork(hook, hooks.BeforeHelm)}
	}
	allowed := func(t messages.Task) messages.Task {
		t.AllowFailure = true
		return t
	}
	module := messages.Task{ID: "module", Owner: "dns", Work: messages.RunModule{}}
	one, two, three := event("1", "dns", "a.sh", "p1"), event("2", "dns", "a.sh", "p2"), event("3", "dns", "a.sh", "p3", "p4")
	for name, c := range map[string]struct {
		added []messages.Task
		want  string
	}{
		"one task":                        {[]messages.Task{one}, "1 p1"},
		"neighbours":                      {[]messages.Task{one, two, three}, "1 p1 p2 p3 p4"},
		"events and ticks of one hook":    {[]messages.Task{one, tick("s", "dns", "a.sh", "cron", 0), two}, "1 p1 cron p2"},
		"another hook is between":         {[]messages.Task{one, event("x", "dns", "b.sh", "q"), two}, "1 p1 p2, x q"},
		"the same file of another module": {[]messages.Task{one, event("x", "web", "a.sh", "q"), two}, "1 p1 p2, x q"},
		"another allowFailure":            {[]messages.Task{one, allowed(event("a", "dns", "a.sh", "p9")), two, allowed(event("b", "dns", "a.sh", "p9"))}, "1 p1 p2, a p9 p9"},
		"a module run is between":         {[]messages.Task{one, module, two}, "1 p1 p2, module"},
		"order bindings keep apart":       {[]messages.Task{order("o"), one, order("p"), two}, "o beforeHelm, 1 p1 p2, p beforeHelm"},
		"ticks of one schedule":           {[]messages.Task{tick("s", "dns", "a.sh", "cron", 0), one, tick("t", "dns", "a.sh", "cron", 0)}, "s cron p1"},
		"schedules of one name":           {[]messages.Task{tick("s", "dns", "a.sh", "schedule", 0), tick("t", "dns", "a.sh", "schedule", 1), tick("u", "dns", "a.sh", "schedule", 0)}, "s schedule schedule"},
		"neighbours of a group":           {[]messages.Task{grouped("g", "dns", "a.sh", "g1", 0, "g"), grouped("h", "dns", "a.sh", "g1", 0, "g"), one, grouped("i", "dns", "a.sh", "g1", 0, "g")}, "g g1 p1 g1"},
		"two bindings of a group":         {[]messages.Task{grouped("g", "dns", "a.sh", "g1", 0, "g"), grouped("h", "dns", "a.sh", "g2", 1, "g")}, "g g1 g2"}, // hooks.Compact keeps the last
		"events of protocol v0":           {[]messages.Task{old("v", "a.sh", "x", hooks.Added), old("w", "a.sh", "x", hooks.Deleted)}, "v old old"},
	} {
		t.Run(name, func(t *testing.T) {
			p, _ := quiet()
			before := fmt.Sprint(c.added)
			var waiting []messages.Task
			for _, task := range c.added {
				waiting = p.MergeIntoWaiting(waiting, task)
			}
			if got := lined(waiting); got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
			if fmt.Sprint(c.added) != before {
				t.Error("a message was written to")
			}
		})
	}
}

// P5: beyond a number or size of events that wait, those of each binding with several
// are dropped, and a Synchronization is in their place; until it runs no more of them are kept.
func TestWaitingIsLimited(t *testing.T) {
	p, told := quiet()
	var waiting []messages.Task
	add := func(task messages.Task) { waiting = p.MergeIntoWaiting(waiting, task) }
	add(event("rare", "dns", "a.sh", "rare"))
	for i := range maxTriggers - 1 {
		add(event(fmt.Sprint(i), "dns", "a.sh", "many"))
	}
	if n := len(waiting[0].Work.(messages.RunHook).Triggers); n != maxTriggers || len(told.notices) != 0 {
		t.Fatalf("%d triggers, told %v", n, told.notices)
	}
	for range 5 {
		add(event("late", "dns", "a.sh", "many"))
	}
	add(tick("s", "dns", "a.sh", "cron", 0))
	if got, want := lined(waiting), "rare rare all-many cron"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if len(told.notices) != 1 {
		t.Errorf("people were told %d times, want once: %v", len(told.notices), told.notices)
	}

	waiting = nil
	large := event("large", "dns", "a.sh", "large")
	large.Work.(messages.RunHook).Triggers[0].Context.Object = make([]byte, maxWaiting/4)
	for range 4 {
		add(event("small", "dns", "a.sh", "small"))
		add(large)
	}
	if got, want := lined(waiting), "small all-small all-large"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	one := event("one", "dns", "a.sh", "one")
	one.Work.(messages.RunHook).Triggers[0].Context.Object = make([]byte, maxWaiting)
	add(one)
	if got, want := lined(waiting), "small all-small all-large one"; got != want { // a single event is not replaced
		t.Errorf("got %q, want %q", got, want)
	}

	waiting = nil
	for i := range maxTriggers + 1 {
		add(grouped(fmt.Sprint(i), "dns", "a.sh", "g", i%2, "g"))
	}
	if got := lined(waiting); got != "0 g" {
		t.Errorf("of a group %q stays, want the last", got)
	}
}

// P5, C20: protocol v0 has no Synchronization: the older half of the events goes. Each trigger has a run of its own.
func TestWaitingOfProtocolV0(t *testing.T) {
	p, told := quiet()
	waiting := []messages.Task{tick("t", "dns", "a.sh", "cron", 0)}
	for i := range maxTriggers {
		waiting = p.MergeIntoWaiting(waiting, old("v", "a.sh", fmt.Sprint(i), hooks.Added))
	}
	w := waiting[0].Work.(messages.RunHook)
	if len(w.Triggers) != 1+maxTriggers-(maxTriggers/2-1) || w.Triggers[0].Binding != hooks.OnSchedule || len(told.notices) != 1 {
		t.Errorf("%d triggers, told %v", len(w.Triggers), told.notices)
	}
	w.Triggers = w.Triggers[1:]
	waiting[0].Work = w
	first := maxTriggers/2 - 1
	for i := range 3 {
		now, rest, more := firstRun(waiting[0])
		if got := now.Work.(messages.RunHook).Triggers; len(got) != 1 || got[0].Context.Resource.Name != fmt.Sprint(first+i) || !more {
			t.Fatalf("run %d serves %v", i, got)
		}
		waiting[0] = rest
	}
}

// Two queues that hold the same triggers must not write into each other's memory.
func TestWaitingCopies(t *testing.T) {
	p, _ := quiet()
	one := event("1", "dns", "a.sh", "p1", "p2", "p3")
	w := one.Work.(messages.RunHook)
	w.Triggers = w.Triggers[:1] // room for more
	one.Work = w
	first := p.MergeIntoWaiting(nil, one)
	first = p.MergeIntoWaiting(first, event("2", "dns", "a.sh", "p2"))
	second := p.MergeIntoWaiting(nil, one)
	second = p.MergeIntoWaiting(second, event("3", "dns", "a.sh", "p3"))
	if lined(first) != "1 p1 p2" || lined(second) != "1 p1 p3" {
		t.Errorf("got %q and %q", lined(first), lined(second))
	}
}

// BenchmarkWaiting: ten thousand events come for a hook that is slow.
func BenchmarkWaiting(b *testing.B) {
	p, _ := quiet()
	task := event("1", "dns", "a.sh", "pods")
	for b.Loop() {
		var waiting []messages.Task
		for range 10_000 {
			waiting = p.MergeIntoWaiting(waiting, task)
		}
	}
}

// F9: a run serves every other run of the same modules, and a reload every other reload.
func TestServes(t *testing.T) {
	task := func(owner string, w messages.Work) messages.Task { return messages.Task{Owner: owner, Work: w} }
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
		"a group and a module next to it":       {group, web, false},
		"one module does not serve its group":   {dns, group, false},
		"the same group":                        {group, group, true},
		"two reloads":                           {reload, reload, false}, // addReload merges them
		"a reload and a run":                    {reload, dns, true},
		"a discovery and a run of its module":   {task(messages.Converge, messages.DiscoverModules{Modules: []string{"dns"}}), dns, true},
		"a run and a discovery for its module":  {dns, task(messages.Converge, messages.DiscoverModules{Modules: []string{"dns"}}), false},
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
