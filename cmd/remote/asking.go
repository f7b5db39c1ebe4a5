package remote

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	"k8s.io/cli-runtime/pkg/printers"

	"addon-operator/cmd/cli"
	"addon-operator/hooks"
	"addon-operator/server"
)

// asking is a command that prints a page: its flags.
type asking struct {
	config *cli.Config
	output string         // of -o
	bare   bool           // a table has rows only
	watch  bool           // print again and again
	every  time.Duration  // how often
	set    *pflag.FlagSet // those that become parameters of the page
}

// formats of -o.
func formats() []string {
	return []string{"text", "wide", "yaml", "json", "name", pathFormat + "TEMPLATE"}
}

// flags declares the flags that all pages have.
func (a *asking) flags(cmd *cobra.Command, r server.Route) {
	usual := "text"
	if r.YAML {
		usual = "yaml"
	}
	cmd.Flags().StringVarP(&a.output, "output", "o", usual, "format: "+strings.Join(formats(), ", "))
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(formats(), cobra.ShellCompDirectiveNoFileComp)) // it was declared a line above
	cmd.Flags().BoolVar(&a.bare, "no-headers", false, "print only the rows of a table")
	if r.Method == http.MethodPost {
		return
	}
	cmd.Flags().BoolVarP(&a.watch, "watch", "w", false, "refresh the output until Ctrl-C")
	cmd.Flags().DurationVarP(&a.every, "every", "t", time.Second, "how often to refresh, with --watch")
	cmd.Flags().SetNormalizeFunc(watching)
}

// check refuses wrong flags before the operator is asked.
func (a *asking) check() error {
	isPath := strings.HasPrefix(a.output, pathFormat) && a.output != pathFormat
	if !isPath && !slices.Contains(formats()[:5], a.output) {
		return cli.Usagef("output: %q is not one of %s", a.output, strings.Join(formats(), ", "))
	}
	if a.watch && a.every <= 0 {
		return cli.Usagef("every must be above 0, not %s", a.every)
	}
	return nil
}

// show gets a page and prints it, with --watch again and again until Ctrl-C, which is no error. The
// first failure ends it: what is then on the screen would look current.
func (a *asking) show(cmd *cobra.Command, method, path string, query url.Values) error {
	if err := a.check(); err != nil {
		return err
	}
	if !a.watch {
		return a.once(cmd, method, path, query)
	}
	// When an answer takes longer than the interval, a ticker drops ticks, so looks never pile up.
	ticker := time.NewTicker(a.every)
	defer ticker.Stop()
	for {
		if printers.IsTerminal(cmd.OutOrStdout()) {
			fmt.Fprint(cmd.OutOrStdout(), "\x1b[H\x1b[2J\x1b[3J") // cursor home, clear the screen and the scrollback
		}
		if err := a.once(cmd, method, path, query); err != nil {
			if errors.Is(cmd.Context().Err(), context.Canceled) { // it made the request fail
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

// once prints a page once. The operator makes all formats but a template. Cells are cut on a terminal
// only: in a pipe programs and people search them. query gets the format.
func (a *asking) once(cmd *cobra.Command, method, path string, query url.Values) error {
	out := cmd.OutOrStdout()
	template, filtered := strings.CutPrefix(a.output, pathFormat)
	switch {
	case filtered:
		query.Set("output", "json")
	case a.output != "text":
		query.Set("output", a.output)
	case printers.IsTerminal(out):
		query.Set("output", "table")
	default:
		query.Set("output", "wide")
	}
	if a.bare {
		query.Set("headers", "false")
	}
	answer, err := send(cmd.Context(), a.config, answerLimit, method, path+"?"+query.Encode(), "")
	switch {
	case err != nil:
		return err
	case filtered:
		err = printPath(out, template, answer.body)
	case a.output == "json": // its escapes stay
		_, err = out.Write(answer.body)
	default:
		err = printText(out, a.config, answer.body)
	}
	answer.tell(cmd)
	return err
}

// ours are the commands that the operator proposes to people.
var ours = regexp.MustCompile(`\baddon-operator (why|logs|status|module|values|hook|run|retry|resume|wait|plan) `)

// printText prints a text of the operator. Names from tenants are in it, which must not command a
// terminal (J10). Commands are proposed as people call this program.
func printText(w io.Writer, c *cli.Config, text []byte) error {
	shown := hooks.Printable(string(text))
	if c.Plugin {
		shown = ours.ReplaceAllString(shown, c.Program()+" $1 ")
	}
	_, err := io.WriteString(w, shown)
	return err
}

// answer is what the operator has answered.
type answer struct {
	body   []byte
	header http.Header
}

// tell says on a terminal where the operator is that has answered.
func (a answer) tell(cmd *cobra.Command) {
	cluster, configMap := a.header.Get(server.ClusterHeader), a.header.Get(server.ConfigMapHeader)
	if namespace, _, ok := strings.Cut(configMap, "/"); ok && printers.IsTerminal(cmd.ErrOrStderr()) {
		fmt.Fprintf(cmd.ErrOrStderr(), "(the operator in namespace %s of %s)\n", hooks.Printable(namespace), hooks.Printable(cluster))
	}
}

// pathFormat is how the format of kubectl begins that a template follows.
const pathFormat = "jsonpath="

// printPath prints what a template selects from an answer, with the printer of kubectl, so that
// templates work alike. Missing keys print nothing, because an answer leaves out what is empty. An
// answer that is a list is found under items.
func printPath(w io.Writer, template string, body []byte) error {
	printer, err := printers.NewJSONPathPrinter(template)
	if err != nil {
		return cli.Usagef("output: the template %q cannot be parsed: %w", template, err)
	}
	printer.AllowMissingKeys(true)
	var found any
	if err := utiljson.Unmarshal(body, &found); err != nil { // whole numbers stay whole
		return fmt.Errorf("the operator's answer: %w", err)
	}
	object, ok := found.(map[string]any)
	if !ok { // the library prints objects only
		object = map[string]any{"items": found}
	}
	var out strings.Builder
	// A template that fits no answer, such as an index into an object, fails here only.
	if err := printer.PrintObj(&unstructured.Unstructured{Object: object}, &out); err != nil {
		return err
	}
	return printText(w, &cli.Config{}, []byte(out.String()+"\n"))
}
