package values

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
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
}

// Error has one line for each violation, up to a hundred.
func (e *ValidationError) Error() string {
	lines := make([]string, 0, len(e.Violations))
	for _, v := range e.Violations[:min(len(e.Violations), maxProblems)] {
		lines = append(lines, v.String())
	}
	if len(e.Violations) > maxProblems {
		lines = append(lines, errTooMany.Error())
	}
	head := fmt.Sprintf("values of %s do not fit %s:", e.Section, e.Schema)
	if len(lines) == 1 {
		return head + " " + lines[0]
	}
	return head + "\n  " + strings.Join(lines, "\n  ")
}

// validate checks a section; a nil schema accepts everything. secret tells which values may not be repeated.
func (s *schema) validate(key string, section any, secret func(pointer) bool) error {
	if s == nil || s.checker.surelyFits(s.compiled, section) {
		return nil
	}
	err := s.compiled.Validate(section)
	if err == nil {
		return nil
	}
	var root *jsonschema.ValidationError
	if !errors.As(err, &root) {
		return fmt.Errorf("values of %s: check against %s: %w", key, s.path, err)
	}
	r := report{schema: s, key: key, section: section, secret: secret}
	r.add(root)
	return &ValidationError{Section: key, Schema: s.path, Violations: r.finish()}
}

// report turns the compiler's tree of failures into violations.
type report struct {
	schema  *schema
	key     string
	section any
	secret  func(pointer) bool
	found   []finding
}

// finding is a violation before it is known whether it is worth telling.
type finding struct {
	Violation
	at          string // JSON pointer of the value
	unevaluated bool   // the key is known, but not to the branches that fit
}

// maxFindings bounds what is looked at of a section in which nearly everything is wrong.
const maxFindings = 10 * maxProblems

// add walks down to the causes. Alternatives are told as one violation: which of them the author wanted is unknown.
func (r *report) add(failure *jsonschema.ValidationError) {
	if len(r.found) >= maxFindings {
		return
	}
	keyword := lastElement(failure.KeywordLocation)
	switch {
	case keyword == "anyOf" || keyword == "oneOf":
		r.alternatives(failure, keyword)
	case len(failure.Causes) > 0:
		// In one order, so that the same values get the same message, also when it is cut.
		slices.SortStableFunc(failure.Causes, func(a, b *jsonschema.ValidationError) int {
			return strings.Compare(a.InstanceLocation, b.InstanceLocation)
		})
		for _, cause := range failure.Causes {
			r.add(cause)
		}
	default:
		r.leaf(failure)
	}
}

// lastElement is the keyword of a keyword location.
func lastElement(location string) string { return location[strings.LastIndexByte(location, '/')+1:] }

// finish drops what only follows from something else, removes doubles and sorts by path. It keeps the first of too many.
func (r *report) finish() []Violation {
	var violations []Violation
	known := map[Violation]bool{}
	for _, f := range r.found {
		if known[f.Violation] || f.unevaluated && r.explained(f) {
			continue
		}
		known[f.Violation] = true
		violations = append(violations, f.Violation)
	}
	slices.SortStableFunc(violations, func(a, b Violation) int {
		return cmp.Or(strings.Compare(a.Path, b.Path), strings.Compare(a.Message, b.Message))
	})
	return violations[:min(len(violations), maxProblems+1)]
}

// explained tells whether another violation in the same object may be the reason why the branch that knows the key does not
// fit.
func (r *report) explained(key finding) bool {
	parent := key.at[:strings.LastIndexByte(key.at, '/')]
	return slices.ContainsFunc(r.found, func(f finding) bool {
		return !f.unevaluated && (f.at == parent || strings.HasPrefix(f.at, parent+"/"))
	})
}

func (r *report) tell(at, message string) {
	r.found = append(r.found, finding{Violation: Violation{Path: r.path(at), Message: message}, at: at})
}

// path words the place of a value for users.
func (r *report) path(at string) string {
	path := located(at)
	return dotted(map[string]any{r.key: r.section}, append(pointer{r.key}, path...))
}

// alternatives tells that none, or more than one, of several schemas fit.
func (r *report) alternatives(failure *jsonschema.ValidationError, keyword string) {
	at := failure.InstanceLocation
	if len(failure.Causes) == 0 {
		r.tell(at, "fits more than one of the alternatives of oneOf; exactly one must fit")
		return
	}
	var reasons []string
	for _, cause := range failure.Causes {
		one := report{schema: r.schema, key: r.key, section: r.section, secret: r.secret}
		one.add(cause)
		var texts []string
		for _, v := range one.finish() {
			text := strings.TrimPrefix(v.String(), r.path(at))
			texts = append(texts, strings.TrimPrefix(strings.TrimPrefix(text, ": "), "."))
		}
		if reason := strings.Join(texts, " and "); !slices.Contains(reasons, reason) {
			reasons = append(reasons, reason)
		}
	}
	r.tell(at, fmt.Sprintf("fits none of the alternatives of %s: %s", keyword, strings.Join(reasons, "; or ")))
}

// leaf words a single failure. It looks at the keyword in the schema and at the value itself, since the compiler's messages
// would print values.
func (r *report) leaf(failure *jsonschema.ValidationError) {
	at := failure.InstanceLocation
	keyword := lastElement(failure.KeywordLocation)
	path := located(at)
	value, _ := lookup(r.section, path)
	limit := r.limit(failure)
	if strings.Contains(failure.KeywordLocation, "/propertyNames/") {
		r.tell(at, "as a key "+r.sentence(keyword, limit, failure.Message))
		return
	}
	switch keyword {
	case "not":
		r.forbidden(failure, path)
	case "required":
		r.missing(at, value, limit)
	case "type":
		r.tell(at, fmt.Sprintf("must be %s, is %s", typeNames(limit), describe(value)))
	default:
		if r.hides(path) {
			r.tell(at, r.sentence(keyword, limit, "does not fit the keyword "+keyword))
			return
		}
		message := r.sentence(keyword, limit, failure.Message)
		if shown, ok := show(value); ok {
			message += ", is " + shown
		}
		r.tell(at, message)
	}
}

// hides tells whether the value at a path may be a secret.
func (r *report) hides(path pointer) bool {
	return slices.ContainsFunc(path, looksSecret) || r.secret != nil && r.secret(path)
}

// limit is what the schema says for the keyword.
func (r *report) limit(failure *jsonschema.ValidationError) any {
	_, location, _ := strings.Cut(failure.AbsoluteKeywordLocation, "#")
	limit, _ := lookup(r.schema.document, located(location))
	return limit
}

// located takes a location of the compiler apart: a JSON pointer with the escapes of a URL.
func located(location string) pointer {
	path, err := splitPointer(location)
	if err != nil {
		return nil
	}
	for i, element := range path {
		if plain, err := url.PathUnescape(element); err == nil {
			path[i] = plain
		}
	}
	return path
}

// forbidden words "not", which is how unknown keys are refused as well.
func (r *report) forbidden(failure *jsonschema.ValidationError, path pointer) {
	at := failure.InstanceLocation
	parent := strings.TrimSuffix(failure.KeywordLocation, "/not")
	switch {
	case strings.HasSuffix(parent, "/additionalProperties") && len(path) > 0:
		r.tell(at, "is not a known key")
	case strings.HasSuffix(parent, "/unevaluatedProperties") && len(path) > 0:
		r.tell(at, "is not allowed together with the other values here")
		r.found[len(r.found)-1].unevaluated = true
	default:
		r.tell(at, "is of a form that the schema excludes with not")
	}
}

// missing tells of each required key on its own.
func (r *report) missing(at string, value, required any) {
	object, _ := value.(map[string]any)
	names, _ := required.([]any)
	for _, name := range names {
		if key, ok := name.(string); ok {
			if _, present := object[key]; !present {
				r.tell(at+"/"+url.PathEscape(escape(key)), "is required")
			}
		}
	}
}

// sentence words the keywords that limit a value.
func (r *report) sentence(keyword string, limit any, fallback string) string {
	text, _ := JSON(limit)
	switch keyword {
	case "enum":
		return "must be one of " + alternatives(limit)
	case "const":
		return "must be " + string(text)
	case "minimum":
		return "must be at least " + string(text)
	case "maximum":
		return "must be at most " + string(text)
	case "exclusiveMinimum":
		return "must be more than " + string(text)
	case "exclusiveMaximum":
		return "must be less than " + string(text)
	case "multipleOf":
		return "must be a multiple of " + string(text)
	case "minLength":
		return fmt.Sprintf("must have at least %s characters", text)
	case "maxLength":
		return fmt.Sprintf("must have at most %s characters", text)
	case "minItems":
		return fmt.Sprintf("must have at least %s elements", text)
	case "maxItems":
		return fmt.Sprintf("must have at most %s elements", text)
	case "minProperties":
		return fmt.Sprintf("must have at least %s keys", text)
	case "maxProperties":
		return fmt.Sprintf("must have at most %s keys", text)
	case "pattern":
		return fmt.Sprintf("must match the pattern %v", limit)
	case "format":
		return fmt.Sprintf("must have the format %v", limit)
	case "uniqueItems":
		return "must not have equal elements"
	}
	return fallback
}

// alternatives lists the values of enum.
func alternatives(enum any) string {
	list, _ := enum.([]any)
	texts := make([]string, 0, len(list))
	for _, item := range list {
		text, _ := JSON(item)
		texts = append(texts, string(text))
	}
	return strings.Join(texts, ", ")
}

// typeNames words types as describe does, so that "must be" and "is" match.
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
			names = append(names, "a text")
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

// show gives the value for a message, when it is small (D38).
func show(value any) (string, bool) {
	switch v := value.(type) {
	case int64, float64, bool, json.Number:
		text, err := JSON(v)
		return string(text), err == nil
	case string:
		if len(v) <= maxShown && utf8.ValidString(v) && !strings.Contains(v, "-----BEGIN") {
			return fmt.Sprintf("%q", hideCredentials(v)), true
		}
	}
	return "", false
}

// looksSecret is generous: a value that is hidden without need costs less than one that is shown.
func looksSecret(key string) bool {
	key = strings.ToLower(key)
	return slices.ContainsFunc([]string{
		"pass", "pwd", "secret", "token", "key", "cert", "cred", "auth", "private", "salt", "signature", "dsn", "kubeconfig", "license",
	}, func(word string) bool { return strings.Contains(key, word) })
}
