package server

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"mime"
	"net/http"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"addon-operator/messages/view"
)

// discreet is the last step before an answer leaves the process, so no page can forget it: known
// secrets are hidden, unless a user on the debug address asked for them, and control characters in
// names from tenants become escapes, which a terminal does not obey (J10).
//
// Some pages pass it by. Profiles hold neither. Metrics are checked label by label
// (discreetMetrics), since Prometheus needs their exact form.
//
// A client that has the text already, as the script of the live page mostly has, is sent none. An
// answer of the debug address has a time limit only from here on: it may take long to be made, and
// a client that does not read it must not keep its place at the gate.
func (s router) discreet(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/debug/pprof") || strings.HasPrefix(r.URL.Path, "/metrics") {
			next.ServeHTTP(w, r)
			return
		}
		page := &written{ResponseWriter: w, status: http.StatusOK, hide: s.Hide}
		if s.who == insider && showSecrets(r) {
			page.hide = strings.Clone
		}
		next.ServeHTTP(page, r)
		text := page.hide(page.body.String())
		if kind, _, err := mime.ParseMediaType(w.Header().Get("Content-Type")); err == nil && kind == "application/json" {
			// Printable would write \x7f, which is no escape of JSON. JSON escapes the other
			// control characters already.
			text = strings.ReplaceAll(text, "\x7f", `\u007f`)
		}
		text = view.Printable(text)
		w.Header().Del("Content-Length") // of the text before it was changed
		if s.who == insider {
			_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(debugAnswer)) // a recorder of tests has none
		}
		if page.status == http.StatusOK {
			w.Header().Set("ETag", fmt.Sprintf(`"%x"`, sha256.Sum256([]byte(text))))
			http.ServeContent(w, r, "", time.Time{}, strings.NewReader(text))
			return
		}
		w.WriteHeader(page.status)
		_, _ = io.WriteString(w, text) // the client has gone
	})
}

// written keeps a page until it is complete: a secret may be split across two writes. It has no
// Flush, so a handler that streams fails in it.
type written struct {
	http.ResponseWriter
	status int
	body   bytes.Buffer
	hide   func(string) string // returns the text unchanged if secrets may be shown
}

// hidden hides secrets in JSON that is about to be converted to YAML, where they could not be
// found: YAML folds long texts and quotes in other ways. If hiding breaks the JSON, because a
// number was hidden, it returns the data unchanged, and discreet still hides what it finds in the
// YAML.
func (p *written) hidden(data []byte) []byte {
	if shown := []byte(p.hide(string(data))); json.Valid(shown) {
		return shown
	}
	return data
}

// WriteHeader implements http.ResponseWriter. The status is sent with the body.
func (p *written) WriteHeader(status int) { p.status = status }

// Write implements http.ResponseWriter.
func (p *written) Write(data []byte) (int, error) { return p.body.Write(data) }

// discreetMetrics hides secrets, and escapes control characters, in the values of labels, which
// hooks choose for their metrics.
type discreetMetrics struct {
	prometheus.Gatherer
	hide func(string) string
}

func (g discreetMetrics) shown(label string) string {
	return view.Printable(g.hide(label))
}

// Gather implements prometheus.Gatherer.
func (g discreetMetrics) Gather() ([]*dto.MetricFamily, error) {
	families, err := g.Gatherer.Gather()
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			for i, label := range metric.GetLabel() {
				if shown := g.shown(label.GetValue()); shown != label.GetValue() {
					// Collectors may share a LabelPair between scrapes, so it is replaced, not
					// changed.
					metric.Label[i] = &dto.LabelPair{Name: new(label.GetName()), Value: new(shown)}
				}
			}
		}
	}
	return families, err
}
