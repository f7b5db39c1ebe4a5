package dev

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"addon-operator/addons"
	"addon-operator/cmd/lint"
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

// checked is a checker of a tree, and what it posts.
func checked(t *testing.T, files map[string]string) (f tree, k *checker, posted chan string) {
	t.Helper()
	f = newTree(t)
	for name, text := range files {
		f.write(name, text)
	}
	f.write("global-hooks/README.md", "")
	posted = make(chan string, 1000)
	dirs := addons.Dirs{Modules: []string{f.path("modules")}, Global: f.path("global-hooks"), UnnumberedOrder: 1}
	k = newChecker(configured(t, nil), dirs, "", lint.Look, func(f fact) { posted <- fmt.Sprintf("%s %s: %s", f.about, f.module, f.text) })
	return f, k, posted
}

// awaits the texts in their order, and returns what lint has reported between them.
func awaits(t *testing.T, posted chan string, texts ...string) (skipped []string) {
	t.Helper()
	late := time.After(time.Minute)
	for _, text := range texts {
		for found := false; !found; {
			select {
			case got := <-posted:
				if found = strings.Contains(got, text); !found && strings.HasPrefix(got, "lint") {
					skipped = append(skipped, got)
				}
			case <-late:
				t.Fatalf("no %q; there were %q", text, skipped)
			}
		}
	}
	return skipped
}

const passing = "description: it is\nexpect: {objects: [{kind: ConfigMap, metadata: {name: a}}]}\n"

// A save is looked at in its module, then its tests are played; a file of all modules has all checked.
func TestChecksWhatWasSaved(t *testing.T) {
	const template = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\ndata: {a: {{ .Values.global.a }}}\n"
	f, k, posted := checked(t, map[string]string{
		"modules/values.yaml":             "global: {a: b}\n",
		"modules/010-web/tests/a.yaml":    passing,
		"modules/030-db/templates/a.yaml": template,
	})
	f.write("modules/010-web/templates/a.yaml", template)
	go k.run(t.Context())
	k.check(saved{"": nil})
	if before := awaits(t, posted, "No findings in 2 modules and the global hooks."); len(before) > 0 {
		t.Errorf("at the start there is %q", before)
	}
	f.write("modules/010-web/templates/a.yaml", strings.Replace(template, "\ndata", "\ndta", 1))
	k.check(saved{"web": {"a"}})
	if before := awaits(t, posted, "lint web: 010-web/templates/a.yaml:4:1: error: ", "its tests did not run", "lint web: 1 error, 1 warning"); len(before) > 0 {
		t.Errorf("before its own there were %q", before)
	}
	f.write("modules/values.yaml", "global: {}\n")
	k.check(saved{"": {"values.yaml"}})
	awaits(t, posted, "010-web/templates/a.yaml", "1 error, 1 warning")
	must(t, os.RemoveAll(f.path("modules/030-db")))
	k.check(saved{"db": {"templates/a.yaml (removed)"}, "web": {"a"}})
	if before := awaits(t, posted, "lint web: 010-web", "its tests did not run", "1 error, 1 warning"); len(before) > 0 {
		t.Errorf("of a module that is gone there is %q", before)
	}
}
