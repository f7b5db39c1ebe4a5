package server_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"addon-operator/messages"
	"addon-operator/messages/view"
	"addon-operator/server"
)

// J19: five runs of each hook are kept, and no more than the bounds allow of all together, the newest ones.
func TestHistoryIsBounded(t *testing.T) {
	h := &server.History{}
	for i := range 12 {
		h.Add(view.HookRun{Owner: "dns", Hook: "010-dns/hooks/a.sh", Took: time.Second, Output: fmt.Sprint("run ", i)})
	}
	h.Add(view.HookRun{Owner: messages.GlobalHooks, Hook: "b.sh", Err: errors.New("exit code 3"), Cause: messages.Cause{Activation: "Schedule", Detail: "each minute"}})
	runs := h.Runs("dns", "a.sh")
	if len(runs) != 5 || runs[0].Output != "run 7" || runs[4].Output != "run 11" || runs[4].Seconds != 1 {
		t.Errorf("of one hook there are %v", runs)
	}
	if got := h.Runs("global", ""); len(got) != 1 || got[0].Module != "global" || !strings.Contains(got[0].String(), "b.sh  (Schedule: each minute) took 0s, failed: exit code 3") {
		t.Errorf("of global hooks there are %v", got)
	}
	if got := h.Runs("other", ""); len(got) != 0 {
		t.Errorf("of another module there are %v", got)
	}
	long := strings.Repeat("é", 1<<20)
	for i := range 5000 {
		h.Add(view.HookRun{Owner: "web", Hook: fmt.Sprint(i), Output: long, Err: errors.New(long)})
	}
	bytes := 0
	for _, r := range h.Runs("", "") {
		bytes += len(r.Output) + len(r.Error)
	}
	if last := h.Runs("web", "4999"); bytes > 8<<20 || len(last) != 1 {
		t.Errorf("%d bytes are kept, of the last run %v", bytes, len(last))
	}
}

// J10: a secret that lies across the place where a long text is cut leaves no part of itself.
func TestHistoryHidesBeforeItCuts(t *testing.T) {
	h := &server.History{Hide: func(text string) string { return strings.ReplaceAll(text, "swordfish", "***") }}
	for cut := range len("swordfish") {
		long := "swordfish" + strings.Repeat("x", 4<<10-cut)
		h.Add(view.HookRun{Hook: fmt.Sprint(cut), Output: long, Err: errors.New(long), Cause: messages.Cause{Activation: "Schedule", Detail: "swordfish" + strings.Repeat("x", 200-cut)}})
		run := h.Runs("", fmt.Sprint(cut))[0]
		for _, text := range []string{run.Output, run.Error, run.Cause} {
			if strings.Contains(text, "h") {
				t.Errorf("of a secret, %d bytes of it after the cut, there is a part: %.20q", cut, text)
			}
		}
	}
}
