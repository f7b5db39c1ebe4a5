package testkit

import (
	"bytes"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"addon-operator/testkit/golden"

	"golang.org/x/tools/txtar"
)

// Lifecycle plays every script that matches the pattern and compares its trace with the
// one in the archive. If all were played, and not one that go test -run names, it calls after with the changes of
// phases that actors have made in them, as "module: ready to running". after may be nil.
func Lifecycle(t *testing.T, pattern string, after func(transitions map[string]bool)) {
	paths, err := filepath.Glob(pattern)
	if err != nil || len(paths) == 0 {
		t.Fatalf("no lifecycle scripts match %s (%v)", pattern, err)
	}
	all := make([]map[string]bool, len(paths)) // each is written by the test of its script
	t.Cleanup(func() {                         // when all have ended
		transitions := map[string]bool{}
		for _, found := range all {
			maps.Copy(transitions, found)
		}
		if after != nil && !slices.ContainsFunc(all, func(found map[string]bool) bool { return found == nil }) {
			after(transitions)
		}
	})
	for i, path := range paths {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txtar"), func(t *testing.T) {
			t.Parallel()
			all[i] = lifecycle(t, path)
		})
	}
}

// lifecycle plays one script, and writes its trace into the file with -update. Problems fail the
// test in both cases, also crashes that did not happen: -update accepts other behaviour, but none that
// is wrong in any script.
func lifecycle(t *testing.T, path string) (transitions map[string]bool) {
	archive, err := txtar.ParseFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if len(bytes.TrimSpace(archive.Comment)) == 0 {
		t.Errorf("%s must begin with a sentence that states what it proves", path)
	}
	stage := NewStage(t, archive)
	played := stage.Play(t, stage.Script, 0)
	for _, problem := range slices.Concat(played.Problems, played.unusedCrashes) {
		t.Error(problem)
	}
	for _, f := range archive.Files {
		if f.Name == "script" {
			golden.Part(t, path, archive, f.Name, commented(string(f.Data), played.Trace))
		}
	}
	return played.transitions
}

// commented is a trace with the comments of the script before its steps.
func commented(script, trace string) string {
	var comments [][]string // by step; at the end those after the last one
	var pending []string
	for _, line := range scriptLines(script) {
		if strings.HasPrefix(line, "#") {
			pending = append(pending, line+"\n")
			continue
		}
		comments, pending = append(comments, pending), nil
	}
	var text strings.Builder
	n := 0
	for line := range strings.Lines(trace) {
		if strings.HasPrefix(line, heading) {
			text.WriteString(strings.Join(comments[n], ""))
			n++
		}
		text.WriteString(line)
	}
	return text.String() + strings.Join(pending, "")
}

// scriptLines are the steps and comments of a script. In one with effects, as files have it, a step begins with >.
func scriptLines(script string) (lines []string) {
	withEffects := strings.HasPrefix(script, heading) || strings.Contains(script, "\n"+heading)
	for line := range strings.Lines(script) {
		line = strings.TrimRight(line, "\n")
		step, isStep := strings.CutPrefix(line, heading)
		if comment := strings.HasPrefix(line, "#"); comment || isStep || !withEffects {
			if line = strings.TrimSpace(step); line != "" {
				lines = append(lines, line)
			}
		}
	}
	return lines
}
