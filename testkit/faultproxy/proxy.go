package faultproxy

import (
	"context"
	"crypto/tls"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/iotest"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// Proxy forwards requests to one API server, as the client that its configuration names. Its
// methods may be called while requests are in progress; what they set holds for later ones.
type Proxy struct {
	server    *httptest.Server
	target    *url.URL
	transport http.RoundTripper // with the credentials for the API server

	// mu is never held while a request is forwarded or onWrite runs, which may kill the client.
	mu      sync.Mutex
	draw    *rand.Rand
	rate    float64
	down    bool
	counts  map[string]int           // disturbed requests, by the name of the fault
	open    map[*http.Request]opened // requests in progress
	onWrite func(Write) (drop bool)  // nil: no test sees writes
}

// opened is a request that is in progress.
type opened struct {
	watch string // what is watched, "" for other requests
	cut   context.CancelFunc
}

// Write is a request that changes something, at one of two moments.
type Write struct {
	// Effect says what is written: the method and the resource, as in "PUT configmaps".
	Effect string
	Path   string
	// Done is false before the API server gets the request, and true when it has answered with
	// Status.
	Done   bool
	Status int
}

// New starts a proxy for the API server of config, which ends with the test. What it draws follows
// from the seed and the order of requests.
func New(t testing.TB, config *rest.Config, seed uint64) *Proxy {
	t.Helper()
	target, wrong := url.Parse(config.Host)
	transport, err := rest.TransportFor(config)
	if err := errors.Join(wrong, err); err != nil {
		t.Fatal(err)
	}
	p := &Proxy{
		target: target, transport: transport, draw: rand.New(rand.NewPCG(seed, 0)), // repeatable on purpose
		counts: map[string]int{}, open: map[*http.Request]opened{},
	}
	p.server = httptest.NewUnstartedServer(http.HandlerFunc(p.serve))
	// As API servers have it: all requests of a client share a connection, which SetDown ends.
	p.server.EnableHTTP2 = true
	p.server.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
	p.server.Config.ErrorLog = log.New(io.Discard, "", 0) // it would print each fault
	p.server.StartTLS()
	t.Cleanup(func() {
		p.cutAll(false)
		p.server.CloseClientConnections()
		p.server.Close()
	})
	return p
}

// placeholder is the token of the clients, which the proxy removes: without one kubectl asks for a
// user name.
const placeholder = "placeholder"

// Kubeconfig returns the path of a file for clients of the proxy. They need no credentials.
func (p *Proxy) Kubeconfig(t testing.TB) string {
	t.Helper()
	config := clientcmdapi.NewConfig()
	certificate := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: p.server.Certificate().Raw})
	config.Clusters["proxy"] = &clientcmdapi.Cluster{Server: p.server.URL, CertificateAuthorityData: certificate}
	config.AuthInfos["proxy"] = &clientcmdapi.AuthInfo{Token: placeholder}
	config.Contexts["proxy"] = &clientcmdapi.Context{Cluster: "proxy", AuthInfo: "proxy"}
	config.CurrentContext = "proxy"
	path := filepath.Join(t.TempDir(), "kubeconfig")
	if err := clientcmd.WriteToFile(*config, path); err != nil {
		t.Fatal(err)
	}
	return path
}

// SetRate sets which share of the requests is disturbed, from 0 (as at first) to 1.
func (p *Proxy) SetRate(rate float64) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rate = rate
}

// SetDown cuts all connections, and answers no request until it is called with false.
func (p *Proxy) SetDown(down bool) {
	p.mu.Lock()
	p.down = down
	p.mu.Unlock()
	if down {
		p.cutAll(false)
		p.server.CloseClientConnections()
	}
}

// OnWrite calls see before each write is forwarded, and again before its answer is passed on. When
// see returns true the request is dropped there: the client's connection gets no answer. nil ends
// that.
func (p *Proxy) OnWrite(see func(Write) (drop bool)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.onWrite = see
}

// CutWatches ends all watches.
func (p *Proxy) CutWatches() { p.cutAll(true) }

// cutAll ends requests in progress: all of them, or the watches.
func (p *Proxy) cutAll(watches bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, o := range p.open {
		if o.watch == "" && watches {
			continue
		}
		o.cut()
		if watches {
			p.counts["watch: cut, all at once"]++
		}
	}
}

// Watches lists what is watched now, sorted: path and selectors. What is watched twice is there
// twice.
func (p *Proxy) Watches() (all []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, o := range p.open {
		if o.watch != "" {
			all = append(all, o.watch)
		}
	}
	slices.Sort(all)
	return all
}

// Faults counts the disturbed requests by the kind of the fault.
func (p *Proxy) Faults() map[string]int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return maps.Clone(p.counts)
}

// serve handles one request. A panic with http.ErrAbortHandler is how a handler of net/http breaks
// the connection (in HTTP/2 the stream) without an answer; nothing is logged then. Credentials that the client brings
// itself, such as a token of a service account, are passed on; the transport adds its own only where there are none.
func (p *Proxy) serve(w http.ResponseWriter, r *http.Request) {
	ctx, cut := context.WithCancel(r.Context())
	defer cut()
	r = r.WithContext(ctx)
	fault, see := p.begin(r, cut)
	defer p.end(r)
	if !fault.before(w, r) {
		return
	}
	write := Write{Effect: r.Method + " " + resourceOf(r.URL.Path), Path: r.URL.Path}
	if see != nil && see(write) {
		panic(http.ErrAbortHandler)
	}
	proxy := &httputil.ReverseProxy{
		Transport:     p.transport,
		FlushInterval: -1, // an event of a watch must not wait for the next one
		ErrorLog:      p.server.Config.ErrorLog,
		Rewrite: func(r *httputil.ProxyRequest) {
			r.SetURL(p.target)
			if r.Out.Header.Get("Authorization") == "Bearer "+placeholder {
				r.Out.Header.Del("Authorization")
			}
		},
		ModifyResponse: func(resp *http.Response) error {
			write.Done, write.Status = true, resp.StatusCode
			if see != nil && see(write) {
				return http.ErrAbortHandler
			}
			if fault.cut > 0 {
				failure := iotest.ErrReader(errors.New("the connection is cut"))
				resp.Body = struct {
					io.Reader
					io.Closer
				}{io.MultiReader(io.LimitReader(resp.Body, fault.cut-1), failure), resp.Body}
			}
			return nil
		},
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
	}
	proxy.ServeHTTP(w, r)
}

// begin notes a request and draws what happens to it. It draws as many numbers for each request,
// disturbed or not, so that another rate does not change the faults that later ones may get. see is called with the
// request if it changes something and a test wants to know.
func (p *Proxy) begin(r *http.Request, cut context.CancelFunc) (f fault, see func(Write) bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.open[r] = opened{watchOf(r), cut}
	if p.down {
		return fault{lost: true}, nil
	}
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		see = p.onWrite
	}
	drawn, which, measure := p.draw.Float64(), p.draw.IntN(1<<20), p.draw.Float64()
	if drawn >= p.rate {
		return fault{}, see
	}
	all := faults(watchOf(r) != "", measure)
	f = all[which%len(all)]
	p.counts[f.name]++
	return f, see
}

func (p *Proxy) end(r *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.open, r)
}

// fault is what happens to one request; the zero value is none.
type fault struct {
	name   string
	waits  time.Duration // before anything else
	lost   bool          // it never reaches the API server, and there is no answer
	status int           // the proxy answers in place of the API server: a refusal, or with 200 an event of a watch
	reason string        // of the Status that it answers
	cut    int64         // the connection breaks after so many bytes of the answer less one; 0: never
}

// hangs is how long a request without an answer lasts, if its client does not give up before.
const hangs = 3 * time.Second

// faults are those of watches, or of other requests; the measure, from 0 to 1, says how long or how much. Of a lost or
// cut answer, the API server has done what was asked. After 410 and "expired" of a watch, a client must list again;
// after the others it may continue with the last resourceVersion that it has seen.
func faults(watch bool, measure float64) []fault {
	all := []fault{
		{name: "answer 429 with Retry-After", status: http.StatusTooManyRequests, reason: "TooManyRequests"},
		{name: "answer 500", status: http.StatusInternalServerError, reason: "InternalError"},
		{name: "slow", waits: time.Duration(measure*800) * time.Millisecond},
		{name: "answer cut", cut: int64(measure*2500) + 2},
	}
	if watch {
		return append(all,
			fault{name: "watch: answer 410", status: http.StatusGone, reason: "Expired"},
			fault{name: "watch: expired at once", status: http.StatusOK, reason: "Expired"},
		)
	}
	return append(all,
		fault{name: "answer 503", status: http.StatusServiceUnavailable, reason: "ServiceUnavailable"},
		fault{name: "answer 504", status: http.StatusGatewayTimeout, reason: "Timeout"},
		fault{name: "no answer", waits: hangs, lost: true},
		fault{name: "request lost", lost: true},
		fault{name: "answer lost", cut: 1},
	)
}

// before is called before the forwarding, and goes on to it if it returns true.
func (f fault) before(w http.ResponseWriter, r *http.Request) bool {
	timer := time.NewTimer(f.waits)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-r.Context().Done():
	}
	switch {
	case f.lost:
		panic(http.ErrAbortHandler)
	case f.status == 0:
		return true
	case f.status == http.StatusTooManyRequests:
		w.Header().Set("Retry-After", "1")
	}
	format, code := "%s", f.status
	if f.status == http.StatusOK {
		format, code = `{"type":"ERROR","object":%s}`+"\n", http.StatusGone
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(f.status)
	text := fmt.Sprintf(`{"kind":"Status","apiVersion":"v1","metadata":{},"status":"Failure",`+
		`"message":"a fault of the test","reason":%q,"code":%d}`, f.reason, code)
	fmt.Fprintf(w, format, text) // the client may be gone
	return false
}

// watchOf names what a request watches, "" if it watches nothing: the path and the selectors,
// without the parameters that differ each time, such as the resourceVersion.
func watchOf(r *http.Request) string {
	query := r.URL.Query()
	if w := query.Get("watch"); w != "true" && w != "1" {
		return ""
	}
	return strings.Join(strings.Fields(r.URL.Path+" "+query.Get("labelSelector")+" "+query.Get("fieldSelector")), " ")
}

// resource is in a path such as /apis/apps/v1/namespaces/default/deployments/web. A namespace itself is the resource
// namespaces.
var resource = regexp.MustCompile(`^/(?:api|apis/[^/]+)/[^/]+(?:/namespaces/[^/]+)?/([^/]+)`)

// resourceOf takes the resource out of a path; one that names no resource is named as a whole.
func resourceOf(path string) string {
	if found := resource.FindStringSubmatch(path); found != nil {
		return found[1]
	}
	return url.PathEscape(path)
}
