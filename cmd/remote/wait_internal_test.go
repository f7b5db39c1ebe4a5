package remote

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// Right after an edit all modules are ready still: wait asks whether the operator has seen the ConfigMap, and once more how the
// modules are when it has.
func TestWaitObservesTheConfigMap(t *testing.T) {
	const list = `{"modules": [{"name": "web", "state": %q, "enabled": true}], "converge": {"phase": "idle", "ready": true}%s}`
	answers := []string{
		fmt.Sprintf(list, "ready", `, "observed": false`),
		fmt.Sprintf(list, "ready", `, "observed": true`),
		fmt.Sprintf(list, "running", ""),
		fmt.Sprintf(list, "ready", `, "observed": true`),
		fmt.Sprintf(list, "ready", ""),
	}
	var asked []string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.URL.Query().Get("observed"))
		_, _ = w.Write([]byte(answers[min(len(asked), len(answers))-1]))
	}))
	t.Cleanup(server.Close)
	a := &asking{config: configured(t, "--debug-address="+strings.TrimPrefix(server.URL, "http://"), "--debug-unix-socket=")}
	var out bytes.Buffer
	if err := a.wait(t.Context(), &out, nil, time.Minute); err != nil {
		t.Fatal(err)
	}
	const want = "the ConfigMap has changed, and the operator has not received the change yet\nweb is running\nready\n"
	if out.String() != want {
		t.Errorf("said\n%s\nwant\n%s", out.String(), want)
	}
	if got := strings.Join(asked, " "); got != "true true false true false" {
		t.Errorf("asked with observed %s", got)
	}
}
