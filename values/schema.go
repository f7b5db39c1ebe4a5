package values

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"net/netip"
	"path"
	"regexp"
	"regexp/syntax"
	"slices"
	"strings"
	"time"

	"github.com/santhosh-tekuri/jsonschema/v5"
)

// SchemaFile is a file with an OpenAPI v3 schema in YAML (D29, D30). With nil Data there is no such
// file, and every value is valid.
type SchemaFile struct {
	Path string
	Data []byte
}

// Schemas are the compiled schemas of one section. They are immutable, and nil Schemas accept
// everything. The same Schemas may serve any number of sections and goroutines.
type Schemas struct {
	config *schema // openapi/config-values.yaml; nil = no such file, here and below
	values *schema // openapi/values.yaml, extended
	helm   *schema // the same with x-required-for-helm
	marks  applied // what is secret, in both files, whichever layer a value comes from
}

// schema is one compiled file: it validates values, fills in defaults and records which values are
// secrets. A nil schema allows everything and has no defaults.
type schema struct {
	path     string
	document any // what was compiled; keyword locations of violations point into it
	compiled *jsonschema.Schema
	defaults applied
	keys     applied  // which keys objects have
	idle     []string // rules in it that are not evaluated
}

// Warnings names the rules of other operators in the schemas, which are not evaluated (D35): one sentence for each
// file.
func (s *Schemas) Warnings() (texts []string) {
	if s == nil {
		return nil
	}
	for _, one := range []*schema{s.config, s.values} {
		if one != nil && len(one.idle) > 0 {
			texts = append(texts, fmt.Sprintf("schema %s has rules that are not evaluated: %s; write them with keywords of OpenAPI v3, or have a hook check the values",
				one.path, strings.Join(one.idle, ", ")))
		}
	}
	return texts
}

// CompileSchemas compiles the schemas of a module, or the global ones. Errors name the file and the
// place in it, all of them.
//
// Beyond OpenAPI v3: objects are closed unless they allow more keys (D31), values.yaml can extend
// config-values.yaml with x-extend (D32), x-required-for-helm names keys that must exist before Helm
// runs (D33), x-secret marks secrets (D41). Other x- keys and unknown formats are ignored (D35).
// $ref may point to any place of the same file.
func CompileSchemas(config, values SchemaFile) (*Schemas, error) {
	configTree, configErr := parseMap("schema "+config.Path, config.Data, "must be a map")
	valuesTree, valuesErr := parseMap("schema "+values.Path, values.Data, "must be a map")
	if configTree[extendKey] != nil {
		configErr = fmt.Errorf("schema %s: %s belongs in values.yaml; this file has nothing to extend", config.Path, extendKey)
	}
	if configErr == nil && valuesErr == nil {
		valuesTree, valuesErr = extend(values.Path, valuesTree, configTree)
	}
	if err := errors.Join(configErr, valuesErr); err != nil {
		return nil, err
	}
	valuesText, _ := JSON(valuesTree) // it was parsed
	var schemas Schemas
	schemas.config, configErr = compileSchema(config.Path, configTree, false)
	schemas.values, valuesErr = compileSchema(values.Path, valuesTree, false)
	// Most schemas have no x-required-for-helm: compiling them a second time would double the time
	// and memory of the start.
	if schemas.helm = schemas.values; valuesErr == nil && mentions(valuesText, requiredForHelmKey) {
		schemas.helm, valuesErr = compileSchema(values.Path, valuesTree, true)
	}
	if err := errors.Join(configErr, valuesErr); err != nil {
		return nil, err
	}
	var roots []*jsonschema.Schema
	for _, one := range []*schema{schemas.config, schemas.values} {
		if one != nil {
			roots = append(roots, one.compiled)
		}
	}
	schemas.marks = annotated(false, func(s *jsonschema.Schema) bool { return s.WriteOnly }, roots...)
	return &schemas, nil
}

// schemaURL is the name of the document inside of the compiler. Nothing is loaded from it.
const schemaURL = "values:///schema"

// compileSchema translates and compiles one file; nil for a nil root. With forHelm, x-required-for-helm counts as
// required. The compiler validates the document against the schema of its draft, which takes several times as long for
// 2019-09 as for 7. Therefore draft 7 is used where it has all keywords, unless it refuses the document: it
// is stricter about equal values in enum.
func compileSchema(path string, root map[string]any, forHelm bool) (*schema, error) {
	if root == nil {
		return nil, nil
	}
	s := &schema{path: path}
	if err := s.compile(root, forHelm); err != nil {
		return nil, fmt.Errorf("schema %s: %w", path, err)
	}
	return s, nil
}

func (s *schema) compile(root map[string]any, forHelm bool) (err error) {
	if s.document, err = translate(root, forHelm); err != nil {
		return err
	}
	text, err := JSON(s.document)
	if err != nil {
		return err
	}
	mentioned := func(key string) bool { return mentions(text, key) }
	newer := slices.ContainsFunc([]string{"$ref", "unevaluatedProperties", "unevaluatedItems", "dependentRequired", "dependentSchemas", "minContains", "maxContains"}, mentioned)
	if !newer {
		s.compiled, err = compileAs(jsonschema.Draft7, text)
	}
	if newer || err != nil {
		s.compiled, err = compileAs(jsonschema.Draft2019, text)
	}
	if err != nil {
		return compileError(err)
	}
	s.defaults = annotated(true, treeDefault, s.compiled)
	s.keys = annotated(false, func(s *jsonschema.Schema) bool { return namesKeys(s) || isOpen(s) }, s.compiled)
	source, _ := JSON(root) // it was parsed
	s.idle = slices.DeleteFunc([]string{"x-deckhouse-validations", "x-kubernetes-validations"}, func(key string) bool { return !mentions(source, key) })
	return nil
}

func compileAs(draft *jsonschema.Draft, text []byte) (*jsonschema.Schema, error) {
	compiler := jsonschema.NewCompiler()
	compiler.Draft, compiler.AssertFormat, compiler.ExtractAnnotations, compiler.Formats = draft, true, true, formats()
	// By default the compiler would open files that a $ref names.
	compiler.LoadURL = func(url string) (io.ReadCloser, error) {
		return nil, fmt.Errorf("$ref %s refers to another file", url)
	}
	if err := compiler.AddResource(schemaURL, bytes.NewReader(text)); err != nil {
		return nil, err
	}
	return compiler.Compile(schemaURL)
}

// compileError words the errors of the compiler in terms of the author's file, with one line for each
// place in it.
func compileError(err error) error {
	var invalid *jsonschema.ValidationError
	if !errors.As(err, &invalid) {
		if errors.As(err, new(jsonschema.InfiniteLoopError)) {
			return errors.New("a schema refers to itself without a property in between")
		}
		err = cmp.Or(errors.Unwrap(err), err)
		return errors.New(strings.ReplaceAll(strings.TrimPrefix(err.Error(), "jsonschema: "), schemaURL+"#", ""))
	}
	problems := map[string]error{}
	for _, leaf := range leaves(invalid) {
		at := cmp.Or(located(leaf.InstanceLocation).String(), "/")
		if problems[at] == nil { // of several alternatives the first one counts, which is the simplest
			problems[at] = fmt.Errorf("%s: %s", at, leaf.Message)
		}
	}
	var sorted []error
	for _, at := range sortedKeys(problems) {
		sorted = append(sorted, problems[at])
	}
	return joined(sorted)
}

// leaves returns the innermost causes of a violation; the others only report that something below
// them is wrong.
func leaves(violation *jsonschema.ValidationError) []*jsonschema.ValidationError {
	if len(violation.Causes) == 0 {
		return []*jsonschema.ValidationError{violation}
	}
	var all []*jsonschema.ValidationError
	for _, cause := range violation.Causes {
		all = append(all, leaves(cause)...)
	}
	return all
}

// mentions reports whether a key occurs anywhere in the JSON of a document, whatever it means there. A property of
// that name is a harmless yes.
func mentions(document []byte, key string) bool {
	return bytes.Contains(document, []byte(`"`+key+`":`))
}

// formats returns what OpenAPI and Kubernetes define beyond JSON Schema, and replaces formats of
// the library that cost too much. Every check accepts values of other types, as JSON Schema
// requires.
func formats() map[string]func(any) bool {
	return map[string]func(any) bool{
		"int32":    func(v any) bool { return integerWithin(v, math.MinInt32, math.MaxInt32) },
		"int64":    func(v any) bool { return integerWithin(v, math.MinInt64, math.MaxInt64) },
		"duration": ofTexts(isDuration),
		"cidr": ofTexts(func(text string) bool {
			_, err := netip.ParsePrefix(text)
			return err == nil
		}),
		// Not compiled, only parsed: ten bytes of a pattern can describe a program of a megabyte.
		"regex": ofTexts(func(text string) bool {
			_, err := syntax.Parse(text, syntax.Perl)
			return err == nil
		}),
	}
}

func ofTexts(fits func(string) bool) func(any) bool {
	return func(v any) bool {
		text, ok := v.(string)
		return !ok || fits(text)
	}
}

func integerWithin(v any, low, high int64) bool {
	switch n := v.(type) {
	case int64:
		return low <= n && n <= high
	case json.Number:
		return false // a json.Number is an integer beyond int64
	}
	return true
}

// isDuration accepts 1h30m, as Kubernetes has it, PT1H30M, as JSON Schema has it, and days, weeks and words, such
// as 30d and "2 weeks", as go-openapi has it.
func isDuration(text string) bool {
	if _, err := time.ParseDuration(text); err == nil {
		return true
	}
	const units = `ns|nanos?|nanoseconds?|[uµ]s|micros?|microseconds?|ms|millis?|milliseconds?|` +
		`s|secs?|seconds?|m|mins?|minutes?|h|hrs?|hours?|d|days?|w|wks?|weeks?`
	sum := regexp.MustCompile(`(?i)^-?(\d+(\.\d+)?\s*(` + units + `)\s*)+$`)
	return sum.MatchString(text) || jsonschema.Formats["duration"](text)
}

const (
	extendKey          = "x-extend"
	requiredForHelmKey = "x-required-for-helm"
	configSchemaName   = "config-values.yaml"
)

// extend merges config-values.yaml into values.yaml if values.yaml asks for it with x-extend (D32).
// Keys of values.yaml win, except for required, which is the union. Other keywords of
// config-values.yaml, such as allOf, are not inherited.
func extend(valuesPath string, own, config map[string]any) (map[string]any, error) {
	order, asked := own[extendKey]
	if !asked {
		return own, nil
	}
	settings, _ := order.(map[string]any)
	if settings["schema"] != configSchemaName || len(settings) != 1 {
		return nil, fmt.Errorf("schema %s: %s must be {schema: %s}", valuesPath, extendKey, configSchemaName)
	}
	if config == nil {
		return nil, fmt.Errorf("schema %s: %s: there is no %s", valuesPath, extendKey, path.Join(path.Dir(valuesPath), configSchemaName))
	}
	extended := maps.Clone(own)
	delete(extended, extendKey)
	for key, inherited := range config {
		have, has := own[key]
		below, isMap := inherited.(map[string]any)
		above, isOwnMap := have.(map[string]any)
		named := slices.Contains([]string{"definitions", "properties", "patternProperties"}, key)
		switch {
		case named && isMap && isOwnMap:
			merged := maps.Clone(below) // a schema of the same name is replaced as a whole
			maps.Copy(merged, above)
			extended[key] = merged
		case key == "required":
			extended[key] = union(inherited, have)
		case !has && (named || key == "title" || key == "description" || strings.HasPrefix(key, "x-")):
			extended[key] = inherited
		}
	}
	return extended, nil
}

// union joins two lists; the inherited values come first. What is no list is left for the compiler to refuse.
func union(inherited, own any) any {
	first, _ := inherited.([]any)
	second, ok := own.([]any)
	if !ok && own != nil {
		return own
	}
	all := slices.Clone(first)
	for _, name := range second {
		if !slices.ContainsFunc(all, func(known any) bool { return Checksum(known) == Checksum(name) }) {
			all = append(all, name)
		}
	}
	return all
}
