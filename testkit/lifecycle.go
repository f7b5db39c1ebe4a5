package testkit

import (
	"bytes"
	"flag"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"

	"addon-operator/testkit/golden"
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

// ordered marks a script whose runs depend on the order of messages by their nature: its comment
// has these words, and after them why. Then only the final state is compared.
const ordered = "Runs depend on the order:"

// How much is played, and from where on: a nightly run plays more, or others.
var (
	seedsFlag     = flag.Uint64("seeds", 0, "number of seeds for each lifecycle script, instead of the number in its test")
	firstSeedFlag = flag.Uint64("first-seed", 1, "first seed of lifecycle scripts")
)

// Interleave plays every script that matches the pattern under n seeds of the scheduler,
// from 1 on: a suite of 80 scripts makes 80 n plays. Whatever the order of messages is, the
// same must be left in the end and the same hooks must have run.
func Interleave(t *testing.T, pattern string, n uint64) {
	if *seedsFlag > 0 {
		n = *seedsFlag
	}
	each(t, pattern, func(t *testing.T, _ string, archive *txtar.Archive) { interleave(t, archive, n) })
}

// interleave compares each play with the one in the order of arrival, which the golden trace shows.
// The first seed that differs ends the test.
func interleave(t *testing.T, archive *txtar.Archive, seeds uint64) {
	text := strings.Join(strings.Fields(string(archive.Comment)), " ")
	sameRuns := !strings.Contains(text, ordered)
	stage := NewStage(t, archive)
	want := stage.Play(t, stage.Script, 0)
	for seed := *firstSeedFlag; seed < *firstSeedFlag+seeds; seed++ {
		got := stage.Play(t, stage.Script, seed)
		a, b := want.Left, got.Left
		if sameRuns {
			a, b = a+runs(want.Trace), b+runs(got.Trace)
		}
		if a != b || len(got.Problems) > 0 {
			t.Fatalf("under seed %d the script ends differently than in the order of arrival\n%s\nproblems: %q\ntrace:\n%s", seed, golden.Diff(a, b), got.Problems, got.Trace)
		}
	}
}

// runs are the binding contexts that hooks were run for, sorted.
func runs(trace string) string {
	var all []string
	for _, run := range regexp.MustCompile(`(?m)^ *\S+ {2}hook (\S+): (.+)$`).FindAllStringSubmatch(trace, -1) {
		for context := range strings.SplitSeq(run[2], " + ") {
			all = append(all, run[1]+": "+context+"\n")
		}
	}
	slices.Sort(all)
	return strings.Join(all, "")
}

// FirstSeed is what -first-seed says, for tests that draw from seeds of their own.
func FirstSeed() uint64 { return *firstSeedFlag }
