package server

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"

	"addon-operator/hooks"
	"addon-operator/messages"
	"addon-operator/messages/view"
	"addon-operator/values"
)

// The bounds of webhook requests. An object has 1.5 MiB at most, and a review contains two of them; a
// conversion has all objects of a list. What is being read and answered at one time is bounded by its bytes, so that a
// thousand requests at once cost no memory: the others wait as long as they have time.
const (
	maxReview      = 8 << 20
	maxConversion  = 16 << 20
	maxAsked       = 32 << 20
	maxObjects     = 100_000          // of a conversion
	maxTimeout     = 30 * time.Second // of Kubernetes
	bodyTimeout    = 5 * time.Second  // to send a request
	maxReviewers   = 2000             // connections: each API server opens one for each request at a time
	reviewMargin   = time.Second / 2  // for the way of the answer
	usualReview    = 10 * time.Second // timeoutSeconds where the API server does not name it
	conversionTime = 30 * time.Second // which the API server does not name
)

// Reviews answers webhook requests (chapter O).
type Reviews struct {
	Review func(ctx context.Context, q messages.Review) messages.Reviewed
	Hide   func(string) string // returns a text without known secrets
	Log    *slog.Logger
	// ClientCA is a file with the CAs of the certificates that clients must have; empty: they need none.
	ClientCA string

	reading *semaphore.Weighted
	slow    time.Duration // bodyTimeout, or shorter in tests
	mu      sync.Mutex
	said    map[string]time.Time // by what was complained about
}

// complains reports whether something is to be logged: once a minute for each kind.
func (r *Reviews) complains(about string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if time.Since(r.said[about]) < time.Minute {
		return false
	}
	if len(r.said) > 1000 || r.said == nil {
		r.said = map[string]time.Time{}
	}
	r.said[about] = time.Now()
	return true
}

// ServeReviews answers on a TCP address, with TLS, until ctx is done. It returns the address, which has a port where
// none was given.
func ServeReviews(ctx context.Context, address string, r *Reviews, certificate Certificate) (string, error) {
	r.reading = semaphore.NewWeighted(maxAsked)
	config := &tls.Config{
		MinVersion: tls.VersionTLS12,
		// Not HTTP/2: requests that wait would fill the buffer of a connection that others share, which then wait for
		// them.
		NextProtos:     []string{"http/1.1"},
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return certificate() },
	}
	if r.ClientCA != "" {
		text, err := os.ReadFile(r.ClientCA)
		if err != nil {
			return "", fmt.Errorf("client CA of webhooks: %w", err)
		}
		// A client without one gets an answer that says so: a failed handshake would not tell it why.
		config.ClientAuth, config.ClientCAs = tls.VerifyClientCertIfGiven, x509.NewCertPool()
		if !config.ClientCAs.AppendCertsFromPEM(text) {
			return "", fmt.Errorf("client CA of webhooks: %s contains no certificate", r.ClientCA)
		}
	}
	listener, err := listen(ctx, address)
	if err != nil {
		return "", err
	}
	srv := serverFor(r, maxReviewers)
	srv.ErrorLog = slog.NewLogLogger(r.Log.Handler(), slog.LevelDebug) // every port scan fails a handshake
	serveOn(ctx, srv, tls.NewListener(listener, config), address, r.Log)
	host, _, _ := net.SplitHostPort(address)
	_, port, err := net.SplitHostPort(listener.Addr().String())
	return net.JoinHostPort(host, port), err
}

// asked are an AdmissionReview and a ConversionReview, as far as the operator looks at them.
type asked struct {
	APIVersion, Kind string
	Request          json.RawMessage
}

type request struct {
	UID, DesiredAPIVersion string
	DryRun                 bool
	Objects                objects
}

// objects are at most maxObjects: each takes memory, however small it is.
type objects []json.RawMessage

// UnmarshalJSON implements json.Unmarshaler.
func (o *objects) UnmarshalJSON(text []byte) error {
	decoder := json.NewDecoder(bytes.NewReader(text))
	if start, err := decoder.Token(); err != nil || start != json.Delim('[') {
		return cmp.Or(err, errors.New("objects is no list"))
	}
	for decoder.More() {
		var object json.RawMessage
		if err := decoder.Decode(&object); err != nil {
			return err
		}
		if *o = append(*o, object); len(*o) > maxObjects {
			return refusal{http.StatusRequestEntityTooLarge, fmt.Sprintf("there are more than %d objects", maxObjects)}
		}
	}
	return nil
}

// refusal is why no hook can answer an HTTP request.
type refusal struct {
	status int
	why    string
}

// Error implements error.
func (r refusal) Error() string { return r.why }

// ServeHTTP implements http.Handler.
func (r *Reviews) ServeHTTP(w http.ResponseWriter, req *http.Request) {
	answer, err := r.answer(w, req)
	if refused, ok := errors.AsType[refusal](err); ok {
		if r.complains(refused.why) {
			r.Log.Warn("a request for a webhook is refused", "err", refused.why, "path", view.Printable(values.Shorten(req.URL.Path, 200)))
		}
		text(w, refused.status, refused.why+"\n")
		return
	}
	if err != nil {
		text(w, http.StatusInternalServerError, r.shown(err.Error())+"\n")
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(answer) // the client has gone
}

// answer asks a hook. The error is for what gets no review as its answer: because it is none, or because the hook
// has failed, and the API server is to go on without it (failurePolicy Ignore).
func (r *Reviews) answer(w http.ResponseWriter, req *http.Request) (any, error) {
	q, err := r.route(req)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithDeadline(req.Context(), q.Until)
	defer cancel()
	limit, kind := int64(maxReview), "AdmissionReview"
	if q.Type == hooks.OnConversion {
		limit, kind = maxConversion, "ConversionReview"
	}
	size := limit
	if req.ContentLength >= 0 {
		size = req.ContentLength
	}
	tooLarge := refusal{http.StatusRequestEntityTooLarge, fmt.Sprintf("the body is larger than %d bytes", limit)}
	if size > limit {
		return nil, tooLarge
	}
	if r.reading.Acquire(ctx, size) != nil {
		return nil, refusal{http.StatusTooManyRequests, "too many webhook requests are in progress"}
	}
	defer r.reading.Release(size)
	_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(cmp.Or(r.slow, bodyTimeout))) // a recorder of tests has none
	body, err := io.ReadAll(http.MaxBytesReader(w, req.Body, limit))
	if _, large := errors.AsType[*http.MaxBytesError](err); large {
		return nil, tooLarge
	}
	var review asked
	var request request
	if err == nil {
		err = cmp.Or(json.Unmarshal(body, &review), json.Unmarshal(review.Request, &request))
	}
	if refused, ok := errors.AsType[refusal](err); ok {
		return nil, refused
	}
	if err != nil || review.Kind != kind || request.UID == "" {
		return nil, refusal{http.StatusBadRequest, "the body must be a JSON " + kind + " with a request and its uid"}
	}
	q.Request, q.DryRun, q.To, q.Objects = review.Request, request.DryRun, request.DesiredAPIVersion, request.Objects
	response, err := r.respond(ctx, q)
	if err != nil {
		return nil, err
	}
	response["uid"] = request.UID
	return map[string]any{"apiVersion": review.APIVersion, "kind": review.Kind, "response": response}, nil
}

// route is what a request asks for, without its body.
func (r *Reviews) route(req *http.Request) (q messages.Review, err error) {
	path := strings.SplitN(strings.TrimPrefix(req.URL.Path, "/"), "/", 3)
	of := map[string]hooks.BindingType{"validate": hooks.OnValidating, "mutate": hooks.OnMutating, "convert": hooks.OnConversion}[path[0]]
	switch {
	case len(path) < 3 || of == "":
		return q, refusal{http.StatusNotFound, "there is no such webhook"}
	case req.Method != http.MethodPost:
		return q, refusal{http.StatusMethodNotAllowed, "only POST asks a webhook"}
	case r.ClientCA != "" && len(req.TLS.VerifiedChains) == 0:
		return q, refusal{http.StatusUnauthorized, "a client certificate is required here"}
	}
	timeout, err := time.ParseDuration(req.URL.Query().Get("timeout"))
	switch {
	case of == hooks.OnConversion:
		timeout = conversionTime
	case err != nil || timeout <= reviewMargin:
		timeout = usualReview
	}
	within := min(timeout, maxTimeout) - reviewMargin
	return messages.Review{Owner: path[1], Type: of, Name: path[2], Until: time.Now().Add(within), Within: within}, nil
}

// respond is the response of a hook, but for the uid.
func (r *Reviews) respond(ctx context.Context, q messages.Review) (map[string]any, error) {
	answer := r.Review(ctx, q)
	switch {
	case errors.Is(answer.Err, messages.ErrNoHook):
		return nil, refusal{http.StatusNotFound, "no hook answers here"}
	case answer.Err != nil:
		if r.complains(cmp.Or(answer.Hook, q.Owner)) {
			r.Log.Error("a webhook request has failed", "owner", q.Owner, "hook", answer.Hook, "binding", q.Name, "err", answer.Err)
		}
		if answer.Ignore || answer.Hook == "" { // what failurePolicy says is up to the API server
			return nil, answer.Err
		}
	}
	if q.Type == hooks.OnConversion {
		return r.converted(q, answer), nil
	}
	return r.reviewed(answer), nil
}

// reviewed is the response of an AdmissionReview: what has failed is denied (O4).
func (r *Reviews) reviewed(a messages.Reviewed) map[string]any {
	if a.Err != nil {
		status := map[string]any{"code": http.StatusInternalServerError, "message": r.shown(a.Err.Error())}
		return map[string]any{"allowed": false, "status": status}
	}
	response := map[string]any{"allowed": a.Response.Allowed}
	var warnings []string
	for _, warning := range a.Response.Warnings {
		warnings = append(warnings, r.shown(warning))
	}
	if len(warnings) > 0 {
		response["warnings"] = warnings
	}
	switch {
	case !a.Response.Allowed:
		response["status"] = map[string]any{"code": http.StatusForbidden, "message": r.shown(a.Response.Message)}
	case a.Response.Patch != nil:
		response["patchType"], response["patch"] = "JSONPatch", []byte(a.Response.Patch) // in base64
	}
	return response
}

// converted is the response of a ConversionReview.
func (r *Reviews) converted(q messages.Review, a messages.Reviewed) map[string]any {
	if a.Err != nil {
		message := fmt.Sprintf("conversion of %s to %s: %s", q.Name, q.To, r.shown(a.Err.Error()))
		return map[string]any{"result": map[string]any{"status": "Failure", "message": message}}
	}
	return map[string]any{"result": map[string]any{"status": "Success"}, "convertedObjects": a.Response.Objects}
}

// shown is a text of a hook as everybody may see it who may write the object.
func (r *Reviews) shown(text string) string { return view.Printable(r.Hide(text)) }
