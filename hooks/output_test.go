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
	for situation, test := range map[string]struct {
		script string
		proxy  bool
		want   []string
	}{
		"line by line, the last without an end": {`echo one; echo; printf 'two\r\nthree'`, false, []string{"one", "two", "three"}},
		"a line beyond every buffer":            {`head -c 300000 /dev/zero | tr '\0' x; echo; echo after`, false, []string{long, "after"}},
		"bytes that are no text":                {`printf 'a\x00\xff\x1b[0mä\n'`, false, []string{`a\x00\xff\x1b[0mä`}},
		"JSON stays text by default":            {`echo '{"msg": "x"}'`, false, []string{`{"msg": "x"}`}},
		"half a JSON object":                    {`echo '{"msg": "x"} y'; echo '{"msg"'; echo '["msg"]'`, true, []string{`{"msg": "x"} y`, `{"msg"`, `["msg"]`}},
	} {
		t.Run(situation, func(t *testing.T) {
			runner, log := newRunner(t, Options{ProxyJSON: test.proxy})
			must(t, second(runner.Run(t.Context(), Run{Hook: script(t, test.script)})))
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
	must(t, err)
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

func TestLinesWithoutEnd(t *testing.T) { // C28: no loss, but no unbounded memory either
	log := &journal{}
	stream := &lineLog{log: slog.New(slog.NewJSONHandler(log, nil))}
	text := strings.Repeat("abcde", longestLine/2) // 2.5 times the limit
	for part := range slices.Chunk([]byte(text), 32<<10) {
		must(t, second(stream.Write(part)))
		if len(stream.pending) > longestLine+32<<10 {
			t.Fatalf("%d bytes are held", len(stream.pending))
		}
	}
	stream.flush()
	parts := log.messages(t)
	if strings.Join(parts, "") != text {
		t.Error("the parts are not the line")
	}
	if len(parts) != 3 {
		t.Errorf("%d parts", len(parts))
	}
}

func TestEnding(t *testing.T) { // C27
	for situation, test := range map[string]struct {
		text string
		want string
	}{
		"nothing":              {"", ""},
		"blanks around":        {"\n\n one \n\n", "one"},
		"the last 20 lines":    {strings.Repeat("old\n", 100) + strings.Repeat("new\n", 20), strings.TrimSpace(strings.Repeat("new\n", 20))},
		"the last 4 KB":        {strings.Repeat("x", 100_000), strings.Repeat("x", tailBytes)},
		"carriage returns":     {"one\r\ntwo\r\n", "one\ntwo"},
		"commands of terminal": {"\x1b[2Jgone", `\x1b[2Jgone`},
		"control beyond ASCII": {"a\u0085b", `a\u0085b`},
	} {
		t.Run(situation, func(t *testing.T) {
			stream := &lineLog{log: slog.New(slog.DiscardHandler)}
			for part := range slices.Chunk([]byte(test.text), 1000) {
				must(t, second(stream.Write(part)))
			}
			if got := stream.ending(); got != test.want {
				t.Errorf("got %.100q, want %.100q", got, test.want)
			}
		})
	}
}

// J10: a secret that lies across the place where the end of the output begins leaves no part of itself.
func TestEndingHidesBeforeItCuts(t *testing.T) {
	const secret = "swordfish"
	for cut := range len(secret) {
		stream := &lineLog{log: slog.New(slog.DiscardHandler), hide: func(text string) string { return strings.ReplaceAll(text, secret, "***") }}
		for part := range slices.Chunk([]byte(strings.Repeat("y", 100_000)+secret+strings.Repeat("x", tailBytes-cut)), 1000) {
			must(t, second(stream.Write(part)))
		}
		if got := stream.ending(); strings.Contains(got, "h") || len(got) > tailBytes {
			t.Errorf("%d bytes of a secret after the cut: %.20q", cut, got)
		}
	}
}

func TestLogLevel(t *testing.T) { // C28
	for name, want := range map[string]slog.Level{
		"trace": slog.LevelDebug, "DEBUG": slog.LevelDebug, "info": slog.LevelInfo, "Warning": slog.LevelWarn, "fatal": slog.LevelError,
	} {
		if got, ok := logLevel(name); got != want || !ok {
			t.Errorf("%s: %v, %v", name, got, ok)
		}
	}
	if _, ok := logLevel("5"); ok {
		t.Error("5 is a level")
	}
}
