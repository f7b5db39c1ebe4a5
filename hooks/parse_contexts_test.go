package hooks

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// What hooks read can be given to hooks again: C31, C32.
func TestParseContextsReadsWhatHooksRead(t *testing.T) {
	goldens, err := filepath.Glob("testdata/contexts/*.json")
	if err != nil || len(goldens) == 0 {
		t.Fatalf("no golden files: %v", err)
	}
	for _, path := range goldens {
		data, err := os.ReadFile(path)
		must(t, err)
		contexts, err := ParseContexts(data)
		if err != nil {
			t.Errorf("%s: %v", path, err)
			continue
		}
		got, err := encodeContexts(contexts)
		must(t, err)
		text := string(bytes.TrimSpace(data))
		if !strings.HasPrefix(text, "[") {
			text = "[" + text + "]"
		}
		if compacted(t, string(got)) != compacted(t, text) {
			t.Errorf("%s: got\n%s\nwant\n%s", path, got, text)
		}
	}
}

func TestParseContextsRefuses(t *testing.T) {
	for name, text := range map[string]string{"nothing": "", "no list": "a", "an empty list": "[]", "an unknown field": "{bindin: a}", "a key twice": "{binding: a, binding: b}"} {
		if _, err := ParseContexts([]byte(text)); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

func TestParseContextsReadsMergeKeys(t *testing.T) {
	contexts, err := ParseContexts([]byte("- &added {binding: a, type: Event, watchEvent: Added, object: {count: 12345678901234567890}}\n- {<<: *added, watchEvent: Deleted}\n"))
	if err != nil || len(contexts) != 2 || contexts[1].Binding != "a" || contexts[1].WatchEvent != Deleted || string(contexts[1].Object) != `{"count":12345678901234567890}` {
		t.Errorf("got %+v, %v", contexts, err)
	}
}

func FuzzParseContexts(f *testing.F) {
	f.Add([]byte(`[{"binding": "a", "type": "Event", "watchEvent": "Added", "object": {}}]`))
	f.Add([]byte("binding: a\nresourceEvent: add\nresourceName: b"))
	f.Fuzz(func(_ *testing.T, data []byte) { _, _ = ParseContexts(data) })
}
