package dev

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"addon-operator/addons"
	"addon-operator/cmd/lint"
	"addon-operator/hooks"
	"addon-operator/messages"
	"addon-operator/messages/view"
)

func texts(facts []fact) string {
	var all []string
	for _, f := range facts {
		text := string(f.About) + " " + f.about()
		if f.Bad {
			text = "!" + text
		}
		all = append(all, strings.Join(append([]string{text}, f.Detail...), " | "))
	}
	return strings.Join(all, "\n")
}

func want(t *testing.T, what, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("%s: got\n%s\nwant\n%s", what, got, want)
	}
}

// logLine is a record as the operator writes it.
func logLine(t *testing.T, line string) (one record) {
	t.Helper()
	n, err := recorder{func(event any) { one, _ = event.(record) }}.Write([]byte(line))
	if err != nil || n != len(line) {
		t.Fatal(n, err)
	}
	return one
}

func TestOutputOfHooksIsFolded(t *testing.T) {
	b := newBoard()
	for _, line := range []string{"one", "two"} {
		if facts, _ := b.logged(logLine(t, `{"level":"INFO","msg":"`+line+`","module":"dns","hook":"a.sh","binding":"nodes","task":"7","stream":"stdout"}`)); len(facts) > 0 {
			t.Errorf("output is a fact: %s", texts(facts))
		}
	}
	run := view.HookRun{Owner: "dns", Hook: "a.sh", Task: "7", Contexts: []hooks.Context{{Binding: "nodes", Type: "Event"}, {Binding: "nodes", Type: "Event"}}, Took: 12 * time.Millisecond}
	hide := func(text string) string { return strings.ReplaceAll(text, "s3cret", "***") }
	want(t, "run", texts([]fact{b.hookRan(run, hide)}), "hook dns: a.sh (nodes Event) took 12ms, 2 lines | one | two")
	run.Owner, run.Err = messages.GlobalHooks, errors.New("exit 1: s3cret")
	want(t, "failed run", texts([]fact{b.hookRan(run, hide)}), "!hook a.sh (nodes Event) took 12ms: failed | exit 1: ***")
	if len(b.output) > 0 {
		t.Error("the output is kept")
	}
	if _, known := b.lastRun("dns", "a.sh"); !known {
		t.Error("the last run is not known")
	}
}

// What an enabled script prints, and a hook for --config, has no reported end: it is shown when the pages are asked the next time.
func TestOutputWithoutAnEnd(t *testing.T) {
	b := newBoard()
	for _, line := range []string{
		`{"msg":"no","hook":"dns/enabled","binding":"enabled","module":"dns","task":"7","stream":"stdout"}`,
		`{"msg":"asked","hook":"010-dns/hooks/a.sh","stream":"stderr"}`,
		`{"msg":"database","hook":"dns/enabled","binding":"enabled","module":"dns","task":"7","stream":"stdout"}`,
	} {
		if facts, _ := b.logged(logLine(t, line)); len(facts) > 0 {
			t.Errorf("a fact for each line: %s", texts(facts))
		}
	}
	want(t, "said", texts(b.scriptFacts()), "hook dns: dns/enabled printed 2 lines | no | database\nhook 010-dns/hooks/a.sh --config printed 1 line | asked")
	want(t, "said again", texts(b.scriptFacts()), "")
	for range 2 * maxOutput {
		b.logged(logLine(t, `{"msg":"x","hook":"a.sh","stream":"stderr"}`))
	}
	if got := texts(b.scriptFacts()); !strings.Contains(got, "printed 400 lines") || !strings.Contains(got, "!hook 400 lines of enabled scripts and --config are not shown") {
		t.Errorf("of many lines: %.100s", got)
	}
}

func TestRecordsAndRevisions(t *testing.T) {
	b := newBoard()
	since := func(revision string) int {
		_, since := b.logged(logLine(t, `{"level":"INFO","msg":"release","module":"dns","action":"upgraded","revision":`+revision+`}`))
		return since
	}
	if a, c, d, e := since("1"), since("3"), since("3"), since("4"); a != 0 || c != 1 || d != 0 || e != 3 {
		t.Errorf("compared with %d, %d, %d, %d", a, c, d, e)
	}
	facts, _ := b.logged(logLine(t, `{"level":"WARN","msg":"it is so","module":"dns","n":2,"list":[],"err":"bad\nmore"}`))
	want(t, "warning", texts(facts), "!log dns: it is so (n=2): bad | more")
	facts, _ = b.logged(logLine(t, `{"level":"ERROR","msg":"task failed, will retry","module":"dns"}`))
	want(t, "what the state shows", texts(facts), "")
}

// page is what the operator's pages say.
func page(t *testing.T, modules string) (a answers) {
	t.Helper()
	if err := json.Unmarshal([]byte(`{"Modules":[`+modules+`]}`), &a.List); err != nil {
		t.Fatal(err)
	}
	return a
}

func TestStatesBecomeFacts(t *testing.T) {
	b := newBoard()
	b.findings["dns"] = []finding{{bad: true, printed: lint.Finding{Severity: lint.Error, File: "010-dns/a.yaml", Line: 2, Column: 1, Message: "wrong", Excerpt: "x"}.String()}}
	facts := b.answered(page(t, `{"name":"dns","state":"ready","phase":"ready","lastRun":{"began":"2026-01-01T00:00:00Z","release":"installed","causes":[{"activation":"OperatorStartup"}]},"succeeded":"2026-01-01T00:00:01Z"}`))
	want(t, "first", texts(facts), "run dns: ran in 1s: installed | because of OperatorStartup\nstate dns: ready")
	want(t, "a step of a run", texts(b.answered(page(t, `{"name":"dns","state":"running","phase":"running","problems":["changed on disk since it was loaded: x"]}`))), "")
	a := page(t, `{"name":"dns","state":"running","phase":"running","failing":[{"task":"RunModule","attempts":1,"error":"no"}]}`)
	a.Queues.Active = append(a.Queues.Active, struct {
		Name  string
		Tasks []struct {
			Index       int
			Owner, Kind string
		}
	}{Name: "main", Tasks: []struct {
		Index       int
		Owner, Kind string
	}{{1, "dns", "RunModule"}}})
	want(t, "failing", texts(b.answered(a)), "!state dns: RunModule: no | 010-dns/a.yaml:2:1: error: wrong |     2 | x |       | ^")
	if s := b.state().Modules[0]; s.State != "failing" || s.Queue != "main 1/1" || len(s.Excerpt) != 3 {
		t.Errorf("state %+v", s)
	}
	want(t, "ready again", texts(b.answered(page(t, `{"name":"dns","state":"ready","phase":"ready"}`))), "state dns: ready\nstate dns: its problem is gone")
	want(t, "gone", texts(b.answered(page(t, ``))), "state dns: was removed")
}

func TestFindingsComeAndGo(t *testing.T) {
	b := newBoard()
	one := finding{true, "a.yaml: wrong", lint.Finding{Severity: lint.Error, File: "a.yaml", Line: 3, Column: 2, Message: "wrong"}.String()}
	two := finding{false, "b.yaml: odd", lint.Finding{Severity: lint.Warning, File: "b.yaml", Message: "odd"}.String()}
	want(t, "first", texts(b.linted(linted{"dns", []finding{two}, true, nil})), "lint dns: b.yaml: warning: odd")
	want(t, "new", texts(b.linted(linted{"dns", []finding{one, two}, false, nil})), "!lint dns: a.yaml:3:2: error: wrong")
	want(t, "same", texts(b.linted(linted{"dns", []finding{one, two}, false, nil})), "lint dns: 2 findings, unchanged")
	want(t, "could not look", texts(b.linted(linted{"dns", nil, false, errors.New("no space left")})), "!lint dns: no space left")
	want(t, "looked again", texts(b.linted(linted{"dns", []finding{one, two}, false, nil})), "lint dns: 2 findings, unchanged")
	want(t, "gone", texts(b.linted(linted{"dns", nil, false, nil})), "lint dns: no longer reported: a.yaml: wrong\nlint dns: no longer reported: b.yaml: odd")
	want(t, "none", texts(b.linted(linted{"dns", nil, false, nil})), "lint dns: no findings")
}

func TestDifferences(t *testing.T) {
	b := newBoard()
	want(t, "changed", texts(b.rendered(difference{"dns", []view.ObjectDiff{{Object: "ConfigMap a", Action: "changed", Diff: "-a\n+b\n"}}, nil})), "diff dns: ConfigMap a is changed | -a | +b")
	want(t, "same", texts(b.rendered(difference{"dns", nil, nil})), "diff dns: the rendered objects have not changed")
	want(t, "unknown", texts(b.rendered(difference{"dns", nil, errors.New("no")})), "!diff dns: changes are unknown: no")
}

// What was saved, by module. The hooks of all, and the values of all, have names of their own.
func TestWhatWasSaved(t *testing.T) {
	tree := newTree(t)
	tree.write("modules/010-dns/a.yaml", "1")
	tree.write("modules/010-dns/b.yaml", "1")
	d := newDisk(addons.Dirs{Modules: []string{tree.path("modules")}, Global: tree.path("global-hooks")})
	tree.write("modules/010-dns/a.yaml", "22")
	tree.remove("modules/010-dns/b.yaml")
	tree.write("modules/020-web/c.yaml", "1")
	tree.write("modules/values.yaml", "{}")
	tree.write("global-hooks/hook.sh", "")
	want(t, "saved", texts(d.compare().facts()), `disk saved: values.yaml (new)
disk dns: 2 files saved | 010-dns/a.yaml | 010-dns/b.yaml (removed)
disk saved: hook.sh (new)
disk web: saved: 020-web/c.yaml (new)`)
	want(t, "nothing", texts(d.compare().facts()), "")
}

// A fact has bounds: a hook may print anything.
func TestFactsHaveBounds(t *testing.T) {
	f := newFact(aboutHook, "", strings.Repeat("x", 3*maxLine), strings.Split(strings.Repeat("y\n", 3*maxDetail), "\n")...)
	if len(f.Text) > maxLine+3 || len(f.Detail) != maxDetail+1 {
		t.Errorf("%d bytes, %d lines", len(f.Text), len(f.Detail))
	}
}

// Output of runs that are never reported as ended, as those of enabled scripts, makes room for that of others.
func TestOutputOfManyRuns(t *testing.T) {
	b := newBoard()
	for i := range 3 * maxRuns {
		b.printed(fmt.Sprint("script ", i), "printed")
	}
	if len(b.output) != maxRuns {
		t.Errorf("output of %d runs is kept", len(b.output))
	}
	b.printed("hook", "one")
	b.printed("hook", "two")
	if got := b.output["hook"]; len(got) != 2 {
		t.Errorf("the output of the last run is %q", got)
	}
}
