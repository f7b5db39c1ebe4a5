package helm

import (
	"bytes"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"testing"
)

// Warnings of the API server name the object of the request, each once, and there are not more than a person reads.
func TestWarned(t *testing.T) {
	for _, test := range []struct{ method, path, body, want string }{
		{http.MethodPost, "/api/v1/namespaces/d/configmaps", `{"metadata": {"name": "a"}}`, "configmaps d/a"},
		{http.MethodPost, "/api/v1/namespaces", `{"metadata": {"name": "a"}}`, "namespaces a"},
		{http.MethodPatch, "/apis/apps/v1/namespaces/d/deployments/a", `{}`, "deployments.apps d/a"},
		{http.MethodPut, "/api/v1/namespaces/d", `{}`, "namespaces d"},
		{http.MethodPost, "/apis/batch/v1/namespaces/d/jobs", `{"metadata": {"generateName": "a-"}}`, "jobs.batch d/a-*"},
		{http.MethodPost, "/api/v1/namespaces/d/configmaps", `no JSON`, "configmaps d/?"},
		{http.MethodGet, "/version", "", "/version"},
	} {
		req, err := http.NewRequestWithContext(t.Context(), test.method, "http://api"+test.path, strings.NewReader(test.body))
		must(t, err)
		if got := requested(req); got != test.want {
			t.Errorf("%s %s %s: %q, want %q", test.method, test.path, test.body, got, test.want)
		}
	}

	var log bytes.Buffer
	w := newWarned(slog.New(slog.NewTextHandler(&log, nil)))
	for i := range 3 * 50 {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPatch, fmt.Sprintf("http://api/api/v1/namespaces/d/configmaps/a%d", i%50), http.NoBody)
		must(t, err)
		w.logWarnings(req, http.Header{"Warning": {`299 - "unknown field \"x\""`, `199 - "other"`}})
	}
	if n := strings.Count(log.String(), "unknown field"); n != maxWarned {
		t.Errorf("%d warnings, want %d:\n%s", n, maxWarned, log.String())
	}
	if strings.Count(log.String(), "more objects") != 1 || strings.Contains(log.String(), "other") {
		t.Errorf("log:\n%s", log.String())
	}
}
