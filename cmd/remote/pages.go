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

// groups are the commands that only have others below them.
func groups() map[string]string {
	return map[string]string{
		"module": "Show modules of the running operator: their state, values, snapshots, manifests",
		"global": "Show the global values and hooks of the running operator",
		"hook":   "Show the hooks of the running operator",
		"queue":  "Show the queues of the running operator",
		"values": "Check, explain and change values",
		"config": "Show or change parameters of the running operator",
	}
}

// Pages are the commands that print a page of the running operator (J6), each of which is a row of
// [server.Routes]; the others of this package are below them, too. The caller adds more to groups.
func Pages(c *cli.Config) []*cobra.Command {
	top, all := map[string]*cobra.Command{}, []*cobra.Command{}
	for _, r := range server.Routes() {
		if r.Command == "" {
			continue
		}
		cmd := pageCommand(c, r)
		name := strings.Fields(r.Command)[0]
		if short := groups()[name]; short == "" {
			all = append(all, cmd)
			continue
		}
		if top[name] == nil {
			top[name] = cli.Group(name, groups()[name])
			all = append(all, top[name])
		}
		top[name].AddCommand(cmd)
	}
	top["values"].AddCommand(setCommand(c), unsetCommand(c))
	return all
}

// parameter is the flag for a parameter of a page.
type parameter struct{ flag, short, help string }

// parameters are those that have a flag, in every command whose page has them. Others are the
// arguments of the command, or are not for people.
func parameters() map[string]parameter {
	return map[string]parameter{
		"show-secrets": {"show-secrets", "", "show secrets in full"},
		"global":       {"global", "g", "include the global values, each below its key"},
		"showEmpty":    {"show-empty", "e", "include empty queues in JSON and YAML"},
		"diff":         {"diff", "", "print the differences from the deployed release"},
		"debug":        {"debug", "", "also print output of templates that is not YAML; needs --show-secrets"},
		"module":       {"module", "", "only this module, or global"},
	}
}

// samples are arguments for the examples in help texts.
func samples() *strings.Replacer {
	return strings.NewReplacer("[", "", "]", "", "MODULE", "ingress-nginx", "HOOK", "010-dns/hooks/nodes.sh", "QUEUE", "main",
		"PATH", "controller.replicas", "NAME", "log.level", "VALUE", "debug", "DURATION", "10m")
}

// pageCommand makes a command of a page. Words in capitals are its arguments: the first one is the
// name in the path if that has one; the others are parameters. Those in brackets may be left out.
func pageCommand(c *cli.Config, r server.Route) *cobra.Command {
	words := strings.Fields(r.Command)
	n := slices.IndexFunc(words, func(w string) bool { return strings.ToUpper(w) == w })
	if n < 0 {
		n = len(words)
	}
	arguments, a := words[n:], &asking{config: c}
	cmd := &cobra.Command{
		Use: strings.Join(words[n-1:], " "), Short: "Print " + r.Help, Long: r.Long, Example: "  addon-operator " + samples().Replace(r.Command),
		RunE: func(cmd *cobra.Command, args []string) error {
			path, query := a.fill(r, arguments, args)
			return a.show(cmd, r.Method, path, query)
		},
		Args: cli.Arguments(arguments...),
	}
	if len(arguments) > 0 {
		cmd.ValidArgsFunction = first(c, strings.Trim(arguments[0], "[]"))
	}
	if cmd.Name() == "snapshots" {
		cmd.Aliases = []string{"snapshot"}
	}
	if r.Method == http.MethodPost {
		cmd.Short = strings.ToUpper(r.Help[:1]) + r.Help[1:]
	}
	a.flags(cmd, r)
	for one := range strings.SplitSeq(r.Query, ", ") {
		name, value, _ := strings.Cut(one, "=")
		p, known := parameters()[name]
		switch {
		case !known, slices.Contains(arguments, value), slices.Contains(arguments, "["+value+"]"):
		case value == "true":
			cmd.Flags().BoolP(p.flag, p.short, false, p.help)
		default:
			cmd.Flags().String(p.flag, "", p.help)
			_ = cmd.RegisterFlagCompletionFunc(p.flag, first(c, value)) // it was declared a line above
		}
	}
	a.set = cmd.Flags()
	return cmd
}

// asking is a command that prints a page: its flags.
type asking struct {
	config *cli.Config
	output string         // of -o
	bare   bool           // a table has rows only
	watch  bool           // print again and again
	every  time.Duration  // how often
	set    *pflag.FlagSet // those that become parameters of the page
}

// fill makes the path and the query of a page from the arguments of its command and from its flags.
// Arguments that may be left out are left out from the left.
func (a *asking) fill(r server.Route, arguments, args []string) (string, url.Values) {
	path, query := r.Path, url.Values{}
	for name, p := range parameters() {
		if f := a.set.Lookup(p.flag); f != nil && f.Changed {
			query.Set(name, f.Value.String())
		}
	}
	left := len(arguments) - len(args)
	for _, word := range arguments {
		name, optional := strings.CutPrefix(word, "[")
		switch {
		case optional && left > 0:
			left--
			continue
		case strings.Contains(path, "{name}"):
			path = strings.Replace(path, "{name}", url.PathEscape(args[0]), 1) // no name becomes another page
		default:
			query.Set(strings.ToLower(strings.TrimSuffix(name, "]")), args[0])
		}
		args = args[1:]
	}
	return path, query
}

// completable are the pages whose names complete an argument.
func completable() map[string]string {
	return map[string]string{"MODULE": "/module/list", "HOOK": "/hook/list", "QUEUE": "/queue/list", "NAME": "/config/list", "PAGE": "/discovery"}
}

// first completes the first argument, or the value of a flag, with the names of the running operator.
// A failure completes nothing and prints nothing: the person is in the middle of a line.
func first(c *cli.Config, what string) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
		path := completable()[what]
		if len(args) > 0 || path == "" || c.Read() != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return names(c, path), cobra.ShellCompDirectiveNoFileComp
	}
}

// each completes every argument with the names of modules.
func each(c *cli.Config) cobra.CompletionFunc {
	return func(cmd *cobra.Command, _ []string, word string) ([]string, cobra.ShellCompDirective) {
		return first(c, "MODULE")(cmd, nil, word)
	}
}

// names are what a page lists. A person has pressed Tab, so they are waited for only a second.
func names(c *cli.Config, path string) []string {
	answer, err := send(context.Background(), c, completionLimit, http.MethodGet, path+"?output=name&showEmpty=true", "")
	if err != nil {
		return nil
	}
	return strings.Fields(string(answer.body))
}

// Raw is the command raw.
func Raw(c *cli.Config) *cobra.Command {
	return &cobra.Command{
		Use: "raw [PAGE]", Short: "Print a page of the debug address unchanged, by default the list of all pages",
		Example: "  addon-operator raw /discovery\n  addon-operator raw '/readyz?verbose'\n  addon-operator raw /module/dns/values.yaml",
		Args:    cli.Arguments("[PAGE]"),
		RunE: func(cmd *cobra.Command, args []string) error {
			path := strings.TrimPrefix(strings.Join(append(args, "discovery")[:1], ""), "/")
			answer, err := send(cmd.Context(), c, answerLimit, http.MethodGet, "/"+path, "")
			if err == nil {
				_, err = cmd.OutOrStdout().Write(answer.body)
			}
			return err
		},
		ValidArgsFunction: first(c, "PAGE"),
	}
}

// DumpActors adds the flag --dump-actors to a command. With it, the actors of the running operator
// are printed in place of what the command does.
func DumpActors(c *cli.Config, root *cobra.Command) {
	wanted, a, otherwise := false, &asking{config: c}, root.RunE
	root.RunE = func(cmd *cobra.Command, args []string) error {
		if wanted {
			return a.show(cmd, http.MethodGet, "/actors", url.Values{})
		}
		return otherwise(cmd, args)
	}
	root.Flags().BoolVar(&wanted, "dump-actors", false, "print every mailbox of the running operator and exit")
	root.Flags().StringVarP(&a.output, "output", "o", "text", "format of --dump-actors: text, json or yaml")
}

// watching is the name of the flag that existing scripts use, which is accepted and not in the help.
func watching(_ *pflag.FlagSet, name string) pflag.NormalizedName {
	if name == "watchInterval" {
		name = "every"
	}
	return pflag.NormalizedName(name)
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
