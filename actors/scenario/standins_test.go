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

// What a run got and wrote is compared with a golden file, which --update writes.
func TestGoldenRun(t *testing.T) {
	files := map[string]string{
		"010-a/hooks/writer.sh": writer,
		"010-a/tests/a.yaml":    "description: d\nexpect: {hooks: [{hook: writer.sh, golden: run.golden.yaml}]}",
	}
	if got := strings.Join(module(t, Options{}, files)[0].Problems, ""); !strings.Contains(got, "run the test with --update to write it") {
		t.Errorf("without a file: %s", got)
	}
	results := module(t, Options{Update: true}, files)
	text, err := os.ReadFile(filepath.Join(filepath.Dir(results[0].Scenario.Path()), "run.golden.yaml"))
	if err != nil || !results[0].Passed() {
		t.Fatal(err, results[0])
	}
	for _, want := range []string{"contexts:\n- binding: beforeHelm", "valuesPatch:\n", "path: /a/seen", "objectPatches:\n", "by: hook"} {
		if !strings.Contains(strings.ReplaceAll(string(text), "  - ", "- "), want) {
			t.Errorf("the file has no %q:\n%s", want, text)
		}
	}
	files["010-a/tests/run.golden.yaml"] = string(text)
	allPassed(t, module(t, Options{}, files), "010-a/a")
	files["010-a/tests/run.golden.yaml"] = strings.ReplaceAll(string(text), "by: hook", "by: me")
	if got := strings.Join(module(t, Options{}, files)[0].Problems, ""); !strings.Contains(got, "the input or output of the hook differs") || !strings.Contains(got, "by: hook") {
		t.Errorf("another patch: %s", got)
	}
}

// The coverage sums up all tests of a module: what ran, what made objects, and what did not.
func TestCoverage(t *testing.T) {
	results := module(t, Options{Coverage: true}, map[string]string{
		"010-a/hooks/writer.sh":       writer,
		"010-a/hooks/never.sh":        "#!/bin/sh\necho '{\"configVersion\": \"v1\", \"afterDeleteHelm\": 1}'\n",
		"010-a/templates/_a.tpl":      "",
		"010-a/templates/NOTES.txt":   "a",
		"010-a/templates/a.yaml":      "{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}",
		"010-a/templates/b/more.yaml": "{{ if .Values.a.more }}{apiVersion: v1, kind: ConfigMap, metadata: {name: b}}{{ end }}",
		"010-a/tests/a.yaml":          "tests:\n- description: one\n- {description: two, steps: [{tick: often}]}",
		"020-b/hooks/writer.sh":       strings.ReplaceAll(writer, "/a/", "/b/"),
		"020-b/tests/b.yaml":          "description: another module\ngiven: {modules: [a]}",
	})
	var got string
	for _, c := range CoverageOf(results) {
		got += c.String()
	}
	const want = `coverage of 010-a: 1 of 2 hooks, 2 of 3 bindings, 1 of 2 templates
      not exercised: hook hooks/never.sh
      not exercised: binding hooks/never.sh afterDeleteHelm
      not exercised: template templates/b/more.yaml
coverage of 020-b: 1 of 1 hooks, 1 of 2 bindings, 0 of 0 templates
      not exercised: binding hooks/writer.sh often
`
	if got != want {
		t.Errorf("got\n%s", got)
	}
}

// The coverage of global hooks does not count the hooks of modules that a test of theirs names.
func TestCoverageOfGlobalHooks(t *testing.T) {
	results := module(t, Options{Coverage: true}, map[string]string{
		"010-a/hooks/writer.sh":           writer,
		"../global-hooks/hooks/g.sh":      "#!/bin/sh\nif [ \"$1\" = --config ]; then echo '{\"configVersion\": \"v1\", \"onStartup\": 1, \"afterAll\": 1}'; fi\n",
		"../global-hooks/tests/both.yaml": "description: both\ngiven: {modules: [a], fromGlobalHooks: {zone: x}}",
	}, "global-hooks")
	for _, r := range results {
		if !r.Passed() {
			t.Error(r)
		}
	}
	if got, want := CoverageOf(results)[0].String(), "coverage of global-hooks: 1 of 1 hooks, 2 of 2 bindings, 0 of 0 templates\n"; got != want {
		t.Errorf("got\n%s", got)
	}
}
