package view

import (
	"encoding/json"
	"strings"

	"addon-operator/hooks"
	"addon-operator/messages"
	"addon-operator/values"
)

// MaskedSnapshot returns a snapshot without what is or looks like a secret: everything that was
// read from a Secret, and in other objects values below keys that look like those of secrets.
func MaskedSnapshot(d messages.BindingDump) messages.BindingDump {
	isSecret := strings.EqualFold(strings.TrimSuffix(d.Kind, "s"), "secret")
	masked := make([]hooks.Object, len(d.Snapshot))
	for i, o := range d.Snapshot {
		masked[i] = hooks.Object{
			Object:       maskedJSON(o.Object, values.MaskObject),
			FilterResult: maskedJSON(o.FilterResult, func(tree any) any { return values.Mask(tree, isSecret) }),
		}
	}
	d.Snapshot = masked
	return d
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
