package hooks

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

func TestConfigure(t *testing.T) { // C1, C2, X1
	runner, log := newRunner(t, Options{})
	hook := script(t, `
[[ $# -eq 1 && $1 == --config && $WORKING_DIR == /hooks && $PWD == "$(dirname "$0")" ]] || exit 9
echo "asked for the configuration" >&2
echo "configVersion: v1"
echo "onStartup: 5"`)
	found, err := runner.Configure(t.Context(), hook.File, "/hooks", Global)
	if err != nil || len(found) != 1 {
		t.Fatalf("%d hooks, %v", len(found), err)
	}
	if order, ok := found[0].Config.Order(OnStartup); !ok || order != 5 {
		t.Errorf("config %+v", found[0].Config)
	}
	if got := log.messages(t); !slices.Equal(got, []string{"asked for the configuration"}) {
		t.Errorf("log %q", got)
	}
}

func TestConfigureFails(t *testing.T) { // C1
	tests := map[string]struct {
		script string
		want   []string
	}{
		"by its exit code": {`echo '{"onStartup": 1}'; echo "no jq here" >&2; exit 3`, []string{"--config: ", "exit code 3: no jq here"}},
		"by the schema, with what it printed": {
			`echo '{"configVersion": "v1", "beforeAll": true}'`,
			[]string{"beforeAll: must be a number, is a boolean", "it printed: {\"configVersion\": \"v1\", \"beforeAll\": true}"}},
		"by the first 200 bytes of a long output": {
			`printf 'x%.0s' {1..199}; printf '\x1by%.0s' {1..100}`, []string{strings.Repeat("x", 199) + `\x1b…`}},
		"by printing nothing":         {`echo hello >&2`, []string{"the hook printed nothing"}},
		"by printing too many values": {`printf 'a: ['; yes 1, | head -50000 | tr -d '\n'; echo ']'`, []string{"more than 50000 keys and values"}},
		"by printing too many keys":   {`for i in {1..30000}; do echo "a$i: 1"; done`, []string{"more than 50000 keys and values"}},
		"by many mistakes":            {`echo 'configVersion: v1'; for i in {1..200}; do echo "a$i: 1"; done`, []string{"has 101 mistakes", "there are more problems; fix these first"}},
		"by printing too much":        {`head -c 1100000 /dev/zero`, []string{"printed more than 1048576 bytes"}},
	}
	for situation, test := range tests {
		t.Run(situation, func(t *testing.T) {
			runner, _ := newRunner(t, Options{})
			_, err := runner.Configure(t.Context(), script(t, test.script).File, "/", Global)
			wantError(t, err, append(test.want, "hook 001-m/hooks/hook.sh")...)
		})
	}
}

func TestConfigureIsCancelled(t *testing.T) {
	runner, _ := newRunner(t, Options{})
	hook := script(t, `touch ready; sleep 1000`)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		until(t, "the hook is ready", func() bool { return exists(filepath.Join(filepath.Dir(hook.Path), "ready")) })
		cancel()
	}()
	if _, err := runner.Configure(ctx, hook.File, "/", Global); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
}
