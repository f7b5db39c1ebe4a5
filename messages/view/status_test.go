package view_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"addon-operator/messages"
	"addon-operator/messages/view"
)

var noon = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

// What actors say about themselves, as the dump prints it.
func TestStatusAsText(t *testing.T) {
	failing := []view.FailingTask{{Task: "RunModule", Attempts: 2, RetryAt: noon, Error: "exit status 1\nsecond line"}}
	const backoff = "BACKOFF RunModule: attempt 2 failed, next at 12:00:00: exit status 1 ⏎ second line"
	run := messages.Task{Owner: "dns", Work: messages.RunModule{}}
	complete := messages.BindingState{Owner: "dns", Hook: "a.sh", Binding: "pods", Kind: "Pod", Phase: "complete"}
	waiting := messages.BindingState{Owner: "dns", Hook: "a.sh", Binding: "tests", Kind: "Test", Phase: "waiting-for-kind", Message: "no such kind"}
	broken := complete
	broken.FilterErrors = 3
	cases := []struct {
		status fmt.Stringer
		want   string
	}{
		{view.QueueStatus{}, "empty"},
		{view.QueueStatus{Length: 2, Head: []messages.Task{run, run}}, "2 tasks"},
		{view.QueueStatus{Length: 2, InProgress: true, Head: []messages.Task{run, run}}, "2 tasks, in progress: RunModule dns"},
		{view.ModuleStatus{Phase: view.Disabled}, "disabled"},
		{view.ModuleStatus{Phase: view.Ready, Release: 3}, "ready revision=3"},
		{view.ModuleStatus{Phase: view.Running, Release: 3, Failing: failing}, "running revision=3 " + backoff},
		{view.GlobalStatus{Hooks: 2}, "2 hooks"},
		{view.GlobalStatus{Failing: failing}, "0 hooks " + backoff},
		{view.ConvergeStatus{Phase: view.ConvergeReloading, Reload: 2}, "reloading, reload 2, not ready"},
		{view.ConvergeStatus{Phase: view.ConvergeIdle, Reload: 2, Ready: true}, "idle, reload 2, ready"},
		{
			view.ConvergeStatus{Phase: view.ConvergeIdle, Reload: 2, Ready: true, HeldPurge: &view.HeldPurge{Releases: []string{"a", "b"}, Why: "W", Confirm: "C"}},
			"idle, reload 2, ready; the purge of 2 releases is held back, because W: a, b; to allow it: C",
		},
		{
			view.HeldPurge{Releases: strings.Split("a b c d e f g h i j k l", " "), Why: "W", Confirm: "C"},
			"the purge of 12 releases is held back, because W: a, b, c, d, e, f, g, h, i, j and 2 more; to allow it: C",
		},
		{view.ModuleStatus{Phase: view.Ready, Held: "H"}, "held HELD H"},
		{view.ModuleStatus{Phase: view.Running, Held: "H"}, "running HELD H"},
		{view.ConfigStatus{Revision: "17"}, "resourceVersion 17"},
		{view.ConfigStatus{Revision: "17", Refused: "key x: wrong\nkey y: wrong"}, "REFUSED: ConfigMap and Secret are refused; their last valid content stays in force: key x: wrong ⏎ key y: wrong"},
		{view.ModuleStatus{Phase: view.Ready, Parked: true}, "ready PARKED"},
		{view.MonitorsStatus{}, "0 bindings, 0 complete"},
		{view.MonitorsStatus{Bindings: []messages.BindingState{complete}}, "1 binding, 1 complete"},
		{view.MonitorsStatus{Bindings: []messages.BindingState{complete, waiting, broken}}, "3 bindings, 2 complete" +
			"; dns a.sh/tests Test: waiting-for-kind (no such kind)" +
			"; dns a.sh/pods Pod: complete, jqFilter failed 3 times"},
		{view.HealerStatus{Objects: 3}, "3 objects"},
		{view.Leadership{Since: noon}, "standby; no leader since 2026-01-02T12:00:00Z"},
		{view.Leadership{Leader: "a", Address: "b:1", Since: noon}, "standby; a (b:1) leads since 2026-01-02T12:00:00Z"},
		{view.Leadership{Leading: true, Since: noon}, "leader since 2026-01-02T12:00:00Z"},
		{view.Leadership{Leading: true}, "leader"},
	}
	for _, c := range cases {
		if got := c.status.String(); got != c.want {
			t.Errorf("%T: got %q, want %q", c.status, got, c.want)
		}
	}
}

// J7: no binding context, which may hold secrets.
func TestQueueStatusAsJSON(t *testing.T) {
	status := view.QueueStatus{Length: 1, InProgress: true, Since: noon, Head: []messages.Task{{
		ID: "7", Owner: "dns", Work: messages.PurgeRelease{Release: "old"}, QueuedAt: noon,
		Cause: messages.Cause{Activation: messages.ByFiles},
	}}}
	got, err := json.Marshal(status)
	if err != nil {
		t.Fatal(err)
	}
	if want := `{"length":1,"inProgress":true,"since":"2026-01-02T12:00:00Z","triggers":0}`; string(got) != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
}
