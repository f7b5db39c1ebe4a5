package server

import (
	"context"
	"crypto/tls"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"crypto/ecdsa"
	"crypto/x509"
	"encoding/pem"
)

// J11: only probes are open to everybody, and what a probe says is no more than its word.
func TestAuthorized(t *testing.T) {
	var asked string
	h := authorized(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { text(w, http.StatusOK, "page\n") }),
		func(_ context.Context, token, verb, path string) (int, string) {
			asked = verb + " " + path
			switch token {
			case "good":
				return http.StatusOK, ""
			case "poor":
				return http.StatusForbidden, "not allowed"
			case "away":
				return http.StatusServiceUnavailable, "nobody answers"
			}
			return http.StatusUnauthorized, "unknown"
		})
	for _, c := range []struct {
		url, authorization string
		status             int
		asked, says        string
	}{
		{"/healthz", "", 200, "", "page"},
		{"/readyz", "", 200, "", "page"},
		{"/readyz?own", "", 200, "", "page"},
		{"/readyz?verbose", "", 401, "", "Authorization: Bearer"},
		{"/readyz?a=b;verbose", "", 200, "", "page"}, // a semicolon parts nothing: it is not verbose for the page either
		{"/readyz/", "", 401, "", ""},
		{"/healthz/../metrics", "", 401, "", ""},
		{"/", "", 401, "", ""},
		{"/metrics", "", 401, "", ""},
		{"/metrics", "Basic good", 401, "", ""},
		{"/metrics", "Bearer ", 401, "", ""},
		{"/metrics", "Bearer strange", 401, "get /metrics", "unknown"},
		{"/metrics", "Bearer poor", 403, "get /metrics", "not allowed"},
		{"/metrics", "Bearer away", 503, "get /metrics", "nobody answers"},
		{"/metrics", "bearer  good", 200, "get /metrics", "page"},
		{"/queue", "Bearer good", 200, "get /queue", "page"},
	} {
		asked = ""
		request := httptest.NewRequest(http.MethodGet, c.url, http.NoBody)
		request.URL.Path, _, _ = strings.Cut(c.url, "?") // as it was sent
		if c.authorization != "" {
			request.Header.Set("Authorization", c.authorization)
		}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, request)
		if w.Code != c.status || asked != c.asked || !strings.Contains(w.Body.String(), c.says) {
			t.Errorf("%s %q: %d %s, asked %q; want %d, %q, asked %q", c.url, c.authorization, w.Code, w.Body, asked, c.status, c.says, c.asked)
		}
	}
}

// J11: files of a certificate are read again when they change; bad ones do not take away the good ones.
func TestCertificateFiles(t *testing.T) {
	dir := t.TempDir()
	cert, key := filepath.Join(dir, "tls.crt"), filepath.Join(dir, "tls.key")
	log := slog.New(slog.DiscardHandler)
	if _, err := CertificateFiles(cert, key, log); err == nil {
		t.Error("files that are not there are accepted")
	}
	write := func() {
		t.Helper()
		made, err := SelfSigned()
		must(t, err)
		certificate, _ := made() // it is made already
		private, err := x509.MarshalECPrivateKey(certificate.PrivateKey.(*ecdsa.PrivateKey))
		must(t, err)
		for path, block := range map[string]*pem.Block{cert: {Type: "CERTIFICATE", Bytes: certificate.Certificate[0]}, key: {Type: "EC PRIVATE KEY", Bytes: private}} {
			must(t, os.WriteFile(path+".new", pem.EncodeToMemory(block), 0o600))
			must(t, os.Rename(path+".new", path))
		}
	}
	write()
	files, err := CertificateFiles(cert, key, log)
	must(t, err)
	serial := func() string {
		t.Helper()
		shown, err := files()
		must(t, err)
		return shown.Leaf.SerialNumber.String()
	}
	first := serial()
	if serial() != first {
		t.Error("it changes by itself")
	}
	must(t, os.WriteFile(cert, []byte("nonsense"), 0o600))
	if serial() != first {
		t.Error("nonsense takes the place of the certificate")
	}
	write()
	if serial() == first {
		t.Error("the new certificate is not read")
	}
}

// FreeAddress is one without a listener. Its port is below those that the kernel gives to
// connections and to listeners that ask for any: one of these could be taken a moment later.
func FreeAddress(t *testing.T) string {
	t.Helper()
	const first, last = 19000, 19999
	for port := first; port <= last; port++ {
		address := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
		var config net.ListenConfig
		if l, err := config.Listen(t.Context(), "tcp", address); err == nil {
			_ = l.Close()
			return address
		}
	}
	t.Fatal("no port is free")
	return ""
}

// J11: the address speaks TLS, and nothing else.
func TestServeTLS(t *testing.T) {
	certificate, err := SelfSigned()
	must(t, err)
	address := FreeAddress(t)
	s := Source{Authorize: func(context.Context, string, string, string) (int, string) { return http.StatusUnauthorized, "" }}
	page := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { text(w, http.StatusOK, "ok\n") })
	must(t, ServeTLS(t.Context(), address, authorized(page, s.Authorize), certificate, slog.New(slog.DiscardHandler)))
	client := http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, ForceAttemptHTTP2: true}}
	for path, want := range map[string]int{"/readyz": 200, "/metrics": 401} {
		resp, err := client.Get("https://" + address + path) //nolint:noctx // it is on this machine
		must(t, err)
		_ = resp.Body.Close()
		if resp.StatusCode != want || resp.ProtoMajor != 1 {
			t.Errorf("%s: %s %s, want %d and HTTP/1.1", path, resp.Proto, resp.Status, want)
		}
	}
	resp, err := http.Get("http://" + address + "/healthz") //nolint:noctx // it is on this machine
	if err == nil {
		_ = resp.Body.Close()
		if resp.StatusCode == http.StatusOK {
			t.Error("it answers without TLS")
		}
	}
}

// must ends the test over an error of what it needs only.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
