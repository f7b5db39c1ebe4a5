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

// Operation is one step of a patch. Paths are JSON pointers in canonical form that begin with the
// key of the section; ParsePatch makes sure of the form, ForModule and ForGlobal of the section.
type Operation struct {
	Op       string // add, remove, replace, test, move or copy (D18)
	Path     string
	From     string // where move and copy take the value from
	Value    any    // a tree
	HasValue bool   // distinguishes the value null from no value

	by *Origin // of a saved operation
}

// operationJSON is the JSON form of an operation.
type operationJSON struct {
	Op    string          `json:"op"`
	Path  string          `json:"path"`
	From  string          `json:"from,omitempty"`
	Value json.RawMessage `json:"value,omitempty"`
}

// MarshalJSON writes the operation as RFC 6902 requires. The library that executes patches
// (execute) reads this form.
func (o Operation) MarshalJSON() ([]byte, error) {
	out := operationJSON{Op: o.Op, Path: o.Path, From: o.From}
	if o.HasValue {
		value, err := JSON(o.Value)
		if err != nil {
			return nil, fmt.Errorf("patch operation %s: %w", o, err)
		}
		out.Value = value
	}
	return Encode(out)
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

// String returns what the operation does without its value, which may be a secret (D38). Errors and
// logs contain it.
func (o Operation) String() string {
	if o.From != "" {
		return fmt.Sprintf("%s %s to %s", o.Op, o.From, o.Path)
	}
	return o.Op + " " + o.Path
}

// ParsePatch reads the content of a patch file (D17–D19): nothing, an operation, a list of
// operations, or several of these one after another. An empty file is a nil patch. It accepts paths
// in the old dotted form (someModule.param) and returns a warning for each of them. An error names
// the first 100 faulty operations, and the patch is then nil: a patch is applied as a whole or not
// at all. A file of more than 4 MiB is refused (D39).
func ParsePatch(data []byte) (Patch, []string, error) {
	if err := checkText(data); err != nil {
		return nil, nil, fmt.Errorf("patch: %w", err)
	}
	raw, err := splitOperations(data)
	if err != nil {
		return nil, nil, err
	}
	if len(raw) > maxOperations {
		return nil, nil, fmt.Errorf("the patch has %d operations, more than %d; write larger values with fewer operations", len(raw), maxOperations)
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

// splitOperations flattens a stream of objects and lists of objects. It leaves the operations as
// text, so that each of them gets its own error.
func splitOperations(data []byte) ([]json.RawMessage, error) {
	decoder := json.NewDecoder(bytes.NewReader(data))
	var operations []json.RawMessage
	for {
		var value json.RawMessage
		if err := decoder.Decode(&value); errors.Is(err, io.EOF) {
			return operations, nil
		} else if err != nil {
			return nil, fmt.Errorf("patch is not a stream of JSON objects and arrays: %w%s; write it with jq, which adds quotes and commas", jsonError(data, decoder, err), upTo(data, err))
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

// parseOperation reads one operation and checks that it has what its op requires. It reports all
// mistakes at once, and ignores unknown keys, as RFC 6902 requires.
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
		problems = append(problems, fmt.Errorf("%s appears twice", name))
	}
	text := func(field string, into *string) {
		raw, present := in[field]
		if !present {
			problems = append(problems, fmt.Errorf("%s is missing", field))
		} else if len(raw) == 0 || raw[0] != '"' || json.Unmarshal(raw, into) != nil {
			problems = append(problems, fmt.Errorf("%s must be a string", field))
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

// fields returns the keys of an object and those that occur twice: which of the two was meant is
// unknown (RFC 6902, A.13), and encoding/json would silently take the last one.
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

// normalise converts the paths into their canonical form and checks them. From then on equal paths
// have equal texts, and mustPointer can read them.
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

// undot converts someModule.param into /someModule/param (D19). A dot inside of a key cannot be
// written in the old form.
func undot(dotted string) string {
	return pointer(strings.Split(dotted, ".")).String()
}

// removes reports whether one of the operations removes the value at a path itself, not only values
// below it.
func (p Patch) removes(path pointer) bool {
	return slices.ContainsFunc(p, func(o Operation) bool { return o.Op == "remove" && o.Path == path.String() })
}
