package remote

import (
	"context"
	"io"

	"github.com/spf13/cobra"

	"addon-operator/cmd/cli"
)

// DumpActors adds the flags to a command that print, in place of what it does, the actors of
// the running operator.
func DumpActors(c *cli.Config, root *cobra.Command) {
	var wanted bool
	var output string
	otherwise := root.RunE
	root.RunE = func(cmd *cobra.Command, args []string) error {
		if wanted {
			return dump(cmd.Context(), cmd.OutOrStdout(), c, output)
		}
		return otherwise(cmd, args)
	}
	root.Flags().BoolVar(&wanted, "dump-actors", false, "print every mailbox of the running operator and exit")
	root.Flags().StringVarP(&output, "output", "o", "text", "format of --dump-actors: text, json or yaml")
}

// dump asks the running operator for its actors, over the debug address or, when that
// is switched off, over the unix socket.
func dump(ctx context.Context, w io.Writer, c *cli.Config, output string) error {
	a := &asking{config: c, output: output, formats: []string{"text", "json", "yaml"}}
	if err := a.checked(); err != nil {
		return err
	}
	path := "/actors"
	if a.output != "text" {
		path += "?output=json"
	}
	body, err := get(ctx, c, path)
	if err != nil {
		return err
	}
	return a.print(w, body, asIs)
}
