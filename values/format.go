package values

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v5"
)

// Format is a kind of document that the operator itself defines, such as the configuration of a
// hook, with its JSON Schema (draft 7). Its documents are small, and are read once: the library
// validates them.
type Format struct {
	compiled *jsonschema.Schema
	source   any
}

// Misfit is one violation of the schema of its format by a document. The caller words
// the error, because Message names keywords of JSON Schema.
type Misfit struct {
	At      []string       // the keys and positions that lead to it
	Rule    map[string]any // the part of the schema that is offended
	Keyword string         // the one of the rule
	Message string         // in the words of the library
}

// NewFormat compiles a schema. of names the kind of document in errors.
func NewFormat(of string, schema []byte) (*Format, error) {
	const name = "format.json"
	compiler := jsonschema.NewCompiler()
	compiler.Draft = jsonschema.Draft7
	f := &Format{}
	err := errors.Join(json.Unmarshal(schema, &f.source), compiler.AddResource(name, bytes.NewReader(schema)))
	if err == nil {
		f.compiled, err = compiler.Compile(name)
	}
	if err != nil {
		return nil, fmt.Errorf("schema of %s: %w", of, err)
	}
	return f, nil
}

// Misfits lists everything that is wrong with a document; none means that it is valid. An error
// means that the document could not be checked.
func (f *Format) Misfits(document any) ([]Misfit, error) {
	var invalid *jsonschema.ValidationError
	if err := f.compiled.Validate(document); !errors.As(err, &invalid) {
		return nil, err
	}
	var misfits []Misfit
	for _, leaf := range leaves(invalid) {
		misfits = append(misfits, f.misfit(leaf))
	}
	return misfits, nil
}

// misfit adds to an error the part of the schema that it is about.
func (f *Format) misfit(e *jsonschema.ValidationError) Misfit {
	_, location, _ := strings.Cut(e.AbsoluteKeywordLocation, "#")
	m := Misfit{At: located(e.InstanceLocation), Message: e.Message}
	rule := located(location)
	if last := len(rule) - 1; last >= 0 {
		rule, m.Keyword = rule[:last], rule[last]
	}
	found, _ := lookup(f.source, rule)
	m.Rule, _ = found.(map[string]any)
	return m
}

// Violations lists everything that is wrong with a document in the sentences about values, with paths from the document
// on. An error means that the document could not be checked.
func (f *Format) Violations(document any) ([]Violation, error) {
	var invalid *jsonschema.ValidationError
	if err := f.compiled.Validate(document); !errors.As(err, &invalid) {
		return nil, err
	}
	r := &report{schema: &schema{document: f.source}, value: document}
	r.add(invalid)
	return r.finish(), nil
}
