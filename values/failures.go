package values

import (
	"cmp"
	"fmt"
	"net/url"
	"reflect"
	"slices"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v5"
)

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
	schema   *schema
	value    any
	secret   func(pointer) bool
	findings findings
	most     int  // findings
	looks    *int // failures that may still be looked at
	cut      bool // something was left out
}

func newReport(s *schema, key string, value any, secret func(pointer) bool) *report {
	found := findings{key: key, section: map[string]any{key: value}}
	return &report{schema: s, value: value, secret: secret, findings: found, most: maxFindings, looks: new(maxLooks)}
}

// findings are what a report has found, in no order and with duplicates.
type findings struct {
	key     string
	section map[string]any // the section under its key, as paths name it
	found   []finding
	size    int // of their texts, in bytes
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

func (r *report) full() bool {
	return len(r.findings.found) >= r.most || r.findings.size >= maxExplanation
}

// closes reports whether the not at a location is one by which translate refuses unknown keys.
func closes(location pointer) bool {
	n := len(location)
	return n > 1 && (location[n-2] == "additionalProperties" || location[n-2] == "unevaluatedProperties")
}

// alternatives reports as one violation that none of several schemas fit: which of them the author of the values wanted is
// not known.
func (r *report) alternatives(failure *jsonschema.ValidationError, keyword string) {
	at := located(failure.InstanceLocation)
	if len(failure.Causes) == 0 {
		r.findings.add(at, "matches more than one alternative of oneOf; it must match exactly one")
		return
	}
	var reasons []string
	for _, cause := range failure.Causes {
		one := *r
		one.cut, one.most = false, maxReasons
		one.findings.found, one.findings.size = nil, 0
		one.add(cause)
		var texts []string
		for _, v := range one.findings.finish() {
			text := strings.TrimPrefix(v.String(), r.findings.path(at))
			texts = append(texts, strings.TrimPrefix(strings.TrimPrefix(text, ": "), "."))
		}
		if one.cut {
			texts = append(texts, "…")
		}
		if reason := strings.Join(texts, " and "); !slices.Contains(reasons, reason) {
			reasons = append(reasons, reason)
		}
	}
	r.findings.add(at, fmt.Sprintf("fits none of the alternatives of %s: %s", keyword, strings.Join(reasons, "; or ")))
}

// leaf reports a failure that has no other reason.
func (r *report) leaf(failure *jsonschema.ValidationError, keyword string) {
	at, location := located(failure.InstanceLocation), located(failure.KeywordLocation)
	value, _ := lookup(r.value, at)
	_, absolute, _ := strings.Cut(failure.AbsoluteKeywordLocation, "#")
	limit, _ := lookup(r.schema.document, located(absolute))
	switch {
	case slices.Contains(location, "propertyNames"):
		r.findings.add(at, "as a key "+sentence(keyword, limit))
	case keyword == "not" && closes(location) && reflect.DeepEqual(limit, map[string]any{}):
		if location[len(location)-2] == "additionalProperties" {
			r.findings.add(at, unknownKey)
			return
		}
		r.findings.add(at, "is not allowed together with the other values here")
		r.findings.found[len(r.findings.found)-1].unevaluated = true
	case keyword == "not":
		r.findings.add(at, "matches what the schema excludes with not")
	case keyword == "required":
		r.missing(value, at, limit)
	case keyword == "type":
		r.findings.add(at, fmt.Sprintf("must be %s, is %s", typeNames(limit), describe(value)))
	case slices.Contains(location, "dependentRequired"):
		key := location[len(location)-2]
		r.wrong(at, value, fmt.Sprintf("property '%v' is required, if '%s' property exists", limit, key))
	default:
		r.wrong(at, value, sentence(keyword, limit))
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
		r.findings.add(append(slices.Clip(at), name), missing)
	}
}

// wrong reports a value that violates a keyword, and shows it if it is short and no secret (D38).
func (r *report) wrong(at pointer, value any, message string) {
	if !secretPath(at) && (r.secret == nil || !r.secret(at)) {
		if shown, ok := show(value); ok {
			message = Shorten(message, maxMessage) + shownAs + shown
		}
	}
	r.findings.add(at, message)
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
	if len(key.at) == 0 {
		return false
	}
	parent := key.at[:len(key.at)-1]
	return slices.ContainsFunc(f.found, func(one finding) bool { return !one.unevaluated && parent.contains(one.at) })
}

func (f *findings) add(at pointer, message string) {
	v := Violation{Path: f.path(at), Message: Shorten(message, maxMessage)}
	f.size += len(v.Path) + len(v.Message)
	f.found = append(f.found, finding{Violation: v, at: at})
}

// path returns the place of a value as users write it, with long keys cut.
func (f *findings) path(at pointer) string {
	return dottedUpTo(f.section, append(pointer{f.key}, at...), maxElement)
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
