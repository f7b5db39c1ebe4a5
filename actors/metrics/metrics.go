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

// DefaultPrefix is put before the names of all metrics of the operator (chapter i).
const DefaultPrefix = "addon_operator_"

// Metrics are the figures of the operator, by what they count. Labels that do not apply are empty.
type Metrics struct {
	Registry *prometheus.Registry
	// HookRegistry has what hooks report: some scrapers read only that.
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

// New registers the metrics in registries of their own. Their names begin with prefix.
func New(prefix string) *Metrics {
	d := &declared{Registry: prometheus.NewRegistry(), prefix: prefix}
	m := &Metrics{
		Registry: d.Registry, HookRegistry: prometheus.NewRegistry(),
		Hooks: newHooks(d), Reports: newReports(d), Bindings: newBindings(d), Modules: newModules(d), Helm: newHelm(d),
		Converge: newConverge(d), Queues: newQueues(d), Client: newClient(d),
		declared: d, live: &live{declared: d},
		build: d.gauge("build_info", "1 for the version of the operator that runs, and of the Go compiler that built it.", "version", "goversion"),
	}
	m.HookRegistry.MustRegister(m.Reports)
	began, ticks := time.Now(), d.describe("counter", "live_ticks", "Grows by one each 10 seconds while the process lives.")
	d.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{Name: ticks.Name, Help: ticks.Help}, func() float64 { return math.Floor(time.Since(began).Seconds() / 10) }))
	return m
}

// ShowVersion names the version of the operator.
func (m *Metrics) ShowVersion(version string) {
	m.build.WithLabelValues(version, runtime.Version()).Set(1)
}

// ShowOldNames puts the names on the page that the first generations of dashboards know: sums over all hooks and modules (X11).
func (m *Metrics) ShowOldNames() {
	for _, show := range m.declared.aliases {
		show()
	}
}

// ForgetModule removes the series of a module that is switched off (I9), those of its hooks included: a queue that it
// shares with others lives on, and its series name a hook without the module.
func (m *Metrics) ForgetModule(module string, own []hooks.Hook) {
	m.Reports.forget(module)
	for _, v := range m.declared.byModule {
		v.DeletePartialMatch(prometheus.Labels{"module": module})
	}
	for _, hook := range own {
		m.Queues.forgetHook(hook.Name)
	}
}

// Families lists the metrics of the operator by name, also those without a series.
func (m *Metrics) Families() []Family {
	return slices.SortedFunc(slices.Values(m.declared.families), func(a, b Family) int { return strings.Compare(a.Name, b.Name) })
}

func activation(c messages.Cause) string { return c.First().Activation }

func seconds(began time.Time) float64 { return time.Since(began).Seconds() }
