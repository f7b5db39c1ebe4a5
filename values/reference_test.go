package values

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/santhosh-tekuri/jsonschema/v5"
)

// reference explains what is wrong by the compiler's own validation. It is right and complete, and keeps everything: a million
// failures for a hundred thousand values. What people read must be what it says.
type reference struct {
	schema *schema
	report *report
}

func referenceViolations(t testing.TB, s *schema, key string, section any) []string {
	t.Helper()
	err := s.compiled.Validate(section)
	if err == nil {
		return nil
	}
	var root *jsonschema.ValidationError
	if !errors.As(err, &root) {
		t.Fatal(err)
	}
	r := newReference(s, key, section)
	r.add(root, section)
	var texts []string
	for _, v := range r.report.findings.finish() {
		texts = append(texts, v.String())
	}
	return texts
}

func newReference(s *schema, key string, section any) *reference {
	return &reference{s, newReport(s, key, section, nil)}
}

func lastElement(location string) string { return location[strings.LastIndexByte(location, '/')+1:] }

func (r *reference) add(failure *jsonschema.ValidationError, section any) {
	keyword := lastElement(failure.KeywordLocation)
	switch {
	case keyword == "anyOf" || keyword == "oneOf":
		r.alternatives(failure, keyword, section)
	case len(failure.Causes) > 0:
		slices.SortStableFunc(failure.Causes, func(a, b *jsonschema.ValidationError) int {
			return strings.Compare(a.InstanceLocation, b.InstanceLocation)
		})
		for _, cause := range failure.Causes {
			r.add(cause, section)
		}
	default:
		r.leaf(failure, section)
	}
}

func (r *reference) alternatives(failure *jsonschema.ValidationError, keyword string, section any) {
	at := located(failure.InstanceLocation)
	if len(failure.Causes) == 0 {
		r.report.findings.add(at, "matches more than one alternative of oneOf; it must match exactly one")
		return
	}
	var reasons []string
	for _, cause := range failure.Causes {
		one := newReference(r.schema, r.report.findings.key, section)
		one.add(cause, section)
		var texts []string
		for _, v := range one.report.findings.finish() {
			text := strings.TrimPrefix(v.String(), r.report.findings.path(at))
			texts = append(texts, strings.TrimPrefix(strings.TrimPrefix(text, ": "), "."))
		}
		if reason := strings.Join(texts, " and "); !slices.Contains(reasons, reason) {
			reasons = append(reasons, reason)
		}
	}
	r.report.findings.add(at, fmt.Sprintf("fits none of the alternatives of %s: %s", keyword, strings.Join(reasons, "; or ")))
}

func (r *reference) leaf(failure *jsonschema.ValidationError, section any) {
	at := located(failure.InstanceLocation)
	keyword := lastElement(failure.KeywordLocation)
	value, _ := lookup(section, at)
	_, location, _ := strings.Cut(failure.AbsoluteKeywordLocation, "#")
	limit, _ := lookup(r.schema.document, located(location))
	message := sentence(keyword, limit)
	if strings.HasPrefix(message, "does not fit the keyword ") {
		message = failure.Message
	}
	parent := strings.TrimSuffix(failure.KeywordLocation, "/not")
	switch {
	case strings.Contains(failure.KeywordLocation, "/propertyNames/"):
		r.report.findings.add(at, "as a key "+message)
	case keyword == "not" && strings.HasSuffix(parent, "/additionalProperties"):
		r.report.findings.add(at, "is not a known key")
	case keyword == "not" && strings.HasSuffix(parent, "/unevaluatedProperties"):
		r.report.findings.add(at, "is not allowed together with the other values here")
		r.report.findings.found[len(r.report.findings.found)-1].unevaluated = true
	case keyword == "not":
		r.report.findings.add(at, "matches what the schema excludes with not")
	case keyword == "required":
		object, _ := value.(map[string]any)
		names, _ := limit.([]any)
		for _, name := range names {
			if _, present := object[name.(string)]; !present {
				r.report.findings.add(append(slices.Clip(at), name.(string)), "is required")
			}
		}
	case keyword == "type":
		r.report.findings.add(at, fmt.Sprintf("must be %s, is %s", typeNames(limit), describe(value)))
	default:
		r.report.wrong(at, value, message)
	}
}
