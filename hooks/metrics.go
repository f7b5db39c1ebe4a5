package hooks

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"

	"addon-operator/values"
)

// MetricAction is what to do with a metric.
type MetricAction string

// The actions of I6.
const (
	ActionSet     MetricAction = "set"     // a gauge gets Value
	ActionAdd     MetricAction = "add"     // a counter grows by Value
	ActionObserve MetricAction = "observe" // a histogram with Buckets counts Value
	ActionExpire  MetricAction = "expire"  // all series of Group end
)

// Metric is one line of the file a hook writes to METRICS_PATH.
type Metric struct {
	Name    string // "" for ActionExpire
	Group   string // "" when the series lives until the process ends
	Action  MetricAction
	Value   float64
	Buckets []float64 // upper bounds, ascending; ActionObserve only
	Labels  map[string]string
}

// wireMetric is a metric as the hook writes it, shortcuts included. Pointers distinguish 0 from an
// absent value.
type wireMetric struct {
	Name, Group     string
	Action          *MetricAction
	Value, Set, Add *float64
	Buckets         []float64
	Labels          map[string]string
}

// ParseMetrics reads JSON objects one after another, on separate lines or not (I6). It reports each
// wrong object with its number, up to maxProblems of them; a syntax error ends the reading. Empty
// data are no metrics. An unknown key causes a warning: other operators ignore it, so hooks that
// have it must keep working. With an error the metrics are incomplete and must not be used.
func ParseMetrics(data []byte) (metrics []Metric, warnings []string, err error) {
	var problems []error
	decoder := json.NewDecoder(bytes.NewReader(data))
	for number := 1; len(problems) < maxProblems; number++ {
		var raw json.RawMessage
		switch err := decoder.Decode(&raw); {
		case errors.Is(err, io.EOF):
			return metrics, warnings, errors.Join(problems...)
		case err != nil:
			return metrics, warnings, errors.Join(append(problems, fmt.Errorf("metric %d: write JSON objects one after another: %w", number, err))...)
		}
		metric, warning, err := parseMetric(raw)
		if err != nil {
			problems = append(problems, fmt.Errorf("metric %d: %s: %w", number, shorten(raw, 80), err))
		}
		if warning != "" && len(warnings) < maxProblems {
			warnings = append(warnings, fmt.Sprintf("metric %d: %s: %s", number, shorten(raw, 80), warning))
		}
		metrics = append(metrics, metric)
	}
	return nil, warnings, errors.Join(append(problems, errTooManyProblems)...)
}

func parseMetric(raw json.RawMessage) (m Metric, warning string, err error) {
	var wire wireMetric
	strict := json.NewDecoder(bytes.NewReader(raw))
	strict.DisallowUnknownFields()
	if unknown := strict.Decode(&wire); unknown != nil {
		if err := json.Unmarshal(raw, &wire); err != nil {
			return m, "", err
		}
		warning = strings.TrimPrefix(unknown.Error(), "json: ") + "; known are name, group, action, value, set, add, buckets and labels"
	}
	m = Metric{Name: wire.Name, Group: wire.Group, Buckets: wire.Buckets, Labels: wire.Labels}
	switch long := wire.Action != nil || wire.Value != nil; {
	case wire.Set != nil && wire.Add != nil:
		return m, warning, errors.New("set and add are mutually exclusive; write two objects")
	case long && (wire.Set != nil || wire.Add != nil):
		return m, warning, errors.New("set and add are short for action and value; use one of the two forms")
	case wire.Set != nil:
		m.Action, wire.Value = ActionSet, wire.Set
	case wire.Add != nil:
		m.Action, wire.Value = ActionAdd, wire.Add
	case wire.Action != nil:
		m.Action = *wire.Action
	}
	if wire.Value != nil {
		m.Value = *wire.Value
	}
	return m, warning, m.check(wire.Value != nil)
}

// check checks the rules of I6, and what the metrics library would answer with a panic.
func (m Metric) check(valued bool) error {
	observe, expire := m.Action == ActionObserve, m.Action == ActionExpire
	ascending := slices.IsSorted(m.Buckets) && len(slices.Compact(slices.Clone(m.Buckets))) == len(m.Buckets)
	for _, rule := range []struct {
		broken bool
		text   string
	}{
		{m.Action == "", "action is missing; it is set, add, observe or expire"},
		{!observe && !expire && m.Action != ActionSet && m.Action != ActionAdd, "action is unknown: set, add, observe or expire"},
		{expire && m.Group == "", "action expire needs a group"},
		{expire && m.Name != "", "action expire removes a whole group; leave name out"},
		{!expire && m.Name == "", "name is missing"},
		{!expire && !metricName.MatchString(m.Name), "name must be letters, digits, _ and :, and not begin with a digit"},
		{!expire && !valued, fmt.Sprintf("value is missing; action %s needs a number", m.Action)},
		{m.Action == ActionAdd && m.Value < 0, fmt.Sprintf("a counter cannot go down; add %v must not be negative", m.Value)},
		{observe && m.Group != "", "action observe is not possible in a group"},
		{observe && len(m.Buckets) == 0, "action observe needs buckets, a list of upper bounds"},
		{observe && !ascending, "buckets must be in ascending order"},
		{!observe && len(m.Buckets) > 0, "buckets belong to action observe"},
	} {
		if rule.broken {
			return errors.New(rule.text)
		}
	}
	return m.checkLabels()
}

func (m Metric) checkLabels() error {
	for _, name := range slices.Sorted(maps.Keys(m.Labels)) {
		switch {
		case !labelName.MatchString(name) || strings.HasPrefix(name, "__"):
			return fmt.Errorf("label %q must be letters, digits and _, and not begin with a digit or __", name)
		case name == "le" && m.Action == ActionObserve:
			return errors.New("label le is the bucket of a histogram; choose another name")
		}
	}
	return nil
}

var (
	metricName = regexp.MustCompile(`^[a-zA-Z_:][a-zA-Z0-9_:]*$`)
	labelName  = regexp.MustCompile(`^[a-zA-Z_][a-zA-Z0-9_]*$`)
)

// shorten returns the beginning of what a hook wrote, for a message: on one line, without
// characters that control a terminal.
func shorten(data []byte, limit int) string {
	return printable([]byte(values.Shorten(string(bytes.TrimSpace(data)), limit)))
}
