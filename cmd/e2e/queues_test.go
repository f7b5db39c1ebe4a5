package e2e

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// awaitQueue waits until a queue has so many tasks, with the one in progress.
func (o *operator) awaitQueue(name string, length int) {
	o.fixture.t.Helper()
	o.fixture.eventually("queue "+name, func() error {
		if got := o.metric("addon_operator_tasks_queue_length", `queue="`+name+`"`); got != strconv.Itoa(length) {
			return fmt.Errorf("has length %q, want %d", got, length)
		}
		return nil
	})
}

// awaitTriggers waits until tasks that wait in a queue carry so many events and ticks.
func (o *operator) awaitTriggers(queue string, n int) {
	o.fixture.t.Helper()
	o.fixture.eventually("triggers in queue "+queue, func() error {
		if got := o.metric("addon_operator_tasks_queue_triggers", `queue="`+queue+`"`); got != strconv.Itoa(n) {
			return fmt.Errorf("%q wait, want %d", got, n)
		}
		return nil
	})
}

func (h *fixture) awaitLines(name string, want ...string) {
	h.t.Helper()
	h.eventually(name, func() error {
		if got := h.lines(name); !slices.Equal(got, want) {
			return fmt.Errorf("has %q, want %q", got, want)
		}
		return nil
	})
}

// Two modules with hooks of the same file name in one named queue: the events of the one
// are not merged into the runs of the other, one runs at a time; what comes for a hook joins
// its waiting run. C41, F1, F3, P5.
func TestTwoModulesInOneQueue(t *testing.T) {
	h := newFixture(t, "queue")
	o := h.start().ready()
	one, two := map[string]string{"app": "one"}, map[string]string{"app": "two"}
	h.createConfigMap("a", "x", one)
	h.awaitLines("out/shared", "one a")
	for waiting, next := range []struct {
		name   string
		labels map[string]string
	}{{"b", two}, {"c", one}, {"d", one}, {"e", two}} {
		h.createConfigMap(next.name, "x", next.labels)
		o.awaitTriggers("shared", waiting+1) // a watch each: only what has arrived is in order
	}
	o.awaitQueue("shared", 3)
	h.write("out/go", "")
	h.awaitLines("out/shared", "one a", "end", "two b e", "end", "one c d", "end")
	o.awaitQueue("shared", 0)
}

// Behind a neighbour that fails, the ticks of a schedule wait as one: none is added by those that
// come in each second. C41, P5.
func TestTicksWaitAsOne(t *testing.T) {
	h := newFixture(t, "-- modules/values.yaml --\nticksEnabled: true\n")
	for name, c := range map[string]struct{ queue, does string }{
		"neighbour": {"shared", `echo failed >> "$OUT/failed"; exit 1`},
		"often":     {"shared", ""},
		"clock":     {"clock", `echo tick >> "$OUT/clock"`},
	} {
		h.write("modules/010-ticks/hooks/"+name+".sh", `#!/usr/bin/env bash
if [[ ${1:-} == --config ]]; then echo '{"configVersion": "v1", "schedule": [{"crontab": "* * * * * *", "queue": "`+c.queue+`"}]}'; exit; fi
`+c.does+"\n")
	}
	o := h.start().ready()
	h.awaitLine("out/failed", "failed")
	ticks := strings.Count(h.read("out/clock"), "tick")
	h.eventually("more ticks", func() error {
		if strings.Count(h.read("out/clock"), "tick") < ticks+3 {
			return errNotYet
		}
		return nil
	})
	o.awaitTriggers("shared", 2) // one of each hook
	o.awaitQueue("shared", 3)    // and the one that failed
	o.ask("queue list", "neighbour.sh", "often.sh")
}

// A module is switched off while its hook sleeps: the hook's process group is gone, the
// release is deleted, and the queue goes on with the tasks of other modules, without the
// waiting one of this. E11, E12, E15, F3.
func TestModuleIsDisabledWhileItsHookSleeps(t *testing.T) {
	h := newFixture(t, "asleep")
	o := h.start().ready()
	h.awaitRevisions("sleeper", "1:deployed")
	watched := map[string]string{"app": "watched"}
	h.createConfigMap("a", "x", watched)
	h.eventually("the sleeping hook", func() error {
		if h.read("out/group") == "" {
			return errNotYet
		}
		return nil
	})
	group, err := strconv.Atoi(strings.TrimSpace(h.read("out/group")))
	if err != nil || syscall.Kill(-group, 0) != nil {
		t.Fatalf("group %d does not live: %v", group, err)
	}
	h.createConfigMap("b", "x", watched)
	o.awaitQueue("shared", 2)
	h.createConfigMap("c", "x", map[string]string{"app": "other"})
	o.awaitQueue("shared", 3)

	h.setConfig(map[string]string{"sleeperEnabled": "false"})
	o.expect("module is deleted", "module=sleeper")
	h.awaitRevisions("sleeper", "")
	h.eventually("the end of the process group", func() error {
		if err := syscall.Kill(-group, 0); !errors.Is(err, syscall.ESRCH) {
			return fmt.Errorf("group %d: %w", group, err)
		}
		return nil
	})
	o.awaitQueue("shared", 0)
	lines := h.lines("out/shared")
	slices.Sort(lines) // the delete is in another queue than the hook of the other module
	if want := []string{"other c", "sleeper afterDeleteHelm", "sleeper watched"}; !slices.Equal(lines, want) {
		t.Errorf("hooks ran for %q, want %q", lines, want)
	}
	if n := o.count("ERROR"); n != 0 {
		t.Errorf("%d errors", n)
	}
}

// A named queue is listed, with length 0, as soon as its hook is loaded. It goes with the last hook that names it,
// with its actor and its series, and comes back with it. F1, E11.
func TestQueuesComeAndGo(t *testing.T) {
	h := newFixture(t, `
-- modules/values.yaml --
oneEnabled: true
twoEnabled: true
-- modules/010-one/hooks/h.sh --
#!/usr/bin/env bash
if [[ ${1:-} == --config ]]; then echo '{"configVersion": "v1", "schedule": [{"crontab": "* * * * * *", "queue": "ticks"}, {"crontab": "0 0 1 1 *", "queue": "shared"}]}'; exit; fi
echo tick >> "$OUT/ticks"
-- modules/020-two/hooks/h.sh --
#!/usr/bin/env bash
if [[ ${1:-} == --config ]]; then echo '{"configVersion": "v1", "schedule": [{"crontab": "0 0 1 1 *", "queue": "shared"}]}'; exit; fi
`)
	o := h.start().ready()
	o.ask("queue list", `Queue "main"`, `Queue "shared" is empty.`, `Queue "ticks"`)
	o.ask("queue list shared", `Queue "shared" is empty.`)
	o.awaitQueue("shared", 0)
	h.awaitLine("out/ticks", "tick")
	page := func() string {
		_, body := get(o.public + "/metrics")
		return body
	}
	expectAll(t, page(), `tasks_queue_action_duration_seconds_count{queue_action="AddLast",queue_name="ticks"}`, `tasks_queue_length{queue="ticks"}`)
	expectAll(t, o.command("--dump-actors"), "queue/shared", "queue/ticks")

	h.setConfig(map[string]string{"oneEnabled": "false"})
	o.expect("module is deleted", "module=one")
	h.eventually("the end of the queue", func() error {
		if metrics := page(); strings.Contains(metrics, `queue="ticks"`) || strings.Contains(metrics, `queue_name="ticks"`) {
			return errNotYet
		}
		return nil
	})
	if list := o.command("queue", "list") + o.command("--dump-actors"); strings.Contains(list, "ticks") || !strings.Contains(list, "queue/shared") {
		t.Errorf("the queues are %s", list)
	}
	h.setConfig(map[string]string{"oneEnabled": "true"})
	o.awaitQueue("ticks", 0)
	h.setConfig(map[string]string{"oneEnabled": "false", "twoEnabled": "false"})
	h.eventually("the end of both queues", func() error {
		if list := o.command("queue", "list"); strings.Contains(list, "ticks") || strings.Contains(list, "shared") {
			return fmt.Errorf("the queues are %s", list)
		}
		return nil
	})
}
