package scenario

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"addon-operator/values"
)

// httpAnswer is what the stand-in for HTTP servers says to a request.
type httpAnswer struct {
	Method  string            `json:"method"` // "": any
	URL     string            `json:"url"`    // pattern of the whole, or of the path and the query when it begins with /
	Status  int               `json:"status"` // 0: 200
	Headers map[string]string `json:"headers"`
	Body    value             `json:"body"`
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

// httpStandIn is a server on the loopback device that hooks find by the variables of proxies, or by TEST_HTTP_URL.
type httpStandIn struct {
	server  *http.Server
	tunnels *tunnels
	url     string

	mu       sync.Mutex
	answers  []httpAnswer
	used     []int
	requests []request
	total    int
}

// mostBody is how much of a request is read.
const mostBody = 1 << 20

// newHTTPStandIn starts one, and writes the certificate of its CA to a file.
func newHTTPStandIn(answers []httpAnswer, ca string) (*httpStandIn, error) {
	tunnels, err := newTunnels(ca)
	if err != nil {
		return nil, fmt.Errorf("given.http: %w", err)
	}
	listener, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("given.http: %w", err)
	}
	h := &httpStandIn{tunnels: tunnels, url: "http://" + listener.Addr().String(), answers: answers, used: make([]int, len(answers))}
	h.server = &http.Server{Handler: h, ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = h.server.Serve(listener) }() // until close
	go func() { _ = h.server.Serve(tunnels) }()
	return h, nil
}

func (h *httpStandIn) close() error {
	if h == nil {
		return nil
	}
	if err := h.server.Close(); err != nil && !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// environment leads programs to the stand-in. What runs on this machine, such as the API server, needs no proxy.
func (h *httpStandIn) environment() (env []string) {
	for _, name := range []string{"http_proxy", "HTTP_PROXY", "https_proxy", "HTTPS_PROXY"} {
		env = append(env, name+"="+h.url)
	}
	env = append(env, h.tunnels.environment()...)
	return append(env, "no_proxy=127.0.0.1,localhost", "NO_PROXY=127.0.0.1,localhost", "TEST_HTTP_URL="+h.url)
}

// ServeHTTP implements http.Handler.
func (h *httpStandIn) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(io.LimitReader(r.Body, mostBody+1))
	if err != nil {
		return // the hook has gone
	}
	got := request{method: r.Method, url: r.URL.String(), path: r.URL.RequestURI(), headers: r.Header, body: string(body)}
	switch {
	case r.Method == http.MethodConnect:
		got.url = "https://" + r.Host
		if err := h.tunnels.open(w, r); err != nil {
			got.wrong = err.Error()
			h.note(got)
		}
		return
	case r.TLS != nil && r.URL.Host == "":
		got.url = "https://" + r.Host + got.path
	case r.URL.Host == "":
		got.url = "http://" + r.Host + got.path
	default:
		got.path = strings.TrimPrefix(got.url, r.URL.Scheme+"://"+r.URL.Host)
	}
	a := h.answer(&got, len(body) > mostBody)
	if got.wrong != "" {
		http.Error(w, "the test has no answer: "+got.wrong, http.StatusNotImplemented)
		return
	}
	if _, isText := a.Body.any.(string); !isText && a.Body.any != nil {
		w.Header().Set("Content-Type", "application/json")
	}
	for name, value := range a.Headers {
		w.Header().Set(name, value)
	}
	w.WriteHeader(cmp.Or(a.Status, http.StatusOK))
	_, _ = io.WriteString(w, textOf(a.Body.any)) // who does not read it has gone
}

func (h *httpStandIn) note(got request) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.total++; h.total <= mostCalls {
		h.requests = append(h.requests, got)
	}
}

func (h *httpStandIn) answer(got *request, tooLong bool) (found httpAnswer) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.total++; h.total > mostCalls {
		got.wrong = "these are too many requests"
		return found
	}
	defer func() { h.requests = append(h.requests, *got) }()
	if tooLong {
		got.wrong = "the body has more than 1 MiB"
		return found
	}
	for i, a := range h.answers {
		if (a.Method == "" || strings.EqualFold(a.Method, got.method)) && got.isAt(a.URL) && (a.Times == 0 || h.used[i] < a.Times) {
			h.used[i]++
			return a
		}
	}
	got.wrong = "no answer fits"
	return found
}

// isAt compares with a pattern of the URL.
func (r request) isAt(pattern string) bool {
	if strings.HasPrefix(pattern, "/") {
		return likePattern(pattern, r.path)
	}
	return likePattern(pattern, r.url)
}

// take returns the requests since it was called last.
func (h *httpStandIn) take() []request {
	if h == nil {
		return nil
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	taken := h.requests
	h.requests = nil
	return taken
}

// wantedRequest is an expected request.
type wantedRequest struct {
	Method  string           `json:"method"`
	URL     string           `json:"url"`
	Headers map[string]value `json:"headers"`
	Body    value            `json:"body"` // a text, or a tree of JSON
	Times   *int             `json:"times"`
}

// String names the request for messages.
func (w wantedRequest) String() string { return strings.TrimSpace(w.Method + " " + w.URL) }

func (w wantedRequest) times() *int { return w.Times }

func (w wantedRequest) unlike(r request) (list []string, isIt bool) {
	if w.Method != "" && !strings.EqualFold(w.Method, r.method) || !r.isAt(w.URL) {
		return nil, false
	}
	for name, want := range w.Headers {
		list = append(list, difference("headers."+name, want.any, r.headers.Get(name))...)
	}
	if w.Body.any == nil {
		return list, true
	}
	got := any(r.body)
	if _, isText := w.Body.any.(string); !isText && !isTextMatcher(w.Body.any) {
		got = parsedJSON(r.body)
	}
	return append(list, difference("body", w.Body.any, got)...), true
}

// isTextMatcher reports whether matchers ask for texts.
func isTextMatcher(want any) bool {
	asked, ok := asMatchers(want)
	for _, argument := range asked {
		_, isText := argument.(string)
		ok = ok && isText
	}
	return ok
}

// parsedJSON is the tree of a text, or the text when it is none.
func parsedJSON(text string) any {
	tree, err := values.ParseJSON([]byte(text))
	if err != nil {
		return text
	}
	return tree
}
