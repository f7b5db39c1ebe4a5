package e2e

import (
	"fmt"
	"slices"
	"strconv"
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
