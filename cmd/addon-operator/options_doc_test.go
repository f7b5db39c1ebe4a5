package main

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"addon-operator/actors/metrics"
	"addon-operator/testkit/golden"
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

// writeIn replaces what is between the marks of a name in a document.
func writeIn(t *testing.T, document, name, content string) string {
	t.Helper()
	before, rest, ok := strings.Cut(document, "<!-- "+name+" -->")
	_, after, closed := strings.Cut(rest, "<!-- end of "+name+" -->")
	if !ok || !closed {
		t.Fatalf("the marks of %s are not there", name)
	}
	return before + "<!-- " + name + " -->\n" + content + "<!-- end of " + name + " -->" + after
}

// B3, I2, J4, J6: tables of documents are made from the declarations of options, metrics, pages and commands. A
// command that only prints a page is in the table of pages.
func TestDocumentsListAll(t *testing.T) {
	for path, made := range map[string]map[string]string{
		"docs/running.md": {"options": optionTable()},
		"docs/metrics.md": {"metrics": metricTable()},
		"docs/cli.md":     {"commands": commandList(), "pages": pageTable()},
	} {
		data, err := os.ReadFile(repository + path)
		must(t, err)
		document := string(data)
		for name, content := range made {
			document = writeIn(t, document, name, content)
		}
		golden.File(t, repository+path, document)
	}
}

// inCell is a text in a cell of a table; quoted are words in it, each as code.
func inCell(text string) string { return strings.ReplaceAll(text, "|", `\|`) }

func quoted(words ...string) string {
	text := ""
	for _, word := range words {
		if word != "" {
			text += ", `" + word + "`"
		}
	}
	return strings.TrimPrefix(text, ", ")
}

func optionTable() string {
	rows := "| flag | environment | default | meaning |\n|---|---|---|---|\n"
	for _, flag := range declared() {
		name, help := quoted("--"+flag.Name), inCell(sentence(flag.Flag))
		rows += fmt.Sprintf("| %s | %s | %s | %s |\n", name, quoted(flag.variables...), quoted(flag.DefValue), help)
	}
	return rows
}

func metricTable() string {
	m := metrics.New(metrics.DefaultPrefix)
	m.Watch(metrics.Sources{})
	rows := "| metric | type | labels | meaning |\n|---|---|---|---|\n"
	for _, f := range m.Families() {
		rows += fmt.Sprintf("| %s | %s | %s | %s |\n", quoted(f.Name), f.Type, quoted(f.Labels...), inCell(f.Help))
	}
	return rows
}
