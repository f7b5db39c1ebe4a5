package testkit

import (
	"bytes"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"addon-operator/testkit/golden"

	"golang.org/x/tools/txtar"
)

// Lifecycle plays every script that matches the pattern and compares its trace with the
// one in the archive.
func Lifecycle(t *testing.T, pattern string) { each(t, pattern, lifecycle) }

// each calls play with each script that matches the pattern, in a test of its own.
func each(t *testing.T, pattern string, play func(t *testing.T, path string, archive *txtar.Archive)) {
	paths, err := filepath.Glob(pattern)
	if err != nil || len(paths) == 0 {
		t.Fatalf("no lifecycle scripts match %s (%v)", pattern, err)
	}
	for _, path := range paths {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txtar"), func(t *testing.T) {
			t.Parallel()
			archive, err := txtar.ParseFile(path)
			if err != nil {
				t.Fatal(err)
			}
			play(t, path, archive)
		})
	}
}

// lifecycle plays one script, and writes its trace into the file with -update. Problems fail the
// test in both cases, also crashes that did not happen: -update accepts other behaviour, but none that
// is wrong in any script.
func lifecycle(t *testing.T, path string, archive *txtar.Archive) {
	if len(bytes.TrimSpace(archive.Comment)) == 0 {
		t.Errorf("%s must begin with a sentence that states what it proves", path)
	}
	stage := NewStage(t, archive)
	played := stage.Play(t, stage.Script, 0)
	for _, problem := range slices.Concat(played.Problems, played.unusedCrashes) {
		t.Error(problem)
	}
	golden.Part(t, path, archive, "script", played.Trace)
}

// scriptLines are the steps, which may be without >, and the comments of a script. Lines of a trace begin with spaces or
// with a digit.
func scriptLines(script string) (lines []string) {
	for _, line := range regexp.MustCompile(`(?m)^(?:> *)?([a-z#].*)$`).FindAllStringSubmatch(script, -1) {
		lines = append(lines, strings.TrimSpace(line[1]))
	}
	return lines
}
