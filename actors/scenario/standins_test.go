package scenario

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// caller calls programs and a server, and sees the environment and the time.
const caller = `#!/bin/sh
if [ "$1" = --config ]; then
  echo '{"configVersion": "v1", "beforeHelm": 1, "schedule": [{"name": "hourly", "crontab": "0 * * * *"}]}'
  exit
fi
echo "secret $(vault kv get 'a b')"
echo "then $(vault kv get 'a b')"
echo '{"a": "it'"'"'s"}' | vault kv put x - || echo "put says $?"
echo "region $REGION"
echo "now $TEST_NOW, $SOURCE_DATE_EPOCH"
`

func TestStandInsForCommands(t *testing.T) {
	results := module(t, Options{}, map[string]string{
		"010-a/hooks/caller.sh": caller,
		"010-a/tests/a.yaml": `
given:
  env: {REGION: eu}
  clock: 2026-03-31T11:30:00+02:00
  commands:
    vault:
    - {args: kv get *, stdout: {data: 1}, times: 1}
    - {args: kv get *, stdout: "it's second"}
    - {args: "kv put ? -", stderr: refused, exit: 7, stdin: true}
tests:
- description: the hook sees them, and they note it
  expect:
    log: ['secret {"data":1}', then it's second, put says 7, region eu, 'now 2026-03-31T09:30:00Z, 1774949400']
    commands:
    - {command: vault, args: kv get*, times: 2}
    - {command: vault, args: [kv, put, x, {$regex: ^-$}], stdin: '{"a": "it''s"}'}
- description: all can fail
  steps:
  - expect: {}
  - advance: 1h
  - expect: {log: [now 2026-03-31T10:00:00Z]}
  - advance: 1h
  expect:
    commands:
    - {command: vault, args: kv list}
    - {command: vault, args: kv get*, times: 1}
    - {command: vault, args: kv put*, stdin: x}
- description: a call without an answer
  given: {commands: {vault: [{args: kv get *}]}}
- description: no answer
  given: {commands: {jq: {args: none}}}
`,
		"010-a/hooks/more.sh": "#!/bin/sh\n[ \"$1\" = --config ] && echo '{\"configVersion\": \"v1\", \"onStartup\": 1}' || jq a || true\n",
	})
	for i, wants := range [][]string{
		nil,
		{`expect.commands: [0] {"args":"kv list","command":"vault"}: there must`, `[1] {"args":"kv get*","command":"vault"}: there must be 1 such calls, there are 2; there were:` + "\n    vault kv get a b\n", `stdin must be "x", is "{`},
		nil,
		{"expect.commands: given.commands.jq has no answer for the call: jq a"},
	} {
		got := strings.Join(results[i].Problems, "\n")
		got = strings.ReplaceAll(got, "the most similar call differs", "there must")
		if len(wants) == 0 && !results[i].Passed() {
			t.Error(results[i], results[i].Log)
		}
		for _, want := range wants {
			if !strings.Contains(got, want) {
				t.Errorf("got %s, want %s", got, want)
			}
		}
	}
}

// The work directory of a failure is kept when it is asked for, with what hooks got and wrote; that of a success is not.
func TestKeep(t *testing.T) {
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir)
	results := module(t, Options{Keep: true}, map[string]string{
		"010-a/hooks/writer.sh": writer,
		"010-a/tests/a.yaml":    "tests:\n- description: it passes\n- description: it fails\n  expect: {values: {a: {seen: 2}}}",
	})
	kept := results[1].Kept
	if results[0].Kept != "" || !strings.HasPrefix(kept, dir) || !strings.Contains(results[1].String(), "kept: "+kept) {
		t.Errorf("kept %q and %q", results[0].Kept, kept)
	}
	left, err := filepath.Glob(filepath.Join(dir, "scenario-*"))
	if err != nil || len(left) != 1 {
		t.Errorf("there are %v %v", left, err)
	}
	var found bool
	err = filepath.WalkDir(filepath.Join(kept, "tmp"), func(path string, entry os.DirEntry, err error) error {
		if err == nil && entry.Type().IsRegular() {
			text, _ := os.ReadFile(path)
			found = found || strings.Contains(string(text), `"path": "/a/seen"`)
		}
		return err
	})
	if err != nil || !found {
		t.Errorf("the patch of the hook is not kept: %v", err)
	}
}
