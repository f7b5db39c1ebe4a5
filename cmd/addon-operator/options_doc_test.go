package main

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"addon-operator/testkit/golden"

	"github.com/spf13/pflag"
)

// repository is the root of the repository, seen from the directory of this package.
const repository = "../../"

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
	golden.File(t, repository+path, between(t, string(document), "<!-- options -->", "<!-- end of options -->", table.String()))
}
