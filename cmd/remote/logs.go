package remote

import (
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/spf13/cobra"

	"addon-operator/cmd/cli"
	"addon-operator/server"
)

// Logs is the command logs. It shows what the operator has kept of the runs of hooks (J19); the log
// of the operator, which has all lines, is that of its Pod.
func Logs(c *cli.Config) *cobra.Command {
	a, follow := &asking{config: c}, false
	cmd := &cobra.Command{
		Use: "logs MODULE [HOOK]", Short: "Print the last runs of the hooks of a module, with their last lines",
		Long: `Prints the last five runs of each hook of a module, or of the global hooks with the name global: when, why, how
long, and the last lines that each printed.`,
		Example: "  addon-operator logs dns\n  addon-operator logs dns nodes.sh --follow\n  addon-operator logs global",
		Args:    cli.Arguments([]string{"MODULE", "[HOOK]"}),
		RunE: func(cmd *cobra.Command, args []string) error {
			query := url.Values{"module": {args[0]}}
			if len(args) > 1 {
				query.Set("hook", args[1])
			}
			switch {
			case !follow:
				return a.show(cmd, http.MethodGet, "/hook/runs", query)
			case a.output != "text":
				return cli.Usagef("--follow prints text, not %s", a.output)
			}
			return a.follow(cmd, query)
		},
		ValidArgsFunction: first(c, "MODULE"),
	}
	a.flags(cmd, server.Route{})
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "print runs as they end, until Ctrl-C")
	return cmd
}

// follow prints runs as they end, until Ctrl-C: once a second it asks for those after the mark of the
// answer before. Once an operator has answered, errors do not end it, because the operator may be
// restarting; each is printed once until it changes.
func (a *asking) follow(cmd *cobra.Command, query url.Values) error {
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	query.Set("output", "text")
	query.Set("after", "-") // from the beginning, without a sentence when there are none
	answered, said := false, ""
	for {
		answer, err := send(cmd.Context(), a.config, answerLimit, http.MethodGet, "/hook/runs?"+query.Encode(), "")
		switch {
		case cmd.Context().Err() != nil:
			return nil
		case err != nil && !answered:
			return err
		case err != nil && err.Error() != said:
			said = err.Error()
			fmt.Fprintln(cmd.ErrOrStderr(), said)
		case err == nil:
			query.Set("after", answer.header.Get(server.MarkHeader))
			answered, said = true, ""
			if err := printText(cmd.OutOrStdout(), a.config, answer.body); err != nil {
				return err
			}
		}
		select {
		case <-tick.C:
		case <-cmd.Context().Done():
			return nil
		}
	}
}
