package values

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/santhosh-tekuri/jsonschema/v5"
)

// Format is a kind of document that the operator itself defines, such as the configuration of a
// hook, with its JSON Schema (draft 7). Its documents are small, and are read once: the library
// validates them.
type Format struct {
	compiled *jsonschema.Schema
	source   any
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
