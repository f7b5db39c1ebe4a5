package remote

import (
	"cmp"
	"fmt"
	"io"
	"net/url"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"addon-operator/cmd/cli"
	"addon-operator/messages/view"
)

// Why is the command why: what led to the last run of a module, or which rule has switched it off.
// It is made of the status of the module alone, which is one question to the operator.
func Why(c *cli.Config) *cobra.Command {
	names := &completer{c}
	a := &asking{config: c}
	cmd := &cobra.Command{
		Use: "why MODULE", Short: "Print what caused the last run of a module, or why it is disabled",
		Long: `Prints why a module is disabled: no flag anywhere, a flag that is false and where it is, the
result of its enabled script, or the error of a failed discovery. Then it prints the chain of causes of
the module's last run, the latest first: the release, the change of values, the hook, the binding,
and the object, tick or edit that started it; what fails in the run now, or what it waits for:
another module, or a Helm hook with the state of its Pod; and the problems of the module's files
and of the objects that its hooks watch.`,
		Example: "  addon-operator why ingress-nginx",
		Args:    cli.OneArg("the name of one module, such as 'dns' for 010-dns"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.show(cmd, "/module/"+url.PathEscape(args[0])+"/status", nil, whyText)
		},
		ValidArgsFunction: first(names.modules),
	}
	a.format(cmd, "text", "json", "yaml")
	return cmd
}

// whyText explains a status. A module that is off may have run before, so both are shown; one that
// is on and has not run yet only has its phase. It writes once, so that printable gets whole lines.
func whyText(w io.Writer, body []byte) error {
	var m view.Module
	if err := decoded(body, &m); err != nil {
		return err
	}
	var out strings.Builder
	if m.Off != "" {
		fmt.Fprintf(&out, "module %s is off: %s\n", m.Name, m.Off)
	}
	switch {
	case m.LastRun != nil:
		describeRun(&out, m)
	case m.Off == "":
		fmt.Fprintf(&out, "module %s has not run since the operator started (%s)\n", m.Name, m.Phase)
	}
	for _, problem := range m.Problems {
		fmt.Fprintf(&out, "problem: %s\n", problem)
	}
	_, err := io.WriteString(w, out.String())
	return err
}

// describeRun describes the last run of a module, and what fails in it or what it waits for. Causes
// are the latest first; each is indented below the one that it led to.
func describeRun(out *strings.Builder, m view.Module) {
	release := cmp.Or(m.LastRun.Release, "not finished")
	// Empty means the namespace of the operator, which is not worth a word.
	if m.Namespace != "" {
		release = "in namespace " + m.Namespace + ": " + release
	}
	fmt.Fprintf(out, "module %s: %s\nlast run began %s (%s)\nrelease: %s\n", m.Name, m.Phase, m.LastRun.Began.Format(time.RFC3339), ago(m.LastRun.Began), release)
	// The chain ends with what was not caused by the operator: an object, a tick, an edit.
	for i, cause := range m.LastRun.Causes {
		fmt.Fprintf(out, "%sbecause of %s\n", strings.Repeat("  ", i+1), cause)
	}
	if w := m.Waiting; w != nil {
		fmt.Fprintf(out, "waits: %s\n  since %s (%s)", w, w.Since.Format(time.RFC3339), ago(w.Since))
		if !w.Until.IsZero() {
			fmt.Fprintf(out, ", until %s; then the next attempt continues to wait", w.Until.Format(time.RFC3339))
		}
		out.WriteString("\n")
	}
	for _, f := range m.Failing {
		fmt.Fprintf(out, "%s\n", f)
	}
}
