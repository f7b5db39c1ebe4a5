package server

import (
	"bytes"
	"encoding/json"
	"mime"
	"net/http"
	"strings"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"addon-operator/messages/view"
)

// discreet is the last look at what leaves the process: known secrets are hidden in every page unless a user on the debug
// address asked for them, and names from tenants do not command the terminal of who reads a page (J10). Profiles have neither;
// metrics are looked at one by one.
func (s router) discreet(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/debug/pprof") || strings.HasPrefix(r.URL.Path, "/metrics") || r.URL.Path == livePath {
			next.ServeHTTP(w, r)
			return
		}
		page := &written{ResponseWriter: w, status: http.StatusOK, hide: func(text string) string { return text }}
		if s.Hide != nil && (s.who != insider || !showSecrets(r)) {
			page.hide = s.Hide
		}
		next.ServeHTTP(page, r)
		text := page.hide(page.body.String())
		if kind, _, err := mime.ParseMediaType(w.Header().Get("Content-Type")); err == nil && kind == "application/json" {
			text = strings.ReplaceAll(text, "\x7f", `\u007f`) // the other escape would be no JSON
		}
		w.Header().Del("Content-Length")
		w.WriteHeader(page.status)
		_, _ = w.Write([]byte(view.Printable(text))) // the client has gone
	})
}

// written keeps a page until it is whole: a secret may lie across two writes.
type written struct {
	http.ResponseWriter
	status int
	body   bytes.Buffer
	hide   func(string) string // hides secrets, if this request is not to be shown them
}

// hidden is JSON without secrets, to be written in another form in which they could not be found: YAML breaks long texts. What is
// no JSON any more, because a number was hidden, comes back as it was.
func (p *written) hidden(data []byte) []byte {
	if shown := []byte(p.hide(string(data))); json.Valid(shown) {
		return shown
	}
	return data
}

// WriteHeader implements http.ResponseWriter.
func (p *written) WriteHeader(status int) { p.status = status }

// Write implements http.ResponseWriter.
func (p *written) Write(data []byte) (int, error) { return p.body.Write(data) }

// discreetMetrics hides secrets in labels, and what commands a terminal: hooks choose those of their metrics.
type discreetMetrics struct {
	prometheus.Gatherer
	hide func(string) string
}

func (g discreetMetrics) shown(label string) string {
	if g.hide != nil {
		label = g.hide(label)
	}
	return view.Printable(label)
}

// Gather implements prometheus.Gatherer.
func (g discreetMetrics) Gather() ([]*dto.MetricFamily, error) {
	families, err := g.Gatherer.Gather()
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			for i, label := range metric.GetLabel() {
				if shown := g.shown(label.GetValue()); shown != label.GetValue() {
					metric.Label[i] = &dto.LabelPair{Name: new(label.GetName()), Value: new(shown)} // the old one may be shared
				}
			}
		}
	}
	return families, err
}
