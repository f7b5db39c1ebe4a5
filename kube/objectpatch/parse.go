package objectpatch

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	kubeyaml "k8s.io/apimachinery/pkg/util/yaml"
	kjson "sigs.k8s.io/json"

	"addon-operator/values"
)

// maxDocuments bounds what a file of small documents leads to (K1): each takes some kilobytes before it is
// applied. The size of the file itself is limited by its reader.
const maxDocuments = 50_000

// Parse reads the file that a hook wrote: JSON objects one after another, or YAML documents (K1), divided at lines
// of three dashes. The first mistake is reported, with the number of the document, and then nothing is returned: the
// operations of a hook are applied all or not at all. An empty file has no operations. Modules that
// the filters of JQPatch import are searched in jqLibrary.
func Parse(data []byte, jqLibrary ...string) (patches []Patch, err error) {
	reader := kubeyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(data)))
	for {
		text, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return patches, nil
		}
		for err == nil && len(text) > 0 {
			var one []byte
			one, text = first(bytes.TrimSpace(text))
			var patch *Patch
			if patch, err = parseOne(one, jqLibrary); patch != nil {
				patches = append(patches, *patch)
			}
			if len(patches) > maxDocuments {
				return nil, fmt.Errorf("there are more than %d operations; write fewer in one run", maxDocuments)
			}
		}
		if err != nil {
			return nil, fmt.Errorf("document %d: %w", len(patches)+1, err)
		}
	}
}

// first divides JSON objects that follow one another, with or without a line break.
func first(text []byte) (one, rest []byte) {
	decoder := json.NewDecoder(bytes.NewReader(text))
	var object json.RawMessage
	if bytes.HasPrefix(text, []byte("{")) && decoder.Decode(&object) == nil {
		return object, text[decoder.InputOffset():]
	}
	return text, nil // of YAML, or with a mistake
}

// parseOne returns nil for a document that has nothing but comments. It is strict: a misspelt field would otherwise
// change what the operation does, without a word.
func parseOne(text []byte, jqLibrary []string) (*Patch, error) {
	var document *patchDocument
	if err := decode(text, &document); err != nil || document == nil {
		return nil, err
	}
	return document.compile(jqLibrary)
}

// decode reads JSON, or YAML as values are read, with integers as int64, so that large ones come out as they went
// in. It refuses keys that a map has twice, of which the last would win, and what aliases make too large.
func decode(text []byte, into any) error {
	if !json.Valid(text) {
		tree, err := values.ParseYAML(text)
		if err != nil {
			return err
		}
		if text, err = values.Encode(tree); err != nil {
			return err
		}
	}
	wrong, err := kjson.UnmarshalStrict(text, into)
	return errors.Join(append(wrong, err)...)
}
