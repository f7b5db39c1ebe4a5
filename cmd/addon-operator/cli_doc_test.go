package main

import (
	"cmp"
	"fmt"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"addon-operator/actors"
	"addon-operator/cmd/cli"
	"addon-operator/messages/view"
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

// commandList describes the commands that do more than print a page, by their groups; what several have in common
// is said once.
func commandList() string {
	root, pages := program(), map[string]bool{}
	for _, r := range server.Routes() {
		pages[r.Command] = r.Long == ""
	}
	d := cliDoc{shared: map[string]*pflag.Flag{}, said: map[string]string{}}
	var all []*cobra.Command
	uses := map[string]int{"": 1}
	for _, cmd := range leaves(root) {
		if pages[useOf(cmd)] {
			continue
		}
		all = append(all, cmd)
		cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
			best := cmp.Or(d.shared[f.Name], &pflag.Flag{})
			if uses[f.Name+f.Usage]++; f.Name != "help" && uses[f.Name+f.Usage] > uses[best.Name+best.Usage] {
				d.shared[f.Name] = f
			}
		})
	}
	d.text.WriteString("\n### Flags of several commands\n\n| flag | meaning |\n|---|---|\n")
	for _, name := range slices.Sorted(maps.Keys(d.shared)) {
		fmt.Fprintf(&d.text, "| %s | %s |\n", nameOf(d.shared[name]), inCell(d.shared[name].Usage))
	}
	for _, group := range root.Groups() {
		fmt.Fprintf(&d.text, "\n## %s\n", strings.TrimSuffix(group.Title, ":"))
		for _, cmd := range all {
			if topOf(cmd).GroupID == group.ID {
				d.describe(cmd)
			}
		}
	}
	return d.text.String() + "\n"
}

// cliDoc is the list of commands: by name the flags with the meaning that most commands give them, if at least two
// do; and by paragraph the command that it was written for.
type cliDoc struct {
	text   strings.Builder
	shared map[string]*pflag.Flag
	said   map[string]string
}

func useOf(cmd *cobra.Command) string {
	use, _, _ := strings.Cut(strings.TrimPrefix(cmd.UseLine(), "addon-operator "), " [flags]")
	return use
}

func nameOf(f *pflag.Flag) string {
	if f.Shorthand == "" {
		return "`--" + f.Name + "`"
	}
	return "`--" + f.Name + "`, `-" + f.Shorthand + "`"
}

func (d *cliDoc) describe(cmd *cobra.Command) {
	w, name := &d.text, strings.TrimPrefix(cmd.CommandPath(), "addon-operator ")
	fmt.Fprintf(w, "\n### %s\n", name)
	as := ""
	for paragraph := range strings.SplitSeq(cmp.Or(cmd.Long, cmd.Short+"."), "\n\n") {
		if first := d.said[paragraph]; first != "" {
			as = "\nThe rest is as for `" + first + "`.\n"
			continue
		}
		d.said[paragraph] = name
		fmt.Fprintf(w, "\n%s\n", paragraph)
	}
	example := strings.ReplaceAll(strings.TrimPrefix(cmd.Example, "  "), "\n  ", "\n")
	fmt.Fprintf(w, "%s\n```bash\n%s\n```\n", as, cmp.Or(example, cmd.UseLine()))
	var rows strings.Builder
	cmd.LocalFlags().VisitAll(func(f *pflag.Flag) {
		if shared := d.shared[f.Name]; f.Name != "help" && f.Usage != "" && (shared == nil || shared.Usage != f.Usage) {
			fmt.Fprintf(&rows, "| %s | %s | %s |\n", nameOf(f), inCell(strings.TrimPrefix(strings.Trim(f.DefValue, "[]"), "false")), inCell(f.Usage))
		}
	})
	if rows.Len() > 0 {
		w.WriteString("\n| flag | default | meaning |\n|---|---|---|\n" + rows.String())
	}
}

func pageTable() string {
	rows := "| page | parameters | answer | command |\n|---|---|---|---|\n"
	for _, r := range server.Routes() {
		name := quoted(r.Path)
		if r.Method != http.MethodGet {
			name = r.Method + " " + name
		}
		if r.Public {
			name += " (public)"
		}
		if r.Help != "" {
			query := quoted(strings.Split(r.Query, ", ")...)
			rows += fmt.Sprintf("| %s | %s | %s | %s |\n", name, query, r.Help, quoted(r.Command))
		}
	}
	return rows
}

// Every command has a sentence, an example that can be parsed, and help that a person can read without scrolling:
// the options of the operator are not repeated. Few have code of their own: the others are rows of the table of
// pages.
func TestHelpOfEveryCommand(t *testing.T) {
	rows, own := map[string]bool{}, []string{}
	for _, r := range server.Routes() {
		rows[r.Command] = true
	}
	commands := []string{""}
	for _, cmd := range leaves(program()) {
		name := cmd.CommandPath()
		commands = append(commands, strings.TrimPrefix(name, "addon-operator "))
		if strings.HasSuffix(cmd.Short, ".") || cmd.Example == "" && topOf(cmd).GroupID != cli.GroupRun {
			t.Errorf("%s: its sentence is %q, its example %q", name, cmd.Short, cmd.Example)
		}
		for line := range strings.Lines(cmd.Example) {
			checkExample(t, name, strings.TrimSpace(line))
		}
		if !rows[useOf(cmd)] {
			own = append(own, useOf(cmd))
		}
	}
	if most := 24; len(own) > most {
		t.Errorf("%d commands have code of their own, of at most %d:\n%s", len(own), most, strings.Join(own, "\n"))
	}
	for _, name := range commands {
		out, err := commanded(nil, append(strings.Fields(name), "--help")...)
		lines, start := strings.Count(out, "\n"), name == "start"
		short := start || strings.Contains(out, "--context NAME") && lines <= 48
		if err != nil || !short || strings.Contains(out, "--kube-client-qps") != start {
			t.Errorf("help of %q: %v\n%s", name, err, out)
		}
		if wide := regexp.MustCompile(`(?m)^.{101,}$`).FindString(out); name == "" && (wide != "" || lines > 45) {
			t.Errorf("help of the program: %d lines, wide: %s", lines, wide)
		}
	}
}

// checkExample parses the words of an example, so that it names a command with flags that exist. A word is in
// quotes, or without blanks.
func checkExample(t *testing.T, name, line string) {
	t.Helper()
	line = strings.FieldsFunc(line, func(r rune) bool { return r == '|' || r == '>' })[0]
	words := regexp.MustCompile(`'[^']*'|"[^"]*"|\S+`).FindAllString(line, -1)
	if words[0] != "addon-operator" {
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

// Every command line of the operator that a page of the documents shows exists, also behind kubectl exec.
func TestDocumentedCommandsExist(t *testing.T) {
	files, err := filepath.Glob(repository + "docs/*.md")
	if err != nil || len(files) == 0 {
		t.Fatal(err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		must(t, err)
		shown := regexp.MustCompile("(?m)^(?:.*addon-operator -- |\\s*\\$ |[ \\t]*)(addon-operator [^#`\\n]*)")
		for _, line := range shown.FindAllStringSubmatch(string(text), -1) {
			if !regexp.MustCompile(`…|\[|\\\s*$|--dump-actors|completion`).MatchString(line[1]) {
				checkExample(t, file, strings.TrimSpace(line[1]))
			}
		}
	}
}

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
	m := actors.NewMetrics(view.MetricsPrefix)
	rows := "| metric | type | labels | meaning |\n|---|---|---|---|\n"
	families := slices.SortedFunc(slices.Values(m.Families), func(a, b actors.Family) int { return strings.Compare(a.Name, b.Name) })
	for _, f := range families {
		rows += fmt.Sprintf("| %s | %s | %s | %s |\n", quoted(f.Name), f.Type, quoted(f.Labels...), inCell(f.Help))
	}
	return rows
}
