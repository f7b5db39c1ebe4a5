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

// J21: the last reloads as JSON, as text and on the page: what ran when, what the end waited for, which hooks were slow. Many
// steps are cut, which is said.
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
			"OperatorStartup, converged after 6s\n", "  +0s  1s  a RunModule         critical\n", "  +1s  1s  short RunModule     \n",
			"  +1s  4s  long RunModule      critical\n", "given up\n", "last RunModule      critical\n", "… and 4 more steps, which are not kept\n", "slow: a a/hooks/x.sh took 700ms\n",
		} {
			if !strings.Contains(text, want) {
				t.Errorf("the text is without %q:\n%s", want, text)
			}
		}
		_, page := h.get(debug, "/live/converges")
		for _, want := range []string{"resourceVersion &lt;7&gt;", "in progress", "150 shorter steps are not drawn", "a/hooks/x.sh"} {
			if !strings.Contains(page, want) {
				t.Errorf("the page is without %q:\n%.2000s", want, page)
			}
		}
		if _, data := h.get(debug, "/converge/list"); !strings.Contains(data, `"critical": true`) || !strings.Contains(data, `"name": "helm"`) {
			t.Errorf("the JSON is %.1000s", data)
		}
		for _, path := range []string{"/converge/list", "/live/converges"} {
			if status, _ := h.get(server.Public(source), path); status != 404 {
				t.Errorf("the public is answered %d by %s", status, path)
			}
		}
	})
}
