package values

import "fmt"

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

// Violations lists everything that is wrong with a document in the sentences about values, with paths from the document
// on.
func (f *Format) Violations(document any) []Violation {
	r := &report{schema: f.schema, value: document, secret: secretPath}
	r.check()
	return r.finish()
}
