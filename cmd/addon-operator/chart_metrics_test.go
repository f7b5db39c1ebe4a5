package main

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
	"sigs.k8s.io/yaml"

	"addon-operator/actors/metrics"
)

// families are the metrics of a new operator by name.
func families(t *testing.T) map[string]metrics.Family {
	t.Helper()
	m := metrics.New(metrics.DefaultPrefix)
	m.ShowOldNames()
	m.Watch(metrics.Sources{})
	all := map[string]metrics.Family{}
	for _, f := range m.Families() {
		all[f.Name] = f
	}
	if len(all) == 0 {
		t.Fatal("no metrics")
	}
	return all
}

// labelName finds the labels that texts of alerts and legends of panels use.
var labelName = regexp.MustCompile(`\$labels\.([a-z_]+)|\{\{([a-z_]+)\}\}`)

// expressions checks expressions of alerts and panels against the metrics.
type expressions struct {
	families map[string]metrics.Family
	problems []string
}

// onTargets are the labels that Prometheus adds when it scrapes a Pod.
func onTargets() []string {
	return []string{"pod", "instance", "namespace", "job", "container", "cluster"}
}

// check parses an expression and reports metrics that do not exist, and labels that
// neither they nor what is made of them has; texts are shown with the result.
func (e *expressions) check(where, expression, texts string) {
	before := len(e.problems)
	tree, err := parser.NewParser(parser.Options{}).ParseExpr(expression)
	if err != nil {
		e.problems = append(e.problems, fmt.Sprintf("%s: %s: %v", where, expression, err))
		return
	}
	has := e.labels(tree)
	for _, m := range labelName.FindAllStringSubmatch(texts, -1) {
		e.want(has, m[1]+m[2])
	}
	for i, problem := range e.problems[before:] {
		e.problems[before+i] = fmt.Sprintf("%s: %s: %s", where, expression, problem)
	}
}

func (e *expressions) problem(format string, args ...any) {
	e.problems = append(e.problems, fmt.Sprintf(format, args...))
}

func (e *expressions) want(has map[string]bool, names ...string) {
	for _, name := range names {
		if !has[name] {
			e.problem("nothing here has the label %s, only %q", name, slices.Sorted(maps.Keys(has)))
		}
	}
}

// labels are those that the value of an expression has.
func (e *expressions) labels(n parser.Node) map[string]bool {
	switch n := n.(type) {
	case *parser.VectorSelector:
		return e.selector(n)
	case *parser.AggregateExpr:
		below := e.labels(n.Expr)
		e.want(below, n.Grouping...)
		if !n.Without {
			clear(below)
		}
		for _, name := range n.Grouping {
			below[name] = !n.Without
		}
		return below
	case *parser.BinaryExpr:
		left, right := e.labels(n.LHS), e.labels(n.RHS)
		if m := n.VectorMatching; m != nil && m.On {
			e.want(left, m.MatchingLabels...)
			e.want(right, m.MatchingLabels...)
			e.want(right, m.Include...) // of group_left
			for _, name := range m.Include {
				left[name] = true
			}
		}
		if n.Op == parser.LOR {
			maps.Copy(left, right)
		}
		return left
	case *parser.Call:
		all := map[string]bool{}
		for _, arg := range n.Args {
			maps.Copy(all, e.labels(arg))
			e.counting(n.Func.Name, arg)
		}
		if n.Func.Name == "histogram_quantile" {
			e.want(all, "le")
			delete(all, "le")
		}
		return all
	}
	all := map[string]bool{}
	for child := range parser.ChildrenIter(n) {
		maps.Copy(all, e.labels(child))
	}
	return all
}

// variables reports selectors of a panel that do not follow the variables of the dashboard. A label of the metric itself is not
// the one of the operator.
func (e *expressions) variables(where, expression string) {
	tree, err := parser.NewParser(parser.Options{}).ParseExpr(expression)
	if err != nil {
		return // check has said so
	}
	parser.Inspect(tree, func(n parser.Node, _ []parser.Node) error {
		selector, ok := n.(*parser.VectorSelector)
		if !ok {
			return nil
		}
		of, _ := e.family(selector.Name)
		for _, variable := range []string{"cluster", "namespace", "module"} {
			if slices.Contains(of.Labels, variable) != (variable == "module") {
				continue
			}
			follows := slices.ContainsFunc(selector.LabelMatchers, func(m *labels.Matcher) bool { return m.String() == variable+`=~"$`+variable+`"` })
			if !follows {
				e.problem(`%s: %s: %s does not follow the variable %s`, where, expression, selector.Name, variable)
			}
		}
		return nil
	})
}

// family is the metric that has a series of a name.
func (e *expressions) family(name string) (metrics.Family, bool) {
	if f, ok := e.families[name]; ok {
		return f, true
	}
	for _, suffix := range []string{"_bucket", "_sum", "_count"} {
		f := e.families[strings.TrimSuffix(name, suffix)]
		if strings.HasSuffix(name, suffix) && (f.Type == "histogram" || f.Type == "summary" && suffix != "_bucket") {
			return f, true
		}
	}
	return metrics.Family{}, false
}

// selector looks for a metric and checks what is selected of it.
func (e *expressions) selector(n *parser.VectorSelector) map[string]bool {
	f, ok := e.family(n.Name)
	has := map[string]bool{"le": strings.HasSuffix(n.Name, "_bucket")}
	if !ok {
		e.problem("there is no metric %s", n.Name)
	}
	for _, label := range slices.Concat(f.Labels, onTargets()) {
		has[label] = true
	}
	for _, m := range n.LabelMatchers {
		if m.Name != model.MetricNameLabel {
			e.want(has, m.Name)
		}
	}
	return has
}

// counting reports a rate of a gauge, which means nothing.
func (e *expressions) counting(function string, arg parser.Expr) {
	matrix, ok := arg.(*parser.MatrixSelector)
	if !ok || function != "rate" && function != "increase" {
		return
	}
	if s, ok := matrix.VectorSelector.(*parser.VectorSelector); ok && e.families[s.Name].Type == "gauge" {
		e.problem("%s is a gauge, which has no %s", s.Name, function)
	}
}

// Alerts and dashboard speak of metrics, labels and states that exist.
func TestAlertsAndDashboardKnowTheMetrics(t *testing.T) {
	checked, files := &expressions{families: families(t)}, rendered(t, everything)
	const started = "process_start_time_seconds" // of Prometheus' own collector
	checked.families[started] = metrics.Family{Name: started, Type: "gauge"}
	for _, r := range chartAlerts(t) {
		checked.check(r.Alert, r.Expr, r.Annotations["summary"]+r.Annotations["description"])
		if r.For == "" || r.Labels["severity"] == "" || r.Annotations["summary"] == "" {
			t.Errorf("%s: for, severity or summary is missing", r.Alert)
		}
	}
	var dashboard struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr, LegendFormat string }
		}
	}
	var configMap struct{ Data map[string]string }
	if err := yaml.Unmarshal([]byte(files["dashboard.yaml"]), &configMap); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal([]byte(configMap.Data["addon-operator.json"]), &dashboard); err != nil {
		t.Fatal(err)
	}
	for _, p := range dashboard.Panels {
		for i, target := range p.Targets {
			where := fmt.Sprintf("panel %s, target %d", p.Title, i+1)
			checked.check(where, target.Expr, target.LegendFormat)
			checked.variables(where, target.Expr)
		}
	}
	for _, problem := range checked.problems {
		t.Error(problem)
	}
}

// Mistakes in expressions are reported.
func TestExpressionsAreChecked(t *testing.T) {
	families := map[string]metrics.Family{
		"c_total": {Type: "counter", Labels: []string{"a"}}, "g": {Type: "gauge", Labels: []string{"a", "b"}}, "h": {Type: "histogram", Labels: []string{"a"}},
	}
	for expression, want := range map[string]string{
		`sum by (a) (rate(c_total{a="x"}[5m])) > 3`:                         "",
		`histogram_quantile(0.9, sum by (a, le) (rate(h_bucket[5m])))`:      "",
		`g == 1 and on (a) increase(c_total[5m]) == 0`:                      "",
		`max without (pod, instance) (g) == 0 or vector(0)`:                 "",
		`sum by (a (c_total)`:                                               "parse error",
		`h_bucket * on (a) group_left (b) g # {{b}}`:                        "",
		`c_total * on (a) group_left (c) g`:                                 "label c",
		`gone > 1`:                                                          "there is no metric gone",
		`c_total{b="x"}`:                                                    "label b",
		`sum by (b) (c_total)`:                                              "label b",
		`sum by (b) (sum by (a) (g))`:                                       "label b",
		`c_total and on (b) g`:                                              "label b",
		`rate(g[5m])`:                                                       "g is a gauge",
		`histogram_quantile(0.9, sum by (a) (rate(h_bucket[5m])))`:          "label le",
		`sum(c_total) # and the text asks for {{a}}`:                        "label a",
		`sum without (a) (c_total) # and the text asks for {{ $labels.a }}`: "label a",
	} {
		e := &expressions{families: families}
		_, text, _ := strings.Cut(expression, "#")
		e.check("test", expression, text)
		if got := strings.Join(e.problems, "; "); (got == "") != (want == "") || !strings.Contains(got, want) {
			t.Errorf("%s: %q, want %q", expression, got, want)
		}
	}
}
