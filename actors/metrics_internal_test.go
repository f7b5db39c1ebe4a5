package actors

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"addon-operator/hooks"
	"addon-operator/messages"
	"addon-operator/messages/view"
)

// I9: main lives on when a module is disabled, but its series of hooks of the module vanish.
func TestSeriesOfSharedQueuesForgetAModule(t *testing.T) {
	m := NewMetrics("x_")
	for module, hook := range map[string]string{"gone": "010-gone/hooks/a", "stays": "020-stays/hooks/b"} {
		m.TaskStarted(messages.Task{Owner: module, Queue: messages.MainQueue, Work: messages.RunHook{Hook: hook, Triggers: make([]messages.Trigger, 2)}})
		m.Overflows.WithLabelValues(messages.MainQueue, hook).Inc()
	}
	m.ForgetModule("gone", []hooks.Hook{{File: hooks.File{Name: "010-gone/hooks/a"}}})
	families, err := m.Registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	stay := 0
	for _, f := range families {
		for _, series := range f.GetMetric() {
			if text := series.String(); strings.Contains(text, "gone") {
				t.Errorf("%s still has %s", f.GetName(), text)
			} else if strings.Contains(text, "stays") {
				stay++
			}
		}
	}
	if stay != 3 { // waiting, compactions, overflows
		t.Errorf("%d series of the other module, want 3", stay)
	}
}

// P8: when the file of a hook is gone, its series vanish, and those of the other hooks of its module stay.
func TestSeriesOfAHookThatIsGoneVanish(t *testing.T) {
	m := NewMetrics("x_")
	for _, hook := range []string{"010-m/hooks/gone", "010-m/hooks/stays"} {
		m.HookEnded("m", hook, "b", messages.Task{Owner: "m", Queue: messages.MainQueue}, hooks.Usage{}, nil)
		m.Reports.Add("m", hook, []hooks.Metric{{Name: "g", Action: hooks.ActionSet}})
	}
	m.ForgetHook("m", "010-m/hooks/gone")
	stay := 0
	for _, registry := range []*prometheus.Registry{m.Registry, m.HookRegistry} {
		families, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range families {
			for _, series := range f.GetMetric() {
				if text := series.String(); strings.Contains(text, "gone") {
					t.Errorf("%s still has %s", f.GetName(), text)
				} else if strings.Contains(text, "stays") {
					stay++
				}
			}
		}
	}
	if stay != 5 { // success, three durations, its own
		t.Errorf("%d series of the other hook, want 5", stay)
	}
}

// page gathers as a page does; each series is a line "name{labels} value".
func page(t *testing.T, h *hookReports) []string {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(h)
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for _, family := range families {
		for _, m := range family.GetMetric() {
			var labels []string
			for _, pair := range m.GetLabel() {
				labels = append(labels, pair.GetName()+"="+pair.GetValue())
			}
			lines = append(lines, fmt.Sprintf("%s{%s} %s", family.GetName(), strings.Join(labels, ","), value(m)))
		}
	}
	slices.Sort(lines)
	return lines
}

func value(m *dto.Metric) string {
	switch {
	case m.Counter != nil:
		return fmt.Sprintf("counter %v", m.GetCounter().GetValue())
	case m.Gauge != nil:
		return fmt.Sprintf("gauge %v", m.GetGauge().GetValue())
	}
	buckets := map[float64]uint64{}
	for _, b := range m.GetHistogram().GetBucket() {
		buckets[b.GetUpperBound()] = b.GetCumulativeCount()
	}
	var text []string
	for _, bound := range slices.Sorted(maps.Keys(buckets)) {
		text = append(text, fmt.Sprintf("%v:%d", bound, buckets[bound]))
	}
	return fmt.Sprintf("histogram %d %v %s", m.GetHistogram().GetSampleCount(), m.GetHistogram().GetSampleSum(), strings.Join(text, " "))
}

// report is one run of a hook; text is what it wrote.
type report struct{ owner, hook, text string }

func TestHookMetrics(t *testing.T) { // I6, I7, I8, X29
	const global = messages.GlobalHooks
	tests := map[string]struct {
		reports []report
		want    string
	}{
		"all actions, with the labels of a module's hook": {
			[]report{{"m", "h", `{"name":"g","set":5,"labels":{"a":"b"}} {"name":"c","add":2} {"name":"c","add":3}
				{"name":"o","action":"observe","value":3,"buckets":[1,5]} {"name":"o","action":"observe","value":7,"buckets":[1,5]}`}},
			"c{hook=h,module=m} counter 5\ng{a=b,hook=h,module=m} gauge 5\no{hook=h,module=m} histogram 2 10 1:0 5:1",
		},
		"a global hook has no module": {[]report{{global, "h", `{"name":"g","set":1}`}}, "g{hook=h} gauge 1"},
		"a gauge is replaced, a counter grows over runs": {
			[]report{{"m", "h", `{"name":"g","set":5} {"name":"c","add":1}`}, {"m", "h", `{"name":"g","set":6} {"name":"c","add":1}`}},
			"c{hook=h,module=m} counter 2\ng{hook=h,module=m} gauge 6",
		},
		"labels may differ": {
			[]report{{"m", "h", `{"name":"g","set":1,"labels":{"a":"1"}} {"name":"g","set":2,"labels":{"b":"2"}}`}, {global, "h", `{"name":"g","set":3}`}},
			"g{a=1,hook=h,module=m} gauge 1\ng{b=2,hook=h,module=m} gauge 2\ng{hook=h} gauge 3",
		},
		"an empty label is none":         {[]report{{"m", "h", `{"name":"g","set":1} {"name":"g","set":2,"labels":{"a":""}}`}}, "g{hook=h,module=m} gauge 2"},
		"the labels of the operator win": {[]report{{"m", "h", `{"name":"g","set":1,"labels":{"hook":"x","module":"y"}}`}}, "g{hook=h,module=m} gauge 1"},
		"series without a group stay when they are not mentioned": {
			[]report{{"m", "h", `{"name":"g","set":1,"labels":{"a":"1"}}`}, {"m", "h", `{"name":"g","set":2,"labels":{"a":"2"}}`}},
			"g{a=1,hook=h,module=m} gauge 1\ng{a=2,hook=h,module=m} gauge 2",
		},
		"series of a group vanish when they are not mentioned": {
			[]report{{"m", "h", `{"group":"x","name":"g","set":1,"labels":{"a":"1"}} {"group":"y","name":"k","set":1}`}, {"m", "h", `{"group":"x","name":"g","set":2,"labels":{"a":"2"}}`}},
			"g{a=2,hook=h,module=m} gauge 2\nk{hook=h,module=m} gauge 1",
		},
		"a run that does not mention the group leaves it": {
			[]report{{"m", "h", `{"group":"x","name":"g","set":1}`}, {"m", "h", ``}}, "g{hook=h,module=m} gauge 1",
		},
		"expire ends a group, of this hook only": {
			[]report{{"m", "h", `{"group":"x","name":"g","set":1}`}, {"m", "other", `{"group":"x","name":"g","set":2}`}, {"n", "h", `{"group":"x","name":"g","set":3}`}, {"m", "h", `{"group":"x","action":"expire"}`}},
			"g{hook=h,module=n} gauge 3\ng{hook=other,module=m} gauge 2",
		},
		"expire and set in one run": {
			[]report{{"m", "h", `{"group":"x","name":"g","set":1,"labels":{"a":"1"}}`}, {"m", "h", `{"group":"x","name":"g","set":2,"labels":{"a":"2"}} {"group":"x","action":"expire"}`}},
			"g{a=2,hook=h,module=m} gauge 2",
		},
		"a name that has vanished may become another type": {
			[]report{{"m", "h", `{"group":"x","name":"g","set":1}`}, {"m", "h", `{"group":"x","action":"expire"}`}, {"m", "h", `{"name":"g","add":1}`}}, "g{hook=h,module=m} counter 1",
		},
		"other buckets begin again": {
			[]report{{"m", "h", `{"name":"o","action":"observe","value":3,"buckets":[1,5]}`}, {"m", "h", `{"name":"o","action":"observe","value":1,"buckets":[2]}`}},
			"o{hook=h,module=m} histogram 1 1 2:1",
		},
	}
	for situation, test := range tests {
		t.Run(situation, func(t *testing.T) {
			h := NewMetrics(view.MetricsPrefix).Reports
			for _, r := range test.reports {
				parsed, _, err := hooks.ParseMetrics([]byte(r.text))
				if err == nil {
					err = h.Check(parsed)
				}
				if err != nil {
					t.Fatal(err)
				}
				h.Add(r.owner, r.hook, parsed)
			}
			if got := strings.Join(page(t, h), "\n"); got != test.want {
				t.Errorf("got\n%s\nwant\n%s", got, test.want)
			}
		})
	}
}

func TestHookMetricsAreRefused(t *testing.T) { // I6, X27
	h := NewMetrics(view.MetricsPrefix).Reports
	h.Add("m", "h", []hooks.Metric{{Name: "known", Action: hooks.ActionSet, Value: 1}})
	tests := map[string]struct{ text, want string }{
		"another type than before":     {`{"name":"known","add":1}`, `metric known: action "add" conflicts with "set"`},
		"two types in one run":         {`{"name":"new","set":1} {"name":"new","add":1}`, `metric new: action "add" conflicts with "set"`},
		"a name of the operator's":     {`{"name":"addon_operator_live_ticks","add":1}`, "belong to the operator"},
		"a name of the Go runtime's":   {`{"name":"go_goroutines","set":1}`, "metric go_goroutines: names that begin with go_ belong to the operator"},
		"a series of a histogram":      {`{"name":"h","action":"observe","value":1,"buckets":[1]} {"name":"h_count","add":1}`, "metric h_count: the histogram h has a series of this name"},
		"a histogram over a series":    {`{"name":"h_sum","add":1} {"name":"h","action":"observe","value":1,"buckets":[1]}`, "metric h: a histogram has a series h_sum"},
		"expire is refused for no-one": {`{"group":"none","action":"expire"}`, ""},
	}
	for situation, test := range tests {
		t.Run(situation, func(t *testing.T) {
			parsed, _, err := hooks.ParseMetrics([]byte(test.text))
			if err == nil {
				err = h.Check(parsed)
			}
			if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
				t.Errorf("error %v, want %q", err, test.want)
			}
		})
	}
	if got := page(t, h); len(got) != 1 {
		t.Errorf("a check has an effect: %q", got)
	}
}

func TestHookMetricsOfADisabledModuleVanish(t *testing.T) { // I9
	h := NewMetrics(view.MetricsPrefix).Reports
	h.Add("m", "h", []hooks.Metric{{Name: "g", Action: hooks.ActionSet}})
	h.Add("n", "h", []hooks.Metric{{Name: "g", Action: hooks.ActionSet}})
	h.Add(messages.GlobalHooks, "h", []hooks.Metric{{Name: "g", Action: hooks.ActionSet}})
	h.forget(func(who reporter) bool { return who.module == "m" })
	if got := strings.Join(page(t, h), " "); strings.Contains(got, "module=m") || len(page(t, h)) != 2 {
		t.Errorf("got %s", got)
	}
}

// A scrape sees all of a group or nothing of it. I7
func TestHookMetricsAreScrapedAsAWhole(t *testing.T) {
	h := NewMetrics(view.MetricsPrefix).Reports
	var writer sync.WaitGroup
	stop := make(chan struct{})
	run := func(i int) {
		var all []hooks.Metric
		for k := range 5 {
			all = append(all, hooks.Metric{Name: "g", Group: "x", Action: hooks.ActionSet, Value: float64(i), Labels: map[string]string{"run": fmt.Sprint(i), "k": fmt.Sprint(k)}})
		}
		h.Add("m", "h", all)
	}
	run(0)
	writer.Go(func() {
		for i := 1; ; i++ {
			select {
			case <-stop:
				return
			default:
				run(i)
			}
		}
	})
	for range 200 {
		lines := page(t, h)
		values := map[string]bool{}
		for _, line := range lines {
			values[line[strings.LastIndexByte(line, ' ')+1:]] = true
		}
		if len(lines) != 5 || len(values) != 1 {
			t.Fatalf("a scrape saw %q", lines)
		}
	}
	close(stop)
	writer.Wait()
}

// Memory that is not known is left out: zero would be a lie. C30
func TestUnknownMemoryIsNoMetric(t *testing.T) {
	m := NewMetrics(view.MetricsPrefix)
	task := messages.Task{Queue: "main", Cause: messages.Cause{Activation: messages.ByHook}}
	has := func(name string) bool {
		families, err := m.Registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		return slices.ContainsFunc(families, func(f *dto.MetricFamily) bool { return f.GetName() == view.MetricsPrefix+name })
	}
	m.HookEnded("m", "h", "b", task, hooks.Usage{}, nil)
	if has("module_hook_run_max_rss_bytes") || !has("module_hook_success_total") {
		t.Error("the memory of a run that is not known is shown, or the run is not counted")
	}
	m.HookEnded("m", "h", "b", task, hooks.Usage{MaxRSS: 1}, nil)
	if !has("module_hook_run_max_rss_bytes") {
		t.Error("the memory of a run is not shown")
	}
	m.HookEnded("m", "h", "b", task, hooks.Usage{}, nil)
	if has("module_hook_run_max_rss_bytes") {
		t.Error("the memory of an earlier run is shown as that of the last one")
	}
}

// I6: a hook may have so many series and no more; those that it has go on, other hooks are not concerned, and who
// removes some may have others.
func TestSeriesOfAHookAreLimited(t *testing.T) {
	m := NewMetrics(view.MetricsPrefix)
	m.Reports.Limit = 5
	run := func(hook, text string) (dropped int) {
		t.Helper()
		parsed, _, err := hooks.ParseMetrics([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		return m.Reports.Add("m", hook, parsed)
	}
	var many strings.Builder
	for i := range 8 {
		fmt.Fprintf(&many, `{"name":"g","set":1,"group":"x","labels":{"n":"%d"}} `, i)
	}
	if dropped := run("h", many.String()); dropped != 3 {
		t.Errorf("%d are dropped, want 3", dropped)
	}
	if dropped := run("other", many.String()); dropped != 3 {
		t.Errorf("another hook: %d are dropped, want 3", dropped)
	}
	if n := len(page(t, m.Reports)); n != 10 {
		t.Errorf("%d series, want 10", n)
	}
	run("h", `{"group":"x","action":"expire"} {"name":"o","action":"observe","value":1,"buckets":[1,2]} {"name":"c","add":2}`)
	got := strings.Join(page(t, m.Reports), "\n")
	if !strings.Contains(got, "o{hook=h,module=m} histogram") || strings.Contains(got, "c{") {
		t.Errorf("a histogram of two buckets takes all five places:\n%s", got)
	}
	run("h", `{"name":"o","action":"observe","value":1,"buckets":[1]} {"name":"c","add":2} {"name":"c","add":3}`)
	if got := strings.Join(page(t, m.Reports), "\n"); !strings.Contains(got, "c{hook=h,module=m} counter 5") {
		t.Errorf("a smaller histogram leaves a place:\n%s", got)
	}
	families, err := m.Registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == view.MetricsPrefix+"hook_metrics_dropped_total" {
			if n := f.GetMetric()[0].GetCounter().GetValue(); n != 4 { // 3 and 1
				t.Errorf("%v values of h are counted as dropped, want 4", n)
			}
			m.ForgetModule("m", nil)
			if len(m.Reports.now) != 0 {
				t.Errorf("reports of a module that is gone: %v", m.Reports.now)
			}
			return
		}
	}
	t.Error("what is dropped is not counted")
}
