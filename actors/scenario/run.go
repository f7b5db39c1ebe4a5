package scenario

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
)

// Options say how scenarios are played. The zero value is what most callers need.
type Options struct {
	Update      bool          // rewrite golden files
	Keep        bool          // leave the work directory of a failure behind, with what hooks got and wrote
	Parallel    int           // scenarios at the same time; 0: one for each processor
	StepTimeout time.Duration // until the operator must be idle after a step; 0: a minute
	JQLibrary   []string      // directories of modules that jq expressions import
	CRDSkip     []string      // beginnings of names of files in crds/ that are no definitions
}

// Result is the outcome of one scenario.
type Result struct {
	Scenario *Scenario
	// Problems are empty when the scenario passed; each says where and what.
	Problems []string
	Took     time.Duration
	// Runs are the runs of hooks, Log the lines of the operator's log. Both name the files of the
	// author, not the copies that were played.
	Runs []string
	Log  string
	Kept string // the work directory; "" when it was removed
}

// Passed reports whether all is as expected.
func (r Result) Passed() bool { return len(r.Problems) == 0 }

// Play plays scenarios and returns their results in the same order. It has no error: what goes
// wrong is a problem of its scenario, and the others are played all the same. Steps wait no longer
// than ctx. done, which may be nil, is called with each result as soon as there is one, in any
// order, one at a time.
func Play(ctx context.Context, scenarios []*Scenario, o Options, done func(Result)) []Result {
	o.StepTimeout = cmp.Or(max(o.StepTimeout, 0), defaultStepLimit)
	results := make([]Result, len(scenarios))
	var one sync.Mutex
	var plays errgroup.Group
	plays.SetLimit(cmp.Or(max(o.Parallel, 0), runtime.GOMAXPROCS(0)))
	for i, s := range scenarios {
		plays.Go(func() error {
			results[i] = playOne(ctx, s, o)
			one.Lock()
			defer one.Unlock()
			if done != nil {
				done(results[i])
			}
			return nil
		})
	}
	_ = plays.Wait() // none is returned
	return results
}

// playOne plays a scenario from its first file to the removal of its directory.
func playOne(ctx context.Context, s *Scenario, o Options) Result {
	if s.broken != nil {
		return Result{Scenario: s, Problems: []string{s.broken.Error()}}
	}
	began := time.Now()
	p := newPlay(s, o)
	if err := p.run(ctx); err != nil {
		p.problems = append(p.problems, p.files.readable(err.Error()))
	}
	result := Result{Scenario: s, Problems: p.problems, Took: time.Since(began), Log: p.files.readable(p.Trace.String())}
	if o.Keep && !result.Passed() {
		result.Kept = p.files.dir
	} else if err := os.RemoveAll(p.files.dir); err != nil {
		result.Problems = append(result.Problems, err.Error())
	}
	// Those that an expect has compared, and those after the last one.
	for _, r := range append(p.seen, p.recorder.takeRuns()...) {
		result.Runs = append(result.Runs, r.String())
	}
	return result
}

// String is the outcome of the scenario for a terminal: a line, and below it the problems.
func (r Result) String() string {
	word := "ok  "
	if !r.Passed() {
		word = "FAIL"
	}
	text := fmt.Sprintf("%s  %s: %s (%s)\n", word, r.Scenario.Name(), r.Scenario.Description, r.Took.Round(time.Millisecond))
	for _, problem := range r.Problems {
		text += "      " + strings.ReplaceAll(strings.TrimRight(problem, "\n"), "\n", "\n      ") + "\n"
	}
	if r.Kept != "" {
		text += "      kept: " + r.Kept + "\n"
	}
	return text
}

// Schema is the JSON Schema of scenario files. The caller may change the copy.
func Schema() []byte { return bytes.Clone(schemaText) }
