package local

import (
	"encoding/json"
	"encoding/xml"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"addon-operator/actors/scenario"
	"addon-operator/cmd/cli"
	"addon-operator/messages/view"
)

// playing are the flags of the command test.
type playing struct {
	run, junit       string
	output           string
	verbose          bool
	scenario.Options // what package scenario needs: update, keep, parallel, step timeout
}

// Test is the command test. It is for pipelines, too: the exit code, -o json and the JUnit file are
// stable.
func Test(c *cli.Config) *cobra.Command {
	t := &playing{}
	cmd := &cobra.Command{
		Use: "test [PATH…]", Short: "Run the tests of modules without a cluster",
		Long: `Runs the scenarios in MODULE/tests/*.yaml below the paths (default: the current
directory), each against a cluster in memory, with the real hooks, charts and values. The exit
code is 1 if a scenario fails. docs/testing-modules.md shows how to write scenarios.`,
		Example: "  addon-operator test modules/010-dns --run copies --verbose",
		RunE:    func(cmd *cobra.Command, args []string) error { return t.play(cmd, c, args) },
	}
	f := cmd.Flags()
	f.StringVarP(&t.run, "run", "r", "", "run only scenarios whose name, MODULE/FILE, matches this regular expression")
	f.BoolVarP(&t.Update, "update", "u", false, "rewrite golden files instead of comparing with them")
	f.BoolVarP(&t.verbose, "verbose", "v", false, "show the runs of hooks and the log of each scenario")
	f.StringVarP(&t.output, "output", "o", "text", "format: text, json")
	f.BoolVar(&t.Keep, "keep", false, "keep the work directory of a failed test, with the input and output of each hook")
	f.StringVar(&t.junit, "junit", "", "write the results to this file, as JUnit XML")
	f.IntVarP(&t.Parallel, "parallel", "p", 0, "number of scenarios that run in parallel; 0: one for each processor")
	f.DurationVar(&t.StepTimeout, "step-timeout", time.Minute, "time limit for the operator to become idle after a step")
	return cmd
}

// play finds the scenarios and plays them. As text each result is printed as soon as it is there, in the order
// in which they end; reports are in the order of the scenarios. A scenario that fails is the error
// of the command, but only after everything is written.
func (t *playing) play(cmd *cobra.Command, c *cli.Config, paths []string) error {
	scenarios, err := t.find(paths)
	if err != nil {
		return err
	}
	// Options of the operator that change what hooks and definitions do; the others do not matter
	// in memory.
	t.JQLibrary, t.CRDSkip = c.JQDirs(), c.CRDPrefixes()
	began := time.Now()
	out := cmd.OutOrStdout()
	// Play calls this function for one result at a time, so prints do not mix.
	results := scenario.Play(cmd.Context(), scenarios, t.Options, func(r scenario.Result) {
		if t.output == "json" {
			return
		}
		fmt.Fprint(out, r)
		if t.verbose {
			fmt.Fprint(out, indented("hooks", r.Runs), indented("log", strings.Split(r.Log, "\n")))
		}
	})
	report := reportOf(results, time.Since(began))
	// Before the error of failed scenarios, which is when CI needs the file most.
	if t.junit != "" {
		if err := writeJUnit(t.junit, report); err != nil {
			return fmt.Errorf("--junit: %w", err)
		}
	}
	took := time.Since(began).Round(time.Millisecond)
	if t.output == "json" {
		encoder := json.NewEncoder(out)
		encoder.SetIndent("", "  ")
		err = encoder.Encode(report)
	} else if report.Failed == 0 {
		_, err = fmt.Fprintf(out, "%s passed, in %s\n", view.Count(report.Passed, "scenario"), took)
	}
	if report.Failed > 0 { // more important than an error of writing
		return fmt.Errorf("%d of %s failed, in %s", report.Failed, view.Count(len(report.Tests), "scenario"), took)
	}
	return err
}

// find reads the scenarios that the flags and arguments ask for, and checks the flags. No scenario
// is an error: a misspelt --run in a pipeline must not pass.
func (t *playing) find(paths []string) ([]*scenario.Scenario, error) {
	// Without --run the pattern is empty and matches every name.
	pattern, err := regexp.Compile(t.run)
	switch {
	case err != nil:
		return nil, cli.Usagef("--run: %w", err)
	case t.output != "text" && t.output != "json":
		return nil, cli.Usagef("--output must be text or json, not %q", t.output)
	}
	if len(paths) == 0 {
		paths = []string{"."}
	}
	scenarios, err := scenario.Find(paths...)
	if err != nil {
		return nil, err
	}
	scenarios = slices.DeleteFunc(scenarios, func(s *scenario.Scenario) bool { return !pattern.MatchString(s.Name()) })
	if len(scenarios) == 0 {
		return nil, cli.Usagef("--run: no scenario matches %s", t.run)
	}
	return scenarios, nil
}

// testReport is the answer of -o json, whose keys stay as they are, and the JUnit file, with what CI systems have in
// common: there is no schema that all of them follow.
type testReport struct {
	XMLName xml.Name     `json:"-" xml:"testsuite"`
	Count   int          `json:"-" xml:"tests,attr"`
	Passed  int          `json:"passed" xml:"-"`
	Failed  int          `json:"failed" xml:"failures,attr"`
	Seconds float64      `json:"seconds" xml:"time,attr"`
	Tests   []testResult `json:"tests" xml:"testcase"`
}

// testResult is one scenario. Its lists are [] and not null in JSON, so that programs need no case for it. In a JUnit
// file the module is its class, because CI systems group by class.
type testResult struct {
	Module      string   `json:"-" xml:"classname,attr"`
	Name        string   `json:"name" xml:"name,attr"`
	Description string   `json:"description" xml:"-"`
	File        string   `json:"file" xml:"file,attr"`
	Passed      bool     `json:"passed" xml:"-"`
	Seconds     float64  `json:"seconds" xml:"time,attr"`
	Problems    []string `json:"problems" xml:"-"`
	Failure     string   `json:"-" xml:"failure,omitempty"`
	Hooks       []string `json:"hooks" xml:"-"` // their runs
	Log         string   `json:"log" xml:"system-out,omitempty"`
	Kept        string   `json:"kept,omitempty" xml:"-"`
}

// reportOf sums up results; took is the time on the clock, less than the sum when scenarios run in
// parallel.
func reportOf(results []scenario.Result, took time.Duration) testReport {
	report := testReport{Count: len(results), Seconds: took.Seconds(), Tests: []testResult{}}
	for _, r := range results {
		if r.Passed() {
			report.Passed++
		} else {
			report.Failed++
		}
		module, _, _ := strings.Cut(r.Scenario.Name(), "/") // the name is MODULE/FILE
		report.Tests = append(report.Tests, testResult{
			Module: module, Name: r.Scenario.Name(), Description: r.Scenario.Description, File: r.Scenario.Path(), Passed: r.Passed(),
			Seconds: r.Took.Round(time.Millisecond).Seconds(), Failure: strings.Join(r.Problems, "\n"),
			Problems: append([]string{}, r.Problems...), Hooks: append([]string{}, r.Runs...), Log: r.Log, Kept: r.Kept,
		})
	}
	return report
}

// indented is a titled block below a result; empty when all lines are.
func indented(title string, lines []string) string {
	if strings.Join(lines, "") == "" {
		return ""
	}
	return "      " + title + ":\n        " + strings.Join(lines, "\n        ") + "\n"
}

// writeJUnit writes the results to a file. encoding/xml replaces the characters of a log that XML
// forbids.
func writeJUnit(path string, report testReport) error {
	text, err := xml.MarshalIndent(report, "", "  ")
	if err != nil {
		return err
	}
	// The file is for the CI system, which may be another user.
	return os.WriteFile(path, append([]byte(xml.Header), append(text, '\n')...), 0o644)
}
