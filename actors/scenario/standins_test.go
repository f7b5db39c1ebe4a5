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
echo "now $TEST_NOW, $(date -u +%F), $(date -u -d tomorrow +%d), $(date -u --date=2020-02-03 +%Y)"
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
    log: ['secret {"data":1}', then it's second, put says 7, region eu, 'now 2026-03-31T09:30:00Z, 2026-03-31, 01, 2020']
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
  given: {commands: {vault: [{args: kv get *}], date: {stdout: 7}}}
- description: no answer
  given: {commands: {jq: {args: none}}}
`,
		"010-a/hooks/more.sh": "#!/bin/sh\n[ \"$1\" = --config ] && echo '{\"configVersion\": \"v1\", \"onStartup\": 1}' || jq a || true\n",
	})
	for i, wants := range [][]string{
		nil,
		{"expect.commands: [0] vault \"kv list\": there must", "[1] vault \"kv get*\": there must be 1 such calls, there are 2; there were:\n    vault kv get a b\n", `stdin must be "x", is "{`},
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

// asker asks a server by the variables that programs know, with what every shell has.
const asker = `#!/usr/bin/env bash
if [ "$1" = --config ]; then
  echo '{"configVersion": "v1", "beforeHelm": 1}'
  exit
fi
ask() { # METHOD URL BODY
  hostport=${http_proxy#http://}
  exec 3<>"/dev/tcp/${hostport%:*}/${hostport#*:}"
  printf '%s %s HTTP/1.1\r\nHost: vault.example\r\nX-Token: t\r\nConnection: close\r\nContent-Length: %d\r\n\r\n%s' "$1" "$2" "${#3}" "$3" >&3
  echo "answer $(cat <&3 | tr -d '\r' | tr '\n' ' ')"
}
ask GET http://vault.example/v1/a "" # as with a proxy
ask POST /v1/b '{"x": 1}'           # as with the address itself
ask "$ASK" "$WHERE" ""
echo "address $ADDRESS no proxy for $NO_PROXY"
`

func TestStandInForHTTP(t *testing.T) {
	results := module(t, Options{}, map[string]string{
		"010-a/hooks/asker.sh": asker,
		"010-a/tests/a.yaml": `
given:
  env: {ADDRESS: "at ${TEST_HTTP_URL}/x", ASK: GET, WHERE: /v1/b}
  http:
  - {url: http://vault.example/v1/a, body: {data: [1]}, headers: {X-A: b}}
  - {method: POST, url: /v1/b*, status: 201, body: made}
  - {url: /v1/b}
tests:
- description: the hook sees it
  expect:
    log: ['X-A: b', '{"data":[1]}', 201 Created, made, {$regex: 'address at http://127.0.0.1:\d+/x no proxy for 127'}]
    http:
    - {method: GET, url: http://vault.example/v1/a, headers: {X-Token: t}, times: 1}
    - {url: /v1/b, body: {x: 1}}
- description: what was not asked
  expect: {http: [{url: /v1/c}, {url: /v1/b, body: {x: 2}}]}
- description: no answer
  given: {env: {WHERE: http://elsewhere/}}
`,
	})
	for i, want := range []string{
		"",
		"expect.http: [0] /v1/c: there is no such request; there were:\n    GET http://vault.example/v1/a",
		"expect.http: given.http: GET http://elsewhere/: no answer matches",
	} {
		got := strings.Join(results[i].Problems, "\n")
		if (want == "") != (got == "") || !strings.Contains(got, want) {
			t.Errorf("got %s, want %s\n%s", got, want, results[i].Log)
		}
	}
	if got := strings.Join(results[1].Problems, "\n"); !strings.Contains(got, "body.x must be 2, is 1") {
		t.Error(got)
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
