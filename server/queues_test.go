package server_test

import (
	"net/http"
	"testing"

	"addon-operator/server"
	"addon-operator/testkit/golden"
)

// J4, J5: queues for scripts, main first; one queue alone; as text for people.
func TestQueuePages(t *testing.T) {
	withOperator(t, func(h *operator) {
		h.fill()
		handler := server.Debug(h.source())
		for path, file := range map[string]string{
			"/queue/list.json?showEmpty=true": "queue_list.json",
			"/queue/main.yaml":                "queue_main.yaml",
			"/queue/list.text":                "queue.txt",
			"/queue/main.text":                "queue_main.txt",
		} {
			status, body := h.get(handler, path)
			if status != http.StatusOK {
				t.Errorf("%s: %d", path, status)
			}
			golden.File(t, "testdata/"+file, body)
		}
		if _, body := h.get(handler, "/queue/list?queue=a/b"); body != "{\n  \"name\": \"a/b\",\n  \"tasksCount\": 0\n}\n" {
			t.Errorf("a queue with a slash in its name: %s", body)
		}
		for path, want := range map[string]string{"/queue/list.json?queue=none": "queue \"none\" not found; available: main, a/b, slow\n", "/queue/list?queue=slwo": "queue \"slwo\" not found; did you mean slow?\n"} {
			if status, body := h.get(handler, path); status != http.StatusNotFound || body != want {
				t.Errorf("%s: %d %s", path, status, body)
			}
		}
		if status, _ := h.get(server.Public(h.source()), "/queue/list.json"); status != http.StatusNotFound {
			t.Errorf("on the public address: %d", status)
		}
	})
}
