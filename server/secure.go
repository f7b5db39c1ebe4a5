package server

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"mime"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"addon-operator/messages/view"
)

// Authorize decides whether the owner of a token may do verb with the page at path. It returns the
// HTTP status to answer with: 200 when it is allowed, 401 for an unknown token, another one when it
// is not. The client is shown why, so that must not hold details of the cluster.
type Authorize func(ctx context.Context, token, verb, path string) (status int, why string)

// authorized lets everybody see the probes; for other pages it requires a token (J11). A nil
// authorize is the default of plain HTTP, where everybody may see all public pages.
func authorized(next http.Handler, authorize Authorize) http.Handler {
	if authorize == nil {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if isProbe(r) {
			next.ServeHTTP(w, r)
			return
		}
		scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
		if token = strings.TrimSpace(token); !strings.EqualFold(scheme, "Bearer") || token == "" {
			w.Header().Set("WWW-Authenticate", "Bearer")
			text(w, http.StatusUnauthorized, "this page needs the token of a ServiceAccount or a user: Authorization: Bearer TOKEN\n")
			return
		}
		status, why := authorize(r.Context(), token, strings.ToLower(r.Method), r.URL.Path)
		if status == http.StatusOK {
			next.ServeHTTP(w, r)
			return
		}
		if status == http.StatusUnauthorized {
			w.Header().Set("WWW-Authenticate", `Bearer error="invalid_token"`)
		}
		text(w, status, why+"\n")
	})
}

// isProbe reports whether a request is for what a kubelet, which has no token, and other replicas
// read. With verbose it is none: which modules fail, and why, is not for everybody.
func isProbe(r *http.Request) bool {
	return r.URL.Path == "/healthz" || r.URL.Path == "/readyz" && !r.URL.Query().Has("verbose")
}

// Certificate returns what a listener with TLS presents. It is called for each connection, so a
// renewed certificate is used without a restart.
type Certificate func() (*tls.Certificate, error)

// SelfSigned makes a certificate in memory. It encrypts, so that tokens cannot be read on the way,
// but proves no identity: for that, use CertificateFiles.
func SelfSigned() (Certificate, error) {
	const years = 10 // more than a process lives
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("create a certificate: %w", err)
	}
	template := x509.Certificate{
		Subject: pkix.Name{CommonName: "addon-operator"}, DNSNames: []string{"addon-operator"},
		// The clock of a client may be behind by up to an hour.
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().AddDate(years, 0, 0),
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, &template, &template, key.Public(), key)
	if err != nil {
		return nil, fmt.Errorf("create a certificate: %w", err)
	}
	certificate := &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
	return func() (*tls.Certificate, error) { return certificate, nil }, nil
}

// CertificateFiles reads a certificate and its key at each handshake, so no watch is needed, and
// volumes of Secrets work. At the start an error is returned; later the last valid pair stays in use,
// also while the two files of a renewal are being replaced.
func CertificateFiles(certFile, keyFile string, log *slog.Logger) (Certificate, error) {
	var mu sync.Mutex
	var last *tls.Certificate
	get := func() (*tls.Certificate, error) {
		mu.Lock()
		defer mu.Unlock()
		loaded, err := tls.LoadX509KeyPair(certFile, keyFile)
		switch {
		case err == nil:
			last = &loaded
		case last == nil:
			return nil, fmt.Errorf("certificate %s: %w", certFile, err)
		default:
			log.Error("certificate could not be reloaded; the previous one stays in use", "path", certFile, "err", err)
		}
		return last, nil
	}
	_, err := get()
	return get, err
}

// ServeTLS is [Serve] on a TCP address, with TLS 1.2 or newer.
func ServeTLS(ctx context.Context, address string, h http.Handler, certificate Certificate, log *slog.Logger) error {
	listener, err := listen(ctx, address)
	if err != nil {
		return err
	}
	srv := newServer(h)
	// Every port scan fails a handshake, so these errors are only for debugging.
	srv.ErrorLog = slog.NewLogLogger(log.Handler(), slog.LevelDebug)
	serveOn(ctx, srv, tls.NewListener(listener, &tls.Config{
		MinVersion: tls.VersionTLS12,
		// Not HTTP/2: it has many requests on one connection, and connections bounds them by
		// counting connections.
		NextProtos:     []string{"http/1.1"},
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return certificate() },
	}), address, log)
	return nil
}

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
