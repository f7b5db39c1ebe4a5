package dev

import (
	"bytes"
	"slices"
	"strings"
	"testing"
)

func texts(facts []fact) string {
	var all []string
	for _, f := range facts {
		text := string(f.about) + " " + f.module + ": " + f.text
		if f.bad {
			text = "!" + text
		}
		all = append(all, text)
	}
	slices.Sort(all)
	return strings.Join(all, " | ")
}

func TestRecordsBecomeFacts(t *testing.T) {
	for line, want := range map[string]string{
		`{"msg":"one","module":"dns","hook":"a.sh","binding":"nodes","task":"7","stream":"stdout"}`:       "hook dns: a.sh | one",
		`{"level":"INFO","msg":"release","module":"dns","action":"upgraded","reason":"why","revision":3}`: "run dns: upgraded, revision 3: why",
		`{"level":"WARN","msg":"it is so","module":"dns","n":2,"list":[],"err":"bad\nmore"}`:              "!log dns: it is so (n=2): bad\nmore",
		`{"level":"ERROR","msg":"task failed, will retry","module":"dns","err":"no"}`:                     "!log dns: task failed, will retry: no",
		`{"level":"DEBUG","msg":"a release","module":"dns"}`:                                              "",
		`no JSON`: "",
	} {
		var facts []fact
		n, err := recorder{func(r record) {
			if f, ok := r.fact(); ok {
				facts = append(facts, f)
			}
		}}.Write([]byte(line))
		if err != nil || n != len(line) || texts(facts) != want {
			t.Errorf("%s: got %q, %d, %v", line, texts(facts), n, err)
		}
	}
}

// A failure that is retried is shown once, until another one or a release comes.
func TestFailuresAreShownOnce(t *testing.T) {
	var out bytes.Buffer
	s := newSession(nil, &place{}, nil, &printer{out: &out, path: func(text string) string { return text }})
	failed := func(module, err string) {
		s.logged(t.Context(), record{"level": "ERROR", "msg": "task failed, will retry", "module": module, "err": err})
	}
	failed("dns", "no")
	failed("dns", "no")
	failed("web", "no")
	failed("dns", "another")
	s.logged(t.Context(), record{"msg": "release", "module": "dns", "action": "installed", "revision": 1.0})
	failed("dns", "another")
	if n := strings.Count(out.String(), "task failed"); n != 4 {
		t.Errorf("%d failures are shown, want 4: %s", n, &out)
	}
}

// What is printed is bounded and cannot control a terminal; a reader that is gone ends the command.
func TestPrinter(t *testing.T) {
	var out bytes.Buffer
	p := &printer{out: &out, path: func(text string) string { return strings.ReplaceAll(text, "/tmp/x", "modules") }}
	p.show(fact{about: aboutHook, module: "dns", text: "/tmp/x/a\x1b[31m\nb" + strings.Repeat("\nc", maxDetail)})
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(lines) != maxDetail+2 || !strings.Contains(lines[0], "hook  dns: modules/a") || strings.Contains(lines[0], "\x1b") || lines[1] != "    b" || !strings.Contains(lines[maxDetail+1], "1 more lines") {
		t.Errorf("%d lines: %q, %q, %q", len(lines), lines[0], lines[1], lines[len(lines)-1])
	}
	ended := false
	p.out, p.end = failing{}, func() { ended = true }
	p.show(fact{text: "a"})
	if !ended {
		t.Error("the command goes on without a reader")
	}
}

type failing struct{}

func (failing) Write([]byte) (int, error) { return 0, bytes.ErrTooLarge }
