package e2e

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/release"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/restmapper"
	"k8s.io/client-go/tools/clientcmd"

	"addon-operator/testkit/devclustertest"
)

// counted is a proxy in front of an API server, which counts requests. It is a process of its own to those
// whose processor time is measured.
type counted struct {
	kubeconfig string
	requests   atomic.Int64
}

func newCounted(b *testing.B, cluster *devclustertest.Cluster) *counted {
	b.Helper()
	c := &counted{}
	_, c.kubeconfig = inFront(b, cluster.RESTConfig(), func(w http.ResponseWriter, r *http.Request, next http.Handler) {
		c.requests.Add(1)
		next.ServeHTTP(w, r)
	})
	return c
}

// usage is what a process has used: processor time, and memory at its peak.
type usage struct {
	cpu  time.Duration
	peak int64 // bytes
}

// usageOf reads what a process that runs has used.
func usageOf(tb testing.TB, pid int) (u usage) {
	tb.Helper()
	const tick = 10 * time.Millisecond // USER_HZ is 100
	stat, err1 := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	status, err2 := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	must(tb, errors.Join(err1, err2))
	const user, system = 11, 12 // fields behind the name
	_, after, _ := strings.Cut(string(stat), ") ")
	fields := strings.Fields(after)
	for _, field := range []int{user, system} {
		n, err := strconv.ParseInt(fields[field], 10, 64)
		must(tb, err)
		u.cpu += time.Duration(n) * tick
	}
	for line := range strings.Lines(string(status)) {
		if text, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			kib, err := strconv.ParseInt(strings.Fields(text)[0], 10, 64)
			must(tb, err)
			u.peak = kib << 10
		}
	}
	return u
}

// chartsBench measures charts in one operator, and in a loop over the Helm library, one after the other.
type chartsBench struct {
	*chartsPlay
	*counted
	all  []*foreignChart
	turn int
}

// BenchmarkCharts enables, restarts, edits and disables the charts of others, those in CHARTS or ours, in the
// operator and in a plain loop over the Helm library that is a process of its own. Time, requests, processor time and
// the peak of the memory of each.
func BenchmarkCharts(b *testing.B) {
	cluster := devclustertest.StartOwn(b)
	var all []*foreignChart
	if dir := os.Getenv(chartsVariable); dir != "" {
		all = foreignCharts(b, dir)
	} else {
		all = ownCharts(b)
	}
	inOrder(all)
	s := &chartsBench{counted: newCounted(b, cluster)}
	s.chartsPlay = newChartsPlay(fixtureOn(b, cluster, "-- modules/values.yaml --\n"), cluster, withoutConflicts(all)[0])
	s.fixture.kubeconfig = s.counted.kubeconfig
	s.start()
	s.install() // what Helm refuses takes no part
	s.all = slices.Clone(s.charts)
	s.switchAll(false)
	for _, row := range []struct {
		name         string
		prepare, run func()
	}{
		{"enable/operator", func() { s.switchAll(false); s.stop() }, func() { s.switchAll(true) }},
		{"restart/operator", s.stop, func() { s.start(); s.ready("restart") }},
		{"edit/operator", func() {}, s.editAll},
		{"disable/operator", func() { s.switchAll(true) }, func() { s.switchAll(false) }},
	} {
		b.Run(row.name, func(b *testing.B) { s.measure(b, row.prepare, row.run) })
	}
	s.stop()
	b.Run("enable/plain", func(b *testing.B) { s.measurePlain(b, "uninstall", "install") })
	b.Run("again/plain", func(b *testing.B) { s.measurePlain(b, "", "upgrade") })
	b.Run("edit/plain", func(b *testing.B) { s.measurePlain(b, "edit", "upgrade") })
	b.Run("disable/plain", func(b *testing.B) { s.measurePlain(b, "install", "uninstall") })
}

func (s *chartsBench) stop() {
	if s.operator.running() {
		s.operator.terminate()
	}
}

// switchAll waits until all modules are on, or nothing is left of them.
func (s *chartsBench) switchAll(on bool) {
	s.fixture.t.Helper()
	s.charts = slices.Clone(s.all)
	if len(s.all) == 0 {
		return
	}
	s.flags(strconv.FormatBool(on))
	if !s.operator.running() {
		s.start()
	}
	if on {
		s.ready("enable")
		return
	}
	newest := s.newest()
	s.await("disable", func(c *foreignChart) error {
		if newest[c.name] != 0 {
			newest = s.newest()
			return errNotYet
		}
		return nil
	})
}

// editAll changes one value of each chart.
func (s *chartsBench) editAll() {
	s.fixture.t.Helper()
	s.turn++
	texts := map[string]string{}
	for _, c := range s.all {
		if c.edit != nil {
			texts[c.key] = strings.ReplaceAll(yamlOf(c.edit), "edited", "edited"+strconv.Itoa(s.turn))
		}
	}
	before := s.newest()
	s.setConfig(texts)
	newest := s.newest()
	s.await("edit", func(c *foreignChart) error {
		if c.edit != nil && newest[c.name] != before[c.name]+1 {
			newest = s.newest()
			return errNotYet
		}
		return nil
	})
}

// measure times run, which leaves the operator running, and says what the operator has used.
func (s *chartsBench) measure(b *testing.B, prepare, run func()) {
	b.Helper()
	var total usage
	requests := int64(0)
	for range b.N {
		b.StopTimer()
		prepare()
		before, used, same := s.requests.Load(), usage{}, s.operator
		if same.running() {
			used = usageOf(b, same.cmd.Process.Pid)
		}
		b.StartTimer()
		run()
		b.StopTimer()
		now := usageOf(b, s.operator.cmd.Process.Pid)
		if s.operator != same {
			used = usage{}
		}
		total.cpu += now.cpu - used.cpu
		total.peak = max(total.peak, now.peak)
		requests += s.requests.Load() - before
		for _, c := range s.all { // then the figures say nothing
			if len(c.problems) > 0 {
				b.Fatalf("%s: %s", c.name, strings.Join(c.problems, "; "))
			}
		}
		b.StartTimer()
	}
	report(b, total, requests)
}

func report(b *testing.B, total usage, requests int64) {
	b.Helper()
	b.ReportMetric(float64(requests)/float64(b.N), "requests/op")
	b.ReportMetric(float64(total.cpu.Milliseconds())/float64(b.N), "cpu-ms/op")
	b.ReportMetric(float64(total.peak)/(1<<20), "peak-MiB")
}

// plainVariable makes this test binary the plain loop: it has the name of a file with a plainJob.
const plainVariable = "ADDON_OPERATOR_E2E_PLAIN_HELM"

// plainJob is what the plain loop does.
type plainJob struct {
	Action     string
	Kubeconfig string
	Namespace  string
	Charts     []plainChart
}

type plainChart struct {
	Name, Dir string
	Values    map[string]any
}

// definitionsGone waits until no definition is being deleted: the plain loop would adopt one that then disappears.
func (s *chartsBench) definitionsGone() {
	s.fixture.t.Helper()
	s.eventually("definitions to be gone", func() error {
		list, err := s.records.Resource(schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}).List(s.ctx, metav1.ListOptions{})
		if err == nil && slices.ContainsFunc(list.Items, func(m metav1.PartialObjectMetadata) bool { return m.DeletionTimestamp != nil }) {
			err = errNotYet
		}
		return err
	})
}

// measurePlain is measure for the plain loop.
func (s *chartsBench) measurePlain(b *testing.B, prepare, act string) {
	b.Helper()
	var total usage
	requests := int64(0)
	for range b.N {
		b.StopTimer()
		switch prepare {
		case "":
		case "edit":
			s.turn++
		default:
			_ = s.plain(b, prepare, true)
		}
		s.definitionsGone()
		before := s.requests.Load()
		b.StartTimer()
		process := s.plain(b, act, false)
		b.StopTimer()
		requests += s.requests.Load() - before
		total.cpu += process.UserTime() + process.SystemTime()
		used, ok := process.SysUsage().(*syscall.Rusage)
		if !ok {
			b.Fatal("no usage of the process")
		}
		total.peak = max(total.peak, used.Maxrss<<10)
		b.StartTimer()
	}
	report(b, total, requests)
}

// plain runs the loop in a process of its own.
func (s *chartsBench) plain(b *testing.B, act string, mayFail bool) *os.ProcessState {
	b.Helper()
	job := plainJob{Action: act, Kubeconfig: s.counted.kubeconfig, Namespace: s.namespace}
	for _, c := range s.all {
		with := c.values
		if s.turn > 0 && c.edit != nil {
			must(b, json.Unmarshal([]byte(strings.ReplaceAll(asJSON(c.with(c.edit)), "edited", "edited"+strconv.Itoa(s.turn))), &with))
		}
		job.Charts = append(job.Charts, plainChart{c.name, c.dir, with})
	}
	if act == "uninstall" {
		slices.Reverse(job.Charts)
	}
	file := filepath.Join(b.TempDir(), "job.json")
	must(b, os.WriteFile(file, []byte(asJSON(job)), 0o600))
	self, err := os.Executable()
	must(b, err)
	cmd := exec.Command(self)
	cmd.Env = append(os.Environ(), plainVariable+"="+file)
	if out, err := cmd.CombinedOutput(); err != nil && !mayFail {
		b.Fatalf("%s: %v\n%s", act, err, out)
	}
	return cmd.ProcessState
}

// plainHelm is the plain loop over the Helm library: one discovery for all, no limit of requests.
func plainHelm(file string) error {
	data, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	var job plainJob
	if err := json.Unmarshal(data, &job); err != nil {
		return err
	}
	config, err := clientcmd.BuildConfigFromFlags("", job.Kubeconfig)
	if err != nil {
		return err
	}
	s, err := newStockShared(config)
	if err != nil {
		return err
	}
	cfg := &action.Configuration{}
	if err := cfg.Init(stockGetter{s, job.Namespace}, job.Namespace, "secret", func(string, ...any) {}); err != nil {
		return err
	}
	var errs []error
	for _, c := range job.Charts {
		rel, err := plainAction(cfg, job, c)
		for range 100 { // a person would wait until new kinds are served
			if err == nil || !strings.Contains(err.Error(), "ensure CRDs are installed first") {
				break
			}
			s.forget(cfg)
			rel, err = plainAction(cfg, job, c)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", c.Name, err))
			continue
		}
		if rel != nil && (len(rel.Chart.CRDObjects()) > 0 || strings.Contains(rel.Manifest, "kind: CustomResourceDefinition")) {
			s.forget(cfg) // charts that follow may have objects of the new kinds
		}
	}
	return errors.Join(errs...)
}

// forget makes Helm ask for the kinds again.
func (s *stockShared) forget(cfg *action.Configuration) {
	s.cached.Invalidate()
	s.mapper = restmapper.NewDeferredDiscoveryRESTMapper(s.cached)
	cfg.Capabilities = nil
}

func plainAction(cfg *action.Configuration, job plainJob, c plainChart) (*release.Release, error) {
	if job.Action == "uninstall" {
		_, err := action.NewUninstall(cfg).Run(c.Name)
		return nil, err
	}
	ch, err := loader.LoadDir(c.Dir)
	if err != nil {
		return nil, err
	}
	if job.Action == "upgrade" {
		upgrade := action.NewUpgrade(cfg)
		upgrade.Namespace, upgrade.MaxHistory, upgrade.DisableOpenAPIValidation = job.Namespace, 10, true
		return upgrade.Run(c.Name, ch, c.Values)
	}
	install := action.NewInstall(cfg)
	install.ReleaseName, install.Namespace, install.DisableOpenAPIValidation, install.TakeOwnership = c.Name, job.Namespace, true, true
	return install.Run(ch, c.Values)
}
