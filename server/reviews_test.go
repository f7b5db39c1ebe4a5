package server

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"addon-operator/hooks"
	"addon-operator/messages"
)

// reviewServer answers reviews by calling review, and returns its address.
func reviewServer(t *testing.T, r *Reviews) string {
	t.Helper()
	r.Hide, r.Log = func(text string) string { return strings.ReplaceAll(text, "secret", "***") }, slog.New(slog.DiscardHandler)
	certificate, err := SelfSigned()
	must(t, err)
	address, err := ServeReviews(t.Context(), "127.0.0.1:0", r, certificate)
	must(t, err)
	return "https://" + address
}

// insecure does not look at the certificate, which is a matter of package webhooks.
func insecure() *http.Client {
	return &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
}

func posted(t *testing.T, url, body string) (int, string) {
	t.Helper()
	resp, err := insecure().Post(url, "application/json", strings.NewReader(body))
	must(t, err)
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	must(t, err)
	return resp.StatusCode, strings.TrimSpace(string(text))
}

// Whoever asks gets the right answer, also to what is no webhook request. O4, O7
func TestWebhookRequests(t *testing.T) {
	const review, conversion = `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","request":{"uid":"u"}}`,
		`{"apiVersion":"apiextensions.k8s.io/v1","kind":"ConversionReview","request":{"uid":"u","desiredAPIVersion":"e/v2","objects":[{"a":1}]}}`
	answers := map[string]messages.Reviewed{
		"allowed": {Response: &hooks.Response{Allowed: true, Warnings: []string{"a secret"}}},
		"denied":  {Response: &hooks.Response{Message: "no secret\x1b[31m"}},
		"patched": {Response: &hooks.Response{Allowed: true, Patch: []byte("[]")}},
		"failed":  {Hook: "h", Err: errors.New("hook h: exit code 1: secret")},
		"ignored": {Hook: "h", Err: errors.New("hook h: exit code 1"), Ignore: true},
		"early":   {Err: errors.New("module m is being loaded")},
		"no hook": {Err: messages.ErrNoHook},
	}
	address := reviewServer(t, &Reviews{Review: func(_ context.Context, q messages.Review) messages.Reviewed { return answers[q.Name] }})
	envelope := func(response string) string {
		return `{"apiVersion":"admission.k8s.io/v1","kind":"AdmissionReview","response":` + response + `}`
	}
	for _, c := range []struct {
		path, body string
		status     int
		want       string
	}{
		{"/validate/m/allowed", review, 200, envelope(`{"allowed":true,"uid":"u","warnings":["a ***"]}`)},
		{"/validate/m/denied", review, 200, envelope(`{"allowed":false,"status":{"code":403,"message":"no ***\\x1b[31m"},"uid":"u"}`)},
		{"/mutate/m/patched", review, 200, envelope(`{"allowed":true,"patch":"W10=","patchType":"JSONPatch","uid":"u"}`)},
		{"/mutate/m/early", review, 500, "module m is being loaded"},
		{"/mutate/m/failed", review, 200, envelope(`{"allowed":false,"status":{"code":500,"message":"hook h: exit code 1: ***"},"uid":"u"}`)},
		{"/mutate/m/ignored", review, 500, "hook h: exit code 1"},
		{"/mutate/m/no%20hook", review, 404, "no hook answers here"},
		{"/convert/m/failed", conversion, 200, `{"apiVersion":"apiextensions.k8s.io/v1","kind":"ConversionReview","response":{"result":{"message":"conversion of failed to e/v2: hook h: exit code 1: ***","status":"Failure"},"uid":"u"}}`},
		{"/convert/m/allowed", conversion, 200, `{"apiVersion":"apiextensions.k8s.io/v1","kind":"ConversionReview","response":{"convertedObjects":null,"result":{"status":"Success"},"uid":"u"}}`},
		{"/validate/m/allowed", "", 400, "the body must be a JSON AdmissionReview with a request and its uid"},
		{"/validate/m/allowed", "{", 400, "the body must be a JSON AdmissionReview with a request and its uid"},
		{"/validate/m/allowed", "[]", 400, "the body must be a JSON AdmissionReview with a request and its uid"},
		{"/validate/m/allowed", conversion, 400, "the body must be a JSON AdmissionReview with a request and its uid"},
		{"/convert/m/allowed", review, 400, "the body must be a JSON ConversionReview with a request and its uid"},
		{"/validate/m/allowed", `{"kind":"AdmissionReview","request":{}}`, 400, "the body must be a JSON AdmissionReview with a request and its uid"},
		{"/validate/m/allowed", `{"kind":"AdmissionReview","request":"` + strings.Repeat("x", maxReview) + `"}`, 413, "the body is larger than 8388608 bytes"},
		{"/convert/m/allowed", `{"kind":"ConversionReview","request":{"uid":"u","objects":[0` + strings.Repeat(",0", maxObjects) + `]}}`, 413, "there are more than 100000 objects"},
		{"/convert/m/allowed", `{"kind":"ConversionReview","request":{"uid":"u","objects":{}}}`, 400, "the body must be a JSON ConversionReview with a request and its uid"},
		{"/validate/m", review, 404, "there is no such webhook"},
		{"/", review, 404, "there is no such webhook"},
		{"/other/m/allowed", review, 404, "there is no such webhook"},
	} {
		if status, got := posted(t, address+c.path, c.body); status != c.status || got != c.want {
			t.Errorf("%s: got %d %s, want %d %s", c.path, status, got, c.status, c.want)
		}
	}
	resp, err := insecure().Get(address + "/validate/m/allowed")
	must(t, err)
	if resp.Body.Close(); resp.StatusCode != http.StatusMethodNotAllowed {
		t.Errorf("GET: status %d", resp.StatusCode)
	}
	// A body without an end, and without a length.
	resp, err = insecure().Post(address+"/validate/m/allowed", "application/json", io.MultiReader(strings.NewReader("{"), endless{}))
	if err == nil {
		if resp.Body.Close(); resp.StatusCode != http.StatusRequestEntityTooLarge {
			t.Errorf("a body without an end: status %d", resp.StatusCode)
		}
	}
}

// endless are spaces.
type endless struct{}

// Read implements io.Reader.
func (endless) Read(p []byte) (int, error) { return copy(p, bytes.Repeat([]byte(" "), len(p))), nil }

// A client that does not send the bodies of its requests keeps others waiting for a moment only, whatever its timeout.
func TestClientThatSendsNothing(t *testing.T) {
	address := reviewServer(t, &Reviews{slow: time.Second / 10, Review: func(context.Context, messages.Review) messages.Reviewed {
		return messages.Reviewed{Response: &hooks.Response{Allowed: true}}
	}})
	for range maxAsked / maxReview {
		conn, err := tls.Dial("tcp", strings.TrimPrefix(address, "https://"), &tls.Config{InsecureSkipVerify: true})
		must(t, err)
		t.Cleanup(func() { _ = conn.Close() })
		_, err = fmt.Fprintf(conn, "POST /validate/m/a?timeout=1000h HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n{", maxReview)
		must(t, err)
	}
	if status, got := posted(t, address+"/validate/m/a", `{"kind":"AdmissionReview","request":{"uid":"u"}}`); status != http.StatusOK {
		t.Errorf("got %d %s", status, got)
	}
}

// A thousand large requests at once are all answered, and no more of them are in memory than maxAsked bytes.
func TestManyWebhookRequestsAtOnce(t *testing.T) {
	const many, size = 1000, 1 << 16
	var mu sync.Mutex
	now, most := 0, 0
	r := &Reviews{Review: func(context.Context, messages.Review) messages.Reviewed {
		mu.Lock()
		now++
		most = max(most, now)
		mu.Unlock()
		defer func() { mu.Lock(); now--; mu.Unlock() }()
		return messages.Reviewed{Response: &hooks.Response{Allowed: true}}
	}}
	reviewServer(t, r)
	body := `{"kind":"AdmissionReview","request":{"uid":"u","object":"` + strings.Repeat("x", size) + `"}}`
	var all sync.WaitGroup
	for range many {
		all.Go(func() { // without connections, whose handshakes would take all the time
			answer := httptest.NewRecorder()
			r.ServeHTTP(answer, httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/validate/m/a?timeout=30s", strings.NewReader(body)))
			if answer.Code != http.StatusOK {
				t.Errorf("status %d: %s", answer.Code, answer.Body)
			}
		})
	}
	all.Wait()
	if most > maxAsked/size {
		t.Errorf("%d requests of 64 KiB were in memory at once", most)
	}
}

// With a client CA, a client without a certificate of it gets 401.
func TestClientCertificates(t *testing.T) {
	ca := filepath.Join(t.TempDir(), "ca.crt")
	certificate, err := SelfSigned()
	must(t, err)
	of, err := certificate()
	must(t, err)
	must(t, os.WriteFile(ca, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: of.Certificate[0]}), 0o600))
	address := reviewServer(t, &Reviews{ClientCA: ca})
	if status, got := posted(t, address+"/validate/m/a", "{}"); status != http.StatusUnauthorized || got != "a client certificate is required here" {
		t.Errorf("got %d %s", status, got)
	}
	_, err = ServeReviews(t.Context(), "127.0.0.1:0", &Reviews{ClientCA: ca + "2", Log: slog.Default()}, nil)
	if err == nil {
		t.Error("a file that does not exist is no error")
	}
}
