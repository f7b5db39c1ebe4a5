package values

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"reflect"
	"regexp"
	"regexp/syntax"
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
func (e *ValidationError) Error() string { return e.text(Violation.String) }

// Public is the error without the values: only which of them do not fit, and what they must be.
func (e *ValidationError) Public() string {
	return e.text(func(v Violation) string { return Violation{Path: v.Path, Message: v.Public}.String() })
}

func (e *ValidationError) text(of func(Violation) string) string {
	lines := make([]string, 0, len(e.Violations))
	for _, v := range e.Violations[:min(len(e.Violations), maxProblems)] {
		lines = append(lines, of(v))
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

// Public is the text of an error with the public ones of all ValidationErrors in it.
func Public(err error) string {
	if invalid, ok := err.(*ValidationError); ok { //nolint:errorlint // each one in the tree of errors
		return invalid.Public()
	}
	text, wrapped := err.Error(), []error{errors.Unwrap(err)}
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		wrapped = joined.Unwrap()
	}
	for _, one := range wrapped {
		if one != nil {
			text = strings.ReplaceAll(text, one.Error(), Public(one))
		}
	}
	return text
}

// validate validates a section; a nil schema accepts everything. secret reports which values a
// message must not repeat.
func (s *schema) validate(key string, section any, secret func(pointer) bool) error {
	if s == nil {
		return nil
	}
	r := &report{schema: s, key: key, value: section, secret: secret}
	if s.affordable(section) {
		r.check()
		r.unknown(s.keys, section, nil)
	} else {
		r.say(nil, "cannot be checked: that takes too much work; make the values smaller, or their schema simpler")
	}
	if len(r.found) == 0 {
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

// check lets the library validate the value.
func (r *report) check() {
	err := r.schema.compiled.Validate(r.value)
	if failure, ok := errors.AsType[*jsonschema.ValidationError](err); ok {
		r.add(failure)
	} else if err != nil {
		r.say(nil, "cannot be checked: "+strings.TrimPrefix(err.Error(), "jsonschema: "))
	}
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
	var reasons []Violation
	for _, cause := range failure.Causes {
		one := *r
		one.cut, one.found = false, nil
		one.add(cause)
		if reason := joinedBy(" and ", one.below(r.path(at))); !slices.Contains(reasons, reason) {
			reasons = append(reasons, reason)
		}
	}
	all := joinedBy("; or ", reasons)
	none := fmt.Sprintf("fits none of the alternatives of %s: ", keyword)
	r.found = append(r.found, Violation{r.path(at), Shorten(none+all.Message, maxMessage), Shorten(none+all.Public, maxMessage)})
}

// below returns the findings with their paths below a value in the messages.
func (r *report) below(path string) []Violation {
	found := r.finish()
	for i, v := range found {
		at := strings.TrimPrefix(strings.TrimPrefix(v.Path, path)+": ", ".")
		at = strings.TrimPrefix(at, ": ")
		found[i] = Violation{Message: at + v.Message, Public: at + v.Public}
	}
	return found
}

// joinedBy joins messages to one.
func joinedBy(separator string, found []Violation) Violation {
	var messages, public []string
	for _, v := range found {
		messages, public = append(messages, v.Message), append(public, v.Public)
	}
	return Violation{Message: strings.Join(messages, separator), Public: strings.Join(public, separator)}
}

// leaf reports a failure that has no other reason.
func (r *report) leaf(failure *jsonschema.ValidationError, keyword string) {
	at, location := located(failure.InstanceLocation), located(failure.KeywordLocation)
	value, _ := lookup(r.value, at)
	_, absolute, _ := strings.Cut(failure.AbsoluteKeywordLocation, "#")
	limit, _ := lookup(r.schema.document, located(absolute))
	above := lastElement(strings.TrimSuffix(failure.KeywordLocation, "/"+keyword))
	if object, _ := value.(map[string]any); object != nil {
		if _, empty := object[""]; empty { // the library leaves it out of the location
			r.say(append(slices.Clip(at), ""), "the key is empty, and a finding about the map may be about it; name it, or remove it")
		}
	}
	switch {
	case slices.Contains(location, "propertyNames"):
		r.say(at, "as a key "+sentence(keyword, limit))
	case keyword == "not" && strings.HasSuffix(above, "Properties") && reflect.DeepEqual(limit, map[string]any{}):
		r.say(at, unknownKey+r.hint(at, located(absolute)))
	case keyword == "not":
		r.say(at, "matches what the schema excludes with not")
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

// hint says of a key that a Format does not have which one is meant, or which there are. The rule about it stands next
// to the known ones.
func (r *report) hint(at, rule pointer) string {
	if r.key != "" {
		return ""
	}
	properties, _ := lookup(r.schema.document, append(rule[:len(rule)-2], "properties"))
	rules, _ := properties.(map[string]any)
	known := sortedKeys(rules)
	name := "" // an empty key is left out of the location
	if len(at) > 0 {
		name = at[len(at)-1]
	}
	return "; " + DidYouMean(name, known, "known are "+strings.Join(known, ", "))
}

// missing reports the keys that a map must have and has not.
func (r *report) missing(value any, at pointer, required any) {
	object, _ := value.(map[string]any)
	names, _ := required.([]any)
	for _, name := range names {
		name, _ := name.(string)
		if _, present := object[name]; !present {
			r.say(append(slices.Clip(at), name), missing)
		}
	}
}

// wrong reports a value that violates a keyword, and shows it if it is short and no secret (D38).
func (r *report) wrong(at pointer, value any, message string) {
	if shown := show(value); shown != "" && !r.secret(at) {
		r.say(at, message, ", is ", shown)
	} else {
		r.say(at, message)
	}
}

// say adds a finding. The details may hold values, so they are not public.
func (r *report) say(at pointer, message string, details ...string) {
	if !r.full() {
		all := Shorten(message+strings.Join(details, ""), maxMessage)
		r.found = append(r.found, Violation{Path: r.path(at), Message: all, Public: Shorten(message, maxMessage)})
	}
}

// path returns the place of a value as users write it.
func (r *report) path(at pointer) string {
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
	form, known := map[string]string{
		"const":            "must be JSON",
		"enum":             "must be one of LIST",
		"pattern":          "must match the pattern TEXT",
		"format":           "must have the format TEXT",
		"minimum":          "must be at least JSON",
		"maximum":          "must be at most JSON",
		"exclusiveMinimum": "must be more than JSON",
		"exclusiveMaximum": "must be less than JSON",
		"multipleOf":       "must be a multiple of JSON",
		"minLength":        "must have at least JSON characters",
		"maxLength":        "must have at most JSON characters",
		"minItems":         "must have at least JSON elements",
		"maxItems":         "must have at most JSON elements",
		"uniqueItems":      "must not have equal elements",
		"minProperties":    "must have at least JSON keys",
		"maxProperties":    "must have at most JSON keys",
		"minContains":      "must have at least JSON elements that fit contains",
		"maxContains":      "must have at most JSON elements that fit contains",
	}[keyword]
	switch {
	case !known && limit == false:
		return "not allowed"
	case !known:
		return "does not fit the keyword " + keyword
	}
	text, _ := JSON(limit)
	return strings.NewReplacer("JSON", string(text), "LIST", alternatives(limit), "TEXT", fmt.Sprint(limit)).Replace(form)
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

// typeNames names types, one or several, as describe does, so that "must be" and "is" match.
func typeNames(types any) string {
	names := strings.NewReplacer("object", "a map", "array", "a list", "integer", "an integer", "string", "a string",
		"number", "a number", "boolean", "a boolean", " ", " or ")
	return names.Replace(strings.Trim(fmt.Sprint(types), "[]"))
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

// maxWork bounds how much the library does with one section. It has no limit of its own, and keeps each failure of
// each alternative in memory. With this limit the worst pair of schema and values takes about a second; those of real
// modules need some thousands.
const maxWork = 500_000

// work estimates what a validation costs before it begins: how many schemas are applied to values. It decides
// nothing: an alternative that would end early counts as a whole.
type work struct {
	left    int
	weights map[any]int // of schemas and patterns, see weight and match
}

// affordable reports whether a validation is within maxWork.
func (s *schema) affordable(value any) bool {
	w := &work{maxWork, map[any]int{}}
	w.apply(s.compiled, value, 0, 0)
	return w.left > 0
}

// apply counts one schema that is applied to a value. level is how many schemas are applied around it, and way the
// length of the keys that lead to the value: a failure is kept with both.
func (w *work) apply(s *jsonschema.Schema, value any, level, way int) {
	if s == nil || w.left <= 0 {
		return
	}
	w.left -= 1 + level/8 + way/64 + w.weight(s)
	below := func(value any, way int, schemas ...*jsonschema.Schema) {
		for _, one := range schemas {
			w.apply(one, value, level+1, way)
		}
	}
	switch v := value.(type) {
	case string:
		w.match(s.Pattern, v)
	case map[string]any:
		for key, child := range v {
			for pattern := range s.PatternProperties {
				w.match(pattern, key)
			}
			if w.left <= 0 {
				return
			}
			below(key, way, s.PropertyNames)
			below(child, way+len(key), append(schemasForKey(s, key), s.UnevaluatedProperties)...)
		}
	case []any:
		for _, child := range v {
			items, _ := s.Items.(*jsonschema.Schema)
			below(child, way, items, s.Contains, s.UnevaluatedItems)
		}
	}
	below(value, way, s.Ref, s.Not, s.If, s.Then, s.Else)
	below(value, way, s.AllOf...)
	below(value, way, s.AnyOf...)
	below(value, way, s.OneOf...)
}

// weight is how many names and values a schema has itself: keys, and what is in enum and const, at all depths.
func (w *work) weight(s *jsonschema.Schema) int {
	weight, known := w.weights[s]
	if !known {
		_, weight, _ = measure(append(append([]any{}, s.Enum...), s.Constant...))
		weight += len(s.Required) + (len(s.Properties)+len(s.DependentRequired)+len(s.DependentSchemas))/4
		w.weights[s] = weight
	}
	return weight - 1
}

// match counts a pattern: the time of a match grows with the length of the text times the size of the pattern's
// program.
func (w *work) match(pattern *regexp.Regexp, text string) {
	if pattern == nil || w.left <= 0 {
		return
	}
	size, known := w.weights[pattern]
	if !known {
		parsed, _ := syntax.Parse(pattern.String(), syntax.Perl) // it was compiled
		program, _ := syntax.Compile(parsed.Simplify())
		size = len(program.Inst)
		w.weights[pattern] = size
	}
	w.left -= 1 + len(text)*size/256
}

// Format is a kind of document that the operator itself defines, such as the configuration of a hook, with its JSON
// Schema.
type Format struct{ schema *schema }

// NewFormat compiles a schema. of names the kind of document in errors.
func NewFormat(of string, text []byte) (*Format, error) {
	tree, err := ParseJSON(text)
	if err != nil {
		return nil, fmt.Errorf("schema of %s: %w", of, err)
	}
	root, _ := tree.(map[string]any)
	schema, err := compileSchema("of "+of, root, false)
	return &Format{schema}, err
}

// Violations lists everything that is wrong with a document in the sentences about values, with paths from the
// document on.
func (f *Format) Violations(document any) []Violation {
	r := &report{schema: f.schema, value: document, secret: secretPath}
	r.check()
	return r.finish()
}
