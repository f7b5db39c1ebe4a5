package values

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"reflect"
	"slices"
	"strconv"
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
	r := &report{schema: s, key: key, value: section, secret: secret}
	err := errTooMuchWork
	if s.affordable(section) {
		err = s.compiled.Validate(section)
		r.unknown(s.keys, section, nil)
	}
	if failure, ok := errors.AsType[*jsonschema.ValidationError](err); ok {
		r.add(failure)
	} else if err != nil {
		r.say(nil, "cannot be checked: "+strings.TrimPrefix(err.Error(), "jsonschema: "))
	}
	if err == nil && len(r.found) == 0 {
		return nil
	}
	return &ValidationError{Section: key, Schema: s.path, Violations: r.finish(), More: r.cut}
}

// maxFindings bounds how many findings of a section, or of one alternative, are collected in which nearly everything
// is wrong. It is larger than maxProblems because finish drops duplicates.
const maxFindings = 10 * maxProblems

// report turns the failures of the library into sentences for people. The library names the place in the schema and
// that in the values; its own message has no structure, and repeats values.
type report struct {
	schema *schema
	key    string
	value  any
	secret func(pointer) bool
	found  []Violation // in no order and with duplicates
	cut    bool        // something was left out
}

// unknown reports keys of maps that no schema names (D31, X28). All branches that speak about a map count, also those
// of alternatives that it does not fit. A map is open if none names a key, or if one of them says so.
func (r *report) unknown(keys applied, tree any, at pointer) {
	if len(keys.schemas) == 0 {
		return
	}
	switch v := tree.(type) {
	case []any:
		element := keys.element()
		for i, child := range v {
			r.unknown(element, child, append(slices.Clip(at), strconv.Itoa(i)))
		}
	case map[string]any:
		closed := slices.ContainsFunc(keys.schemas, namesKeys) && !slices.ContainsFunc(keys.schemas, isOpen)
		for _, key := range sortedKeys(v) {
			names := func(s *jsonschema.Schema) bool { return len(schemasForKey(s, key)) > 0 }
			if below := append(slices.Clip(at), key); closed && !slices.ContainsFunc(keys.schemas, names) {
				r.say(below, unknownKey)
			} else if isContainer(v[key]) {
				r.unknown(keys.key(key), v[key], below)
			}
		}
	}
}

func namesKeys(s *jsonschema.Schema) bool { return len(s.Properties)+len(s.PatternProperties) > 0 }

func isOpen(s *jsonschema.Schema) bool {
	return s.AdditionalProperties != nil || s.UnevaluatedProperties != nil
}

// add reports a failure and everything that is the reason for it, in the order of their places.
func (r *report) add(failure *jsonschema.ValidationError) {
	if r.full() {
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

// full reports whether there are enough findings, and if so, that something is left out.
func (r *report) full() bool {
	r.cut = r.cut || len(r.found) >= maxFindings
	return r.cut
}

// alternatives reports as one violation that none of several schemas fit: which of them the author of the values
// wanted is not known.
func (r *report) alternatives(failure *jsonschema.ValidationError, keyword string) {
	at := located(failure.InstanceLocation)
	if len(failure.Causes) == 0 {
		r.say(at, "matches more than one alternative of oneOf; it must match exactly one")
		return
	}
	var reasons, public []string
	for _, cause := range failure.Causes {
		one := *r
		one.cut, one.found = false, nil
		one.add(cause)
		reason, open := one.reason(r.path(at))
		if !slices.Contains(reasons, reason) {
			reasons, public = append(reasons, reason), append(public, open)
		}
	}
	none := fmt.Sprintf("fits none of the alternatives of %s: ", keyword)
	r.say(at, none+strings.Join(reasons, "; or "))
	r.found[len(r.found)-1].Public = Shorten(none+strings.Join(public, "; or "), maxMessage)
}

// reason joins the findings about one alternative, with paths below the value, and the same without values.
func (r *report) reason(path string) (message, public string) {
	var messages, publics []string
	for _, v := range r.finish() {
		below := strings.TrimPrefix(strings.TrimPrefix(v.Path, path)+": ", ".")
		below = strings.TrimPrefix(below, ": ")
		messages, publics = append(messages, below+v.Message), append(publics, below+v.Public)
	}
	return Shorten(strings.Join(messages, " and "), maxMessage), Shorten(strings.Join(publics, " and "), maxMessage)
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
	case keyword == "not" && strings.HasSuffix(above, "Properties") && reflect.DeepEqual(limit, map[string]any{}):
		r.say(at, unknownKey)
	case keyword == "not":
		r.say(at, "matches what the schema excludes with not")
	case keyword == "additionalProperties": // of a Format: schemas of values are closed in other ways
		rule := located(absolute)
		properties, _ := lookup(r.schema.document, append(rule[:len(rule)-1], "properties"))
		r.unlisted(value, at, properties)
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

// unlisted reports the keys that a map of a Format must not have.
func (r *report) unlisted(value any, at pointer, properties any) {
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
		if _, present := object[name]; present || r.full() {
			continue
		}
		r.say(append(slices.Clip(at), name), missing)
	}
}

// wrong reports a value that violates a keyword, and shows it if it is short and no secret (D38).
func (r *report) wrong(at pointer, value any, message string) {
	r.say(at, message)
	if shown := show(value); shown != "" && !secretPath(at) && (r.secret == nil || !r.secret(at)) {
		r.found[len(r.found)-1].Message += ", is " + shown
	}
}

func (r *report) say(at pointer, message string) {
	if message = Shorten(message, maxMessage); !r.full() {
		r.found = append(r.found, Violation{Path: r.path(at), Message: message, Public: message})
	}
}

// path returns the place of a value as users write it.
func (r *report) path(at pointer) string {
	if r.key == "" { // a Format
		return Shorten(dotted(r.value, at), maxMessage)
	}
	return Shorten(dottedIn(r.key, r.value, at), maxMessage)
}

// finish drops duplicates and sorts by path. It returns one more than maxProblems
// if there are that many, so that the caller can report that some are left out.
func (r *report) finish() []Violation {
	slices.SortStableFunc(r.found, func(a, b Violation) int {
		return cmp.Or(strings.Compare(a.Path, b.Path), strings.Compare(a.Message, b.Message))
	})
	found := slices.Compact(r.found)
	return found[:min(len(found), maxProblems+1)]
}

func lastElement(location string) string { return location[strings.LastIndexByte(location, '/')+1:] }

// located parses a location that the compiler reports: a JSON pointer with the escapes of a URL.
func located(location string) pointer {
	plain, _ := url.PathUnescape(location)
	path, _ := splitPointer(plain)
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
	texts := make([]string, len(list))
	for i, item := range list {
		text, _ := JSON(item)
		texts[i] = string(text)
	}
	return Shorten(strings.Join(texts, ", "), maxMessage/2)
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
