package server_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"addon-operator/messages"
	"addon-operator/messages/view"
	"addon-operator/server"
)

// The page asks the module, and hands on whether secrets may be shown.
func TestDriftPage(t *testing.T) {
	withOperator(t, func(h *operator) {
		h.add("operator", "module/web", view.ModuleStatus{Phase: view.Ready, Drifted: func(secrets bool) messages.Drift {
			found := map[bool]any{true: "huge", false: "***"}[secrets]
			return messages.Drift{Mode: "report", Checked: time.Now(), Objects: []messages.ObjectDrift{
				{Object: "ConfigMap a/web", Fields: []messages.FieldDrift{{Path: "data.size", Found: found, Chart: "small"}}},
			}}
		}})
		for _, c := range []struct {
			url    string
			status int
			want   string
		}{
			{"/module/web/drift", http.StatusOK, `"found": "***"`},
			{"/module/web/drift?show-secrets=true&output=yaml", http.StatusOK, "found: huge"},
			{"/module/nobody/drift", http.StatusNotFound, "not found"},
		} {
			answer := httptest.NewRecorder()
			server.Debug(h.source()).ServeHTTP(answer, httptest.NewRequest(http.MethodGet, c.url, http.NoBody))
			if answer.Code != c.status || !strings.Contains(answer.Body.String(), c.want) {
				t.Errorf("%s: %d %s; want %d, %s", c.url, answer.Code, answer.Body, c.status, c.want)
			}
		}
	})
}

// Who asks before the operator has begun learns what it waits for, not that things do not
// exist.
func TestPagesBeforeTheStart(t *testing.T) {
	withOperator(t, func(h *operator) {
		h.converge = view.ConvergeStatus{Waits: "the ConfigMap cannot be read: no"}
		source := h.source()
		source.Ask = func(context.Context, string, any) (any, error) { return nil, errors.New("there is no such actor") }
		for _, path := range []string{"/global/values", "/global/list", "/hook/list", "/module/web/values", "/module/web/render", "/module/web/drift", "/module/resource-monitor", "/plan"} {
			status, body := h.get(server.Debug(source), path)
			if want := "the operator has not started its modules yet: the ConfigMap cannot be read: no\n"; status != http.StatusServiceUnavailable || body != want {
				t.Errorf("%s: %d %s", path, status, body)
			}
		}
	})
}
