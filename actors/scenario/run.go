package scenario

import (
	"context"
	"fmt"
	"runtime"
	"strings"
	"time"
)

// Options say how scenarios are played.
type Options struct {
	Update      bool          // rewrite golden files
	Keep        bool          // leave the work directory of a failure behind, with what hooks got and wrote
	Coverage    bool          // note what the tests exercise, for CoverageOf
	Parallel    int           // scenarios at the same time; 0: one for each processor
	StepTimeout time.Duration // until the operator must be idle after a step; 0: a minute
	JQLibrary   []string      // directories of modules that jq expressions import
	CRDSkip     []string      // beginnings of names of files in crds/ that are no definitions
}

// Result is what came of one scenario.
type Result struct {
	Scenario *Scenario
	// Problems are empty when the scenario passed; each says where and what.
	Problems []string
	Took     time.Duration
	// Runs are the runs of hooks, Log the lines of the operator's log.
	Runs []string
	Log  string
	Kept string // the work directory; "" when it is gone

	parts map[part]bool // see CoverageOf
}

// Passed reports whether all is as expected.
func (r Result) Passed() bool { return len(r.Problems) == 0 }

// Play plays scenarios. The results are in their order; done, which may be nil, is called
// of each as soon as it is there, in any order and one at a time.
func Play(ctx context.Context, scenarios []*Scenario, o Options, done func(Result)) []Result {
	if o.Parallel <= 0 {
		o.Parallel = runtime.GOMAXPROCS(0)
	}
	if o.StepTimeout <= 0 {
		o.StepTimeout = defaultStepLimit
	}
	results := make([]Result, len(scenarios))
	next, played := make(chan int), make(chan int)
	for range min(o.Parallel, len(scenarios)) {
		go func() {
			for i := range next {
				results[i] = playOne(ctx, scenarios[i], o)
				played <- i
			}
		}()
	}
	go func() {
		defer close(next)
		for i := range scenarios {
			next <- i
		}
	}()
	for range scenarios {
		if i := <-played; done != nil {
			done(results[i])
		}
	}
	return results
}

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
	if err := p.tidy(&result); err != nil {
		result.Problems = append(result.Problems, err.Error())
	}
	for _, r := range append(p.seen, p.recorder.takeRuns()...) {
		result.Runs = append(result.Runs, r.String())
	}
	result.parts = p.exercised.parts.Get()
	return result
}

// String says what came of the scenario, in words for a terminal.
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

// Schema is the JSON Schema of scenario files.
func Schema() []byte { return append([]byte(nil), schemaText...) }
