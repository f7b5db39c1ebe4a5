package testkit

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	dto "github.com/prometheus/client_model/go"

	"addon-operator/actors/metrics"
	"addon-operator/supervisor"
)

// hookRun is a run of a hook as the observer has recorded it.
type hookRun struct {
	ctx  context.Context
	hook string
	ok   bool // the hook itself did not fail
	task string
	at   time.Time // when it ended
	// wasCut is the result of cut when the play was looked at.
	wasCut bool
}

// cut reports whether the run, or the task that it was a part of, was ended from outside.
func (r hookRun) cut() bool { return errors.Is(context.Cause(r.ctx), supervisor.ErrCancelled) }

// counts are the metrics of hooks after a script, by their labels (labelsOf).
type counts struct {
	success, failed, allowed, timed map[string]float64
	oldFailed, oldAllowed           float64
}

// miscounted lists what does not add up in the metrics of hooks, whatever the script was: a run is
// exactly one of success, error and allowed error, it is timed, and the old names are sums. runs
// are the records of the observer, which do not depend on the counters of the operator.
func miscounted(m *metrics.Metrics, trace string, runs []hookRun) (list []string) {
	c, err := countsOf(m)
	if err != nil {
		return []string{"metrics: " + err.Error()}
	}
	total, ended := map[string]float64{}, c.ended()
	for _, labels := range keys(c.timed, ended) {
		if ended[labels] != c.timed[labels] {
			list = append(list, fmt.Sprintf("metrics of %s: %v success, %v failed, %v allowed, but %v timed", labels, c.success[labels], c.failed[labels], c.allowed[labels], c.timed[labels]))
		}
		total[hookIn(labels)] += c.timed[labels]
	}
	// The series of a module are deleted when it is disabled, those of the old names are not; and a
	// crash or a stop may cut a run after its hook has ended and before it is counted.
	if losesSeries(trace) {
		return list
	}
	for _, old := range []struct {
		name      string
		has, want float64
	}{{"hook_errors", c.oldFailed, sum(c.failed)}, {"hook_allowed_errors", c.oldAllowed, sum(c.allowed)}} {
		if old.has != old.want {
			list = append(list, fmt.Sprintf("metric %s is %v, the sum is %v", old.name, old.has, old.want))
		}
	}
	if n := sum(c.failed) + sum(c.allowed); n < failures(runs, trace) {
		list = append(list, fmt.Sprintf("metrics count %v failed and allowed runs of hooks, there were %v", n, failures(runs, trace)))
	}
	return append(list, uncounted(total, runs)...)
}

// losesSeries reports whether a module was disabled or removed, or the operator ended, by the
// trace: it has the reloads with their deletes, and the headings of steps.
func losesSeries(trace string) bool {
	for _, mark := range []string{"removed=[", "module is deleted", "starts again from", "> crash", "> kill", "> remove", "> rename", "> stop"} {
		if strings.Contains(trace, mark) {
			return true
		}
	}
	return strings.Count(trace, "delete=[") > strings.Count(trace, "delete=[]")
}

// failures are the runs of which the hook failed, or its result was refused, as far as that is
// known: at least so many must be counted.
func failures(runs []hookRun, trace string) (n float64) {
	for _, r := range runs {
		if !r.ok && !r.cut() {
			n++
		}
	}
	for line := range strings.Lines(trace) {
		if strings.Contains(line, "its result is refused") && (strings.Contains(line, "WARN ") || strings.Contains(line, "ERROR ")) {
			n++
		}
	}
	return n
}

// uncounted compares with the runs that there were. One that was cut, or a part of a task that was,
// may be counted or not.
func uncounted(total map[string]float64, runs []hookRun) (list []string) {
	all, whole := map[string]float64{}, map[string]float64{}
	for _, r := range runs {
		if all[r.hook]++; !r.cut() {
			whole[r.hook]++
		}
	}
	for _, hook := range keys(all, total) {
		if n := total[hook]; n > all[hook] || n < whole[hook] {
			list = append(list, fmt.Sprintf("metrics of hook %s count %v runs, there were %v, of which %v may have been cut", hook, n, all[hook], all[hook]-whole[hook]))
		}
	}
	return list
}

// ended adds up, by labels, the three ways in which runs end.
func (c counts) ended() map[string]float64 {
	all := map[string]float64{}
	for _, outcome := range []map[string]float64{c.success, c.failed, c.allowed} {
		for labels, n := range outcome {
			all[labels] += n
		}
	}
	return all
}

// countsOf reads the metrics as a scrape does, so that what is shown is checked and not what is
// counted.
func countsOf(m *metrics.Metrics) (c counts, _ error) {
	c = counts{success: map[string]float64{}, failed: map[string]float64{}, allowed: map[string]float64{}, timed: map[string]float64{}}
	families, err := m.Registry.Gather()
	for _, f := range families {
		name := strings.TrimPrefix(f.GetName(), metrics.DefaultPrefix)
		switch name {
		case "hook_errors":
			c.oldFailed = f.GetMetric()[0].GetCounter().GetValue()
		case "hook_allowed_errors":
			c.oldAllowed = f.GetMetric()[0].GetCounter().GetValue()
		}
		kind, what, _ := strings.Cut(name, "_hook_")
		into := map[string]map[string]float64{"success_total": c.success, "errors_total": c.failed, "allowed_errors_total": c.allowed, "run_seconds": c.timed}[what]
		if into == nil || kind != "module" && kind != "global" {
			continue
		}
		for _, series := range f.GetMetric() {
			// A series is either; the other one is 0.
			into[labelsOf(series)] = series.GetCounter().GetValue() + float64(series.GetSummary().GetSampleCount())
		}
	}
	return c, err
}

// labelsOf are the labels of a series, sorted: NAME=VALUE, separated by spaces.
func labelsOf(series *dto.Metric) string {
	var all []string
	for _, l := range series.GetLabel() {
		all = append(all, l.GetName()+"="+l.GetValue())
	}
	slices.Sort(all)
	return strings.Join(all, " ")
}

// hookIn is the hook among labels.
func hookIn(labels string) string {
	for label := range strings.SplitSeq(labels, " ") {
		if hook, found := strings.CutPrefix(label, "hook="); found {
			return hook
		}
	}
	return ""
}

func sum(series map[string]float64) (n float64) {
	for _, value := range series {
		n += value
	}
	return n
}

// showCounts writes how the runs of hooks were counted into the trace.
func showCounts(p *player, _ string) error {
	c, err := countsOf(p.metrics)
	for _, labels := range keys(c.timed, c.ended()) {
		p.Trace.Add("%s: %v success, %v failed, %v allowed, %v timed", labels, c.success[labels], c.failed[labels], c.allowed[labels], c.timed[labels])
	}
	p.Trace.Add("old names: %v failed, %v allowed", c.oldFailed, c.oldAllowed)
	return err
}
