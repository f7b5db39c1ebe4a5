package values

import (
	"encoding/json"
	"strings"
	"testing"
)

// What is shown of a patch that is no JSON ends with the mistake, and has no texts but operations and paths.
func TestUpTo(t *testing.T) {
	for text, want := range map[string]string{
		`[{"op": "add", "path": "/web/a", "value": 1,}]`:                 ` in [{"op": "add", "path": "/web/a", "value": 1,}`,
		"[\n" + `{"op": "add", "path": "/web/a", "value": "hunter2",}]`:  ` in {"op": "add", "path": "/web/a", "value": "…",}`,
		`{"op": "add", "path": "/web/a", "value": hunter2}`:              ` in {"op": "add", "path": "/web/a", "value": h`,
		`{"op": "add", "path": "/web/a", "value": {"pw": "hunter2" "a"}`: ` in {"op": "add", "path": "/web/a", "value": {"pw": "…" "…"`,
		`hunter2`: ` in h`,
		`{"op": "add", "value": "` + strings.Repeat("hunter2", 100) + `",}`: ``,
		`{"op": "add"`: ` in {"op": "add"`,
	} {
		var value any
		if got := upTo([]byte(text), json.Unmarshal([]byte(text), &value)); got != want {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
}
