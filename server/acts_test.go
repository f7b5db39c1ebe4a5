package server_test

import (
	"cmp"
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"addon-operator/messages"
	"addon-operator/messages/view"
	"addon-operator/server"
	"addon-operator/values"
)

// J20: who was shown the live page on the debug address may request something of a module; all others are refused, and
// nothing is written.
func TestRequestsOfThePage(t *testing.T) {
	withOperator(t, func(h *operator) {
		h.converge = view.ConvergeStatus{Phase: view.ConvergeIdle, Ready: true}
		h.add("operator", "module/web", view.ModuleStatus{Phase: view.Ready, Enabled: true, Failing: []view.FailingTask{{Task: "RunModule", Attempts: 1, Error: "no"}}})
		source := h.fillWithoutValues()
		var written []string
		var problem error
		source.Act = func(_ context.Context, module, act string) (bool, error) {
			written = append(written, act+" "+module)
			return act == server.ActRun, problem
		}
		following := &leading{leads: true}
		source.Leadership = following.leadership
		debug := server.Debug(source)
		page, leave := follow(debug, "/live?module=web")
		defer leave()
		detail, _ := partsOf(page.take()[0])["detail"].(string)
		token := regexp.MustCompile(`data-token="([A-Z0-9]{20,})"`).FindStringSubmatch(detail)
		if token == nil || !strings.Contains(detail, `data-do="retry"`) || !strings.Contains(detail, `data-do="run"`) || !strings.Contains(detail, `data-do="suspend"`) || strings.Contains(detail, `data-do="resume"`) {
			t.Fatalf("the detail is %s", detail)
		}
		mine := map[string]string{server.PageTokenHeader: token[1], "Sec-Fetch-Site": "same-origin", "Origin": "http://localhost:9115"}
		with := func(header, value string) map[string]string {
			changed := map[string]string{header: value}
			for name, value := range mine {
				if name != header {
					changed[name] = value
				}
			}
			return changed
		}
		may := &server.MayNotError{Err: errors.New("modules is forbidden")}
		for name, c := range map[string]struct {
			handler      http.Handler
			method, path string
			local        string // address that was connected to
			headers      map[string]string
			problem      error
			follows      bool
			status       int
			want         string
			written      string
		}{
			"run":                  {path: "/module/web/request?do=run", status: 200, want: "module web is suspended: the request is kept until it is resumed\n", written: "run web"},
			"retry":                {path: "/module/web/request?do=retry", status: 200, want: "the operator accepts it within seconds", written: "retry web"},
			"suspend":              {path: "/module/web/request?do=suspend", status: 200, want: "takes effect within seconds", written: "suspend web"},
			"resume":               {path: "/module/web/request?do=resume", status: 200, want: "takes effect within seconds", written: "resume web"},
			"GET":                  {method: "GET", path: "/module/web/request?do=run", status: 404, want: `page "request" not found`},
			"another word":         {path: "/module/web/request?do=delete", status: 400, want: "do must be"},
			"another module":       {path: "/module/wep/request?do=run", status: 404, want: "did you mean web"},
			"no token":             {path: "/module/web/request?do=run", headers: map[string]string{}, status: 403, want: "only the live page"},
			"a wrong token":        {path: "/module/web/request?do=run", headers: with(server.PageTokenHeader, "guessed"), status: 403, want: "only the live page"},
			"another site":         {path: "/module/web/request?do=run", headers: with("Sec-Fetch-Site", "cross-site"), status: 403, want: "cross-origin"},
			"another port here":    {path: "/module/web/request?do=run", headers: with("Sec-Fetch-Site", "same-site"), status: 403, want: "cross-origin"},
			"an old browser there": {path: "/module/web/request?do=run", headers: map[string]string{server.PageTokenHeader: token[1], "Origin": "http://evil.example"}, status: 403, want: "cross-origin"},
			"not by loopback":      {path: "/module/web/request?do=run", local: "10.0.0.7", status: 403, want: "on loopback only"},
			"by loopback":          {path: "/module/web/request?do=run", local: "127.0.0.1", status: 200, want: "request is kept", written: "run web"},
			"the public address":   {handler: server.Public(source), path: "/module/web/request?do=run", status: 405, want: ""},
			"a follower":           {path: "/module/web/request?do=run", follows: true, status: 503, want: "send the request to the leader"},
			"no rights":            {path: "/module/web/request?do=run", problem: may, status: 403, want: "modules is forbidden", written: "run web"},
			"no kind":              {path: "/module/web/request?do=run", problem: errors.New("the API server has no kind Module"), status: 503, want: "has no kind Module", written: "run web"},
		} {
			written, problem, following.leads = nil, c.problem, !c.follows
			if c.handler == nil {
				c.handler = debug
			}
			c.method = cmp.Or(c.method, http.MethodPost)
			if c.headers == nil {
				c.headers = mine
			}
			r := httptest.NewRequest(c.method, "http://localhost:9115"+c.path, http.NoBody)
			for header, value := range c.headers {
				r.Header.Set(header, value)
			}
			if c.local != "" {
				r = r.WithContext(context.WithValue(r.Context(), http.LocalAddrContextKey, &net.TCPAddr{IP: net.ParseIP(c.local), Port: 9115}))
			}
			w := httptest.NewRecorder()
			c.handler.ServeHTTP(w, r)
			if got := strings.Join(written, ", "); w.Code != c.status || !strings.Contains(w.Body.String(), c.want) || strings.HasPrefix(w.Body.String(), "'") || got != c.written {
				t.Errorf("%s: %d %s, written %q; want %d %s, %q", name, w.Code, w.Body, got, c.status, c.want, c.written)
			}
		}
	})
}

// J20: the public page has no token and no buttons, nor has one whose operator cannot write.
func TestNoButtons(t *testing.T) {
	withOperator(t, func(h *operator) {
		source := h.fillWithoutValues()
		h.add("operator", "module/web", view.ModuleStatus{Phase: view.Ready})
		for name, handler := range map[string]http.Handler{"without Act": server.Debug(source), "public": server.Public(withAct(source))} {
			for _, path := range []string{"/", "/live?module=web"} {
				var text string
				if path == "/" {
					_, text = h.get(handler, path)
				} else {
					page, leave := follow(handler, path)
					text = page.Body.String()
					for _, event := range page.take() {
						for _, part := range partsOf(event) {
							text += part.(string)
						}
					}
					leave()
				}
				if strings.Contains(text, "data-token") || strings.Contains(text, "data-do") {
					t.Errorf("%s: %s has buttons", name, path)
				}
			}
		}
	})
}

func withAct(s server.Source) server.Source {
	s.Act = func(context.Context, string, string) (bool, error) { return false, nil }
	return s
}

// leading is a replica that leads, or does not.
type leading struct{ leads bool }

func (l *leading) leadership() view.Leadership { return view.Leadership{Leading: l.leads} }

// fillWithoutValues is a source whose modules have no values, and answer nothing else.
func (h *operator) fillWithoutValues() server.Source {
	source := h.source()
	section, err := values.NewSection("web", nil)
	if err != nil {
		h.t.Fatal(err)
	}
	source.Ask = func(_ context.Context, _ string, question any) (any, error) {
		if _, ok := question.(messages.GetValues); ok {
			return messages.Values{Section: section}, nil
		}
		return nil, errors.New("it is being restarted")
	}
	return source
}
