package actors_test

import (
	"os"
	"strconv"
	"strings"
	"testing"
)

// How many messages it takes from an event to Helm, by a hook that changes values, with questions
// and their answers; and how many questions a module run without hooks asks. The trace is that of
// TestLifecycle/messages.
func TestMessagesFromEventToHelm(t *testing.T) {
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
	toHelm := walk("> object Secret d/x", "helm upgraded a")
	last := strings.Fields(toHelm[len(toHelm)-2])[1] // behind it stands the time of Helm's line
	if n, err := strconv.Atoi(last); err != nil || n > 12 {
		t.Errorf("an event takes %s messages to Helm, at most 12 are wanted: %s", last, strings.Join(toHelm, "\n"))
	}
	for _, line := range walk("ExecuteTask to module/b", "helm upgraded b") {
		if strings.HasSuffix(line, "answered") {
			t.Errorf("a module run without hooks asks: %s", line)
		}
	}
}
