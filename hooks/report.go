package hooks

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"addon-operator/values"
)

// maxProblems bounds how many mistakes in one output of a hook are reported: it may contain nothing
// else, and each takes memory.
const maxProblems = 100

// longestPath and longestProblem bound a reported mistake, in bytes. Keys and names in a
// configuration may be as long as all of it, and mistakes quote them.
const longestPath, longestProblem = 300, 1000 // bytes

var errTooManyProblems = errors.New("there are more problems; fix these first")

// ConfigError lists what is wrong with the configuration of one hook: everything, or the first
// hundred mistakes (C7).
type ConfigError struct {
	Violations []Violation // sorted by path
}

// Violation is one mistake in a configuration.
type Violation struct {
	Path    string // as in "kubernetes[1].labelSelector.matchExpressions[0].operator"; "" for the document itself
	Problem string // what is wrong there and how to fix it
}

// Error names every violation in a line of its own, so that one pass fixes the hook.
func (e *ConfigError) Error() string {
	lines := make([]string, len(e.Violations))
	for i, violation := range e.Violations {
		lines[i] = violation.String()
	}
	if len(lines) == 1 {
		return "hook configuration: " + lines[0]
	}
	return fmt.Sprintf("hook configuration has %d mistakes:\n  %s", len(lines), strings.Join(lines, "\n  "))
}

// String is "path: problem".
func (v Violation) String() string {
	if v.Path == "" {
		return v.Problem
	}
	return v.Path + ": " + v.Problem
}

// report collects mistakes and warnings while a document is read. It also carries what the reading
// needs from outside, so that place need not.
type report struct {
	violations []Violation
	warnings   []string
	jqLibrary  []string
}

// fail records a mistake, once. After maxProblems one more says that there are others.
func (r *report) fail(path, format string, args ...any) {
	if len(r.violations) > maxProblems {
		return
	}
	violation := Violation{Path: values.Shorten(path, longestPath), Problem: values.Shorten(fmt.Sprintf(format, args...), longestProblem)}
	if len(r.violations) == maxProblems {
		violation = Violation{Problem: errTooManyProblems.Error()}
	}
	if !slices.Contains(r.violations, violation) {
		r.violations = append(r.violations, violation)
	}
}

func (r *report) warn(path, format string, args ...any) {
	r.warnings = append(r.warnings, Violation{Path: path, Problem: fmt.Sprintf(format, args...)}.String())
}

// err returns the mistakes as a *ConfigError; nil if there are none. It is called once, at the end.
func (r *report) err() error {
	if len(r.violations) == 0 {
		return nil
	}
	slices.SortStableFunc(r.violations, func(x, y Violation) int { return strings.Compare(x.Path, y.Path) })
	return &ConfigError{Violations: r.violations}
}

// place is a position in a document: the value there and its path. A value of the wrong type reads
// as absent, because the schema has already reported it; so the checks of the meaning continue, and
// one report has everything. Readers return zero values for what is absent.
type place struct {
	path   string
	value  any
	report *report
}

func (p place) fail(format string, args ...any) { p.report.fail(p.path, format, args...) }
func (p place) warn(format string, args ...any) { p.report.warn(p.path, format, args...) }

// at returns the place of a key of the object here.
func (p place) at(key string) place {
	object, _ := p.value.(map[string]any)
	return place{path: joinKey(p.path, key), value: object[key], report: p.report}
}

// elements returns the places of the elements of the list here.
func (p place) elements() []place {
	list, _ := p.value.([]any)
	places := make([]place, len(list))
	for i, element := range list {
		places[i] = place{path: joinIndex(p.path, i), value: element, report: p.report}
	}
	return places
}

// each returns those elements that are objects.
func (p place) each() []place {
	return slices.DeleteFunc(p.elements(), func(element place) bool {
		_, ok := element.value.(map[string]any)
		return !ok
	})
}

func (p place) present() bool {
	return p.value != nil
}

func (p place) text() string {
	text, _ := p.value.(string)
	return text
}

func (p place) textOr(fallback string) string {
	if text := p.text(); text != "" {
		return text
	}
	return fallback
}

// texts returns the strings of the list here, each once. It is nil only when there is no list.
func (p place) texts() []string {
	if _, ok := p.value.([]any); !ok {
		return nil
	}
	texts := []string{}
	for _, element := range p.elements() {
		if text, ok := element.value.(string); ok && !slices.Contains(texts, text) {
			texts = append(texts, text)
		}
	}
	return texts
}

func (p place) flagOr(fallback bool) bool {
	if flag, ok := p.value.(bool); ok {
		return flag
	}
	return fallback
}

func (p place) number() (float64, bool) {
	switch n := p.value.(type) {
	case int64:
		return float64(n), true
	case json.Number:
		f, err := n.Float64()
		return f, err == nil
	case float64:
		return n, true
	}
	return 0, false
}

func joinIndex(path string, i int) string {
	return path + "[" + strconv.Itoa(i) + "]"
}

// joinKey writes keys that contain dots, such as the names of labels, in brackets.
func joinKey(path, key string) string {
	if key == "" || strings.ContainsAny(key, ".[]\" ") {
		return path + "[" + strconv.Quote(key) + "]"
	}
	if path == "" {
		return key
	}
	return path + "." + key
}
