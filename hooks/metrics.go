package hooks

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
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
	Name    string            `json:"name"`
	Group   string            `json:"group"`
	Action  *MetricAction     `json:"action"`
	Value   *float64          `json:"value"`
	Set     *float64          `json:"set"`
	Add     *float64          `json:"add"`
	Buckets []float64         `json:"buckets"`
	Labels  map[string]string `json:"labels"`
}

// ParseMetrics reads JSON objects one after another, on separate lines or not (I6). It reports each
// wrong object with its number, up to maxProblems of them; a syntax error ends the reading. Empty
// data are no metrics. Unknown keys cause warnings, also at most maxProblems: other operators
// ignore them, so hooks that have them must keep working. With an error the metrics are incomplete
// and must not be used.
func ParseMetrics(data []byte) (metrics []Metric, warnings []string, err error) {
	var problems []error
	decoder := json.NewDecoder(bytes.NewReader(data))
	for number := 1; ; number++ {
		var raw json.RawMessage
		switch err := decoder.Decode(&raw); {
		case errors.Is(err, io.EOF):
			return metrics, warnings, errors.Join(problems...)
		case err != nil:
			return metrics, warnings, errors.Join(append(problems, fmt.Errorf("metric %d: write JSON objects one after another: %w", number, err))...)
		}
		metric, err := parseMetric(raw)
		if err != nil && len(problems) == maxProblems {
			return nil, warnings, errors.Join(append(problems, errTooManyProblems)...)
		}
		if err != nil {
			problems = append(problems, fmt.Errorf("metric %d: %w", number, err))
			continue
		}
		metrics = append(metrics, metric)
		if len(warnings) >= maxProblems {
			continue // they are known by now
		}
		for _, key := range unknownKeys(raw) {
			warnings = append(warnings, fmt.Sprintf("metric %d: %s: the key %s is unknown; known keys are %s", number, shorten(raw, 80), key, strings.Join(metricKeys(), ", ")))
		}
	}
}

// unknownKeys lists the keys of a metric that have no meaning. encoding/json ignores case, and so
// does this.
func unknownKeys(raw json.RawMessage) []string {
	var object map[string]json.RawMessage
	if err := json.Unmarshal(raw, &object); err != nil {
		return nil // parseMetric has read it
	}
	return slices.DeleteFunc(slices.Sorted(maps.Keys(object)), func(key string) bool { return slices.Contains(metricKeys(), strings.ToLower(key)) })
}

func metricKeys() []string {
	return []string{"name", "group", "action", "value", "set", "add", "buckets", "labels"}
}

func parseMetric(raw json.RawMessage) (Metric, error) {
	var wire wireMetric
	if err := json.Unmarshal(raw, &wire); err != nil {
		return Metric{}, fmt.Errorf("%s: %w", shorten(raw, 80), err)
	}
	metric := Metric{Name: wire.Name, Group: wire.Group, Buckets: wire.Buckets, Labels: wire.Labels}
	err := errors.Join(metric.takeAction(wire), metric.checkNames(), metric.checkAction())
	if err != nil {
		return Metric{}, fmt.Errorf("%s: %w", shorten(raw, 80), joined(err))
	}
	return metric, nil
}

// takeAction resolves the shortcuts {"name": …, "set": 5} and {"name": …, "add": 1}.
func (m *Metric) takeAction(wire wireMetric) error {
	if wire.Set != nil && wire.Add != nil {
		return errors.New("set and add are mutually exclusive; write two objects")
	}
	for action, value := range map[MetricAction]*float64{ActionSet: wire.Set, ActionAdd: wire.Add} {
		if value == nil {
			continue
		}
		if wire.Action != nil || wire.Value != nil {
			return fmt.Errorf("%s is short for action and value; use one of the two forms", action)
		}
		m.Action, m.Value = action, *value
		return nil
	}
	if wire.Action == nil || *wire.Action == "" {
		return errors.New("action is missing; it is set, add, observe or expire")
	}
	m.Action = *wire.Action
	if wire.Value != nil {
		m.Value = *wire.Value
	} else if m.Action == ActionSet || m.Action == ActionAdd || m.Action == ActionObserve {
		return fmt.Errorf("value is missing; action %s needs a number", m.Action)
	}
	return nil
}

// checkAction checks the rules of I6 for each action, and what the metrics library would answer
// with a panic.
func (m *Metric) checkAction() error {
	switch m.Action {
	case "":
		return nil // reported by takeAction
	case ActionExpire:
		return first(
			problem(m.Group == "", "action expire needs a group"),
			problem(m.Name != "", "action expire removes a whole group; leave name out"),
			problem(len(m.Buckets) > 0, "buckets belong to action observe"))
	case ActionSet:
	case ActionAdd:
		if m.Value < 0 {
			return fmt.Errorf("a counter cannot go down; add %v must not be negative", m.Value)
		}
	case ActionObserve:
		return first(
			problem(m.Group != "", "action observe is not possible in a group"),
			problem(len(m.Buckets) == 0, "action observe needs buckets, a list of upper bounds"),
			problem(!ascending(m.Buckets), "buckets must be finite and in ascending order"))
	default:
		return fmt.Errorf("action %q is unknown; it is set, add, observe or expire", m.Action)
	}
	return problem(len(m.Buckets) > 0, "buckets belong to action observe")
}

func (m *Metric) checkNames() error {
	var problems []error
	switch {
	case m.Action == ActionExpire:
	case m.Name == "":
		problems = append(problems, errors.New("name is missing"))
	case !identifier(strings.ReplaceAll(m.Name, ":", "_")):
		problems = append(problems, fmt.Errorf("name %q must be letters, digits, _ and :, and not begin with a digit", m.Name))
	}
	for _, name := range slices.Sorted(maps.Keys(m.Labels)) {
		switch {
		case !identifier(name) || strings.HasPrefix(name, "__"):
			problems = append(problems, fmt.Errorf("label %q must be letters, digits and _, and not begin with a digit or __", name))
		case name == "le" && m.Action == ActionObserve:
			problems = append(problems, errors.New("label le is the bucket of a histogram; choose another name"))
		}
	}
	return errors.Join(problems...)
}

// identifier is what names of metrics and labels may be.
func identifier(name string) bool {
	for i, char := range name {
		letter := char == '_' || (char >= 'a' && char <= 'z') || (char >= 'A' && char <= 'Z')
		if !letter && (i == 0 || char < '0' || char > '9') {
			return false
		}
	}
	return name != ""
}

// ascending reports whether buckets are finite and ascend strictly; the metrics library panics
// otherwise.
func ascending(buckets []float64) bool {
	for i, bound := range buckets {
		if math.IsNaN(bound) || math.IsInf(bound, 0) || (i > 0 && bound <= buckets[i-1]) {
			return false
		}
	}
	return true
}

// problem returns an error with the text if something is wrong.
func problem(wrong bool, text string) error {
	if wrong {
		return errors.New(text)
	}
	return nil
}

// first returns the first error: the others are often consequences of it.
func first(problems ...error) error {
	for _, err := range problems {
		if err != nil {
			return err
		}
	}
	return nil
}

// joined puts the lines of an errors.Join into one line.
func joined(err error) error {
	return errors.New(strings.ReplaceAll(err.Error(), "\n", "; "))
}

// shorten returns the beginning of what a hook wrote, for a message: on one line, without
// characters that control a terminal.
func shorten(data []byte, limit int) string {
	return printable([]byte(values.Shorten(string(bytes.TrimSpace(data)), limit)))
}
