package actors_test

import (
	"os"
	"strconv"
	"strings"
	"testing"
)

// How many messages it takes from an event to Helm, by a hook that changes values, with questions
// and their answers; for edits of the ConfigMap with two modules; and how many questions a module
// run without hooks asks. The trace is that of TestLifecycle/messages.
func TestNumbersOfMessages(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("testdata/messages.txtar")
	if err != nil {
		t.Fatal(err)
	}
	trace := string(text)
	walk := func(from, to string) []string {
		_, rest, began := strings.Cut(trace, from)
		walk, _, ended := strings.Cut(rest, to)
		if !began || !ended {
			t.Fatalf("the trace has no way from %q to %q", from, to)
		}
		return strings.Split(strings.TrimSpace(walk), "\n")
	}
	bound := func(most int, what, from, to string) {
		lines := walk(from, to)
		last := strings.Fields(lines[len(lines)-1])[1]
		if n, err := strconv.Atoi(last); err != nil || n > most {
			t.Errorf("%s takes %s messages, at most %d are wanted:\n%s", what, last, most, strings.Join(lines, "\n"))
		}
	}
	bound(12, "an event to Helm", "> object Secret d/x", "\n    0s  helm upgraded a")
	bound(10, "an edit of one section", "> configmap-set b size: 2", "\n# ")
	bound(24, "an edit of global values", "> configmap-set global x: 1", "\n# ")
	for _, line := range walk("ExecuteTask to module/b", "helm upgraded b") {
		if strings.HasSuffix(line, "answered") {
			t.Errorf("a module run without hooks asks: %s", line)
		}
	}
}
