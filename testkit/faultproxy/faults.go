package faultproxy

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// fault is what happens to one request; the zero value is none. before is called instead of the
// forwarding, and goes on to it if it returns true; body changes the body of the answer while it is
// passed on. Either may be nil.
type fault struct {
	before func(http.ResponseWriter, *http.Request) bool
	body   func(io.Reader) io.Reader
}

// kind makes faults of one sort; the measure, from 0 to 1, says how long or how much.
type kind struct {
	name string
	make func(measure float64) fault
}

// hangs is how long a request without an answer lasts, if its client does not give up before.
const hangs = 3 * time.Second

// requestFaults are the faults of requests that are no watches. A lost request never reaches the
// API server; of a lost or cut answer, the API server has done what was asked.
func requestFaults() []kind {
	return []kind{
		{"answer 429 with Retry-After", refusal(http.StatusTooManyRequests, "TooManyRequests", "1")},
		{"answer 500", refusal(http.StatusInternalServerError, "InternalError", "")},
		{"answer 503", refusal(http.StatusServiceUnavailable, "ServiceUnavailable", "")},
		{"answer 504", refusal(http.StatusGatewayTimeout, "Timeout", "")},
		{"slow", func(m float64) fault { return waits(time.Duration(m*800)*time.Millisecond, true) }},
		{"no answer", func(float64) fault { return waits(hangs, false) }},
		{"request lost", func(float64) fault { return waits(0, false) }},
		{"answer lost", func(float64) fault { return cutAfter(0) }},
		{"answer cut", func(m float64) fault { return cutAfter(int64(m*2000) + 1) }},
	}
}

// watchFaults are the faults of watches. After 410 and "expired", a client must list again; after
// the others it may continue with the last resourceVersion that it has seen.
func watchFaults() []kind {
	return []kind{
		{"watch: answer 410", refusal(http.StatusGone, "Expired", "")},
		{"watch: expired at once", func(float64) fault { return expired() }},
		{"watch: answer 500", refusal(http.StatusInternalServerError, "InternalError", "")},
		{"watch: answer 429", refusal(http.StatusTooManyRequests, "TooManyRequests", "1")},
		{"watch: slow", func(m float64) fault { return waits(time.Duration(m*800)*time.Millisecond, true) }},
		{"watch: cut", func(m float64) fault { return endsAfter(time.Duration(m * float64(2*time.Second))) }},
		{"watch: cut in an event", func(m float64) fault { return cutAfter(int64(m*3000) + 1) }},
	}
}

// status is what an API server writes about a failure.
func status(code int, reason string) string {
	return fmt.Sprintf(`{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure","message":"a fault of the test","reason":%q,"code":%d}`, reason, code)
}

// refusal answers with a Status in place of the API server. retryAfter is in seconds; "" sends no
// such header.
func refusal(code int, reason, retryAfter string) func(float64) fault {
	return func(float64) fault {
		return fault{before: func(w http.ResponseWriter, _ *http.Request) bool {
			if retryAfter != "" {
				w.Header().Set("Retry-After", retryAfter)
			}
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(code)
			_, _ = io.WriteString(w, status(code, reason)) // the client may be gone
			return false
		}}
	}
}

// waits holds a request up, and then lets it go on or loses it.
func waits(duration time.Duration, goesOn bool) fault {
	return fault{before: func(_ http.ResponseWriter, r *http.Request) bool {
		timer := time.NewTimer(duration)
		defer timer.Stop()
		select {
		case <-timer.C:
		case <-r.Context().Done():
		}
		if !goesOn {
			panic(http.ErrAbortHandler)
		}
		return true
	}}
}

// expired is a watch whose first event says that its resourceVersion is too old.
func expired() fault {
	return fault{before: func(w http.ResponseWriter, _ *http.Request) bool {
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, `{"type":"ERROR","object":`+status(http.StatusGone, "Expired")+"}\n") // the client may be gone
		return false
	}}
}

var errCut = errors.New("the connection is cut")

// cutAfter breaks the connection after some bytes of the answer.
func cutAfter(bytes int64) fault {
	return fault{body: func(from io.Reader) io.Reader {
		return io.MultiReader(io.LimitReader(from, bytes), broken{})
	}}
}

// broken is the end of a body that is cut: a reader that fails, by which answer breaks the
// connection.
type broken struct{}

// Read implements io.Reader.
func (broken) Read([]byte) (int, error) { return 0, errCut }

// endsAfter ends a watch in good order, as an API server does after its timeout. The copy into the
// pipe ends with the request, whose body is closed then, or at its next write, which the closed
// pipe refuses.
func endsAfter(limit time.Duration) fault {
	return fault{body: func(from io.Reader) io.Reader {
		reader, writer := io.Pipe()
		timer := time.AfterFunc(limit, func() { _ = writer.Close() }) // a pipe cannot fail
		go func() {
			defer timer.Stop()
			_, err := io.Copy(writer, from)
			_ = writer.CloseWithError(err)
		}()
		return reader
	}}
}

// watchOf names what a request watches, "" if it watches nothing: the path and the selectors,
// without the parameters that differ each time, such as the resourceVersion.
func watchOf(r *http.Request) string {
	query := r.URL.Query()
	if w := query.Get("watch"); w != "true" && w != "1" {
		return ""
	}
	what := r.URL.Path
	for _, selector := range []string{"labelSelector", "fieldSelector"} {
		if s := query.Get(selector); s != "" {
			what += " " + s
		}
	}
	return what
}

// resourceOf takes the resource out of a path such as
// /apis/apps/v1/namespaces/default/deployments/web. A namespace itself is the resource namespaces;
// a path that names no resource is named as a whole.
func resourceOf(path string) string {
	parts := strings.Split(strings.Trim(path, "/"), "/")
	skip := 2 // api/v1
	if parts[0] == "apis" {
		skip = 3
	}
	if len(parts) > skip+2 && parts[skip] == "namespaces" {
		skip += 2
	}
	if len(parts) <= skip {
		return url.PathEscape(path)
	}
	return parts[skip]
}
