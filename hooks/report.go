package hooks

import (
	"errors"
	"fmt"
	"slices"
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

// Violation is one mistake: its place, as in
// "kubernetes[1].labelSelector.matchExpressions[0].operator", or "" for the document itself, and what
// is wrong there and how to fix it.
type Violation = values.Violation

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

// report collects mistakes and warnings while a document is read. It also carries where jq
// expressions find the modules that they import.
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
	violation := Violation{Path: values.Shorten(path, longestPath), Message: values.Shorten(fmt.Sprintf(format, args...), longestProblem)}
	if len(r.violations) == maxProblems {
		violation = Violation{Message: errTooManyProblems.Error()}
	}
	if !slices.Contains(r.violations, violation) {
		r.violations = append(r.violations, violation)
	}
}

func (r *report) warn(path, format string, args ...any) {
	r.warnings = append(r.warnings, Violation{Path: path, Message: fmt.Sprintf(format, args...)}.String())
}

// err returns the mistakes as a *ConfigError; nil if there are none.
func (r *report) err() error {
	if len(r.violations) == 0 {
		return nil
	}
	slices.SortStableFunc(r.violations, func(x, y Violation) int { return strings.Compare(x.Path, y.Path) })
	return &ConfigError{Violations: r.violations}
}

// show prints a value of the document for a message, shortened.
func show(value any) string {
	text, _ := values.Encode(value) // a parsed document can be encoded
	return values.Shorten(string(text), 60)
}
