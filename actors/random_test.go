package actors_test

import (
	"flag"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"

	"addon-operator/testkit"
	"addon-operator/testkit/golden"
)

var (
	seedFlag      = flag.Uint64("seed", 0, "play the random script of this seed only")
	sequencesFlag = flag.Uint64("sequences", 20, "number of random scripts; make check plays 400")
)

// TestRandom plays random scripts. Whatever happened in them, once all is fixed the
// cluster must be as the files, the ConfigMap and the objects say.
//
// A seed that fails is played again by -seed N. Its script is printed; it can become a
// script of TestLifecycle, when it has been made short.
func TestRandom(t *testing.T) {
	if *seedFlag != 0 {
		random(t, testkit.NewRandomStage(t), *seedFlag, true)
		return
	}
	first, n := testkit.FirstSeed(), *sequencesFlag
	if testing.Short() || raced {
		n = min(n, 10)
	}
	t.Logf("seeds %d to %d", first, first+n-1)
	const workers = 4
	for worker := range uint64(workers) {
		t.Run("", func(t *testing.T) {
			t.Parallel()
			stage := testkit.NewRandomStage(t)
			for seed := first + worker; seed < first+n; seed += workers {
				random(t, stage, seed, false)
			}
		})
	}
}

func random(t *testing.T, stage *testkit.Stage, seed uint64, verbose bool) {
	t.Helper()
	r := testkit.NewRandom(seed)
	played := r.Play(t, stage)
	violations := r.Violations(played)
	if verbose {
		t.Logf("trace:\n%s", played.Trace)
	}
	if len(violations) > 0 {
		t.Errorf("seed %d (again with -run TestRandom -seed %d):\n  %s\n%s",
			seed, seed, strings.Join(violations, "\n  "), txtar.Format(r.Archive))
	}
}

// A seed that has failed must fail again: what it draws, and the order of all that follows,
// is the same at each play.
func TestSeedsReplay(t *testing.T) {
	t.Parallel()
	one, other := testkit.NewRandomStage(t), testkit.NewRandomStage(t)
	for seed := testkit.FirstSeed(); seed < testkit.FirstSeed()+5; seed++ {
		first := testkit.NewRandom(seed).Play(t, one)
		again := testkit.NewRandom(seed).Play(t, other)
		if first.Trace != again.Trace {
			t.Errorf("seed %d has two traces:\n%s", seed, golden.Diff(first.Trace, again.Trace))
		}
	}
}
