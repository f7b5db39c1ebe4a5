package values

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
)

// Patch is a list of operations of RFC 6902, applied one after another.
type Patch []Operation

// Operation is one step of a patch. Paths are JSON pointers that begin with the key of the section.
type Operation struct {
	Op       string // add, remove, replace, test, move or copy (D18)
	Path     string
	From     string // where move and copy take the value from
	Value    any    // a tree
	HasValue bool   // distinguishes the value null from no value

	by *Origin // of a saved operation
}

// operationJSON is an operation as it stands in a file.
type operationJSON struct {
	Op    string           `json:"op"`
	Path  *string          `json:"path"`
	From  *string          `json:"from,omitempty"`
	Value *json.RawMessage `json:"value,omitempty"`
}

// MarshalJSON writes the operation as RFC 6902 has it.
func (o Operation) MarshalJSON() ([]byte, error) {
	out := operationJSON{Op: o.Op, Path: &o.Path}
	if o.From != "" {
		out.From = &o.From
	}
	if o.HasValue {
		value, err := JSON(o.Value)
		if err != nil {
			return nil, fmt.Errorf("patch operation %s: %w", o, err)
		}
		out.Value = (*json.RawMessage)(&value)
	}
	var buffer bytes.Buffer
	encoder := json.NewEncoder(&buffer)
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(out)
	return bytes.TrimSpace(buffer.Bytes()), err
}

// UnmarshalJSON reads what MarshalJSON wrote, and everything that RFC 6902 allows.
func (o *Operation) UnmarshalJSON(data []byte) error {
	parsed, err := parseOperation(data)
	if err != nil {
		return err
	}
	*o = parsed
	return nil
}

// String shows what the operation does, without its value, which may be a secret (D38).
func (o Operation) String() string {
	if o.From != "" {
		return fmt.Sprintf("%s %s to %s", o.Op, o.From, o.Path)
	}
	return o.Op + " " + o.Path
}

// ParsePatch reads the content of a patch file (D17–D19): nothing, an operation, a list of operations, or several of these one
// after another. An empty file is a nil patch. Paths in the old dotted form (someModule.param) are accepted; the second result
// has a warning for each of them. The first 100 faulty operations are reported. A file of more than 4 MiB is refused (D39).
func ParsePatch(data []byte) (Patch, []string, error) {
	if err := checkText(data); err != nil {
		return nil, nil, fmt.Errorf("patch: %w", err)
	}
	raw, err := splitOperations(data)
	if err != nil {
		return nil, nil, err
	}
	if len(raw) > maxOperations {
		return nil, nil, fmt.Errorf("the patch has %d operations, more than %d; write larger values by fewer of them", len(raw), maxOperations)
	}
	var (
		patch    Patch
		warnings []string
		problems []error
	)
	for i, text := range raw {
		operation, err := parseOperation(text)
		if err == nil {
			var notes []string
			notes, err = operation.normalise()
			warnings = append(warnings, notes...)
		}
		if err != nil {
			problems = append(problems, fmt.Errorf("patch operation %d: %w", i+1, err))
			if len(problems) == maxProblems {
				problems = append(problems, errTooMany)
				break
			}
			continue
		}
		patch = append(patch, operation)
	}
	if len(problems) > 0 {
		return nil, warnings, errors.Join(problems...)
	}
	return patch, warnings, nil
}

// splitOperations flattens a stream of objects and arrays of objects.
func splitOperations(data []byte) ([]json.RawMessage, error) {
	decoder := json.NewDecoder(bytes.NewReader(data))
	var operations []json.RawMessage
	for {
		var value json.RawMessage
		if err := decoder.Decode(&value); errors.Is(err, io.EOF) {
			return operations, nil
		} else if err != nil {
			return nil, fmt.Errorf("patch is not a stream of JSON objects and arrays: %w%s; let jq write it, which sets quotes and commas", jsonError(data, decoder, err), upTo(data, err))
		}
		switch value[0] {
		case '{':
			operations = append(operations, value)
		case '[':
			var list []json.RawMessage
			if err := json.Unmarshal(value, &list); err != nil {
				return nil, fmt.Errorf("patch: %w", err)
			}
			operations = append(operations, list...)
		default:
			return nil, fmt.Errorf("patch: line %d: must be an object or an array of objects", lineAt(data, decoder.InputOffset()))
		}
	}
}

// parseOperation reads one operation and checks that it has what its kind needs.
func parseOperation(data []byte) (Operation, error) {
	in, twice, ok := fields(data)
	if !ok {
		return Operation{}, errors.New("must be an object like {\"op\": \"add\", \"path\": \"/someModule/param\", \"value\": 1}")
	}
	var (
		operation Operation
		problems  []error
	)
	for _, name := range twice {
		problems = append(problems, fmt.Errorf("%s is there twice", name))
	}
	text := func(field string, into *string) {
		raw, present := in[field]
		if !present {
			problems = append(problems, fmt.Errorf("%s is missing", field))
		} else if len(raw) == 0 || raw[0] != '"' || json.Unmarshal(raw, into) != nil {
			problems = append(problems, fmt.Errorf("%s must be a text", field))
		}
	}
	text("op", &operation.Op)
	text("path", &operation.Path)
	switch operation.Op {
	case "move", "copy":
		text("from", &operation.From)
	case "add", "replace", "test":
		raw, present := in["value"]
		if !present {
			problems = append(problems, errors.New("value is missing"))
			break
		}
		value, err := ParseJSON(raw)
		if err != nil {
			problems = append(problems, fmt.Errorf("value: %w", err))
		}
		operation.Value, operation.HasValue = value, true
	case "remove", "":
	default:
		problems = append(problems, fmt.Errorf("op %q is unknown; use add, remove, replace, test, move or copy", operation.Op))
	}
	if len(problems) > 0 {
		return Operation{}, fmt.Errorf("%s: %w", strings.TrimSpace(operation.String()), errors.Join(problems...))
	}
	return operation, nil
}

// fields takes an object apart and returns which of its keys are there twice: which of the two was meant is unknown (RFC 6902,
// A.13).
func fields(data []byte) (in map[string]json.RawMessage, twice []string, ok bool) {
	decoder := json.NewDecoder(bytes.NewReader(data))
	if begin, err := decoder.Token(); err != nil || begin != json.Delim('{') {
		return nil, nil, false
	}
	in = map[string]json.RawMessage{}
	for decoder.More() {
		key, err := decoder.Token()
		if err != nil {
			return nil, nil, false
		}
		name, _ := key.(string)
		if _, present := in[name]; present && !slices.Contains(twice, name) {
			twice = append(twice, name)
		}
		var value json.RawMessage
		if err := decoder.Decode(&value); err != nil {
			return nil, nil, false
		}
		in[name] = value
	}
	return in, twice, true
}

// normalise brings the paths into one form and checks them.
func (o *Operation) normalise() (warnings []string, err error) {
	fields := []*string{&o.Path}
	if o.Op == "move" || o.Op == "copy" {
		fields = append(fields, &o.From)
	}
	for _, field := range fields {
		if *field != "" && (*field)[0] != '/' {
			path := undot(*field)
			warnings = append(warnings, fmt.Sprintf("patch path %q has the old dotted form; write %q", *field, path))
			*field = path
		}
		path, err := parsePointer(*field)
		if err != nil {
			return warnings, fmt.Errorf("%s: path %q %w", o, *field, err)
		}
		*field = path.String()
	}
	return warnings, nil
}

// undot turns someModule.param into /someModule/param (D19).
func undot(dotted string) string {
	return pointer(strings.Split(dotted, ".")).String()
}

// removes reports whether one of the operations removes the value at a path itself.
func (p Patch) removes(path pointer) bool {
	return slices.ContainsFunc(p, func(o Operation) bool { return o.Op == "remove" && o.Path == path.String() })
}
