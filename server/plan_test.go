package server_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"

	"addon-operator/messages"
	"addon-operator/messages/view"
	"addon-operator/server"
)

// The page hands the question on as it is asked, and refuses what is no ConfigMap. It is not
// served before the operator knows its modules.
func TestPlanPage(t *testing.T) {
	var asked []view.PlanRequest
	source := server.Source{
		Metrics: prometheus.NewRegistry(), HookMetrics: prometheus.NewRegistry(),
		Converge: func() view.ConvergeStatus { return view.ConvergeStatus{Phase: view.ConvergeIdle} },
		Plan: func(_ context.Context, r view.PlanRequest) (view.Plan, error) {
			asked = append(asked, r)
			if r.Proposed["fail"] != "" {
				return view.Plan{}, errors.New("no way")
			}
			return view.Plan{Modules: []view.ModulePlan{{Module: "web", Step: view.StepStart}}}, nil
		},
	}
	for _, c := range []struct {
		method, url, body string
		status            int
		want              string
		asked             *view.PlanRequest
	}{
		{"GET", "/plan", "", 200, `"module": "web"`, &view.PlanRequest{}},
		{"GET", "/plan?output=yaml&show-secrets=true", "", 200, "module: web", &view.PlanRequest{Secrets: true}},
		{"POST", "/plan", `{"webEnabled": "true"}`, 200, `"step": "start"`, &view.PlanRequest{Proposed: map[string]string{"webEnabled": "true"}}},
		{"POST", "/plan", `{}`, 200, `"step": "start"`, &view.PlanRequest{Proposed: map[string]string{}}},
		{"POST", "/plan", `{"web": {"a": 1}}`, 400, "a JSON object of strings", nil},
		{"POST", "/plan", `{"web": "` + strings.Repeat("x", 1<<20) + `"}`, 400, "the data has 1048579 bytes; a ConfigMap holds at most 1048576", nil},
		{"POST", "/plan", `{"fail": "yes"}`, 503, "no way", &view.PlanRequest{Proposed: map[string]string{"fail": "yes"}}},
	} {
		asked = nil
		answer := httptest.NewRecorder()
		server.Debug(source).ServeHTTP(answer, httptest.NewRequest(c.method, c.url, strings.NewReader(c.body)))
		if answer.Code != c.status || !strings.Contains(answer.Body.String(), c.want) {
			t.Errorf("%s %s %s: %d %s, want %d and %s", c.method, c.url, c.body, answer.Code, answer.Body, c.status, c.want)
		}
		if c.asked == nil && len(asked) > 0 || c.asked != nil && (len(asked) != 1 || !reflect.DeepEqual(asked[0], *c.asked)) {
			t.Errorf("%s %s %s: asked %+v, want %+v", c.method, c.url, c.body, asked, c.asked)
		}
	}
	source.Converge = func() view.ConvergeStatus { return view.ConvergeStatus{} }
	answer := httptest.NewRecorder()
	server.Debug(source).ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "/plan", http.NoBody))
	if answer.Code != http.StatusServiceUnavailable || !strings.Contains(answer.Body.String(), "has not started its modules yet") {
		t.Errorf("before the start: %d %s", answer.Code, answer.Body)
	}
	public := httptest.NewRecorder()
	server.Public(source).ServeHTTP(public, httptest.NewRequest(http.MethodGet, "/plan", http.NoBody))
	if public.Code != http.StatusNotFound {
		t.Errorf("the public page answers %d, want 404: plans hold values", public.Code)
	}
}

// Whether a ConfigMap would be in force is asked of config. What is in force while it is deleted is
// shown only to who asks for secrets (P1).
func TestCheckPage(t *testing.T) {
	var asked []any
	source := server.Source{
		Metrics: prometheus.NewRegistry(), HookMetrics: prometheus.NewRegistry(),
		Converge: func() view.ConvergeStatus { return view.ConvergeStatus{Phase: view.ConvergeIdle} },
		Ask: func(_ context.Context, path string, question any) (any, error) {
			asked = append(asked, question)
			if path != "config" {
				t.Errorf("%s was asked", path)
			}
			check, _ := question.(messages.CheckConfig)
			switch {
			case check.Data["fail"] != "":
				return nil, errors.New("no way")
			case check.Data["web"] == "a: text":
				return messages.ConfigChecked{Refused: "web.a: must be an integer"}, nil
			}
			return messages.ConfigChecked{Deleted: true, LastValid: map[string]string{"web": "password: hunter2"}}, nil
		},
	}
	for _, c := range []struct {
		method, query, body string
		status              int
		want, not           string
		asked               any
	}{
		{"POST", "", `{"web": "a: text"}`, 200, "web.a: must be an integer", "deleted", messages.CheckConfig{Data: map[string]string{"web": "a: text"}}},
		{"POST", "", `{}`, 200, `"deleted": true`, "hunter2", messages.CheckConfig{Data: map[string]string{}}},
		{"POST", "?show-secrets=true", `{}`, 200, "hunter2", "refused", messages.CheckConfig{Data: map[string]string{}}},
		{"POST", "", `{"fail": "yes"}`, 503, "no way", "hunter2", messages.CheckConfig{Data: map[string]string{"fail": "yes"}}},
		{"POST", "", `{"web": {"a": 1}}`, 400, "a JSON object of strings", "hunter2", nil},
		{"POST", "", `{"web": "` + strings.Repeat("x", 1<<20) + `"}`, 400, "a ConfigMap holds at most 1048576", "hunter2", nil},
		{"GET", "", "", 405, "", "hunter2", nil},
	} {
		asked = nil
		answer := httptest.NewRecorder()
		server.Debug(source).ServeHTTP(answer, httptest.NewRequest(c.method, "/values/check"+c.query, strings.NewReader(c.body)))
		body := answer.Body.String()
		if answer.Code != c.status || !strings.Contains(body, c.want) || strings.Contains(body, c.not) {
			t.Errorf("%s %s %.40s: %d %s, want %d, %q and not %q", c.method, c.query, c.body, answer.Code, body, c.status, c.want, c.not)
		}
		if c.asked == nil && len(asked) > 0 || c.asked != nil && (len(asked) != 1 || !reflect.DeepEqual(asked[0], c.asked)) {
			t.Errorf("%s %.40s: asked %+v, want %+v", c.method, c.body, asked, c.asked)
		}
	}
}
