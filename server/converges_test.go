package server_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"addon-operator/messages"
	"addon-operator/server"
)

// J21: the last reloads as JSON and as text: what ran when, with which hooks. Many steps are cut, which is said.
func TestConverges(t *testing.T) {
	withOperator(t, func(h *operator) {
		began := time.Now().Add(-time.Minute)
		at := func(s float64) time.Time { return began.Add(time.Duration(s * float64(time.Second))) }
		step := func(owner string, from, to float64, parts ...messages.Part) messages.Step {
			return messages.Step{Task: "RunModule", Owner: owner, Queue: "main", Began: at(from), Ended: at(to), Parts: parts}
		}
		first := messages.ConvergeRecord{
			Reload: 1, Cause: messages.Cause{Activation: messages.Startup}, Began: began, Ended: at(6), Cut: 4,
			Steps: []messages.Step{
				step("a", 0, 1, messages.Part{Hook: "a/hooks/x.sh", Began: at(0.2), Took: 700 * time.Millisecond}, messages.Part{Began: at(0.9), Took: 100 * time.Millisecond}),
				step("short", 1, 2), step("long", 1, 5), {Task: "RunModule", Owner: "given-up", Began: at(1), Ended: at(9), Cancelled: true}, step("last", 5, 6),
			},
		}
		second := messages.ConvergeRecord{Reload: 2, Cause: messages.Cause{Activation: messages.ByConfigMap, Detail: "resourceVersion <7>"}, Began: at(10)}
		for i := range 250 {
			second.Steps = append(second.Steps, step(fmt.Sprint("m", i), 10+float64(i), 11+float64(i)+float64(i%7)))
		}
		source := h.source()
		source.Ask = func(_ context.Context, path string, question any) (any, error) {
			if _, ok := question.(messages.ListConverges); !ok || path != "converge" {
				t.Errorf("%s is asked %T", path, question)
			}
			return messages.Converges{List: []messages.ConvergeRecord{second, first}}, nil
		}
		debug := server.Debug(source)
		_, text := h.get(debug, "/converge/list.text")
		_, text, _ = strings.Cut(text, "reload 1, ")
		for _, want := range []string{
			"OperatorStartup, converged after 6s\n", "  +0s     1s     a RunModule\n", "  +200ms  700ms      a/hooks/x.sh\n", "  +900ms  100ms      helm\n",
			"given-up RunModule, given up\n", "… and 4 more steps, which are not kept\n",
		} {
			if !strings.Contains(text, want) {
				t.Errorf("the text is without %q:\n%s", want, text)
			}
		}
		if _, data := h.get(debug, "/converge/list"); !strings.Contains(data, `"state": "in progress"`) || !strings.Contains(data, `"task": "helm"`) {
			t.Errorf("the JSON is %.1000s", data)
		}
		for _, path := range []string{"/converge/list"} {
			if status, _ := h.get(server.Public(source), path); status != 404 {
				t.Errorf("the public is answered %d by %s", status, path)
			}
		}
	})
}
