package main

import (
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	_ "addon-operator/testkit" // its flag -update
)

// updating reports the flag -update of testkit: files in deploy/ and docs/ that come from
// the code are written again.
func updating() bool {
	update := flag.Lookup("update")
	return update != nil && update.Value.String() == "true"
}

// repository is the root of the repository, seen from the directory of this package.
const repository = "../../"

// golden compares a file of the repository with what it must be.
func golden(t *testing.T, path, want string) {
	t.Helper()
	if updating() {
		if err := os.WriteFile(repository+path, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(repository + path)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != want {
		t.Errorf("%s is out of date: run 'go test ./cmd/addon-operator -update'.\n%s", path, firstDifference(string(got), want))
	}
}

func firstDifference(got, want string) string {
	a, b := strings.Split(got, "\n"), strings.Split(want, "\n")
	for i := range max(len(a), len(b)) {
		if i >= len(a) || i >= len(b) || a[i] != b[i] {
			line := func(lines []string) string {
				if i < len(lines) {
					return lines[i]
				}
				return "(the end)"
			}
			return fmt.Sprintf("line %d: has %q, must be %q", i+1, line(a), line(b))
		}
	}
	return ""
}

// declaredOption is an option with its environment variables, the strongest first.
type declaredOption struct {
	*pflag.Flag
	variables []string
}

// declared are all options in the order of their declarations.
func declared() (all []declaredOption) {
	flags := program().PersistentFlags()
	flags.SortFlags = false
	flags.VisitAll(func(f *pflag.Flag) {
		if f.Hidden { // another name of an option
			return
		}
		_, list, _ := strings.Cut(strings.TrimSuffix(f.Usage, "]"), " [$")
		all = append(all, declaredOption{f, strings.FieldsFunc(list, func(r rune) bool { return strings.ContainsRune("$, ", r) })})
	})
	return all
}

// sentence is the help of an option without the list of its variables.
func sentence(flag *pflag.Flag) string {
	text, _, _ := strings.Cut(flag.Usage, " [$")
	return text
}

// between replaces what stands between two marks of a document.
func between(t *testing.T, document, begin, end, content string) string {
	t.Helper()
	before, rest, ok := strings.Cut(document, begin)
	_, after, closed := strings.Cut(rest, end)
	if !ok || !closed {
		t.Fatalf("the marks %q and %q are not there", begin, end)
	}
	return before + begin + "\n" + content + end + after
}

// docs/running.md lists all options, from their declarations (B3).
func TestRunningTellsAllOptions(t *testing.T) {
	var table strings.Builder
	table.WriteString("| flag | environment | default | meaning |\n|---|---|---|---|\n")
	for _, flag := range declared() {
		var variables []string
		for _, variable := range flag.variables {
			variables = append(variables, "`"+variable+"`")
		}
		value := ""
		if flag.DefValue != "" {
			value = "`" + flag.DefValue + "`"
		}
		fmt.Fprintf(&table, "| `--%s` | %s | %s | %s |\n", flag.Name, strings.Join(variables, ", "), value, strings.ReplaceAll(sentence(flag.Flag), "|", `\|`))
	}
	const path = "docs/running.md"
	document, err := os.ReadFile(repository + path)
	if err != nil {
		t.Fatal(err)
	}
	golden(t, path, between(t, string(document), "<!-- options -->", "<!-- end of options -->", table.String()))
}
