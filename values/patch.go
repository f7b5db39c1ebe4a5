package values

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	kjson "sigs.k8s.io/json"
)

// Patch is a list of operations of RFC 6902, applied one after another.
type Patch []Operation

// Operation is one step of a patch. Paths are JSON pointers in canonical form that begin with the
// key of the section; ParsePatch makes sure of the form.
type Operation struct {
	Op       string `json:"op"` // add, remove, replace, test, move or copy (D18)
	Path     string `json:"path"`
	From     string `json:"from,omitempty"` // where move and copy take the value from
	Value    any    `json:"-"`              // a tree
	HasValue bool   `json:"-"`              // distinguishes the value null from no value

	by Origin // of a saved operation
}

// MarshalJSON writes the operation as RFC 6902 requires, and more fields for the origin of a saved one.
func (o Operation) MarshalJSON() ([]byte, error) {
	type plain Operation
	out := struct {
		plain
		Value *any `json:"value,omitempty"`
		Origin
	}{plain: plain(o), Origin: o.by}
	if o.HasValue {
		out.Value = &o.Value
	}
	return Encode(out)
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
// the first faulty operation: a patch is applied as a whole or not at all. A file of more than
// 1 MiB is refused (D39).
func ParsePatch(data []byte) (patch Patch, warnings []string, err error) {
	if err := CheckSize(int64(len(data))); err != nil {
		return nil, nil, fmt.Errorf("patch: %w", err)
	}
	decoder := json.NewDecoder(bytes.NewReader(data))
	for {
		var next json.RawMessage
		if err := decoder.Decode(&next); errors.Is(err, io.EOF) {
			return patch, warnings, nil
		} else if err != nil {
			return nil, nil, fmt.Errorf("patch is not a stream of JSON objects and arrays: %w; write it with jq, which adds quotes and commas",
				jsonError(data, decoder, err))
		}
		operations := []json.RawMessage{next}
		if next[0] == '[' {
			_ = json.Unmarshal(next, &operations) // it is an array
		}
		for _, text := range operations {
			if len(patch) == maxOperations {
				return nil, nil, fmt.Errorf("the patch has more than %d operations; write larger values with fewer operations",
					maxOperations)
			}
			operation, dotted, err := parseOperation(text)
			if warnings = append(warnings, dotted...); err != nil {
				return nil, warnings, fmt.Errorf("patch operation %d: %w", len(patch)+1, err)
			}
			patch = append(patch, operation)
		}
	}
}

// parseOperation reads one operation and checks that it has what its op requires. It ignores
// unknown keys, as RFC 6902 requires, but refuses a key that occurs twice: which of the two was
// meant is unknown (A.13), and encoding/json would silently take the last one. It converts the paths into their
// canonical form: from then on equal paths have equal texts, and mustPointer can read them.
func parseOperation(data []byte) (o Operation, dotted []string, err error) {
	var in struct {
		Op    *string         `json:"op"`
		Path  *string         `json:"path"`
		From  *string         `json:"from"`
		Value json.RawMessage `json:"value"`
	}
	if data[0] != '{' {
		return o, nil, errors.New("must be an object like {\"op\": \"add\", \"path\": \"/someModule/param\", \"value\": 1}")
	}
	problems, err := kjson.UnmarshalStrict(data, &in, kjson.DisallowDuplicateFields)
	if err != nil {
		return o, nil, fmt.Errorf("op, path and from must be strings: %w", err)
	}
	refuse := func(format string, args ...any) { problems = append(problems, fmt.Errorf(format, args...)) }
	text := func(name string, field *string) string {
		if field == nil {
			refuse("%s is missing", name)
			return ""
		}
		return *field
	}
	canonical := func(name string, field *string) string {
		given := text(name, field)
		full := given
		if full != "" && full[0] != '/' { // the old form (D19), which cannot write a dot inside of a key
			full = JSONPointer(strings.Split(given, ".")...)
			dotted = append(dotted, fmt.Sprintf("patch path %q has the old dotted form; write %q", given, full))
		}
		path, err := parsePointer(full)
		if field != nil && err != nil {
			refuse("path %q %w", given, err)
			return given
		}
		return path.String()
	}
	o.Op, o.Path = text("op", in.Op), canonical("path", in.Path)
	switch o.Op {
	case "move", "copy":
		o.From = canonical("from", in.From)
	case "add", "replace", "test":
		if o.HasValue = in.Value != nil; !o.HasValue {
			refuse("value is missing")
		} else if o.Value, err = ParseJSON(in.Value); err != nil {
			refuse("value: %w", err)
		}
	case "remove", "":
	default:
		refuse("op %q is unknown; use add, remove, replace, test, move or copy", o.Op)
	}
	err = errors.Join(problems...)
	if name := strings.TrimSpace(o.String()); err != nil && name != "" {
		err = fmt.Errorf("%s: %w", name, err)
	}
	return o, dotted, err
}

// Origin records the task that changed values, and the time. The caller passes it with a change: this package has
// no clock and no tasks.
type Origin struct {
	// Hook and Task are the name of the hook and the ID of the task that ran it; empty for a
	// person's edit of the ConfigMap.
	Hook string `json:"hook,omitempty"`
	Task string `json:"task,omitempty"`
	// Revision is the resourceVersion of the ConfigMap that brought the values.
	Revision string    `json:"resourceVersion,omitempty"`
	Time     time.Time `json:"time,omitzero"`
}

// Origin returns who wrote a saved operation; the zero value for one that was not saved.
func (o Operation) Origin() Origin { return o.by }
