package charts

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chartutil"
)

const (
	// maxChecks bounds the work on one schema: how often a part of it is compared with a part of
	// the values. References and alternatives multiply these, so a small schema can take for hours.
	maxChecks = 500_000
	// maxViolations is how many violations are reported, and maxReason how long a message may be,
	// in bytes.
	maxViolations, maxReason = 100, 500
)

// Violation is one thing in the merged values of a module that a values.schema.json of its chart
// does not allow.
type Violation struct {
	// Key is the section that it is about: the key of the module, global, or that of a subchart in
	// values.yaml of the chart. It is empty for the values as a whole.
	Key string
	// Path is in the merged values of the module, like podinfo.ports[0].
	Path    string
	Message string // holds no value
	// File is the schema, from Root: charts/podinfo/values.schema.json.
	File string
}

// String joins path, message and file.
func (v Violation) String() string { return v.Path + ": " + v.Message + " (" + v.File + ")" }

// ErrElsewhere is the error for a schema that refers to another document. Only Helm loads that,
// when it installs the chart: a check must not make requests to addresses that a chart names.
var ErrElsewhere = errors.New("the schema refers to another document, which is not loaded for this check")

// errTooMuch ends a check that takes too much work (H22). It is thrown as a panic, because the
// library has no other way to stop, and reported as a violation.
var errTooMuch = errors.New("the check is too expensive")

// HasSchema reports whether the chart, or a subchart at any depth, has a schema of its values.
func (c *Chart) HasSchema() bool { return hasSchema(c.chart) }

func hasSchema(ch *chart.Chart) bool {
	return ch.Schema != nil || slices.ContainsFunc(ch.Dependencies(), hasSchema)
}

// Violations checks the merged values of a module against the schemas of the chart and of the
// subcharts that the values enable. It returns an error if they could not be checked: ErrElsewhere, or
// values or schemas that cannot be read, which Helm refuses, too.
func (c *Chart) Violations(merged map[string]any) ([]Violation, error) {
	if !c.HasSchema() {
		return nil, nil
	}
	top, err := c.Values(merged)
	if err != nil {
		return nil, err
	}
	defer During(c.module.Name)()
	use := c.Copy()
	if err := chartutil.ProcessDependenciesWithMerge(use, top); err != nil {
		return nil, fmt.Errorf("dependencies of the chart: %w", err)
	}
	values, err := chartutil.CoalesceValues(use, top)
	if err != nil {
		return nil, fmt.Errorf("values of the chart: %w", err)
	}
	return c.ViolationsIn(use, values)
}

// ViolationsIn is Violations for a copy of the chart without disabled subcharts, and the values
// that templates get. The first violations are returned even with an error, sorted by path.
func (c *Chart) ViolationsIn(use *chart.Chart, values map[string]any) ([]Violation, error) {
	s := &schemas{chart: c, prefix: c.prefix()}
	s.check(use, values, nil, "")
	slices.SortStableFunc(s.found, func(a, b Violation) int {
		return cmp.Or(cmp.Compare(a.Path, b.Path), cmp.Compare(a.Message, b.Message))
	})
	return s.found[:min(len(s.found), maxViolations)], errors.Join(s.errs...)
}

// prefix is where in merged values those of the chart lie.
func (c *Chart) prefix() []string {
	if c.inner {
		return []string{c.module.Key}
	}
	return nil
}

// schemas checks values against the values.schema.json of a chart and of its subcharts, before Helm
// does it in the middle of a run (H22). It uses the same library in the same configuration, with
// three differences: the work is bounded, no address that a schema names is requested, and messages
// hold no values, because they are shown as Events.
type schemas struct {
	chart  *Chart
	prefix []string
	found  []Violation
	errs   []error
}

// check checks the values of one chart, which are at the path at of the whole, and those of its
// subcharts. dir is the chart's directory below Root. The section of a subchart that is missing is
// not checked, as in Helm.
func (s *schemas) check(ch *chart.Chart, values map[string]any, at []string, dir string) {
	if ch.Schema != nil {
		file := path.Join(dir, "values.schema.json")
		found, err := s.chart.compiled(ch.Schema).validate(values)
		if err != nil {
			s.errs = append(s.errs, fmt.Errorf("%s: %w", file, err))
		}
		for _, v := range found {
			s.add(v, values, at, file)
		}
	}
	for _, sub := range ch.Dependencies() {
		below := append(slices.Clip(at), sub.Name())
		file := path.Join(dir, "charts", sub.Name())
		switch own := values[sub.Name()].(type) {
		case nil:
		case map[string]any:
			s.check(sub, own, below, file)
		default:
			s.add(flaw{message: "must be a map: it is the section of a subchart"}, values, below, file)
		}
	}
}

// add reports a flaw in values that are at the path at. The global that a subchart sees is the one
// of all charts, so it is reported there, and once: each subchart with the same schema finds it.
func (s *schemas) add(f flaw, values map[string]any, at []string, file string) {
	inner := place(values, f.at)
	whole := append(slices.Clone(s.prefix), at...)
	if len(f.at) > 0 && f.at[0] == "global" {
		whole = nil
	}
	whole = append(whole, inner...)
	v := Violation{Message: f.message, File: file}
	if len(whole) > 0 {
		v.Key = whole[0]
	}
	v.Path = cmp.Or(strings.TrimPrefix(strings.Join(dotted(whole), ""), "."), "the values")
	if !slices.Contains(s.found, v) {
		s.found = append(s.found, v)
	}
}

// place is a path with the indexes of lists in brackets. The library has only texts for both keys
// and indexes, so the values show which of them an element is.
func place(values any, at []string) []string {
	out := make([]string, 0, len(at))
	for _, element := range at {
		switch v := values.(type) {
		case []any:
			i, err := strconv.Atoi(element)
			if values = nil; err == nil && i >= 0 && i < len(v) {
				values = v[i]
			}
			element = "[" + element + "]"
		case map[string]any:
			values = v[element]
		}
		out = append(out, element)
	}
	return out
}

// dotted puts a dot before each key, which a hostile schema may have made long.
func dotted(at []string) []string {
	out := make([]string, len(at))
	for i, element := range at {
		if out[i] = element; !strings.HasPrefix(element, "[") {
			out[i] = "." + shortened(element)
		}
	}
	return out
}

func shortened(text string) string {
	if len(text) <= maxReason {
		return text
	}
	return strings.ToValidUTF8(text[:maxReason], "") + "…"
}

// compiled are the compiled schemas of a chart by their checksums, so that copies of the chart find
// them. Broken ones are kept with their error.
type compiled struct {
	mu    sync.Mutex
	bySum map[[sha256.Size]byte]*schema
}

func (c *Chart) compiled(data []byte) *schema {
	c.schemas.mu.Lock()
	defer c.schemas.mu.Unlock()
	sum := sha256.Sum256(data)
	known := c.schemas.bySum[sum]
	if known == nil {
		known = compile(data)
		if c.schemas.bySum == nil {
			c.schemas.bySum = map[[sha256.Size]byte]*schema{}
		}
		c.schemas.bySum[sum] = known
	}
	return known
}

// schema is one compiled values.schema.json. It is also its own extension of the library, which is
// called for each comparison and counts them.
type schema struct {
	compiled *jsonschema.Schema // nil when there is an error
	err      error

	mu   sync.Mutex // one check at a time: left is shared
	left int        // comparisons that the check in progress may still make
}

// compile compiles a schema like Helm, except for documents outside of the file, which are not
// loaded. It compiles twice: the vocabulary that counts the work replaces the rules of drafts from 2019 on
// for schemas, so whether the file is a schema is decided without it. The library panics on
// some inputs, as it does in Helm.
func compile(data []byte) (s *schema) {
	s = &schema{}
	defer func() {
		if r := recover(); r != nil {
			s.compiled, s.err = nil, fmt.Errorf("it is not a schema: %v", r)
		}
	}()
	document, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
	if err != nil {
		s.err = fmt.Errorf("it is not JSON: %w", err)
		return s
	}
	if _, s.err = compileWith(document); s.err == nil {
		s.compiled, s.err = compileWith(document, &jsonschema.Vocabulary{
			URL:     "addon-operator:work",
			Compile: func(*jsonschema.CompilerContext, map[string]any) (jsonschema.SchemaExt, error) { return s, nil },
		})
	}
	return s
}

// compileWith compiles a schema with vocabularies in addition to that of its draft. The name of the
// document is that which Helm gives it, because a schema may refer to itself by it.
func compileWith(document any, vocabularies ...*jsonschema.Vocabulary) (*jsonschema.Schema, error) {
	const name = "file:///values.schema.json"
	compiler := jsonschema.NewCompiler()
	compiler.UseLoader(nowhere{})
	for _, v := range vocabularies {
		compiler.RegisterVocabulary(v)
		compiler.AssertVocabs()
	}
	if err := compiler.AddResource(name, document); err != nil {
		return nil, err
	}
	compiled, err := compiler.Compile(name)
	var unloaded *jsonschema.LoadURLError
	var invalid *jsonschema.SchemaValidationError
	switch {
	case errors.As(err, &unloaded):
		return nil, ErrElsewhere
	case errors.As(err, &invalid):
		return nil, notASchema(invalid)
	}
	return compiled, err
}

// notASchema returns the place where a file is not a schema. Helm installs nothing with such a file.
func notASchema(e *jsonschema.SchemaValidationError) error {
	text := ""
	if wrong, ok := errors.AsType[*jsonschema.ValidationError](e.Err); ok {
		for _, f := range flaws(wrong) {
			text += "; /" + strings.Join(f.at, "/") + " " + f.message
		}
	}
	return fmt.Errorf("it is not a JSON schema, and Helm installs no chart with it%s", shortened(text))
}

// nowhere loads nothing.
type nowhere struct{}

// Load implements jsonschema.URLLoader.
func (nowhere) Load(string) (any, error) { return nil, ErrElsewhere }

// Validate implements jsonschema.SchemaExt: it counts how often a part of the schema is compared
// with a value.
func (s *schema) Validate(*jsonschema.ValidatorContext, any) {
	if s.left--; s.left < 0 {
		panic(errTooMuch)
	}
}

// flaw is a violation in the values of one chart.
type flaw struct {
	at      []string
	message string
}

// validate checks the values of one chart. Too much work is a flaw, not an error: the values may
// make the work, so they are refused.
func (s *schema) validate(values map[string]any) (found []flaw, err error) {
	if s.err != nil {
		return nil, s.err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.left = maxChecks
	defer func() {
		if r := recover(); r == any(errTooMuch) {
			found, err = []flaw{{message: errTooMuch.Error()}}, nil
		} else if r != nil { // as Helm does
			found, err = nil, fmt.Errorf("unable to validate: %v", r)
		}
	}()
	var wrong *jsonschema.ValidationError
	if err := s.compiled.Validate(values); errors.As(err, &wrong) {
		return flaws(wrong), nil
	} else if err != nil {
		return nil, err
	}
	return nil, nil
}

// flaws lists what is wrong: the leaves of the tree of causes, at most a little more than
// maxViolations. Keywords that name several keys give a flaw for each.
func flaws(e *jsonschema.ValidationError) (found []flaw) {
	switch k := e.ErrorKind.(type) {
	case *kind.Required:
		for _, name := range k.Missing {
			found = append(found, flaw{append(slices.Clone(e.InstanceLocation), name), "is required"})
		}
		return found
	case *kind.AdditionalProperties:
		for _, name := range k.Properties {
			found = append(found, flaw{append(slices.Clone(e.InstanceLocation), name), "is not a known key"})
		}
		return found
	case *kind.AnyOf:
		return []flaw{alternatives(e, "anyOf")}
	case *kind.OneOf:
		if len(k.Subschemas) > 0 {
			return []flaw{{e.InstanceLocation, "matches more than one alternative of oneOf; it must match exactly one"}}
		}
		return []flaw{alternatives(e, "oneOf")}
	}
	if len(e.Causes) == 0 {
		return []flaw{{e.InstanceLocation, shortened(sentence(e.ErrorKind))}}
	}
	for _, cause := range e.Causes {
		if found = append(found, flaws(cause)...); len(found) > maxViolations {
			break
		}
	}
	return found
}

// alternatives makes one flaw of all alternatives that do not fit: which of them the author wanted
// is unknown.
func alternatives(e *jsonschema.ValidationError, keyword string) flaw {
	one := flaw{at: e.InstanceLocation}
	var reasons []string
	for _, cause := range e.Causes {
		var texts []string
		for _, f := range flaws(cause) {
			inner := strings.Join(f.at[min(len(f.at), len(one.at)):], ".")
			texts = append(texts, strings.TrimPrefix(inner+" "+f.message, " "))
		}
		if text := strings.Join(texts, " and "); !slices.Contains(reasons, text) {
			reasons = append(reasons, text)
		}
	}
	one.message = shortened("fits none of the alternatives of " + keyword + ": " + strings.Join(reasons, "; or "))
	return one
}

// sentence words what a keyword demands, without the value.
func sentence(k jsonschema.ErrorKind) string {
	switch k := k.(type) {
	case *kind.Type:
		return "must be " + typeNames(k.Want) + ", is " + typeNames([]string{k.Got})
	case *kind.Enum:
		return "must be one of " + allJSON(k.Want)
	case *kind.Const:
		return "must be " + allJSON([]any{k.Want})
	case *kind.FalseSchema:
		return "is not allowed"
	case *kind.Not:
		return "matches what the schema excludes with not"
	case *kind.Pattern:
		return "must match the pattern " + k.Want
	case *kind.Format:
		return "must have the format " + k.Want
	case *kind.UniqueItems:
		return "must not have equal elements"
	case *kind.DependentRequired:
		return fmt.Sprintf("needs %s, because it has %s", strings.Join(k.Missing, ", "), k.Prop)
	case *kind.Dependency:
		return fmt.Sprintf("needs %s, because it has %s", strings.Join(k.Missing, ", "), k.Prop)
	}
	return limit(k)
}

// limit is sentence for keywords with a number.
func limit(k jsonschema.ErrorKind) string {
	switch k := k.(type) {
	case *kind.MinLength:
		return fmt.Sprintf("must have at least %d characters", k.Want)
	case *kind.MaxLength:
		return fmt.Sprintf("must have at most %d characters", k.Want)
	case *kind.MinItems:
		return fmt.Sprintf("must have at least %d elements", k.Want)
	case *kind.MaxItems:
		return fmt.Sprintf("must have at most %d elements", k.Want)
	case *kind.MinProperties:
		return fmt.Sprintf("must have at least %d keys", k.Want)
	case *kind.MaxProperties:
		return fmt.Sprintf("must have at most %d keys", k.Want)
	case *kind.Minimum:
		return "must be at least " + k.Want.RatString()
	case *kind.Maximum:
		return "must be at most " + k.Want.RatString()
	case *kind.ExclusiveMinimum:
		return "must be more than " + k.Want.RatString()
	case *kind.ExclusiveMaximum:
		return "must be less than " + k.Want.RatString()
	}
	return "does not fit the keyword " + cmp.Or(strings.Join(k.KeywordPath(), "/"), "of the schema")
}

// typeNames words types as the operator's own schemas do.
func typeNames(types []string) string {
	words := map[string]string{
		"object": "a map", "array": "a list", "string": "a string", "integer": "an integer", "number": "a number", "boolean": "a boolean",
	}
	names := make([]string, 0, len(types))
	for _, t := range types {
		names = append(names, cmp.Or(words[t], t))
	}
	return strings.Join(names, " or ")
}

// allJSON words values of the schema itself, which are no secrets.
func allJSON(values []any) string {
	texts := make([]string, 0, len(values))
	for _, v := range values {
		text, err := json.Marshal(v)
		if err != nil {
			text = []byte("?")
		}
		texts = append(texts, string(text))
	}
	return strings.Join(texts, ", ")
}
