package view

import (
	"encoding/json"
	"strings"

	"addon-operator/hooks"
	"addon-operator/messages"
	"addon-operator/values"
)

// Snapshot is that of one binding: the objects as its hook gets them.
type Snapshot struct {
	messages.BindingState
	Objects []hooks.Object
}

// Masked returns the snapshot without what is or looks like a secret: everything that was
// read from a Secret, and in other objects values below keys that look like those of secrets.
func (s Snapshot) Masked() Snapshot {
	isSecret := strings.EqualFold(strings.TrimSuffix(s.Kind, "s"), "secret")
	masked := make([]hooks.Object, len(s.Objects))
	for i, o := range s.Objects {
		masked[i] = hooks.Object{
			Object:       maskedJSON(o.Object, values.MaskObject),
			FilterResult: maskedJSON(o.FilterResult, func(tree any) any { return values.Mask(tree, isSecret) }),
		}
	}
	s.Objects = masked
	return s
}

// maskedJSON masks a JSON text; text that is no JSON is hidden as a whole.
func maskedJSON(text json.RawMessage, mask func(any) any) json.RawMessage {
	if text == nil {
		return nil
	}
	hidden, _ := json.Marshal(values.Hidden) // a text always has a JSON form
	var tree any
	if json.Unmarshal(text, &tree) != nil {
		return hidden
	}
	out, err := json.Marshal(mask(tree))
	if err != nil {
		return hidden
	}
	return out
}
