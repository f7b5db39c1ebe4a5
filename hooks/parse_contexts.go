package hooks

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"addon-operator/values"
)

// ParseContexts reads binding contexts that a person has written, as JSON or YAML: a list, or a
// single one. Fields have the names that hooks read; an unknown one is refused. The result is not
// checked further: a person may try a hook with a context that the operator would never make.
func ParseContexts(data []byte) ([]Context, error) {
	text := data
	if !json.Valid(data) { // JSON is kept as it is: a way through YAML would rewrite numbers and letters
		tree, err := values.ParseYAML(data)
		if err == nil {
			text, err = values.JSON(tree)
		}
		if err != nil {
			return nil, fmt.Errorf("binding contexts: %w", err)
		}
	}
	if bytes.Equal(bytes.TrimSpace(text), []byte("null")) {
		return nil, errors.New("binding contexts: the text is empty")
	}
	if !bytes.HasPrefix(bytes.TrimSpace(text), []byte("[")) {
		text = append(append([]byte("["), text...), ']')
	}
	var wires []wireContext
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&wires); err != nil {
		return nil, fmt.Errorf("binding contexts: %w", err)
	}
	if len(wires) == 0 {
		return nil, errors.New("binding contexts: there is none; a hook is never run without one")
	}
	contexts := make([]Context, len(wires))
	for i, w := range wires {
		contexts[i] = Context{
			Binding: w.Binding, Type: w.Type, WatchEvent: w.WatchEvent, Object: w.Object, FilterResult: w.FilterResult, GroupName: w.GroupName,
		}
		if w.Objects != nil {
			contexts[i].Objects = *w.Objects
		}
		if w.Snapshots != nil {
			contexts[i].Snapshots = *w.Snapshots
		}
		if w.ResourceName != "" {
			contexts[i].Resource = &Resource{w.ResourceNamespace, w.ResourceKind, w.ResourceName}
			contexts[i].WatchEvent = map[string]string{"add": Added, "update": Modified, "delete": Deleted}[w.ResourceEvent]
		}
	}
	return contexts, nil
}
