package values

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/santhosh-tekuri/jsonschema/v5"
)

// maxFindings bounds how many findings of a section are collected in which nearly everything is
// wrong. It is larger than maxProblems because finish drops duplicates and consequences.
const maxFindings = 10 * maxProblems

// explain reports why a section does not fit, as far as a person can read. It asks the checker
// about each part of schema and values, and descends only where the answer is no; it keeps only
// what it reports. more: the report is incomplete.
//
// The checker may reach its limit during the explanation although it did not during the check,
// because parts are checked again at each level. Then there may be no finding at all, and the only
// violation is the limit.
func (s *schema) explain(key string, section any, secret func(pointer) bool) (violations []Violation, more bool) {
	r := newReport(s, key, section, secret)
	r.explain(s.compiled, section, nil, "")
	violations = r.findings.finish()
	if len(violations) == 0 {
		violations = []Violation{{Path: key, Message: errTooMuchWork.Error()}}
	}
	return violations, r.cut
}

// report collects what is wrong with one value, or with one of its alternatives. Its methods mirror
// those of checker (fits.go) keyword by keyword: one that decides differently there and here leads
// to a refusal without a reason.
type report struct {
	schema   *schema
	check    *checker
	secret   func(pointer) bool
	asKey    bool // it is about the keys of a map, as texts
	findings findings
	inside   bool // of a message about alternatives, which it shares with others
	cut      bool // something was left out
	partial  bool // other layers may add keys to maps: only what stays wrong is reported
	worded   map[string]string
}

func newReport(s *schema, key string, section any, secret func(pointer) bool) *report {
	left := maxExplanation
	found := findings{key: key, section: map[string]any{key: section}, left: &left}
	return &report{schema: s, check: s.checker.begin(), secret: secret, findings: found, worded: map[string]string{}}
}

// inner returns a report about one alternative, whose reasons become part of one message. left is
// the budget of all alternatives together.
func (r *report) inner(left *int) *report {
	one := *r
	one.cut, one.inside = false, true
	one.findings.found, one.findings.left = nil, left
	return &one
}

// findings are what a report has found, in no order and with duplicates.
type findings struct {
	key     string
	section map[string]any // the section under its key, as paths name it
	found   []finding
	left    *int // bytes that may still be reported
}

// finding is a violation before finish decides whether it is reported.
type finding struct {
	Violation
	at          pointer
	unevaluated bool // the key is known, but not to the branches that fit
}

// full reports whether the explanation must end, because of the number or size of findings or the
// work of the checker, and records that it is incomplete.
func (r *report) full() bool {
	r.cut = r.cut || len(r.findings.found) >= maxFindings || *r.findings.left <= 0 || r.check.exhausted()
	return r.cut
}

// explain reports everything that a schema does not allow at a value. The caller has found that the
// value does not fit. via is the keyword that led to the schema; forbidden needs it for its
// wording.
func (r *report) explain(s *jsonschema.Schema, value any, at pointer, via string) {
	switch {
	case r.full():
	case s.Always != nil:
		if !*s.Always {
			r.wrong(at, value, "not allowed")
		}
	case !fitsType(s.Types, value):
		r.mistyped(s, value, at)
	default:
		seen := nothingEvaluated()
		r.itself(s, value, at)
		r.content(s, value, at, seen)
		r.branches(s, value, at, via, seen)
		r.unevaluated(s, value, at, seen)
	}
}

// part explains a part of the value, if it is wrong.
func (r *report) part(s *jsonschema.Schema, value any, above pointer, element, via string) {
	if r.full() || r.check.fits(s, value, nil) {
		return
	}
	r.explain(s, value, append(slices.Clip(above), element), via)
}

// branch explains what another schema requires of the same value, if it does not fit. seen gets
// what the branch evaluates only if it fits, as JSON Schema has it.
func (r *report) branch(s *jsonschema.Schema, value any, at pointer, seen *evaluated) {
	if !r.full() && !r.check.attempt(s, value, seen) {
		r.explain(s, value, at, "")
	}
}

// itself checks the keywords that apply to values of all types.
func (r *report) itself(s *jsonschema.Schema, value any, at pointer) {
	r.limit(len(s.Constant) == 0 || r.check.oneOf(s.Constant, value), s, "const", value, at)
	r.limit(len(s.Enum) == 0 || r.check.oneOf(s.Enum, value), s, "enum", value, at)
	r.limit(r.check.fitsFormat(s, value), s, "format", value, at)
}

// limit reports a keyword that does not fit. An exhausted checker always answers no, which is no
// finding.
func (r *report) limit(fits bool, s *jsonschema.Schema, keyword string, value any, at pointer) {
	if !fits && !r.check.exhausted() {
		r.wrong(at, value, r.wording(s, keyword))
	}
}

// wording returns the sentence about a keyword. It is cached: an enum may be long, and all elements
// of a list may violate it.
func (r *report) wording(s *jsonschema.Schema, keyword string) string {
	name := s.Location + "/" + keyword
	text, known := r.worded[name]
	if !known {
		text = Shorten(sentence(keyword, r.keyword(s, keyword)), maxMessage)
		r.worded[name] = text
	}
	return text
}

// keyword returns the value of a keyword in the translated schema. The compiled schema does not
// keep it as it was written.
func (r *report) keyword(s *jsonschema.Schema, keyword string) any {
	_, location, _ := strings.Cut(s.Location, "#")
	said, _ := lookup(r.schema.document, append(located(location), keyword))
	return said
}

// wrong reports a value that violates a keyword, and shows it if it is short and no secret (D38).
func (r *report) wrong(at pointer, value any, message string) {
	if r.asKey {
		r.findings.add(at, "as a key "+message)
		return
	}
	if !r.hides(at) {
		if shown, ok := show(value); ok {
			message += shownAs + shown
		}
	}
	r.findings.add(at, message)
}

// mistyped reports a value of the wrong type without the value: its type is what matters, and it
// may be large.
func (r *report) mistyped(s *jsonschema.Schema, value any, at pointer) {
	if r.asKey {
		r.findings.add(at, fmt.Sprintf("as a key expected %s, but got string", strings.Join(s.Types, " or ")))
		return
	}
	r.findings.add(at, fmt.Sprintf("must be %s, is %s", typeNames(r.keyword(s, "type")), describe(value)))
}

// content checks the keywords of the value's own type, like checker.fitsContent.
func (r *report) content(s *jsonschema.Schema, value any, at pointer, seen *evaluated) {
	switch v := value.(type) {
	case map[string]any:
		r.mapping(s, v, at, seen)
	case []any:
		r.list(s, v, at, seen)
	case string:
		length := utf8.RuneCountInString(v)
		r.limit(within(length, s.MinLength, -1), s, "minLength", v, at)
		r.limit(within(length, -1, s.MaxLength), s, "maxLength", v, at)
		r.limit(s.Pattern == nil || r.check.matches(s.Pattern, v), s, "pattern", v, at)
	case int64, float64, json.Number:
		r.limit(s.Minimum == nil || compare(v, s.Minimum) >= 0, s, "minimum", v, at)
		r.limit(s.ExclusiveMinimum == nil || compare(v, s.ExclusiveMinimum) > 0, s, "exclusiveMinimum", v, at)
		r.limit(s.Maximum == nil || compare(v, s.Maximum) <= 0, s, "maximum", v, at)
		r.limit(s.ExclusiveMaximum == nil || compare(v, s.ExclusiveMaximum) < 0, s, "exclusiveMaximum", v, at)
		r.limit(isMultiple(s, v), s, "multipleOf", v, at)
	}
}

// mapping explains a map. With partial it reports no key that is missing: another layer may have
// it.
func (r *report) mapping(s *jsonschema.Schema, m map[string]any, at pointer, seen *evaluated) {
	r.limit(r.partial || within(len(m), s.MinProperties, -1), s, "minProperties", m, at)
	r.limit(within(len(m), -1, s.MaxProperties), s, "maxProperties", m, at)
	for _, name := range s.Required {
		if _, present := m[name]; !present && !r.partial && !r.full() {
			r.findings.add(append(slices.Clip(at), name), missing)
		}
	}
	keys := sortedKeys(m)
	patterns := sortedPatterns(s)
	for _, key := range keys {
		r.property(s, key, m[key], at, patterns, seen)
	}
	if s.PropertyNames != nil {
		r.asKey = true
		for _, key := range keys {
			r.part(s.PropertyNames, key, at, key, "")
		}
		r.asKey = false
	}
	r.dependent(s, m, keys, at, seen)
}

// sortedPatterns returns patterns in a fixed order, so that reports that are cut are cut at the
// same place each time.
func sortedPatterns(s *jsonschema.Schema) []*regexp.Regexp {
	patterns := make([]*regexp.Regexp, 0, len(s.PatternProperties))
	for pattern := range s.PatternProperties {
		patterns = append(patterns, pattern)
	}
	slices.SortFunc(patterns, func(a, b *regexp.Regexp) int { return strings.Compare(a.String(), b.String()) })
	return patterns
}

// property explains the value of one key with all schemas that name it, or with
// additionalProperties when none does.
func (r *report) property(s *jsonschema.Schema, key string, value any, at pointer, patterns []*regexp.Regexp, seen *evaluated) {
	if r.full() {
		return
	}
	property, named := s.Properties[key]
	if named {
		r.part(property, value, at, key, "")
	}
	for _, pattern := range patterns {
		if r.check.matches(pattern, key) {
			named = true
			r.part(s.PatternProperties[pattern], value, at, key, "")
		}
	}
	if named || s.AdditionalProperties != nil {
		seen.add(key)
	}
	if additional, ok := s.AdditionalProperties.(*jsonschema.Schema); ok && !named {
		r.part(additional, value, at, key, "additionalProperties")
	}
}

// dependent explains dependentRequired and dependentSchemas.
func (r *report) dependent(s *jsonschema.Schema, m map[string]any, keys []string, at pointer, seen *evaluated) {
	if s.DependentRequired == nil && s.DependentSchemas == nil {
		return
	}
	for _, key := range keys {
		for _, name := range s.DependentRequired[key] {
			if _, ok := m[name]; !ok && !r.partial && !r.full() {
				r.wrong(at, m, fmt.Sprintf("property '%s' is required, if '%s' property exists", Shorten(name, maxElement), Shorten(key, maxElement)))
			}
		}
		if schema := s.DependentSchemas[key]; schema != nil {
			r.branch(schema, m, at, seen)
		}
	}
}

func (r *report) list(s *jsonschema.Schema, list []any, at pointer, seen *evaluated) {
	r.limit(within(len(list), s.MinItems, -1), s, "minItems", list, at)
	r.limit(within(len(list), -1, s.MaxItems), s, "maxItems", list, at)
	r.limit(!s.UniqueItems || r.check.unique(list), s, "uniqueItems", list, at)
	seen.addItems(positions(s, list))
	for i, element := range list {
		if items := itemSchema(s, i); items != nil {
			r.part(items, element, at, strconv.Itoa(i), "")
		}
	}
	if additional, ok := s.AdditionalItems.(bool); ok && !additional && len(list) > positioned(s) {
		r.wrong(at, list, fmt.Sprintf("only %d items are allowed, but found %d items", positioned(s), len(list)))
	}
	if s.Contains != nil && !r.undecided(list) {
		r.contains(s, list, at)
	}
}

// contains explains contains. If too few elements fit, any of the others may be the one that was
// meant, so it reports the reasons of all of them.
func (r *report) contains(s *jsonschema.Schema, list []any, at pointer) {
	found := r.check.containing(s, list)
	switch {
	case r.full():
	case !within(found, -1, s.MaxContains):
		r.wrong(at, list, fmt.Sprintf("valid must be <= %d, but got %d", s.MaxContains, found))
	case within(found, s.MinContains, -1):
	case found == len(list):
		r.wrong(at, list, fmt.Sprintf("valid must be >= %d, but got %d", s.MinContains, found))
	default:
		for i, element := range list {
			r.part(s.Contains, element, at, strconv.Itoa(i), "")
		}
	}
}

// branches explains the violations of allOf, $ref and the others for the same value.
func (r *report) branches(s *jsonschema.Schema, value any, at pointer, via string, seen *evaluated) {
	if s.Ref != nil {
		r.branch(s.Ref, value, at, seen)
	}
	if s.Not != nil && !r.full() && r.check.attempt(s.Not, value, seen) {
		r.forbidden(value, at, via)
	}
	for _, branch := range s.AllOf {
		r.branch(branch, value, at, seen)
	}
	if len(s.AnyOf) > 0 && !r.full() && r.check.count(s.AnyOf, value, seen) == 0 {
		r.alternatives(s.AnyOf, "anyOf", value, at)
	}
	if len(s.OneOf) > 0 && !r.full() {
		r.exactlyOne(s, value, at, seen)
	}
	if s.If != nil && !r.full() {
		r.conditional(s, value, at, seen)
	}
}

// undecided reports whether one more key, from another layer, may change whether the value fits.
// Only partial reports have undecided values.
func (r *report) undecided(value any) bool { return r.partial && hasMap(value) }

func (r *report) exactlyOne(s *jsonschema.Schema, value any, at pointer, seen *evaluated) {
	switch fitting := r.check.count(s.OneOf, value, seen); {
	case fitting == 0:
		r.alternatives(s.OneOf, "oneOf", value, at)
	case fitting > 1 && !r.undecided(value):
		r.findings.add(at, "matches more than one alternative of oneOf; it must match exactly one")
	}
}

// conditional explains if, then and else. For an undecided value it is not known which of the two
// applies, except for the form that translator.nullable writes: a value with a map in it is never
// null.
func (r *report) conditional(s *jsonschema.Schema, value any, at pointer, seen *evaluated) {
	if r.undecided(value) && !isNullable(s) {
		return
	}
	consequence := s.Else
	if r.check.attempt(s.If, value, seen) {
		consequence = s.Then
	}
	if consequence != nil {
		r.branch(consequence, value, at, seen)
	}
}

// forbidden words a violation of "not". translate also closes objects with it (see nothing), so via
// distinguishes an unknown key from a "not" of the author.
func (r *report) forbidden(value any, at pointer, via string) {
	switch {
	case via == "" && r.undecided(value):
	case r.asKey:
		r.wrong(at, value, "not failed")
	case via == "additionalProperties":
		r.findings.add(at, unknownKey)
	case via == "unevaluatedProperties":
		r.findings.add(at, "is not allowed together with the other values here")
		r.findings.found[len(r.findings.found)-1].unevaluated = true
	default:
		r.findings.add(at, "matches what the schema excludes with not")
	}
}

func (r *report) unevaluated(s *jsonschema.Schema, value any, at pointer, seen *evaluated) {
	switch v := value.(type) {
	case map[string]any:
		if s.UnevaluatedProperties == nil || r.partial { // the shape next to it has the keys of all branches
			return
		}
		for _, key := range sortedKeys(v) {
			if !seen.has(key) {
				r.part(s.UnevaluatedProperties, v[key], at, key, "unevaluatedProperties")
			}
		}
	case []any:
		if s.UnevaluatedItems == nil {
			return
		}
		for i := seen.items; i < len(v); i++ {
			r.part(s.UnevaluatedItems, v[i], at, strconv.Itoa(i), "unevaluatedItems")
		}
	}
}

// alternatives reports as one violation that none of several schemas fit: which of them the author
// of the values wanted is not known.
func (r *report) alternatives(branches []*jsonschema.Schema, keyword string, value any, at pointer) {
	// All reasons end up in one message, those of alternatives inside of alternatives, too, so they
	// share twice its size as a budget. At the outermost level that is a budget of its own; further
	// inside it also counts against the budget around it.
	mine := min(*r.findings.left, 2*maxMessage)
	left := mine
	path := r.findings.path(at)
	var reasons []string
	for _, branch := range branches {
		one := r.inner(&left)
		one.explain(branch, value, at, "")
		var texts []string
		for _, v := range one.findings.finish() {
			text := strings.TrimPrefix(v.String(), path)
			texts = append(texts, strings.TrimPrefix(strings.TrimPrefix(text, ": "), "."))
		}
		if one.cut {
			texts = append(texts, "…")
		}
		if r.partial && len(texts) == 0 {
			return // a key more, and it fits
		}
		if reason := strings.Join(texts, " and "); !slices.Contains(reasons, reason) {
			reasons = append(reasons, reason)
		}
		if one.cut {
			break
		}
	}
	if r.inside {
		*r.findings.left -= mine - max(left, 0)
	}
	r.findings.add(at, fmt.Sprintf("fits none of the alternatives of %s: %s", keyword, strings.Join(reasons, "; or ")))
}

// finish drops duplicates and consequences and sorts by path. It returns one more than maxProblems
// if there are that many, so that the caller can report that some are left out.
func (f *findings) finish() []Violation {
	var violations []Violation
	known := map[Violation]bool{}
	for _, one := range f.found {
		if known[one.Violation] || one.unevaluated && f.explained(one) {
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
func (f *findings) explained(key finding) bool {
	parent := key.at[:len(key.at)-1]
	return slices.ContainsFunc(f.found, func(one finding) bool { return !one.unevaluated && parent.contains(one.at) })
}

func (f *findings) add(at pointer, message string) {
	v := Violation{Path: f.path(at), Message: Shorten(message, maxMessage)}
	*f.left -= len(v.Path) + len(v.Message)
	f.found = append(f.found, finding{Violation: v, at: at})
}

// path returns the place of a value as users write it, with long keys cut.
func (f *findings) path(at pointer) string {
	return dottedUpTo(f.section, append(pointer{f.key}, at...), maxElement)
}

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
