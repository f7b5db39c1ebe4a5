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
	o.fixture.becomes("the length of queue "+name, strconv.Itoa(length), func() string {
		return o.metric("addon_operator_tasks_queue_length", `queue="`+name+`"`)
	})
}

// awaitTriggers waits until tasks that wait in a queue carry so many events and ticks.
func (o *operator) awaitTriggers(queue string, n int) {
	o.fixture.t.Helper()
	o.fixture.becomes("triggers in queue "+queue, strconv.Itoa(n), func() string {
		return o.metric("addon_operator_tasks_queue_triggers", `queue="`+queue+`"`)
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

// A module is switched off while its hook sleeps: the hook's process group is gone, the
// release is deleted, and the queue goes on with the tasks of other modules, without the
// waiting one of this. E11, E12, E15, F3.
func TestModuleIsDisabledWhileItsHookSleeps(t *testing.T) {
	h := newFixture(t, "asleep")
	o := h.start().ready()
	h.awaitRevisions("sleeper", "1:deployed")
	watched := map[string]string{"app": "watched"}
	h.createConfigMap("a", "x", watched)
	h.until("the sleeping hook", func() bool { return h.read("out/group") != "" })
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
