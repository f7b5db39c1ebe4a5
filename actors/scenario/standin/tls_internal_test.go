package standin

import (
	"crypto/tls"
	"crypto/x509"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"addon-operator/actors/scenario/match"
)

// A request to https://… goes to the proxy, as programs do it, and is answered with a certificate of its server, which the CA in the
// environment has signed. One that does not trust it fails the test, and says why.
func TestStandInForHTTPS(t *testing.T) {
	ca := filepath.Join(t.TempDir(), "ca.crt")
	h, err := NewHTTP([]HTTPAnswer{{URL: "https://vault.example/v1/*", Body: match.Value{Any: "over TLS"}}, {URL: "/by-path", Status: http.StatusCreated}}, ca)
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	for _, want := range []string{"https_proxy=" + h.URL, "SSL_CERT_FILE=" + ca, "CURL_CA_BUNDLE=" + ca} {
		if !slices.Contains(h.Environment(), want) {
			t.Errorf("no %s in %q", want, h.Environment())
		}
	}
	certificate, err := os.ReadFile(ca)
	if err != nil {
		t.Fatal(err)
	}
	trusted := x509.NewCertPool()
	trusted.AppendCertsFromPEM(certificate)
	proxy, err := url.Parse(h.URL)
	if err != nil {
		t.Fatal(err)
	}
	client := func(roots *x509.CertPool) *http.Client {
		transport := &http.Transport{Proxy: http.ProxyURL(proxy), TLSClientConfig: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}}
		t.Cleanup(transport.CloseIdleConnections)
		return &http.Client{Transport: transport, Timeout: time.Minute}
	}
	get := func(c *http.Client, url string) string {
		t.Helper()
		answer, err := c.Get(url)
		if err != nil {
			return err.Error()
		}
		defer answer.Body.Close()
		body, err := io.ReadAll(answer.Body)
		if err != nil {
			t.Fatal(err)
		}
		return answer.Status + " " + string(body)
	}
	trusting := client(trusted)
	for url, want := range map[string]string{
		"https://vault.example/v1/a":    "200 OK over TLS\n",
		"https://10.1.2.3:8443/by-path": "201 Created ",
		"https://vault.example/none":    "501 Not Implemented the test has no answer: no answer matches\n",
	} {
		if got := get(trusting, url); got != want {
			t.Errorf("%s: %q, want %q", url, got, want)
		}
	}
	if got := get(client(x509.NewCertPool()), "https://vault.example/v1/b"); !strings.Contains(got, "unknown authority") {
		t.Errorf("without the CA: %s", got)
	}
	seen := map[string]string{}
	for deadline := time.Now().Add(time.Minute); len(seen) < 4 && time.Now().Before(deadline); {
		for _, r := range h.take() {
			seen[r.String()] = r.wrong
		}
	}
	for request, wrong := range map[string]string{
		"GET https://vault.example/v1/a": "", "GET https://10.1.2.3:8443/by-path": "", "GET https://vault.example/none": "no answer matches",
		"CONNECT https://vault.example:443": "SSL_CERT_FILE and CURL_CA_BUNDLE name",
	} {
		if got, there := seen[request]; !there || !strings.Contains(got, wrong) || wrong == "" && got != "" {
			t.Errorf("%s: %q, want %q; there were %q", request, got, wrong, seen)
		}
	}
}

// Answers that are limited are given that often, and each request is recorded once, also when requests come at the same time.
func TestStandInForHTTPAtTheSameTime(t *testing.T) {
	const requests, times = 40, 7
	h, err := NewHTTP([]HTTPAnswer{{URL: "/a", Times: times}, {URL: "/*", Status: http.StatusAccepted}}, filepath.Join(t.TempDir(), "ca.crt"))
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	statuses := make(chan int)
	for range requests {
		go func() {
			w := httptest.NewRecorder()
			h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/a", http.NoBody))
			statuses <- w.Code
		}()
	}
	got := map[int]int{}
	for range requests {
		got[<-statuses]++
	}
	if taken := len(h.take()); taken != requests || got[http.StatusOK] != times || got[http.StatusAccepted] != requests-times {
		t.Errorf("%d requests recorded, statuses %v", taken, got)
	}
}
