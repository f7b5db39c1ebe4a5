package remote

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// Right after an edit all modules are ready still: ready counts when it is answered twice.
func TestWaitAsksTwice(t *testing.T) {
	answers := []string{"the ConfigMap has changed\n", "ready\n", "web is running\n", "ready\n", "ready\n"}
	asked := 0
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/module/ready" || r.URL.RawQuery != "module=web" {
			t.Errorf("asked %s", r.URL)
		}
		_, _ = w.Write([]byte(answers[min(asked, len(answers)-1)]))
		asked++
	}))
	t.Cleanup(server.Close)
	var out bytes.Buffer
	cmd := Wait(configured(t, "--debug-address="+strings.TrimPrefix(server.URL, "http://"), "--debug-unix-socket="))
	cmd.SetOut(&out)
	cmd.SetArgs([]string{"web"})
	must(t, cmd.ExecuteContext(t.Context()))
	const want = "the ConfigMap has changed\nweb is running\nready\n"
	if out.String() != want || asked != len(answers) {
		t.Errorf("asked %d times, said\n%s\nwant\n%s", asked, out.String(), want)
	}
}
