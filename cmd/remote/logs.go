package remote

import (
	"fmt"
	"net/url"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"addon-operator/cmd/cli"
	"addon-operator/server"
)

// Logs is the command logs. It shows what the operator has kept of the runs of hooks (J19); the log
// of the operator, which has all lines, is that of its Pod.
func Logs(c *cli.Config) *cobra.Command {
	a, names := &asking{config: c}, &completer{c}
	var follow bool
	cmd := &cobra.Command{
		Use: "logs MODULE [HOOK]", Short: "Print the last runs of the hooks of a module, with their last lines",
		Long: `Prints the last runs of the hooks of a module, or of the global hooks with the name global: when, why, how long,
and the last lines that each printed. The operator keeps the last five runs of each hook since its start. Its log
contains all lines.`,
		Example: "  addon-operator logs dns\n  addon-operator logs dns nodes.sh --follow\n  addon-operator logs global",
		Args: func(_ *cobra.Command, args []string) error {
			const most = 2
			if len(args) == 0 || len(args) > most {
				return cli.Usagef("logs needs the name of one module, such as 'dns' for 010-dns, or global, and optionally the name of one of its hooks")
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			query := url.Values{"module": {args[0]}}
			if len(args) > 1 {
				query.Set("hook", args[1])
			}
			// Here already, because the path depends on the format (made).
			if err := a.checked(); err != nil {
				return err
			}
			if !follow {
				return a.show(cmd, a.made("/hook/runs"), query, asIs)
			}
			return a.followRuns(cmd, query)
		},
		ValidArgsFunction: first(names.owners),
	}
	a.format(cmd, "text", "json", "yaml")
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "print runs as they end, until Ctrl-C")
	return cmd
}

// followRuns prints runs as they end, until Ctrl-C. It asks once a second for the runs after the
// last number that it has printed.
//
// Numbers begin again with each process, so an answer of another process (process differs) is
// thrown away and asked for from 0. Once an operator has answered, errors do not end it: the
// operator may be restarting. Each error is printed once until it changes.
func (a *asking) followRuns(cmd *cobra.Command, query url.Values) error {
	if a.output != "text" {
		return cli.Usagef("--follow prints text, not %s", a.output)
	}
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	process, after, said := "", 0, "" // said is the last error that was printed
	for {
		var list struct {
			Runs    []server.RanHook
			Process string
		}
		// 0 at first, which is before the first run of a process.
		query.Set("after", strconv.Itoa(after))
		body, err := a.page(cmd.Context(), "/hook/runs", query)
		if err == nil {
			err = decoded(body, &list)
		}
		switch {
		case cmd.Context().Err() != nil:
			return nil
		case err != nil && process == "":
			return err
		case err != nil && err.Error() != said:
			said = err.Error()
			fmt.Fprintln(cmd.ErrOrStderr(), said)
		// The numbers of the answer are those of the new process: ask it again for all of them.
		case err == nil && process != "" && list.Process != process:
			process, after = list.Process, 0
			continue
		case err == nil:
			process, said = list.Process, ""
		}
		// After an error the list is empty.
		for _, r := range list.Runs {
			after = r.Number
			if _, err := fmt.Fprintln(printable{Writer: cmd.OutOrStdout(), whole: true}, r); err != nil {
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
