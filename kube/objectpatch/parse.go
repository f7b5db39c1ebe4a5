package objectpatch

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"

	kubejson "k8s.io/apimachinery/pkg/util/json"
	kubeyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"
)

// Parse reads the file that a hook wrote: JSON objects one after another, or YAML documents (K1).
// The first mistake is reported, with the number of the document, and then nothing is returned: the
// operations of a hook are applied all or not at all. An empty file has no operations. Modules that
// the filters of JQPatch import are searched in jqLibrary.
func Parse(data []byte, jqLibrary ...string) ([]Patch, error) {
	documents, err := splitDocuments(data)
	if err != nil {
		return nil, err
	}
	var patches []Patch
	for i, document := range documents {
		patch, err := parseOne(document, jqLibrary)
		if err != nil {
			return nil, fmt.Errorf("document %d: %w", i+1, err)
		}
		patches = append(patches, patch)
	}
	return patches, nil
}

// parseOne is strict: a misspelt field would otherwise change what the operation does, without a
// word.
func parseOne(text []byte, jqLibrary []string) (Patch, error) {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	var document patchDocument
	if err := decoder.Decode(&document); err != nil {
		return Patch{}, err
	}
	return document.compile(jqLibrary)
}

// splitDocuments returns the documents as JSON. They are divided at lines of three dashes.
func splitDocuments(data []byte) (documents [][]byte, err error) {
	reader := kubeyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(data)))
	for {
		text, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return documents, nil
		}
		if err == nil {
			var found [][]byte
			found, err = readDocuments(bytes.TrimSpace(text))
			documents = append(documents, found...)
		}
		switch {
		case err != nil:
			return nil, fmt.Errorf("document %d: %w", len(documents)+1, err)
		case len(documents) > maxDocuments:
			return nil, errTooManyDocuments
		}
	}
}

// readDocuments reads JSON objects that follow one another, or a document of YAML, which is none if it has nothing but
// comments. What begins with a brace is tried as JSON first: its numbers stay exact, and its errors have better positions.
// With an error it returns the documents before.
func readDocuments(text []byte) (documents [][]byte, err error) {
	if bytes.HasPrefix(text, []byte("{")) {
		if documents, err = splitJSON(text); err == nil {
			return documents, nil
		}
	}
	document, yamlErr := toJSON(text)
	switch {
	case yamlErr != nil && err == nil:
		return nil, yamlErr
	case yamlErr != nil:
		return documents, err // that of JSON: most hooks mean it
	case bytes.Equal(document, []byte("null")):
		return nil, nil
	}
	return [][]byte{document}, nil
}

// splitJSON divides objects that follow one another, with or without a line break.
func splitJSON(data []byte) (documents [][]byte, err error) {
	decoder := json.NewDecoder(bytes.NewReader(data))
	for {
		var document json.RawMessage
		if err = decoder.Decode(&document); err == nil {
			err = checkJSONKeys(document)
		}
		switch {
		case errors.Is(err, io.EOF):
			return documents, nil
		case err != nil:
			return documents, err
		}
		documents = append(documents, document)
	}
}

// toJSON reads a document as kubectl does, but refuses aliases that expand to too much, and duplicate keys, of which the
// last would win. Most JSON is YAML, but not all: an escaped slash and surrogate pairs are not.
func toJSON(text []byte) ([]byte, error) {
	if json.Valid(text) {
		return text, checkJSONKeys(text)
	}
	if err := checkYAML(text); err != nil {
		return nil, err
	}
	document, err := yaml.YAMLToJSON(text)
	return bytes.TrimSpace(document), err
}

// unmarshalExact decodes JSON with integers as int64, so that large ones come
// out as they went in, and refuses values of another shape, also null.
func unmarshalExact(text []byte, into any) error {
	if err := kubejson.Unmarshal(text, into); err != nil {
		return err
	}
	if reflect.ValueOf(into).Elem().IsNil() {
		return errors.New("it is null")
	}
	return nil
}
