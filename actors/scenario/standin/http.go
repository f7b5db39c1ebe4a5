package standin

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"addon-operator/actors/scenario/match"
	"addon-operator/values"
)

// HTTPAnswer is what the stand-in for HTTP servers says to a request.
type HTTPAnswer struct {
	Method  string            `json:"method"` // "": any
	URL     string            `json:"url"`    // pattern of the whole, or of the path and the query when it begins with /
	Status  int               `json:"status"` // 0: 200
	Headers map[string]string `json:"headers"`
	Body    match.Value       `json:"body"`
	Times   int               `json:"times"` // 0: always
}

// request is one that the stand-in has got.
type request struct {
	method, url, path string
	headers           http.Header
	body              string
	wrong             string // why there was no answer
}

// String is the request in a line.
func (r request) String() string { return r.method + " " + r.url }

// HTTP is a server on the loopback device that hooks find by the variables of proxies, or by
// TEST_HTTP_URL. net/http calls it in a goroutine for each request, and the play takes the requests
// in a goroutine of its own.
type HTTP struct {
	server  *http.Server
	URL     string
	answers []HTTPAnswer // in the order of given.http: the first one that fits is given

	mu       sync.Mutex
	total    int         // requests of the whole play; those above mostCalls are only counted
	given    map[int]int // how often each answer was given, by its index
	requests []request   // those that take has not returned yet, oldest first
}

// mostBody is how much of a request is read.
const mostBody = 1 << 20

// NewHTTP starts one.
func NewHTTP(answers []HTTPAnswer) (*HTTP, error) {
	listener, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("given.http: %w", err)
	}
	h := &HTTP{URL: "http://" + listener.Addr().String(), answers: answers, given: map[int]int{}}
	h.server = &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = h.server.Serve(listener) }() // until Close
	return h, nil
}

// Close ends the server. A nil stand-in, of a test without given.http, has none.
func (h *HTTP) Close() error {
	if h == nil {
		return nil
	}
	return h.server.Close()
}

// Environment leads programs to the stand-in. The API server of the play listens on this machine,
// too, so addresses of it are excepted. Both spellings of a name are needed: curl reads http_proxy
// in lower case only, other programs in upper case only.
func (h *HTTP) Environment() (env []string) {
	for _, name := range []string{"http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY"} {
		env = append(env, name+"="+h.URL)
	}
	return append(env, "no_proxy=127.0.0.1,localhost", "NO_PROXY=127.0.0.1,localhost", "TEST_HTTP_URL="+h.URL)
}

// ServeHTTP implements http.Handler. It finds out which URL the program meant, which depends on how
// the request came here: through the proxy (the request line has the whole URL), or directly to TEST_HTTP_URL.
func (h *HTTP) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(io.LimitReader(r.Body, mostBody+1)) // one byte more shows that it is too long
	if err != nil {
		return // the client has closed the connection
	}
	got := request{method: r.Method, url: r.URL.String(), path: r.URL.RequestURI(), headers: r.Header, body: string(body)}
	if len(body) > mostBody {
		got.wrong = "the body has more than 1 MiB"
	}
	switch {
	case r.Method == http.MethodConnect:
		got.url, got.wrong = "https://"+r.Host, "a stand-in does not speak TLS: let the hook read the address from a variable, which given.env sets to ${TEST_HTTP_URL}"
	case r.URL.Host == "":
		got.url = "http://" + r.Host + got.path
	default:
		got.path = strings.TrimPrefix(got.url, r.URL.Scheme+"://"+r.URL.Host)
	}
	a, wrong := h.answer(got)
	if wrong != "" {
		http.Error(w, "the test has no answer: "+wrong, http.StatusNotImplemented)
		return
	}
	// Before the headers of the test, which may name another type.
	if _, isText := a.Body.Any.(string); !isText && a.Body.Any != nil {
		w.Header().Set("Content-Type", "application/json")
	}
	for name, value := range a.Headers {
		w.Header().Set(name, value)
	}
	w.WriteHeader(cmp.Or(a.Status, http.StatusOK))
	_, _ = io.WriteString(w, textOf(a.Body.Any)) // the client may have closed the connection
}

// answer records a request and finds the answer to it, the first one that fits and was not given as often as it may be.
// wrong says why there is none; a request that is wrong already gets none.
func (h *HTTP) answer(got request) (a HTTPAnswer, wrong string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.total++; h.total > mostCalls {
		return a, "too many requests"
	}
	if got.wrong == "" {
		got.wrong = "no answer matches"
		for i, candidate := range h.answers {
			if (candidate.Method == "" || strings.EqualFold(candidate.Method, got.method)) && got.isAt(candidate.URL) && (candidate.Times == 0 || h.given[i] < candidate.Times) {
				h.given[i]++
				a, got.wrong = candidate, ""
				break
			}
		}
	}
	h.requests = append(h.requests, got)
	return a, got.wrong
}

// isAt compares with a pattern of the URL.
func (r request) isAt(pattern string) bool {
	if strings.HasPrefix(pattern, "/") {
		return likePattern(pattern, r.path)
	}
	return likePattern(pattern, r.url)
}

// take returns the requests since it was called last.
func (h *HTTP) take() (taken []request) {
	if h == nil {
		return nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	taken, h.requests = h.requests, nil
	return taken
}

// Request is an expected request.
type Request struct {
	Method  string                 `json:"method"`
	URL     string                 `json:"url"`
	Headers map[string]match.Value `json:"headers"`
	Body    match.Value            `json:"body"` // a text, or a tree of JSON
	Times   *int                   `json:"times"`
}

// String names the request for messages.
func (w Request) String() string { return strings.TrimSpace(w.Method + " " + w.URL) }

// Exactly implements match.Wanted.
func (w Request) Exactly() *int { return w.Times }

// Unlike implements match.Wanted: another method or URL is another request.
func (w Request) Unlike(r request) (list []string, isIt bool) {
	if w.Method != "" && !strings.EqualFold(w.Method, r.method) || !r.isAt(w.URL) {
		return nil, false
	}
	for name, want := range w.Headers {
		list = append(list, match.Difference("headers."+name, want.Any, r.headers.Get(name))...)
	}
	if w.Body.Any == nil {
		return list, true
	}
	difference := match.Difference("body", w.Body.Any, r.body)
	if tree, err := values.ParseJSON([]byte(r.body)); err == nil && len(difference) > 0 {
		difference = match.Difference("body", w.Body.Any, tree)
	}
	return append(list, difference...), true
}

// Check compares the requests since the last expect, as [Commands.Check] does calls.
func (h *HTTP) Check(want []Request) (problems []string) {
	requests := h.take()
	for _, r := range requests {
		if r.wrong != "" {
			problems = append(problems, fmt.Sprintf("given.http: %s: %s", r, r.wrong))
		}
	}
	return append(problems, match.Unmatched(want, requests, "request")...)
}
