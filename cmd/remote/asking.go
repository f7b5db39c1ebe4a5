package remote

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"sigs.k8s.io/yaml"

	"addon-operator/cmd/cli"
	"addon-operator/hooks"
)

// asking is what the commands share that ask the running operator: the flags of one command, and
// how its answers are printed. Each command has its own, because the flags write to it.
type asking struct {
	config  *cli.Config
	output  string   // of -o; after checked one of formats, nameFormat, or a template
	formats []string // without wide, name and jsonpath, which follow from the others
	secrets bool
	wide    bool // no cell of a table is cut
	bare    bool // a table has rows only
	// names finds the names that -o name prints, one a line; nil where there is no such format.
	names func(body []byte) ([]string, error)
	watch bool
	every time.Duration
}

// flags declares the flags of pages that hold values; the first format is the default. format is
// for pages without values, and so without --show-secrets.
func (a *asking) flags(cmd *cobra.Command, formats ...string) {
	a.format(cmd, formats...)
	cmd.Flags().BoolVar(&a.secrets, "show-secrets", false, "show secrets in full")
}

// format declares the flag for the format. A table can also be wide and without headers, JSON can
// be filtered by a template: so those formats come with these two.
func (a *asking) format(cmd *cobra.Command, formats ...string) {
	// a.formats has no wide, name and jsonpath, which follow from the others (checkFormat); only
	// the help lists them.
	a.formats = formats
	if formats = slices.Clone(formats); slices.Contains(formats, "table") {
		formats = append(formats, "wide")
		cmd.Flags().BoolVar(&a.bare, "no-headers", false, "print only the rows of the table")
	}
	if a.names != nil {
		formats = append(formats, nameFormat)
	}
	if slices.Contains(formats, "json") {
		formats = append(formats, pathFormat+"TEMPLATE")
	}
	cmd.Flags().StringVarP(&a.output, "output", "o", formats[0], "format: "+strings.Join(formats, ", "))
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(formats, cobra.ShellCompDirectiveNoFileComp)) // it was declared a line above
}

// watching declares the flags for printing again and again.
func (a *asking) watching(cmd *cobra.Command) {
	cmd.Flags().BoolVarP(&a.watch, "watch", "w", false, "refresh the output until Ctrl-C")
	cmd.Flags().DurationVarP(&a.every, "every", "t", time.Second, "how often to refresh, with --watch")
	// The name that existing scripts use is accepted, and is not in the help.
	cmd.Flags().SetNormalizeFunc(func(_ *pflag.FlagSet, name string) pflag.NormalizedName {
		if name == "watchInterval" {
			name = "every"
		}
		return pflag.NormalizedName(name)
	})
}

// page gets a page of the running operator, with --show-secrets in the query if it is given.
func (a *asking) page(ctx context.Context, path string, query url.Values) ([]byte, error) {
	// The caller may pass nil; without parameters no "?" is sent.
	if query == nil {
		query = url.Values{}
	}
	if a.secrets {
		query.Set("show-secrets", "true")
	}
	if len(query) > 0 {
		path += "?" + query.Encode()
	}
	return get(ctx, a.config, path)
}

// cell is a text for one cell: on one line, and cut to longest characters. In a pipe and with -o
// wide it is whole, because programs and people search it there; print marks such a writer.
func cell(w io.Writer, text string, longest int) string {
	// A text has at most as many characters as bytes, so this cuts nothing.
	if p, ok := w.(printable); ok && p.whole {
		longest = len(text)
	}
	return shortened(text, longest)
}

// notes is the writer for what is around a table: headers, remarks. With --no-headers it discards
// them, so that scripts see rows only.
func notes(w io.Writer) io.Writer {
	if p, ok := w.(printable); ok && p.bare {
		return io.Discard
	}
	return w
}

// print writes an answer in the chosen format. For table and text it calls table with a writer that
// makes names from tenants harmless (printable) and has the setting whether cells are cut. JSON is written
// unchanged, its escapes included.
func (a *asking) print(w io.Writer, body []byte, table func(io.Writer, []byte) error) error {
	if template, ok := strings.CutPrefix(a.output, pathFormat); ok {
		return printPath(w, template, body)
	}
	switch a.output {
	case "table", "text":
		return table(printable{w, a.wide || !isTerminal(w), a.bare, a.config.Program()}, body)
	case nameFormat:
		names, err := a.names(body)
		if err == nil && len(names) > 0 {
			_, err = io.WriteString(printable{Writer: w}, strings.Join(names, "\n")+"\n")
		}
		return err
	case "yaml":
		text, err := yaml.JSONToYAML(body)
		if err != nil {
			return fmt.Errorf("the operator's answer: %w", err)
		}
		body = text
	}
	_, err := w.Write(body)
	return err
}

// printable writes text in which nothing commands a terminal: names from tenants are in it (J10).
// It also carries how a table is to be written, for cell, notes and proposed, since a tableWriter
// gets nothing else.
type printable struct {
	io.Writer
	whole bool // no cell is cut
	bare  bool // without headers and notes
	// program is how people call this program; empty: addon-operator.
	program string
}

// proposed is a text with commands that are proposed to the person, as they call this program.
func proposed(w io.Writer, text string) string {
	if p, ok := w.(printable); ok && p.program != "" {
		return strings.ReplaceAll(text, "addon-operator ", p.program+" ")
	}
	return text
}

// Write implements io.Writer. Text must come in whole lines, as tabwriter writes it: a character
// that is split across two writes would become escapes.
func (p printable) Write(text []byte) (int, error) {
	if _, err := io.WriteString(p.Writer, hooks.Printable(string(text))); err != nil {
		return 0, err
	}
	return len(text), nil
}

// printData prints what a command has computed itself, as print does for the answer of a page.
func (a *asking) printData(w io.Writer, data any, table func(io.Writer, []byte) error) error {
	body, err := json.MarshalIndent(data, "", "  ")
	if err != nil {
		return err
	}
	return a.print(w, append(body, '\n'), table)
}

// writeData writes data as JSON or YAML, for commands that write text in another way.
func writeData(w io.Writer, format string, data any) error {
	return (&asking{output: format}).printData(w, data, asIs)
}

// checked refuses an unknown format before the operator is asked. "table" and "text" are two words
// for the form that people read; it replaces either by the one that the command has, and wide, too.
// It may be called again.
func (a *asking) checked() error {
	a.wide = a.wide || a.output == "wide"
	if i := slices.IndexFunc(a.formats, func(f string) bool { return f == "table" || f == "text" }); i >= 0 && (a.output == "table" || a.output == "text" || a.wide) {
		a.output = a.formats[i]
	}
	if err := a.checkFormat(); err != nil {
		return err
	}
	if a.watch && a.every <= 0 {
		return cli.Usagef("every must be above 0, not %s", a.every)
	}
	return nil
}

// checkFormat reports a format that is not one of the command, or a template that cannot be parsed.
func (a *asking) checkFormat() error {
	known := a.formats
	if a.names != nil {
		known = append(slices.Clone(known), nameFormat)
	}
	if template, ok := strings.CutPrefix(a.output, pathFormat); ok && slices.Contains(known, "json") {
		return checkPath(template)
	}
	if !slices.Contains(known, a.output) {
		return cli.Usagef("output: %q is not one of %s", a.output, strings.Join(known, ", "))
	}
	return nil
}

// show gets a page and prints it, with --watch again and again.
func (a *asking) show(cmd *cobra.Command, path string, query url.Values, table func(io.Writer, []byte) error) error {
	return a.repeat(cmd, func(w io.Writer) error {
		body, err := a.page(cmd.Context(), path, query)
		if err != nil {
			return err
		}
		return a.print(w, body, table)
	})
}

// repeat calls once or, with --watch, again and again until Ctrl-C, which is no error. The first
// failure ends it: what is then on the screen would look current.
func (a *asking) repeat(cmd *cobra.Command, once func(io.Writer) error) error {
	if err := a.checked(); err != nil {
		return err
	}
	out := cmd.OutOrStdout()
	if !a.watch {
		return once(out)
	}
	// When an answer takes longer than the interval, a ticker drops ticks, so looks never pile up.
	ticker := time.NewTicker(a.every)
	defer ticker.Stop()
	for {
		if isTerminal(out) {
			fmt.Fprint(out, "\x1b[H\x1b[2J\x1b[3J") // cursor home, clear the screen and the scrollback
		}
		if err := once(out); err != nil {
			// Ctrl-C while a request is under way fails that request.
			if errors.Is(cmd.Context().Err(), context.Canceled) {
				return nil
			}
			return err
		}
		select {
		case <-cmd.Context().Done():
			return nil
		case <-ticker.C:
		}
	}
}

// isTerminal reports whether a writer is a terminal, also behind a printable.
func isTerminal(w io.Writer) bool {
	if p, ok := w.(printable); ok {
		w = p.Writer
	}
	return cli.IsTerminal(w)
}

// asIs is the table of commands whose text the operator makes.
func asIs(w io.Writer, body []byte) error {
	_, err := w.Write(body)
	return err
}

// made is the path of a page whose text the operator makes: with .text for people, else with .json,
// from which print makes the other formats. Call it after checked.
func (a *asking) made(path string) string {
	if a.output == "text" || a.output == "table" {
		return path + ".text"
	}
	return path + ".json"
}

// decoded reads an answer. Numbers keep their digits: as float64 large ones would change.
func decoded(body []byte, into any) error {
	decoder := json.NewDecoder(strings.NewReader(string(body)))
	decoder.UseNumber()
	if err := decoder.Decode(into); err != nil {
		return fmt.Errorf("the operator's answer: %w", err)
	}
	return nil
}
