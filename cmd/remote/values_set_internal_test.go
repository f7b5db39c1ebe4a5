package remote

import (
	"encoding/json"
	"testing"
)

// A ConfigMap without data, or none at all, is sent as an empty one: null is refused.
func TestReadableKeys(t *testing.T) {
	for sent, data := range map[string]map[string]string{
		`{}`:                     nil,
		`{"web":"size: 1"}`:      {"web": "size: 1", "dns": ": ["},
		`{"webEnabled":"false"}`: {"webEnabled": "false"},
	} {
		if got, err := json.Marshal(readableKeys(data)); err != nil || string(got) != sent {
			t.Errorf("%v is sent as %s, want %s; %v", data, got, sent, err)
		}
	}
}
