package e2e

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	dto "github.com/prometheus/client_model/go"
	collector "go.opentelemetry.io/proto/otlp/collector/trace/v1"
	tracepb "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/encoding/protodelim"
	"google.golang.org/protobuf/proto"
)

// rule is a metric as rule I2 names it. rare: it has no series while all goes well, or on
// kernels that do not tell the memory of processes.
type rule struct {
	kind, name, labels string
	rare               bool
}

// chapterI are the metrics of rules I2 and X11, without their prefix.
func chapterI() []rule {
	hook := "module hook binding queue activation"
	global := "hook binding queue activation"
	watch := "module hook binding queue kind"
	return []rule{
		{kind: "counter", name: "live_ticks"},
		{kind: "gauge", name: "binding_count", labels: "module hook"},
		{kind: "counter", name: "config_values_errors_total"},
		{kind: "counter", name: "modules_discover_errors_total"},
		{kind: "summary", name: "module_run_seconds", labels: "module activation"},
		{kind: "counter", name: "module_run_errors_total", labels: "module"},
		{kind: "counter", name: "module_delete_errors_total", labels: "module"},
		{kind: "summary", name: "module_helm_seconds", labels: "module activation"},
		{kind: "histogram", name: "helm_operation_seconds", labels: "activation operation"},
		{kind: "counter", name: "modules_helm_release_redeployed_total", labels: "module"},
		{kind: "counter", name: "modules_absent_resources_total", labels: "module resource"},
		{kind: "counter", name: "convergence_seconds", labels: "activation"},
		{kind: "counter", name: "convergence_total", labels: "activation"},
		{kind: "gauge", name: "mm_module_info", labels: "module enabled critical"},
		{kind: "gauge", name: "mm_module_enabled", labels: "module version"},
		{kind: "summary", name: "module_hook_run_seconds", labels: hook},
		{kind: "summary", name: "module_hook_run_user_cpu_seconds", labels: hook},
		{kind: "summary", name: "module_hook_run_sys_cpu_seconds", labels: hook},
		{kind: "gauge", name: "module_hook_run_max_rss_bytes", labels: hook, rare: true},
		{kind: "counter", name: "module_hook_errors_total", labels: hook},
		{kind: "counter", name: "module_hook_allowed_errors_total", labels: hook},
		{kind: "counter", name: "module_hook_success_total", labels: hook},
		{kind: "summary", name: "global_hook_run_seconds", labels: global},
		{kind: "summary", name: "global_hook_run_user_cpu_seconds", labels: global},
		{kind: "summary", name: "global_hook_run_sys_cpu_seconds", labels: global},
		{kind: "gauge", name: "global_hook_run_max_rss_bytes", labels: global, rare: true},
		{kind: "counter", name: "global_hook_errors_total", labels: global},
		{kind: "counter", name: "global_hook_allowed_errors_total", labels: global},
		{kind: "counter", name: "global_hook_success_total", labels: global},
		{kind: "counter", name: "task_wait_in_queue_seconds_total", labels: "module hook binding queue"},
		{kind: "gauge", name: "tasks_queue_length", labels: "queue"},
		{kind: "gauge", name: "tasks_queue_head_info", labels: "queue module task_type hook"},
		{kind: "histogram", name: "tasks_queue_action_duration_seconds", labels: "queue_name queue_action"},
		{kind: "counter", name: "tasks_queue_compaction_operations_total", labels: "queue_name hook"},
		{kind: "gauge", name: "kube_snapshot_objects", labels: watch},
		{kind: "counter", name: "kubernetes_client_watch_errors_total", labels: "error_type", rare: true},
		{kind: "counter", name: "kubernetes_client_request_result_total", labels: "host verb code"},
		{kind: "histogram", name: "kubernetes_client_request_latency_seconds", labels: "host verb"},
		{kind: "counter", name: "factory_informer_dead_total", labels: "gvr namespace", rare: true},
		{kind: "counter", name: "helm_fallback_total"},
		{kind: "counter", name: "hook_errors"},
		{kind: "counter", name: "hook_allowed_errors"},
		{kind: "counter", name: "module_run_errors"},
	}
}

// page reads the metrics of the running program.
func (o *operator) page() map[string]*dto.MetricFamily {
	o.fixture.t.Helper()
	request, err := http.NewRequestWithContext(o.fixture.ctx, http.MethodGet, o.public+"/metrics", http.NoBody)
	if err != nil {
		o.fixture.t.Fatal(err)
	}
	request.Header.Set("Accept", "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited")
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		o.fixture.t.Fatal(err)
	}
	defer answer.Body.Close()
	families, body := map[string]*dto.MetricFamily{}, bufio.NewReader(answer.Body)
	for {
		f := &dto.MetricFamily{}
		switch err := protodelim.UnmarshalFrom(body, f); {
		case errors.Is(err, io.EOF):
			return families
		case err != nil:
			o.fixture.t.Fatalf("/metrics answers %s: %v", answer.Status, err)
		}
		families[f.GetName()] = f
	}
}

// absent are the metrics of the rules that are not on the page, and what is wrong with
// the others.
func absent(page map[string]*dto.MetricFamily, prefix string) (missing []string, wrong error) {
	for _, r := range chapterI() {
		f := page[prefix+r.name]
		if f == nil {
			if !r.rare {
				missing = append(missing, r.name)
			}
			continue
		}
		if got := strings.ToLower(f.GetType().String()); got != r.kind {
			wrong = errors.Join(wrong, fmt.Errorf("%s is a %s, want %s", r.name, got, r.kind))
		}
		want := slices.Sorted(slices.Values(strings.Fields(r.labels)))
		for _, m := range f.GetMetric() {
			var labels []string
			for _, l := range m.GetLabel() {
				labels = append(labels, l.GetName())
			}
			if slices.Sort(labels); !slices.Equal(labels, want) {
				wrong = errors.Join(wrong, fmt.Errorf("%s has labels %q, want %q", r.name, labels, want))
				break
			}
		}
	}
	return missing, wrong
}

// Every metric of the rules is on the page of the program when there is something to
// tell, beside those of its hooks, its clients and its process. I1, I2, X11.
func TestMetricsOfTheRulesAreOnThePage(t *testing.T) {
	h := newFixture(t, "metrics")
	o := h.start()
	o.expect("task failed, will retry", "hook start.sh")
	h.setConfig(map[string]string{"global": "waits: short"}) // F8
	o.expect("task failed, will retry", "DiscoverModules")
	h.setConfig(map[string]string{"global": "waits: shorter"})
	o.ready()
	for i := range 30 { // more than 20 waiting runs of a hook are many
		h.createConfigMap(fmt.Sprint("seen-", i), "", map[string]string{"seen": "yes"})
	}
	missing := map[string]bool{}
	for _, r := range chapterI() {
		missing[r.name] = !r.rare
	}
	look := func() error {
		now, wrong := absent(o.page(), "addon_operator_")
		must(t, wrong)
		maps.DeleteFunc(missing, func(name string, due bool) bool { return !due || !slices.Contains(now, name) })
		if len(missing) > 0 {
			return fmt.Errorf("not on the page: %q", slices.Sorted(maps.Keys(missing)))
		}
		return nil
	}
	h.eventually("a crowd in the queue", func() error {
		_ = look() // the rest comes later
		for _, queue := range o.page()["addon_operator_tasks_queue_triggers"].GetMetric() {
			if queue.GetGauge().GetValue() > 20 {
				return nil
			}
		}
		return errNotYet
	})
	h.write("out/go", "")
	h.deleteConfigMap("well")
	o.expect("release is not as the module left it")
	h.setConfig(map[string]string{"badEnabled": "true"})
	o.expect("task failed, will retry", "module=bad", "RunModule")
	h.setConfig(map[string]string{"badEnabled": "no idea"})
	o.expect("ConfigMap", "refused")
	h.setConfig(map[string]string{"badEnabled": "false"})
	o.expect("task failed, will retry", "module=bad", "DeleteModule")
	h.eventually("all metrics of the rules", look)

	page := o.page()
	for _, name := range []string{"backups", "go_goroutines", "process_cpu_seconds_total", "addon_operator_actor_mailbox_length", "addon_operator_kubernetes_client_rate_limiter_latency_seconds"} {
		if page[name] == nil {
			t.Errorf("%s is not on the page", name)
		}
	}
	for name, want := range map[string]string{
		"addon_operator_mm_module_info":    `critical="true" enabled="true" module="bad"`, // until its delete succeeds
		"addon_operator_mm_module_enabled": `module="well" version="1.2.3"`,
	} {
		if !hasLabels(page[name], want) {
			t.Errorf("no series {%s} among %v", want, page[name])
		}
	}
}

// hasLabels reports whether a family has a series with these pairs, in alphabetical order.
func hasLabels(f *dto.MetricFamily, pairs string) bool {
	return slices.ContainsFunc(f.GetMetric(), func(m *dto.Metric) bool {
		var all []string
		for _, l := range m.GetLabel() {
			all = append(all, fmt.Sprintf("%s=%q", l.GetName(), l.GetValue()))
		}
		return strings.Contains(strings.Join(all, " "), pairs)
	})
}

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
