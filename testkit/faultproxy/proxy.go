package faultproxy

import (
	"context"
	"crypto/tls"
	"encoding/pem"
	"io"
	"log"
	"maps"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"path/filepath"
	"slices"
	"sync"
	"testing"

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
	target, err := url.Parse(config.Host)
	if err != nil {
		t.Fatal(err)
	}
	transport, err := rest.TransportFor(config)
	if err != nil {
		t.Fatal(err)
	}
	p := &Proxy{
		target: target, transport: transport, draw: rand.New(rand.NewPCG(seed, 0)), // repeatable on purpose
		counts: map[string]int{}, open: map[*http.Request]opened{},
	}
	p.server = httptest.NewUnstartedServer(http.HandlerFunc(p.serve))
	p.server.Listener = &listener{p.server.Listener, p}
	// As API servers have it: all requests of a client share a connection, which SetDown ends.
	p.server.EnableHTTP2 = true
	p.server.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
	p.server.Config.ErrorLog = log.New(io.Discard, "", 0) // it would print each fault
	p.server.StartTLS()
	t.Cleanup(func() {
		p.cutAll()
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
	config.Clusters["proxy"] = &clientcmdapi.Cluster{
		Server:                   p.server.URL,
		CertificateAuthorityData: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: p.server.Certificate().Raw}),
	}
	config.AuthInfos["placeholder"] = &clientcmdapi.AuthInfo{Token: placeholder}
	config.Contexts["proxy"] = &clientcmdapi.Context{Cluster: "proxy", AuthInfo: "placeholder"}
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

// SetDown refuses all connections and cuts those that are open, or takes connections again.
func (p *Proxy) SetDown(down bool) {
	p.mu.Lock()
	p.down = down
	p.mu.Unlock()
	if down {
		p.cutAll()
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
func (p *Proxy) CutWatches() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, o := range p.open {
		if o.watch != "" {
			o.cut()
			p.counts["watch: cut, all at once"]++
		}
	}
}

// cutAll ends all requests in progress, watches included.
func (p *Proxy) cutAll() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, o := range p.open {
		o.cut()
	}
}

// Watches lists what is watched now, sorted: path and selectors. What is watched twice is there
// twice.
func (p *Proxy) Watches() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	var all []string
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
// the connection (in HTTP/2 the stream) without an answer; nothing is logged then.
func (p *Proxy) serve(w http.ResponseWriter, r *http.Request) {
	ctx, cut := context.WithCancel(r.Context())
	defer cut()
	r = r.WithContext(ctx)
	fault := p.begin(r, cut)
	defer p.end(r)
	if fault.before != nil && !fault.before(w, r) {
		return
	}
	see := p.writes(r)
	write := Write{Path: r.URL.Path}
	if see != nil {
		write.Effect = effectOf(r)
		if see(write) {
			panic(http.ErrAbortHandler)
		}
	}
	resp, err := p.forward(r)
	if err != nil {
		panic(http.ErrAbortHandler) // a client sees a broken connection then, too
	}
	defer resp.Body.Close()
	if see != nil {
		write.Done, write.Status = true, resp.StatusCode
		if see(write) {
			panic(http.ErrAbortHandler)
		}
	}
	answer(w, resp, fault.body)
}

// begin notes a request and draws what happens to it. It draws as many numbers for each request,
// disturbed or not, so that another rate does not change the faults that later ones may get.
func (p *Proxy) begin(r *http.Request, cut context.CancelFunc) fault {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.down { // it came on a connection that SetDown has not closed yet
		cut()
	}
	p.open[r] = opened{watchOf(r), cut}
	drawn, which, measure := p.draw.Float64(), p.draw.IntN(1<<20), p.draw.Float64()
	if drawn >= p.rate {
		return fault{}
	}
	kinds := requestFaults()
	if watchOf(r) != "" {
		kinds = watchFaults()
	}
	kind := kinds[which%len(kinds)]
	p.counts[kind.name]++
	return kind.make(measure)
}

func (p *Proxy) end(r *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.open, r)
}

// writes returns the function to call with this request; nil for one that changes nothing, or when
// no test sees writes.
func (p *Proxy) writes(r *http.Request) func(Write) bool {
	if r.Method == http.MethodGet || r.Method == http.MethodHead {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.onWrite
}

// forward sends a request to the API server. Credentials that the client brings itself, such as a
// token of a service account, are passed on; the transport adds its own only where there are none.
func (p *Proxy) forward(r *http.Request) (*http.Response, error) {
	out := r.Clone(r.Context())
	out.URL.Scheme, out.URL.Host = p.target.Scheme, p.target.Host
	out.Host, out.RequestURI = "", ""
	out.Header.Del("Connection")
	if out.Header.Get("Authorization") == "Bearer "+placeholder {
		out.Header.Del("Authorization")
	}
	return p.transport.RoundTrip(out)
}

// answer passes a response on, changed by body if that is not nil. It flushes after each read: an
// event of a watch must not wait for the next one.
func answer(w http.ResponseWriter, resp *http.Response, body func(io.Reader) io.Reader) {
	maps.Copy(w.Header(), resp.Header)
	w.WriteHeader(resp.StatusCode)
	var from io.Reader = resp.Body
	if body != nil {
		from = body(from)
	}
	flush := http.NewResponseController(w)
	if resp.ContentLength < 0 { // a watch is answered before its first event
		_ = flush.Flush() // the client may be gone
	}
	buffer := make([]byte, 32<<10)
	for {
		n, err := from.Read(buffer)
		if _, failed := w.Write(buffer[:n]); failed != nil {
			return
		}
		_ = flush.Flush() // the client may be gone
		if err != nil {
			if err != io.EOF { // only io.EOF itself is the end of a body
				panic(http.ErrAbortHandler)
			}
			return
		}
	}
}

// effectOf names a write by its method and resource; see Write.Effect.
func effectOf(r *http.Request) string { return r.Method + " " + resourceOf(r.URL.Path) }

// listener refuses connections while the proxy is down: it closes them at once. To close the
// listener itself would give its port away, and clients could not find the proxy again.
type listener struct {
	net.Listener
	proxy *Proxy
}

// Accept implements net.Listener.
func (l *listener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		l.proxy.mu.Lock()
		down := l.proxy.down
		l.proxy.mu.Unlock()
		if !down {
			return c, nil
		}
		_ = c.Close() // that is the refusal
	}
}
