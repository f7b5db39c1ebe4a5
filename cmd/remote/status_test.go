package remote

import (
	"bytes"
	"strings"
	"testing"
	"time"
)

// The overview has what fails first, the next attempt, what to do next, and what queues do.
func TestOverview(t *testing.T) {
	retry := time.Now().Add(time.Hour).Format(time.RFC3339)
	body := `{"headline": "1 failing, 1 ready", "stage": "reloading all modules, 2 tasks to do",
		"global": {"failing": [{"task": "RunHook a", "attempts": 1, "error": "no network"}]},
		"modules": [
			{"name": "well", "state": "ready", "order": 1, "enabled": true, "lastRun": {"began": "2026-01-01T00:00:00Z"}},
			{"name": "bad", "state": "starting", "order": 2, "failing": [{"task": "RunModule", "attempts": 3, "retryAt": "` + retry + `", "error": "exit code 3\nno credentials"}], "lastRun": {"began": "2026-01-01T00:00:00Z"}},
			{"name": "odd", "state": "disabled", "order": 3, "problems": ["Chart.yaml: no name", "another"]}],
		"queues": {"active": [{"name": "main", "tasksCount": 2, "status": "sleep after fail for 9s", "tasks": [{"kind": "RunModule", "owner": "bad"}]},
			{"name": "slow", "tasksCount": 1, "status": "run first task", "tasks": [{"kind": "RunHook", "owner": "well", "about": "hooks/a.sh"}]}]}}`
	var out bytes.Buffer
	if err := overviewText(printable{Writer: &out, program: "kubectl addon"}, []byte(body)); err != nil {
		t.Fatal(err)
	}
	want := `1 failing, 1 ready
reloading all modules, 2 tasks to do

PROBLEMS
  global hooks  RunHook a failed 1 time: no network
                next: kubectl addon logs global
  bad           RunModule failed 3 times, next attempt in 1h0m0s: exit code 3 no credentials
                next: kubectl addon why bad, and what its chart would change: kubectl addon module render bad --diff
  odd           Chart.yaml: no name (and 1 more: kubectl addon why odd)

QUEUES
  main  2 tasks, first RunModule bad: next attempt in 9s
  slow  1 task, first RunHook well hooks/a.sh: in progress
`
	if got := out.String(); got != strings.ReplaceAll(want, "1h0m0s", between(got, "in ", ": exit")) {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

func between(text, before, after string) string {
	_, rest, _ := strings.Cut(text, before)
	found, _, _ := strings.Cut(rest, after)
	return found
}

// An operator of an older version has no headline.
func TestOverviewOfAnOlderOperator(t *testing.T) {
	var out bytes.Buffer
	if err := overviewText(&out, []byte(`{"modules": []}`)); err != nil || !strings.HasPrefix(out.String(), "an operator of an older version\n") {
		t.Errorf("got %q, %v", out.String(), err)
	}
}
