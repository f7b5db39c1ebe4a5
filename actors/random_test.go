package actors_test

import (
	"flag"
	"strings"
	"testing"

	"addon-operator/testkit"
	"addon-operator/testkit/golden"
)

var (
	seedFlag      = flag.Uint64("seed", 0, "play the random script of this seed only")
	sequencesFlag = flag.Uint64("sequences", 20, "number of random scripts; make test-full plays 100")
)

// TestRandom plays random scripts. Whatever happened in them, once all is fixed the
// cluster must be as an operator makes it that finds the same files, ConfigMap and objects at its first start.
//
// A seed that fails is played again by -seed N. Its steps are printed; with the files of testkit/testdata/random.txtar
// they can become a script of TestLifecycle, when they have been made short.
func TestRandom(t *testing.T) {
	first, n, workers := testkit.FirstSeed(), *sequencesFlag, uint64(4)
	switch {
	case *seedFlag != 0:
		first, n, workers = *seedFlag, 1, 1
	case testing.Short() || raced:
		n = min(n, 10)
	}
	t.Logf("seeds %d to %d", first, first+n-1)
	for worker := range workers {
		t.Run("", func(t *testing.T) {
			t.Parallel()
			stage := testkit.NewRandomStage(t)
			for seed := first + worker; seed < first+n; seed += workers {
				r := testkit.NewRandom(seed)
				played, fresh := stage.Play(t, r.Script, seed), stage.Play(t, r.Fresh, 0)
				if violations := r.Violations(played, fresh); len(violations) > 0 {
					t.Errorf("seed %d (again with -run TestRandom -seed %d):\n  %s\n%s", seed, seed, strings.Join(violations, "\n  "), r.Script)
				}
				if *seedFlag != 0 {
					t.Logf("trace:\n%s", played.Trace)
				}
			}
		})
	}
}

// A seed that has failed must fail again: what it draws, and the order of all that follows,
// is the same at each play.
func TestSeedsReplay(t *testing.T) {
	t.Parallel()
	one, other := testkit.NewRandomStage(t), testkit.NewRandomStage(t)
	for seed := testkit.FirstSeed(); seed < testkit.FirstSeed()+5; seed++ {
		script := testkit.NewRandom(seed).Script
		first, again := one.Play(t, script, seed), other.Play(t, script, seed)
		if first.Trace != again.Trace {
			t.Errorf("seed %d has two traces:\n%s", seed, golden.Diff(first.Trace, again.Trace))
		}
	}
}
