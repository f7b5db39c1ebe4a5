package dev

import (
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"addon-operator/addons"
	"addon-operator/cmd/lint"
)

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
