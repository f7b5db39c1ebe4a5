package main

import (
	"cmp"
	"fmt"
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"addon-operator/server"
	"addon-operator/testkit/golden"
)

// leaves are the commands that do something, in the order of the help text.
func leaves(cmd *cobra.Command) (all []*cobra.Command) {
	for _, sub := range cmd.Commands() {
		switch {
		case sub.Name() == "help" || sub.Name() == "completion" || !sub.IsAvailableCommand():
		case sub.HasSubCommands():
			all = append(all, leaves(sub)...)
		default:
			all = append(all, sub)
		}
	}
	return all
}

// topOf is the command below the program that a command belongs to.
func topOf(cmd *cobra.Command) *cobra.Command {
	for cmd.Parent().HasParent() {
		cmd = cmd.Parent()
	}
	return cmd
}

func program() *cobra.Command { return command(func(string) (string, bool) { return "", false }) }

// docs/cli.md lists all commands and all pages, from their declarations (J4, J6).
func TestDocumentTellsAllCommands(t *testing.T) {
	const path = "docs/cli.md"
	document, err := os.ReadFile(repository + path)
	if err != nil {
		t.Fatal(err)
	}
	root := program()
	var commands strings.Builder
	for _, group := range root.Groups() {
		fmt.Fprintf(&commands, "\n## %s\n", strings.TrimSuffix(group.Title, ":"))
		for _, cmd := range leaves(root) {
			if topOf(cmd).GroupID == group.ID {
				describeCommand(&commands, cmd)
			}
		}
	}
	commands.WriteString("\n")
	text := between(t, string(document), "<!-- commands -->", "<!-- end of commands -->", commands.String())
	golden.File(t, repository+path, between(t, text, "<!-- pages -->", "<!-- end of pages -->", pageTable()))
}

func describeCommand(w *strings.Builder, cmd *cobra.Command) {
	fmt.Fprintf(w, "\n### %s\n\n", strings.TrimPrefix(cmd.CommandPath(), "addon-operator "))
	text := cmd.Long
	text = cmp.Or(text, cmd.Short+".")
	fmt.Fprintf(w, "%s\n\n```bash\n%s\n", text, cmd.UseLine())
	if cmd.Example != "" {
		fmt.Fprintf(w, "\n# for example\n%s\n", strings.ReplaceAll(strings.TrimPrefix(cmd.Example, "  "), "\n  ", "\n"))
	}
	w.WriteString("```\n")
	var rows strings.Builder
	cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
		if f.Name == "help" {
			return
		}
		name := "`--" + f.Name + "`"
		if f.Shorthand != "" {
			name += ", `-" + f.Shorthand + "`"
		}
		fmt.Fprintf(&rows, "| %s | %s | %s |\n", name, strings.Trim(strings.ReplaceAll(f.DefValue, "|", `\|`), "[]"), strings.ReplaceAll(f.Usage, "|", `\|`))
	})
	if rows.Len() > 0 {
		w.WriteString("\n| flag | default | meaning |\n|---|---|---|\n" + rows.String())
	}
}

func pageTable() string {
	var rows strings.Builder
	rows.WriteString("| page | parameters | answer |\n|---|---|---|\n")
	for _, r := range server.Routes() {
		if r.Help == "" {
			continue
		}
		name := "`" + r.Path + "`"
		if r.Method != http.MethodGet {
			name = r.Method + " " + name
		}
		if r.Public {
			name += " (public)"
		}
		query := ""
		for one := range strings.SplitSeq(r.Query, ", ") {
			if one != "" {
				query += "`" + one + "` "
			}
		}
		fmt.Fprintf(&rows, "| %s | %s | %s |\n", name, strings.TrimSpace(query), r.Help)
	}
	return rows.String()
}

// shellWord is a word of a command line: in quotes, or without blanks.
var shellWord = regexp.MustCompile(`'[^']*'|"[^"]*"|\S+`)

// checkExample parses the words of an example, so that it names a command with flags that
// exist.
func checkExample(t *testing.T, name, line string) {
	t.Helper()
	line, _, _ = strings.Cut(line, "|")
	line, _, _ = strings.Cut(line, ">")
	words := shellWord.FindAllString(line, -1)
	if len(words) == 0 || words[0] != "addon-operator" {
		t.Errorf("%s: the example %q is of another program", name, line)
		return
	}
	for i := range words {
		words[i] = strings.Trim(words[i], `'"`)
	}
	found, rest, err := program().Find(words[1:])
	if err == nil {
		err = found.ParseFlags(rest)
	}
	if err == nil && found.Args != nil {
		err = found.Args(found, found.Flags().Args())
	}
	if err != nil {
		t.Errorf("%s: the example %q: %v", name, line, err)
	}
}

// Every command line of the operator that a page of the documents shows exists.
func TestDocumentedCommandsExist(t *testing.T) {
	entries, err := os.ReadDir(repository + "docs")
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	for _, entry := range entries {
		if entry.IsDir() {
			continue
		}
		text, err := os.ReadFile(repository + "docs/" + entry.Name())
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			_, after, ok := strings.Cut(line, "addon-operator -- ") // kubectl exec
			if !ok {
				after = strings.TrimPrefix(strings.TrimSpace(line), "$ ")
			}
			if !strings.HasPrefix(after, "addon-operator ") || strings.Contains(after, "…") || strings.Contains(after, "[") {
				continue
			}
			after, _, _ = strings.Cut(after, "#")
			after, _, _ = strings.Cut(after, "`")
			seen++
			if strings.HasSuffix(strings.TrimSpace(after), `\`) || strings.Contains(after, "--dump-actors") || strings.Contains(after, "completion") {
				continue
			}
			checkExample(t, entry.Name(), strings.TrimSpace(after))
		}
	}
	if seen < 20 {
		t.Errorf("only %d command lines", seen)
	}
}
