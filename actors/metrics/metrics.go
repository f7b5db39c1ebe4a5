package metrics

import (
	"math"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"addon-operator/hooks"
	"addon-operator/messages"
)

// DefaultPrefix is the prefix of the names of all metrics of the operator, unless an option names
// another one. Metrics of hooks keep the names that the hooks give them (I6).
const DefaultPrefix = "addon_operator_"

// Metrics are the figures of the operator, by what they count. Labels that do not apply are empty.
// The fields may be used from any goroutine; New sets them, and nothing replaces them afterwards.
type Metrics struct {
	// Registry has the metrics of the operator alone. A page that shows both registries gathers
	// both.
	Registry *prometheus.Registry
	// HookRegistry has what hooks report (/metrics/hooks). It is a registry of its own because its
	// series come and go with the hooks, and some scrapers read only those.
	HookRegistry *prometheus.Registry

	Hooks    Hooks
	Reports  *Reports
	Bindings Bindings
	Modules  Modules
	Helm     Helm
	Converge Converge
	Queues   Queues
	Client   Client

	declared *declared
	build    *prometheus.GaugeVec
	live     *live
}

// New registers the metrics in registries of their own, so that a process may have several
// operators, as tests do. Their names begin with prefix. The states that a scrape reads are missing
// until [Metrics.Watch] names their sources.
func New(prefix string) *Metrics {
	d := &declared{Registry: prometheus.NewRegistry(), prefix: prefix}
	m := &Metrics{
		Registry: d.Registry, HookRegistry: prometheus.NewRegistry(),
		Hooks: newHooks(d), Reports: newReports(d), Bindings: newBindings(d), Modules: newModules(d), Helm: newHelm(d),
		Converge: newConverge(d), Queues: newQueues(d), Client: newClient(d),
		declared: d, live: &live{declared: d},
		build: d.gauge("build_info", "1 for the version of the running operator, and of the Go compiler that built it.", "version", "goversion"),
	}
	m.HookRegistry.MustRegister(m.Reports)
	// live_ticks shows that the process lives. It is computed at a scrape, so it needs no timer.
	began, ticks := time.Now(), d.describe("counter", "live_ticks", "Increases by one every 10 seconds while the process runs.")
	d.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{Name: ticks.Name, Help: ticks.Help}, func() float64 { return math.Floor(time.Since(began).Seconds() / 10) }))
	return m
}

// ShowVersion names the version of the operator. Only the command knows it, so it comes after New.
func (m *Metrics) ShowVersion(version string) {
	m.build.WithLabelValues(version, runtime.Version()).Set(1)
}

// ForgetModule removes the series of a module that is switched off (I9), those of its hooks
// included: a queue that it shares with others lives on, and its series name a hook without the
// module.
func (m *Metrics) ForgetModule(module string, own []hooks.Hook) {
	m.Reports.forget(func(who reporter) bool { return who.module == module })
	for _, v := range m.declared.byModule {
		v.DeletePartialMatch(prometheus.Labels{"module": module})
	}
	for _, hook := range own {
		m.ForgetHook(module, hook.Name)
	}
}

// ForgetHook removes the series of a hook whose file is gone (P8); module is empty for a global
// one. The name of a hook begins with the directory of its module, so it identifies the hook also
// where no label names the module.
func (m *Metrics) ForgetHook(module, hook string) {
	m.Reports.forget(func(who reporter) bool { return who == reporter{module, hook} })
	for _, v := range m.declared.byHook {
		v.DeletePartialMatch(prometheus.Labels{"hook": hook})
	}
}

// Families lists the metrics of the operator by name, also those without a series. Those of
// [Metrics.Watch] are among them only after it was called.
func (m *Metrics) Families() []Family {
	return slices.SortedFunc(slices.Values(m.declared.families), func(a, b Family) int { return strings.Compare(a.Name, b.Name) })
}

// activation is the label of that name: what began the chain of causes (I3). A chain may be long
// and quote objects; its first word is one of few, so the number of series stays bounded.
func activation(c messages.Cause) string { return c.First().Activation }

func seconds(began time.Time) float64 { return time.Since(began).Seconds() }
