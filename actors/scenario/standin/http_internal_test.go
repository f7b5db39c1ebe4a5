package standin

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"testing"

	"addon-operator/actors/scenario/match"
)

// A request goes to the proxy, as programs do it, or to the address of the stand-in; there is no TLS.
func TestStandInForHTTP(t *testing.T) {
	h, err := NewHTTP([]HTTPAnswer{{URL: "http://vault.example/v1/*", Body: match.Value{Any: "by its name"}}, {URL: "/by-path", Status: http.StatusCreated}})
	if err != nil {
		t.Fatal(err)
	}
	defer h.Close()
	if !slices.Contains(h.Environment(), "https_proxy="+h.URL) {
		t.Errorf("the environment is %q", h.Environment())
	}
	proxy, err := url.Parse(h.URL)
	if err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Transport: &http.Transport{Proxy: http.ProxyURL(proxy)}}
	for address, want := range map[string]string{
		"http://vault.example/v1/a":  "200 by its name",
		"http://10.1.2.3:80/by-path": "201 ",
		"http://vault.example/none":  "501 the test has no answer: no answer matches",
		"https://vault.example/v1/b": "Not Implemented",
	} {
		var got string
		resp, err := client.Get(address) //nolint:noctx // a test on loopback
		if err == nil {
			body, _ := io.ReadAll(resp.Body)
			_ = resp.Body.Close()
			got = fmt.Sprintf("%d %s", resp.StatusCode, strings.TrimSpace(string(body)))
		} else {
			got = err.Error()
		}
		if !strings.Contains(got, want) {
			t.Errorf("%s: %q, want %q", address, got, want)
		}
	}
	problems := strings.Join(h.Check(nil), "\n")
	for _, want := range []string{"GET http://vault.example/none: no answer matches", "CONNECT https://vault.example:443: a stand-in does not speak TLS"} {
		if !strings.Contains(problems, want) {
			t.Errorf("the problems have no %q:\n%s", want, problems)
		}
	}
}

// Answers that are limited are given that often, and each request is recorded once, also when requests come at the same time.
func TestStandInForHTTPAtTheSameTime(t *testing.T) {
	const requests, times = 40, 7
	h, err := NewHTTP([]HTTPAnswer{{URL: "/a", Times: times}, {URL: "/*", Status: http.StatusAccepted}})
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
