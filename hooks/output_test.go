package hooks

import (
	"log/slog"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"
)

func TestRunForwardsOutput(t *testing.T) { // C27, C28
	long := strings.Repeat("x", 300_000)
	tests := map[string]struct {
		script string
		proxy  bool
		want   []string
	}{
		"line by line, the last without an end": {`echo one; echo; printf 'two\r\nthree'`, false, []string{"one", "two", "three"}},
		"a line beyond every buffer":            {`head -c 300000 /dev/zero | tr '\0' x; echo; echo after`, false, []string{long, "after"}},
		"bytes that are no text":                {`printf 'a\x00\xff\x1b[0mä\n'`, false, []string{`a\x00\xff\x1b[0mä`}},
		"JSON stays text by default":            {`echo '{"msg": "x"}'`, false, []string{`{"msg": "x"}`}},
		"half a JSON object":                    {`echo '{"msg": "x"} y'; echo '{"msg"'; echo '["msg"]'`, true, []string{`{"msg": "x"} y`, `{"msg"`, `["msg"]`}},
	}
	for situation, test := range tests {
		t.Run(situation, func(t *testing.T) {
			runner, log := newRunner(t, Options{ProxyJSON: test.proxy})
			if _, err := runner.Run(t.Context(), Run{Hook: script(t, test.script)}); err != nil {
				t.Fatal(err)
			}
			if got := log.messages(t); !slices.Equal(got, test.want) {
				t.Errorf("log %.200q, want %.200q", got, test.want)
			}
		})
	}
}

func TestRunLabelsOutput(t *testing.T) { // C27, C28
	runner, log := newRunner(t, Options{ProxyJSON: true})
	labels := []slog.Attr{slog.String("module", "m"), slog.String("queue", "main")}
	_, err := runner.Run(t.Context(), Run{Labels: labels, Hook: script(t, `
echo '{"level": "error", "msg": "broken", "module": "of the hook", "n": 12345678901234567890, "deep": {"a": [1]}}'
echo '{"level": "loud", "msg": 5}' >&2`)})
	if err != nil {
		t.Fatal(err)
	}
	records := log.records(t)
	slices.SortFunc(records, func(x, y map[string]any) int { return strings.Compare(y["stream"].(string), x["stream"].(string)) })
	common := func(stream string, own map[string]any) map[string]any {
		maps.Copy(own, map[string]any{"module": "m", "queue": "main", "hook": "001-m/hooks/hook.sh", "stream": stream})
		return own
	}
	want := []map[string]any{
		common("stdout", map[string]any{
			"level": "ERROR", "msg": "broken", "hook_module": "of the hook", "hook_n": 1.2345678901234567e19, "hook_deep": map[string]any{"a": []any{1.0}},
		}),
		common("stderr", map[string]any{"level": "INFO", "msg": "", "hook_level": "loud", "hook_msg": 5.0}),
	}
	if !reflect.DeepEqual(records, want) {
		t.Errorf("\n got %v\nwant %v", records, want)
	}
	if len(labels) != 2 {
		t.Error("the labels were changed")
	}
}
