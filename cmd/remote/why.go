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

// Why prints what led to the last run of a module.
func Why(c *cli.Config) *cobra.Command {
	names := &completer{c}
	a := &asking{config: c}
	cmd := &cobra.Command{
		Use: "why MODULE", Short: "Print what led to the last run of a module, or why it is off",
		Long: `Prints of a module that is off which rule decided it: no flag anywhere, a flag that is false
and where, what its enabled script returned, or what the discovery fails at. Then prints the chain of
causes of the module's last run, the latest first: the release, the change of values, the hook, the
binding, and the object, tick or edit that began it; what fails in it now, or what it waits for:
another module, or a Helm hook with the state of its Pod; and the problems of its files and of what
its hooks watch.`,
		Example: "  addon-operator why ingress-nginx",
		Args:    cli.OneArg("the name of one module, as 'dns' of 010-dns"),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.show(cmd, "/module/"+url.PathEscape(args[0])+"/status", nil, whyText)
		},
		ValidArgsFunction: first(names.modules),
	}
	a.format(cmd, "text", "json", "yaml")
	return cmd
}

func whyText(w io.Writer, body []byte) error {
	var s struct {
		Name string
		view.ModuleStatus
		Off      string
		Problems []string
	}
	if err := decoded(body, &s); err != nil {
		return err
	}
	var out strings.Builder
	if s.Off != "" {
		fmt.Fprintf(&out, "module %s is off: %s\n", s.Name, s.Off)
	}
	switch {
	case s.LastRun != nil:
		describeRun(&out, s.Name, s.ModuleStatus)
	case s.Off == "":
		fmt.Fprintf(&out, "module %s has not run since the operator started (%s)\n", s.Name, s.Phase)
	}
	for _, problem := range s.Problems {
		fmt.Fprintf(&out, "problem: %s\n", problem)
	}
	_, err := io.WriteString(w, out.String())
	return err
}

// describeRun describes the last run of a module, and what fails in it.
func describeRun(out *strings.Builder, name string, s view.ModuleStatus) {
	release := s.LastRun.Release
	release = cmp.Or(release, "not finished")
	if s.Namespace != "" {
		release = "in namespace " + s.Namespace + ": " + release
	}
	fmt.Fprintf(out, "module %s: %s\nlast run began %s (%s)\nrelease: %s\n", name, s.Phase, s.LastRun.Began.Format(time.RFC3339), ago(s.LastRun.Began), release)
	for i, cause := range s.LastRun.Causes {
		fmt.Fprintf(out, "%sbecause of %s\n", strings.Repeat("  ", i+1), cause)
	}
	if w := s.Waiting; w != nil {
		fmt.Fprintf(out, "waits: %s\n  since %s (%s)", w, w.Since.Format(time.RFC3339), ago(w.Since))
		if !w.Until.IsZero() {
			fmt.Fprintf(out, ", until %s; then the next attempt goes on waiting", w.Until.Format(time.RFC3339))
		}
		out.WriteString("\n")
	}
	for _, f := range s.Failing {
		fmt.Fprintf(out, "%s\n", f)
	}
}
