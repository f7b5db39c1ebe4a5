package scenario

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/pmezard/go-difflib/difflib"
	dto "github.com/prometheus/client_model/go"

	"addon-operator/actors"
	"addon-operator/actors/scenario/match"
	"addon-operator/helm"
	"addon-operator/values"
)

// checkRendered compares all objects of the release of the module with a golden file. It takes them
// from the cluster, so they are as the API server has stored them, with changes by hooks.
func (p *play) checkRendered(name string) []string {
	if name == "" {
		return nil
	}
	got, err := rendered(p.Cluster.Server.Objects(), nameOf(p.scenario.unit.module))
	if err != nil {
		return []string{err.Error()}
	}
	path := filepath.Join(filepath.Dir(p.scenario.path), name)
	if p.options.Update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			return []string{err.Error()}
		}
		return nil
	}
	want, err := os.ReadFile(path)
	switch {
	case err != nil:
		return []string{fmt.Sprintf("%v; run the test with --update to write it", err)}
	case string(want) == got:
		return nil
	}
	return []string{"the objects differ; --update rewrites the file\n" + diff(string(want), got, name, "rendered now")}
}

// volatile are the keys in the metadata of objects that a server sets, and that differ from play to
// play.
func volatile() []string {
	return []string{"uid", "resourceVersion", "creationTimestamp", "generation"}
}

// diff shows the lines in which two texts differ, with what stands around them.
func diff(want, got, nameOfWant, nameOfGot string) string {
	text, err := difflib.GetUnifiedDiffString(difflib.UnifiedDiff{
		A: difflib.SplitLines(want), B: difflib.SplitLines(got), FromFile: nameOfWant, ToFile: nameOfGot, Context: 3,
	})
	if err != nil {
		return err.Error()
	}
	return text
}

// rendered are the objects of the release as documents of YAML, sorted by their text, without what
// differs from play to play and without what is the same in all of them. It changes the objects,
// which are copies.
func rendered(objects []map[string]any, release string) (string, error) {
	var documents []string
	for _, object := range objects {
		meta, _ := object["metadata"].(map[string]any)
		notes, _ := meta["annotations"].(map[string]any)
		if releaseOf(object) != release {
			continue
		}
		for _, key := range volatile() {
			delete(meta, key)
		}
		if labels, ok := meta["labels"].(map[string]any); ok {
			delete(labels, helm.MarkLabel) // the same on all objects
		}
		delete(notes, "meta.helm.sh/release-name")
		delete(notes, "meta.helm.sh/release-namespace")
		if len(notes) == 0 {
			delete(meta, "annotations")
		}
		text, err := values.YAML(object)
		if err != nil {
			return "", fmt.Errorf("%s: %w", match.Identity(object), err)
		}
		documents = append(documents, string(text))
	}
	slices.Sort(documents)
	return strings.Join(documents, "---\n"), nil
}

// checkMetrics looks for what hooks have reported, as a scrape would show it now. The operator's
// own metrics are not among them.
func checkMetrics(operator *actors.Operator, want []metric) (problems []string) {
	if len(want) == 0 {
		return nil
	}
	if operator == nil {
		return []string{errNotRunning.Error()}
	}
	families, err := operator.Metrics().HookRegistry.Gather()
	if err != nil {
		return []string{err.Error()}
	}
	var all []string
	for _, f := range families {
		for _, m := range f.GetMetric() {
			all = append(all, f.GetName()+labelText(m)+" "+fmt.Sprint(amount(m)))
		}
	}
	for _, w := range want {
		if !slices.ContainsFunc(families, func(f *dto.MetricFamily) bool {
			return f.GetName() == w.Name && slices.ContainsFunc(f.GetMetric(), w.is)
		}) {
			problems = append(problems, fmt.Sprintf("there is no metric %s like it; %s", w.Name, thereAre(all)))
		}
	}
	return problems
}

func thereAre(list []string) string {
	if len(list) == 0 {
		return "there are none"
	}
	return "there are:\n    " + strings.Join(list, "\n    ")
}

// labelText shows labels as they are written in metrics: {hook="a.sh",module="a"}.
func labelText(m *dto.Metric) string {
	var labels []string
	for _, l := range m.GetLabel() {
		labels = append(labels, fmt.Sprintf("%s=%q", l.GetName(), l.GetValue()))
	}
	return "{" + strings.Join(labels, ",") + "}"
}

// is reports whether a series has the labels and the value that are wanted.
func (w metric) is(m *dto.Metric) bool {
	for name, value := range w.Labels {
		if !slices.ContainsFunc(m.GetLabel(), func(l *dto.LabelPair) bool { return l.GetName() == name && l.GetValue() == value }) {
			return false
		}
	}
	return w.Value == nil || *w.Value == amount(m)
}

// amount is the value of a gauge or counter, and how many a histogram has counted.
func amount(m *dto.Metric) float64 {
	switch {
	case m.Gauge != nil:
		return m.Gauge.GetValue()
	case m.Counter != nil:
		return m.Counter.GetValue()
	case m.Histogram != nil:
		return float64(m.Histogram.GetSampleCount())
	}
	return m.GetUntyped().GetValue()
}
