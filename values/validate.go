package values

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/santhosh-tekuri/jsonschema/v5"
)

// Violation is one thing in a section that its schema does not allow.
type Violation struct {
	Path    string // in the values, like someModule.a.b[2]
	Message string // a sentence about the value at Path; holds no value that may be secret (D38)
	Public  string // the same without any value
}

// String joins path and message.
func (v Violation) String() string { return strings.TrimPrefix(v.Path+": "+v.Message, ": ") }

const (
	missing    = "is required"
	unknownKey = "is not a known key"
)

// IsMissing reports a value that is not there: another layer may bring it.
func (v Violation) IsMissing() bool { return v.Message == missing }

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

// Public is the error without the values: only which of them do not fit, and what they must be.
func (e *ValidationError) Public() string {
	public := *e
	public.Violations = slices.Clone(e.Violations)
	for i, v := range public.Violations {
		public.Violations[i].Message = v.Public
	}
	return public.Error()
}

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
	invalid := &ValidationError{Section: key, Schema: s.path}
	err := errTooMuchWork
	if s.affordable(s.compiled, section) {
		err = s.compiled.Validate(section)
	}
	var failure *jsonschema.ValidationError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &failure):
		r := &report{schema: s, key: key, value: section, secret: secret, most: maxFindings, looks: new(maxLooks)}
		r.add(failure)
		invalid.Violations, invalid.More = r.finish(), r.cut
	default:
		invalid.Violations = []Violation{{Path: key, Message: "cannot be checked: " + strings.TrimPrefix(err.Error(), "jsonschema: "), Public: "cannot be checked"}}
	}
	return invalid
}

const (
	// maxFindings bounds how many findings of a section are collected in which nearly everything is
	// wrong. It is larger than maxProblems because finish drops duplicates and consequences.
	maxFindings = 10 * maxProblems
	// maxReasons is how many findings about one alternative become part of the message about all.
	maxReasons = 10
	// maxLooks bounds how many failures of the library are looked at for one section.
	maxLooks = 20_000
)

// report turns the failures of the library into sentences for people. The library names the place in the schema and that
// in the values; its own message has no structure, and repeats values.
type report struct {
	schema *schema
	key    string
	value  any
	secret func(pointer) bool
	found  []finding // in no order and with duplicates
	size   int       // of their texts, in bytes
	most   int       // findings
	looks  *int      // failures that may still be looked at
	cut    bool      // something was left out
}

// finding is a violation before finish decides whether it is reported.
type finding struct {
	Violation
	at          pointer
	unevaluated bool // the key is known, but not to the branches that fit
}

// add reports a failure and everything that is the reason for it. Of a flood of failures it looks at the first ones, in the
// order of their places.
func (r *report) add(failure *jsonschema.ValidationError) {
	if *r.looks--; *r.looks < 0 || r.full() {
		r.cut = true
		return
	}
	switch keyword := lastElement(failure.KeywordLocation); {
	case keyword == "anyOf" || keyword == "oneOf":
		r.alternatives(failure, keyword)
	case len(failure.Causes) > 0:
		causes := slices.Clone(failure.Causes)
		slices.SortStableFunc(causes, func(a, b *jsonschema.ValidationError) int {
			return strings.Compare(a.InstanceLocation, b.InstanceLocation)
		})
		for _, cause := range causes {
			r.add(cause)
		}
	default:
		r.leaf(failure, keyword)
	}
}

func (r *report) full() bool { return len(r.found) >= r.most || r.size >= maxExplanation }

// alternatives reports as one violation that none of several schemas fit: which of them the author of the values wanted is
// not known.
func (r *report) alternatives(failure *jsonschema.ValidationError, keyword string) {
	at := located(failure.InstanceLocation)
	if len(failure.Causes) == 0 {
		r.say(at, "matches more than one alternative of oneOf; it must match exactly one")
		return
	}
	var reasons, public []string
	for _, cause := range failure.Causes {
		one := *r
		one.cut, one.most, one.found, one.size = false, maxReasons, nil, 0
		one.add(cause)
		var texts, publicTexts []string
		for _, v := range one.finish() {
			below := strings.TrimPrefix(strings.TrimPrefix(v.Path, r.path(at)), ".")
			if below != "" {
				below += ": "
			}
			texts, publicTexts = append(texts, below+v.Message), append(publicTexts, below+v.Public)
		}
		if one.cut {
			texts, publicTexts = append(texts, "…"), append(publicTexts, "…")
		}
		if reason := strings.Join(texts, " and "); !slices.Contains(reasons, reason) {
			reasons, public = append(reasons, reason), append(public, strings.Join(publicTexts, " and "))
		}
	}
	none := fmt.Sprintf("fits none of the alternatives of %s: ", keyword)
	r.say(at, none+strings.Join(reasons, "; or "))
	r.found[len(r.found)-1].Public = Shorten(none+strings.Join(public, "; or "), maxMessage)
}

// leaf reports a failure that has no other reason.
func (r *report) leaf(failure *jsonschema.ValidationError, keyword string) {
	at, location := located(failure.InstanceLocation), located(failure.KeywordLocation)
	value, _ := lookup(r.value, at)
	_, absolute, _ := strings.Cut(failure.AbsoluteKeywordLocation, "#")
	limit, _ := lookup(r.schema.document, located(absolute))
	above := ""
	if len(location) > 1 {
		above = location[len(location)-2]
	}
	switch {
	case slices.Contains(location, "propertyNames"):
		r.say(at, "as a key "+sentence(keyword, limit))
	case keyword == "not" && above == "additionalProperties" && reflect.DeepEqual(limit, map[string]any{}):
		r.say(at, unknownKey)
	case keyword == "not" && above == "unevaluatedProperties" && reflect.DeepEqual(limit, map[string]any{}):
		r.say(at, "is not allowed together with the other values here")
		r.found[len(r.found)-1].unevaluated = true
	case keyword == "not":
		r.say(at, "matches what the schema excludes with not")
	case keyword == "additionalProperties": // of a Format: schemas of values are closed in other ways
		rule := located(absolute)
		properties, _ := lookup(r.schema.document, append(rule[:len(rule)-1], "properties"))
		r.unknown(value, at, properties)
	case keyword == "required":
		r.missing(value, at, limit)
	case keyword == "type":
		r.say(at, fmt.Sprintf("must be %s, is %s", typeNames(limit), describe(value)))
	case slices.Contains(location, "dependentRequired"):
		r.wrong(at, value, fmt.Sprintf("property '%v' is required, if '%s' property exists", limit, above))
	default:
		r.wrong(at, value, sentence(keyword, limit))
	}
}

// unknown reports the keys that a map must not have.
func (r *report) unknown(value any, at pointer, properties any) {
	object, _ := value.(map[string]any)
	rules, _ := properties.(map[string]any)
	known := sortedKeys(rules)
	for _, key := range sortedKeys(object) {
		if !slices.Contains(known, key) && !r.full() {
			hint := DidYouMean(key, known, "known are "+strings.Join(known, ", "))
			r.say(append(slices.Clip(at), key), unknownKey+"; "+hint)
		}
	}
}

// missing reports the keys that a map must have and has not.
func (r *report) missing(value any, at pointer, required any) {
	object, _ := value.(map[string]any)
	names, _ := required.([]any)
	for _, name := range names {
		name, _ := name.(string)
		if _, present := object[name]; present {
			continue
		}
		if r.cut = r.cut || r.full(); r.cut {
			return
		}
		r.say(append(slices.Clip(at), name), missing)
	}
}

// wrong reports a value that violates a keyword, and shows it if it is short and no secret (D38).
func (r *report) wrong(at pointer, value any, message string) {
	public := Shorten(message, maxMessage)
	if shown := show(value); shown != "" && !secretPath(at) && (r.secret == nil || !r.secret(at)) {
		message = public + ", is " + shown
	}
	r.say(at, message)
	r.found[len(r.found)-1].Public = public
}

func (r *report) say(at pointer, message string) {
	message = Shorten(message, maxMessage)
	v := Violation{Path: r.path(at), Message: message, Public: message}
	r.size += len(v.Path) + len(v.Message)
	r.found = append(r.found, finding{Violation: v, at: at})
}

// path returns the place of a value as users write it, with long keys cut.
func (r *report) path(at pointer) string {
	if r.key == "" { // a Format
		return dottedUpTo(r.value, at, maxElement)
	}
	return dottedUpTo(map[string]any{r.key: r.value}, append(pointer{r.key}, at...), maxElement)
}

// finish drops duplicates and consequences and sorts by path. It returns one more than maxProblems
// if there are that many, so that the caller can report that some are left out.
func (r *report) finish() []Violation {
	var violations []Violation
	known := map[Violation]bool{}
	for _, one := range r.found {
		if known[one.Violation] || one.unevaluated && r.explained(one) {
			continue
		}
		known[one.Violation] = true
		violations = append(violations, one.Violation)
	}
	slices.SortStableFunc(violations, func(a, b Violation) int {
		return cmp.Or(strings.Compare(a.Path, b.Path), strings.Compare(a.Message, b.Message))
	})
	return violations[:min(len(violations), maxProblems+1)]
}

// explained reports whether another violation in the same object may be the reason why the branch
// that has the key does not fit. Then "is not allowed together with" would be misleading.
func (r *report) explained(key finding) bool {
	if len(key.at) == 0 {
		return false
	}
	parent := key.at[:len(key.at)-1]
	return slices.ContainsFunc(r.found, func(one finding) bool { return !one.unevaluated && parent.contains(one.at) })
}

func lastElement(location string) string { return location[strings.LastIndexByte(location, '/')+1:] }

// located parses a location that the compiler reports: a JSON pointer with the escapes of a URL.
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

// sentence words the keywords that limit a value. limit is what the schema has for the keyword.
func sentence(keyword string, limit any) string {
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
		"minContains":      "must have at least %s elements that fit contains",
		"maxContains":      "must have at most %s elements that fit contains",
	}[keyword]
	switch {
	case form != "":
		text, _ := JSON(limit)
		return fmt.Sprintf(form, text)
	case keyword == "enum":
		return "must be one of " + alternatives(limit)
	case keyword == "pattern", keyword == "format":
		return fmt.Sprintf("must %s %s %v", map[string]string{"pattern": "match the", "format": "have the"}[keyword], keyword, limit)
	case keyword == "uniqueItems":
		return "must not have equal elements"
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
		t, _ := t.(string)
		name := map[string]string{"object": "a map", "array": "a list", "integer": "an integer", "string": "a string", "number": "a number", "boolean": "a boolean"}[t]
		names = append(names, cmp.Or(name, t))
	}
	return strings.Join(names, " or ")
}

// show returns a value for a message if it is small and does not look like a secret (D38).
func show(value any) string {
	const longest = 64
	switch v := value.(type) {
	case int64, float64, bool, json.Number:
		text, _ := JSON(v)
		return Shorten(string(text), longest)
	case string:
		if len(v) <= longest && utf8.ValidString(v) && !strings.Contains(v, "-----BEGIN") {
			return fmt.Sprintf("%q", hideCredentials(v))
		}
	}
	return ""
}
