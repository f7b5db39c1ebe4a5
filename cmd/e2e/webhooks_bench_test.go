package e2e

import (
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"addon-operator/testkit/devclustertest"
)

// BenchmarkReview compares the time of a review, by a hook that only answers, with that of a bare TLS server that
// spawns the same script: x-p50 and x-p99 are meant to be at most 1.3, with one client and with 16.
func BenchmarkReview(b *testing.B) {
	h := fixtureOn(b, devclustertest.StartOwn(b), "webhooks")
	const script = `#!/bin/sh
if [ "$1" = --config ]; then
  echo '{"configVersion": "v1", "kubernetesValidating": [{"name": "a.example.com", "rules": [{"apiGroups": ["none.example.com"], "apiVersions": ["*"], "resources": ["*"], "operations": ["*"]}]}]}'
  exit
fi
echo '{"allowed": true}' >"$VALIDATING_RESPONSE_PATH"
`
	h.remove("modules/050-policy/hooks")
	h.write("modules/050-policy/hooks/a.sh", script)
	h.start(asks).ready()
	configuration, err := h.client.AdmissionregistrationV1().ValidatingWebhookConfigurations().Get(h.ctx, "addon-operator."+h.namespace+".policy", metav1.GetOptions{})
	must(b, err)
	bare := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		dir, err := os.MkdirTemp(h.dir, "bare-")
		must(b, err)
		defer os.RemoveAll(dir)
		body, err := io.ReadAll(r.Body)
		must(b, err)
		context, answer := filepath.Join(dir, "context.json"), filepath.Join(dir, "answer.json")
		must(b, os.WriteFile(context, body, 0o600))
		cmd := exec.Command(h.path("modules/050-policy/hooks/a.sh"))
		cmd.Env = append(os.Environ(), "BINDING_CONTEXT_PATH="+context, "VALIDATING_RESPONSE_PATH="+answer)
		must(b, cmd.Run())
		text, err := os.ReadFile(answer)
		must(b, err)
		fmt.Fprintf(w, `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","response":%s}`, text)
	}))
	b.Cleanup(bare.Close)
	body := `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"u","object":{"data":"` + strings.Repeat("x", 2000) + `"}}}`
	for _, clients := range []int{1, 16} {
		b.Run(fmt.Sprintf("clients=%d", clients), func(b *testing.B) {
			var ours, theirs []time.Duration
			for b.Loop() {
				ours = append(ours, timed(b, *configuration.Webhooks[0].ClientConfig.URL, body, clients)...)
				theirs = append(theirs, timed(b, bare.URL, body, clients)...)
			}
			slices.Sort(ours)
			slices.Sort(theirs)
			for percent, name := range map[int]string{50: "p50", 99: "p99"} {
				i := min(len(ours)*percent/100, len(ours)-1)
				b.ReportMetric(float64(ours[i].Microseconds())/1000, name+"-ms")
				b.ReportMetric(float64(ours[i])/float64(theirs[i]), "x-"+name)
			}
		})
	}
}

// timed sends as many requests as there are clients at once, ten times, and returns how long each took.
func timed(b *testing.B, url, body string, clients int) (all []time.Duration) {
	b.Helper()
	const rounds = 10
	var mu sync.Mutex
	var group sync.WaitGroup
	for range clients {
		group.Go(func() {
			client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
			defer client.CloseIdleConnections()
			for round := range rounds + 1 { // the first one makes the connection
				began := time.Now()
				resp, err := client.Post(url, "application/json", strings.NewReader(body))
				if err != nil {
					b.Error(err)
					return
				}
				text, _ := io.ReadAll(resp.Body)
				_ = resp.Body.Close()
				if !strings.Contains(string(text), `"allowed":true`) && !strings.Contains(string(text), `"allowed": true`) {
					b.Errorf("got %s", text)
				}
				mu.Lock()
				if round > 0 {
					all = append(all, time.Since(began))
				}
				mu.Unlock()
			}
		})
	}
	group.Wait()
	return all
}
