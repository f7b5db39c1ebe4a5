package e2e

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"
)

// receiver takes traces as a collector does.
type receiver struct {
	*httptest.Server
	mu     sync.Mutex
	spans  []*tracepb.Span
	source map[string]string // attributes of the resource
	header string
}

func newReceiver(t *testing.T) *receiver {
	t.Helper()
	r := &receiver{source: map[string]string{}}
	r.Server = httptest.NewServer(http.HandlerFunc(r.take))
	t.Cleanup(r.Close)
	return r
}

func (r *receiver) take(w http.ResponseWriter, request *http.Request) {
	body, err := io.ReadAll(request.Body)
	var batch collector.ExportTraceServiceRequest
	if err == nil {
		err = proto.Unmarshal(body, &batch)
	}
	if err != nil || request.URL.Path != "/v1/traces" {
		http.Error(w, fmt.Sprint(request.URL.Path, err), http.StatusBadRequest)
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.header = request.Header.Get("Team")
	for _, of := range batch.GetResourceSpans() {
		for _, a := range of.GetResource().GetAttributes() {
			r.source[a.GetKey()] = a.GetValue().GetStringValue()
		}
		for _, scope := range of.GetScopeSpans() {
			r.spans = append(r.spans, scope.GetSpans()...)
		}
	}
	w.Header().Set("Content-Type", "application/x-protobuf")
}

// find returns the spans that the condition picks, in the order of their beginning.
func (r *receiver) find(picks func(*tracepb.Span) bool) []*tracepb.Span {
	r.mu.Lock()
	defer r.mu.Unlock()
	found := slices.DeleteFunc(slices.Clone(r.spans), func(s *tracepb.Span) bool { return !picks(s) })
	slices.SortStableFunc(found, func(a, b *tracepb.Span) int {
		return int(int64(a.GetStartTimeUnixNano()) - int64(b.GetStartTimeUnixNano()))
	})
	return found
}

// tree draws a span and what is below it: names, and the attributes that tell them apart.
func (r *receiver) tree(root *tracepb.Span) string {
	var lines []string
	var visit func(s *tracepb.Span, indent string)
	visit = func(s *tracepb.Span, indent string) {
		line := indent + s.GetName()
		for _, key := range []string{"module", "hook", "binding", "attempt", "release.action", "release.revision"} {
			if value := attribute(s, key); value != "" && (key != "module" || indent == "  ") {
				line += " " + key + "=" + value
			}
		}
		if s.GetStatus().GetCode() == tracepb.Status_STATUS_CODE_ERROR {
			line += " FAILED: " + s.GetStatus().GetMessage()
		}
		lines = append(lines, line)
		for _, child := range r.find(func(c *tracepb.Span) bool { return bytes.Equal(c.GetParentSpanId(), s.GetSpanId()) }) {
			visit(child, indent+"  ")
		}
	}
	visit(root, "")
	return strings.Join(lines, "\n") + "\n"
}

func attribute(s *tracepb.Span, key string) string {
	for _, a := range s.GetAttributes() {
		if a.GetKey() == key {
			if text := a.GetValue().GetStringValue(); text != "" {
				return text
			}
			return fmt.Sprint(a.GetValue().GetIntValue())
		}
	}
	return ""
}

const convergeTree = `converge
  hook run hook=all.sh binding=onStartup attempt=1
  wait for synchronization attempt=1
  hook run hook=all.sh binding=beforeAll attempt=1
  discovery attempt=1
    enabled script
  module run module=web attempt=1 FAILED: hook 010-web/hooks/around.sh: exit code 1: the network is away
    hook run hook=010-web/hooks/event.sh binding=seen attempt=1
    hook run hook=010-web/hooks/around.sh binding=beforeHelm
    helm release.action=installed release.revision=1
      helm template
      helm check-upgrade
      helm upgrade
    hook run hook=010-web/hooks/around.sh binding=afterHelm FAILED: hook 010-web/hooks/around.sh: exit code 1: the network is away
  module run module=web attempt=2
    hook run hook=010-web/hooks/around.sh binding=beforeHelm
    helm release.action=skipped release.revision=1
      helm template
      helm check-upgrade
    hook run hook=010-web/hooks/around.sh binding=afterHelm
  hook run hook=all.sh binding=afterAll attempt=1
`

// A converge is one trace: discovery, modules, hooks, Helm, failures. What an event causes
// is another one, and it knows what led to it. Hooks may join. Issue 8, point 3.
func TestTraces(t *testing.T) {
	h := newFixture(t, "traces")
	r := newReceiver(t)
	o := h.start("OTEL_EXPORTER_OTLP_ENDPOINT="+r.URL, "OTEL_EXPORTER_OTLP_HEADERS=team=dns", "OTEL_BSP_SCHEDULE_DELAY=100", "OTEL_RESOURCE_ATTRIBUTES=team=dns")
	o.expect("task failed, will retry", "the network is away")
	o.ready()
	h.createConfigMap("seen", "", map[string]string{"seen": "yes"})
	h.awaitConfigMap("web", "seen", "yes")
	isRoot := func(name string) func(*tracepb.Span) bool {
		return func(s *tracepb.Span) bool { return s.GetName() == name && len(s.GetParentSpanId()) == 0 }
	}
	h.until("the spans", func() bool {
		return len(r.find(isRoot("converge"))) != 0 && len(r.find(isRoot("module run"))) != 0
	})
	got := r.tree(r.find(isRoot("converge"))[0])
	if got = strings.Replace(got, "    load hooks\n", "", 1); got != convergeTree { // they may be loaded already
		t.Errorf("the converge is\n%swant\n%s", got, convergeTree)
	}
	events, runs := r.find(isRoot("hook run")), r.find(isRoot("module run"))
	if len(events) != 1 || attribute(events[0], "queue") != "side" || attribute(events[0], "activation") != "Kubernetes" || !strings.Contains(attribute(events[0], "cause"), "/seen Added") {
		t.Fatalf("the run for the event is %v", events)
	}
	if len(runs) != 1 || len(runs[0].GetLinks()) != 1 || !bytes.Equal(runs[0].GetLinks()[0].GetSpanId(), events[0].GetSpanId()) {
		t.Errorf("the module run for it is not linked to it: %v", runs)
	}
	for line := range strings.SplitSeq(strings.TrimSpace(h.read("out/parents")), "\n") {
		kind, parent, _ := strings.Cut(line, " ")
		mine := r.find(func(s *tracepb.Span) bool {
			return parent == "00-"+hex.EncodeToString(s.GetTraceId())+"-"+hex.EncodeToString(s.GetSpanId())+"-01"
		})
		want := map[string]string{"enabled": "enabled script", "Synchronization": "hook run", "Event": "hook run"}[kind]
		if len(mine) != 1 || mine[0].GetName() != want {
			t.Errorf("%s was given TRACEPARENT %q, which is %v", kind, parent, mine)
		}
	}
	if r.source["service.name"] != "addon-operator" || r.source["k8s.namespace.name"] != h.namespace || r.source["team"] != "dns" || r.header != "dns" {
		t.Errorf("the source is %v, header %q", r.source, r.header)
	}
}

// Without an endpoint hooks receive no trace; with a protocol that the operator does
// not speak, it says so and works.
func TestTracesAreOff(t *testing.T) {
	h := newFixture(t, "traces")
	r := newReceiver(t)
	o := h.start("OTEL_EXPORTER_OTLP_ENDPOINT="+r.URL, "OTEL_EXPORTER_OTLP_PROTOCOL=grpc")
	o.expect("traces are not sent", "http/protobuf")
	o.ready()
	if got := h.read("out/parents"); !strings.HasPrefix(got, "enabled \n") || strings.Contains(got, "00-") {
		t.Errorf("hooks were told %q", got)
	}
	if spans := r.find(func(*tracepb.Span) bool { return true }); len(spans) > 0 {
		t.Errorf("spans were sent: %v", spans)
	}
}
