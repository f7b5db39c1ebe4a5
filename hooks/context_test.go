package hooks

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"addon-operator/testkit/golden"
)

// update rewrites the golden files: go test ./hooks -run Golden -update
func encodeContexts(contexts []Context) ([]byte, error) {
	var out bytes.Buffer
	err := writeContexts(&out, contexts)
	return out.Bytes(), err
}

// The file is written as it is made: what it needs of memory does not grow with its contexts.
func TestContextsAreWrittenAsAStream(t *testing.T) {
	snapshot := map[string][]Object{"pods": {{Object: raw(`"` + strings.Repeat("x", 128<<10) + `"`)}}}
	contexts := make([]Context, 100)
	for i := range contexts {
		contexts[i] = Context{Binding: "pods", Type: TypeSchedule, Snapshots: snapshot}
	}
	var out largest
	must(t, writeContexts(&out, contexts))
	if out.all < 100*128<<10 || out.one > 2*128<<10 {
		t.Errorf("%d bytes in pieces of up to %d", out.all, out.one)
	}
	if err := writeContexts(failing{}, contexts); !errors.Is(err, errFull) {
		t.Errorf("a write failed: %v", err)
	}
}

// largest counts what is written.
type largest struct{ all, one int }

func (l *largest) Write(p []byte) (int, error) {
	l.all, l.one = l.all+len(p), max(l.one, len(p))
	return len(p), nil
}

var errFull = errors.New("no space left on device")

type failing struct{}

func (failing) Write([]byte) (int, error) { return 0, errFull }

func raw(text string) json.RawMessage { return json.RawMessage(text) }

// TestContextGolden holds the wire format: one file for each shape of C31 and C32, named after it.
func TestContextGolden(t *testing.T) {
	pod := raw(`{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a","namespace":"d"}}`)
	pods := []Object{{Object: pod, FilterResult: raw(`{"app":"<x>"}`)}, {Object: pod, FilterResult: raw(`null`)}}
	contexts := map[string][]Context{
		"v1-on-startup": {{Binding: "onStartup"}},
		"v1-order": {{Binding: "beforeHelm", Snapshots: map[string][]Object{
			"nodes": {{FilterResult: raw(`"n1"`)}, {FilterResult: raw(`"n2"`)}}, "cfg": nil,
		}}},
		"v1-order-of-a-hook-that-watches-nothing": {{Binding: "afterAll", Snapshots: map[string][]Object{}}},
		"v1-schedule":                        {{Binding: "every-hour", Type: TypeSchedule}},
		"v1-schedule-with-snapshots":         {{Binding: "every-hour", Type: TypeSchedule, Snapshots: map[string][]Object{"nodes": {{Object: pod}}}}},
		"v1-synchronization":                 {{Binding: "pods", Type: TypeSynchronization, Objects: []Object{{Object: pod}}}},
		"v1-synchronization-of-nothing":      {{Binding: "pods", Type: TypeSynchronization}},
		"v1-synchronization-with-filter":     {{Binding: "pods", Type: TypeSynchronization, Objects: pods, Snapshots: map[string][]Object{"cfg": {}}}},
		"v1-synchronization-without-objects": {{Binding: "pods", Type: TypeSynchronization, Objects: []Object{{FilterResult: raw(`1`)}}}},
		"v1-event":                           {{Binding: "pods", Type: TypeEvent, WatchEvent: Modified, Object: pod, FilterResult: raw(`{"app":"x"}`)}},
		"v1-event-without-object":            {{Binding: "pods", Type: TypeEvent, WatchEvent: Deleted, FilterResult: raw(`null`)}},
		"v1-group": {{
			Binding: "pods", Type: TypeGroup, GroupName: "g1", Snapshots: map[string][]Object{"pods": {{Object: pod}}, "cfg": {}},
			WatchEvent: Added, Object: pod, // what fired is not told: the snapshots say it
		}},
		"v1-group-of-schedules": {{Binding: "schedule", Type: TypeGroup, GroupName: "g1"}},
		"v1-combined": {
			{Binding: "pods", Type: TypeEvent, WatchEvent: Added, Object: pod},
			{Binding: "pods", Type: TypeEvent, WatchEvent: Deleted, Object: pod},
			{Binding: "every-hour", Type: TypeSchedule},
		},
		"v0-on-startup":     {{Binding: "onStartup"}},
		"v0-schedule":       {{Binding: "incremental"}},
		"v0-event":          {{Binding: "onKubernetesEvent", WatchEvent: Modified, Resource: &Resource{Namespace: "default", Kind: "Pod", Name: "web-1"}}},
		"v0-event-of-node":  {{Binding: "onKubernetesEvent", WatchEvent: Added, Resource: &Resource{Kind: "Node", Name: "n1"}}},
		"v0-event-deletion": {{Binding: "named", WatchEvent: Deleted, Object: pod, Resource: &Resource{Namespace: "d", Kind: "Pod", Name: "a"}}},
		"v0-order":          {{Binding: "beforeHelm"}},
	}
	for name, given := range contexts {
		t.Run(name, func(t *testing.T) {
			got, err := encodeContexts(given)
			must(t, err)
			if marshalled := mustEncode(t, given); !bytes.Equal(marshalled, got) {
				t.Errorf("MarshalJSON gives %s", marshalled)
			}
			compareGolden(t, filepath.Join("testdata", "contexts", name+".json"), got)
		})
	}
	files, err := os.ReadDir(filepath.Join("testdata", "contexts"))
	must(t, err)
	for _, file := range files {
		if _, ok := contexts[strings.TrimSuffix(file.Name(), ".json")]; !ok {
			t.Errorf("golden file %s belongs to no test", file.Name())
		}
	}
}

// compareGolden keeps the files indented, for readers; the text itself is compared, so escapes and the order of
// fields count.
func compareGolden(t *testing.T, path string, got []byte) {
	t.Helper()
	var indented bytes.Buffer
	if err := json.Indent(&indented, got, "", "  "); err != nil {
		t.Fatalf("no JSON: %v\n%s", err, got)
	}
	indented.WriteByte('\n')
	golden.File(t, path, indented.String())
}

func TestCompact(t *testing.T) { // C42
	context := func(binding, group string) Context {
		return Context{Binding: binding, GroupName: group, Type: TypeGroup}
	}
	for situation, test := range map[string]struct{ given, want string }{
		"nothing": {"", ""},
		"the last of neighbours in a group is kept": {"a:g b:g c:g", "c:g"},
		"contexts without a group are all kept":     {"a b c", "a b c"},
		"two groups side by side":                   {"a:g b:g c:h d:h", "b:g d:h"},
		"a group that is interrupted":               {"a:g b c:g d:g", "a:g b d:g"},
		"two groups in turns":                       {"a:g b:h c:g", "a:g b:h c:g"},
	} {
		t.Run(situation, func(t *testing.T) {
			var given []Context
			for word := range strings.FieldsSeq(test.given) {
				binding, group, _ := strings.Cut(word, ":")
				given = append(given, context(binding, group))
			}
			var words []string
			for _, context := range Compact(given) {
				words = append(words, strings.TrimSuffix(context.Binding+":"+context.GroupName, ":"))
			}
			if got := strings.Join(words, " "); got != test.want {
				t.Errorf("got %q, want %q", got, test.want)
			}
		})
	}
}
