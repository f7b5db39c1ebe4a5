package hooks

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"
)

func object() map[string]any {
	return map[string]any{
		"kind":     "Pod",
		"metadata": map[string]any{"name": "a", "labels": map[string]any{"b": "<1>", "a": "2"}, "generation": int64(9007199254740993)},
		"spec":     map[string]any{"ports": []any{int64(80), 1.5, json.Number("18446744073709551615")}},
		"big":      json.Number("123456789012345678901234567890"),
		"nothing":  nil,
	}
}

func TestFilterApply(t *testing.T) { // C37
	tests := map[string]struct{ filter, want string }{
		"one result":                {".metadata.name", `"a"`},
		"an object, keys sorted":    {".metadata.labels", `{"a":"2","b":"<1>"}`},
		"no result":                 {"empty", `null`},
		"a result that is null":     {".missing", `null`},
		"several results":           {".metadata.labels[]", `["2","<1>"]`},
		"integers stay exact":       {".metadata.generation", `9007199254740993`},
		"integers beyond 64 bits":   {".big", `123456789012345678901234567890`},
		"every kind of number":      {"[.spec.ports[] | . + 0]", `[80,1.5,18446744073709551615]`},
		"halt ends without failing": {".kind, halt, 1", `"Pod"`},
		"functions of jq 1.6":       {`[(.metadata.labels | keys_unsorted | .[]), (.metadata.labels | leaf_paths[0]), ("x" | debug | stderr)]`, `["a","b","a","b","x"]`},
		"functions of one's own":    {`def keys_unsorted: 1; keys_unsorted`, `1`},
		"no environment":            {"[$ENV, env] | unique", `[{}]`},
	}
	t.Setenv("SECRET", "x")
	for situation, test := range tests {
		t.Run(situation, func(t *testing.T) {
			filter, err := CompileFilter(test.filter)
			must(t, err)
			given := object()
			got, err := filter.Apply(given)
			must(t, err)
			if string(got) != test.want {
				t.Errorf("got %s, want %s", got, test.want)
			}
			if !reflect.DeepEqual(given, object()) {
				t.Error("the object, which others share, was changed")
			}
		})
	}
}

func TestFilterFails(t *testing.T) { // C39
	for _, expression := range []string{`.kind | tonumber`, `error("no")`, `"x" | halt_error`} {
		filter, err := CompileFilter(expression)
		must(t, err)
		if got, err := filter.Apply(object()); err == nil || !strings.Contains(err.Error(), "jq expression") {
			t.Errorf("%s: got %s, %v", expression, got, err)
		}
	}
	filter, err := CompileFilter(".")
	must(t, err)
	if _, err := filter.Apply(map[string]any{"a": []any{map[string]any{"b": struct{}{}}}}); err == nil {
		t.Error("a Go type that is no JSON is accepted")
	}
}

func TestFilterThatLoopsIsStopped(t *testing.T) {
	filter, err := CompileFilter("def f: f; f")
	must(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	if _, err := filter.apply(ctx, object()); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error %v", err)
	}
}

func TestFilterCompile(t *testing.T) { // C15
	for _, expression := range []string{".a |", "nosuchfunction", "$undefined", "{", "input"} {
		if _, err := CompileFilter(expression); err == nil || !strings.Contains(err.Error(), expression) {
			t.Errorf("%s: error %v", expression, err)
		}
	}
}

func TestNilFilter(t *testing.T) {
	var filter *Filter
	if got, err := filter.Apply(object()); got != nil || err != nil || filter.String() != "" {
		t.Errorf("got %s, %v", got, err)
	}
}

func TestFilterIsSafeForConcurrentUse(t *testing.T) {
	filter, err := CompileFilter(`.metadata.labels | with_entries(.value |= test("[0-9]"))`)
	must(t, err)
	shared := object()
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			if got, err := filter.Apply(shared); err != nil || string(got) != `{"a":true,"b":true}` {
				t.Errorf("got %s, %v", got, err)
			}
		})
	}
	group.Wait()
}

func TestFilterImportsModules(t *testing.T) { // B3: JQ_LIBRARY_PATH
	dir := tree(t, "lib/labels.jq")
	library := filepath.Join(dir, "lib")
	must(t, os.WriteFile(filepath.Join(library, "labels.jq"), []byte("def names: keys;"), 0o600))
	const expression = `import "labels" as l; .metadata.labels | l::names`
	filter, err := CompileFilter(expression, t.TempDir(), library)
	must(t, err)
	if got, err := filter.Apply(object()); err != nil || string(got) != `["a","b"]` {
		t.Errorf("got %s, %v", got, err)
	}
	wantError(t, second(CompileFilter(expression)), "labels")
	config := `{"configVersion": "v1", "kubernetes": [{"kind": "Pod", "jqFilter": "import \"labels\" as l; l::names"}]}`
	runner, _ := newRunner(t, Options{JQLibrary: []string{library}})
	if _, err := runner.Configure(t.Context(), script(t, "echo '"+config+"'").File, "/", Global); err != nil {
		t.Error(err)
	}
}

// Issue, bad input: a filter that loops on one object costs the others little.
func TestFilterThatLoopsIsDistrusted(t *testing.T) {
	filter, err := CompileFilter(`if .kind == "Loop" then [repeat(1)] else .kind end`)
	must(t, err)
	loop := map[string]any{"kind": "Loop"}
	wants := []string{"within 1s; does it loop forever?", "within 10ms; does it loop forever?"}
	for _, want := range wants {
		wantError(t, second(filter.Apply(loop)), want)
		got, err := filter.Apply(object())
		for tries := 0; err != nil && tries < 100; tries++ { // a busy machine may take longer than 10 ms
			got, err = filter.Apply(object())
		}
		if err != nil || string(got) != `"Pod"` {
			t.Errorf("another object: %s, %v", got, err)
		}
	}
	filter.distrusted.Store(time.Now().Add(-time.Second).UnixMilli())
	wantError(t, second(filter.Apply(loop)), wants[0])
}
