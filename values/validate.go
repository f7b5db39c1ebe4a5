package values

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/santhosh-tekuri/jsonschema/v5"
)

// Violation is one thing in a section that its schema does not allow.
type Violation struct {
	Path    string // in the values, like someModule.a.b[2]
	Message string // a sentence about the value at Path; holds no value that may be secret (D38)
}

// String joins both.
func (v Violation) String() string { return v.Path + ": " + v.Message }

// ValidationError lists everything that is wrong with a section (D38).
type ValidationError struct {
	Section    string      // key of the section
	Schema     string      // path of the schema file
	Violations []Violation // one more than the message shows when there are too many
	More       bool        // not everything was looked at: too much is wrong
}

// Error has one line for each violation, up to a hundred.
func (e *ValidationError) Error() string {
	lines := make([]string, 0, len(e.Violations))
	for _, v := range e.Violations[:min(len(e.Violations), maxProblems)] {
		lines = append(lines, v.String())
	}
	if e.More || len(e.Violations) > maxProblems {
		lines = append(lines, fmt.Sprintf("there are more than %d problems; fix these first", len(lines)))
	}
	head := fmt.Sprintf("values of %s do not fit %s:", e.Section, e.Schema)
	if len(lines) == 1 {
		return head + " " + lines[0]
	}
	return head + "\n  " + strings.Join(lines, "\n  ")
}

// Public is the error without the values: only which of them do not fit, and what they must be. A message of wrong
// has the value at its end; the name of a type is none.
func (e *ValidationError) Public() string {
	without := *e
	without.Violations = slices.Clone(e.Violations)
	types := []string{"a string", "an integer", "a number", "a boolean", "a map", "a list", "null"}
	for i := range without.Violations {
		message, shown, _ := strings.Cut(without.Violations[i].Message, shownAs)
		if !slices.Contains(types, shown) {
			without.Violations[i].Message = message
		}
	}
	return without.Error()
}

// shownAs is between a sentence about a value and the value.
const shownAs = ", is "

// Public is the text of an error with the public ones of all ValidationErrors in it.
func Public(err error) string {
	text := err.Error()
	var replace func(err error)
	replace = func(err error) {
		switch e := err.(type) { //nolint:errorlint // all of the tree
		case *ValidationError:
			text = strings.ReplaceAll(text, e.Error(), e.Public())
		case interface{ Unwrap() error }:
			replace(e.Unwrap())
		case interface{ Unwrap() []error }:
			for _, one := range e.Unwrap() {
				replace(one)
			}
		}
	}
	replace(err)
	return text
}

// validate validates a section; a nil schema accepts everything. secret reports which values a
// message must not repeat.
func (s *schema) validate(key string, section any, secret func(pointer) bool) error {
	if s == nil {
		return nil
	}
	r := newReport(s, key, section, secret)
	if err := r.validate(s.compiled, section); err != nil {
		return &ValidationError{Section: key, Schema: s.path, Violations: []Violation{{Path: key, Message: err.Error()}}}
	}
	if violations := r.findings.finish(); len(violations) > 0 {
		return &ValidationError{Section: key, Schema: s.path, Violations: violations, More: r.cut}
	}
	return nil
}

// validate adds what is wrong with a value. An error means that it could not be checked.
func (r *report) validate(s *jsonschema.Schema, value any) error {
	if !r.schema.affordable(s, value) {
		return errTooMuchWork
	}
	var failure *jsonschema.ValidationError
	if err := s.Validate(value); errors.As(err, &failure) {
		r.add(failure)
	} else if err != nil {
		return fmt.Errorf("cannot be checked: %s", strings.TrimPrefix(err.Error(), "jsonschema: "))
	}
	return nil
}

// sentence words the keywords that limit a value. limit is what the schema has for the keyword.
func sentence(keyword string, limit any) string {
	if keyword == "enum" {
		return "must be one of " + alternatives(limit)
	}
	text, _ := JSON(limit)
	form := map[string]string{
		"const":            "must be %s",
		"minimum":          "must be at least %s",
		"maximum":          "must be at most %s",
		"exclusiveMinimum": "must be more than %s",
		"exclusiveMaximum": "must be less than %s",
		"multipleOf":       "must be a multiple of %s",
		"minLength":        "must have at least %s characters",
		"maxLength":        "must have at most %s characters",
		"minItems":         "must have at least %s elements",
		"maxItems":         "must have at most %s elements",
		"minProperties":    "must have at least %s keys",
		"maxProperties":    "must have at most %s keys",
	}[keyword]
	switch {
	case form != "":
		return fmt.Sprintf(form, text)
	case keyword == "pattern":
		return fmt.Sprintf("must match the pattern %v", limit)
	case keyword == "format":
		return fmt.Sprintf("must have the format %v", limit)
	case keyword == "uniqueItems":
		return "must not have equal elements"
	case keyword == "minContains":
		return fmt.Sprintf("must have at least %s elements that fit contains", text)
	case keyword == "maxContains":
		return fmt.Sprintf("must have at most %s elements that fit contains", text)
	case keyword == "additionalItems":
		return "has more elements than the schema allows"
	case limit == false:
		return "not allowed"
	}
	return "does not fit the keyword " + keyword
}

// alternatives lists the values of enum, as many as fit into half a message.
func alternatives(enum any) string {
	list, _ := enum.([]any)
	var out []byte
	for i, item := range list {
		if len(out) > maxMessage/2 {
			return fmt.Sprintf("%s and %d others", Shorten(string(out), maxMessage/2), len(list)-i)
		}
		if i > 0 {
			out = append(out, ", "...)
		}
		text, _ := JSON(item)
		out = append(out, text...)
	}
	return string(out)
}

// typeNames names types as describe does, so that "must be" and "is" match.
func typeNames(types any) string {
	list, ok := types.([]any)
	if !ok {
		list = []any{types}
	}
	names := make([]string, 0, len(list))
	for _, t := range list {
		switch t {
		case "object":
			names = append(names, "a map")
		case "array":
			names = append(names, "a list")
		case "string":
			names = append(names, "a string")
		case "integer":
			names = append(names, "an integer")
		case "number", "boolean":
			names = append(names, fmt.Sprint("a ", t))
		default:
			names = append(names, fmt.Sprint(t))
		}
	}
	return strings.Join(names, " or ")
}

// maxShown is the longest value, in bytes, that a message repeats.
const maxShown = 64

// show returns a value for a message if it is small and does not look like a secret (D38).
func show(value any) (string, bool) {
	switch v := value.(type) {
	case int64, float64, bool, json.Number:
		text, err := JSON(v)
		return Shorten(string(text), maxShown), err == nil
	case string:
		if len(v) <= maxShown && utf8.ValidString(v) && !strings.Contains(v, "-----BEGIN") {
			return fmt.Sprintf("%q", hideCredentials(v)), true
		}
	}
	return "", false
}

const (
	missing    = "is required"
	unknownKey = "is not a known key"
)

// IsMissing reports a value that is not there: another layer may bring it.
func (v Violation) IsMissing() bool { return v.Message == missing }
