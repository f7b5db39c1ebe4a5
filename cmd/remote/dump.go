package remote

import (
	"context"
	"io"

	"github.com/spf13/cobra"

	"addon-operator/cmd/cli"
)

// DumpActors adds the flag --dump-actors to a command. With it, the actors of the running operator
// are printed in place of what the command does.
func DumpActors(c *cli.Config, root *cobra.Command) {
	var wanted bool
	var output string
	// The root command starts the operator; with the flag it must not.
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

// dump prints the page /actors. The operator makes its text.
func dump(ctx context.Context, w io.Writer, c *cli.Config, output string) error {
	// The flags are those of DumpActors, on a command that also starts the operator.
	a := &asking{config: c, output: output, formats: []string{"text", "json", "yaml"}}
	if err := a.checked(); err != nil {
		return err
	}
	path := "/actors"
	if a.output != "text" {
		// print makes YAML of it.
		path += "?output=json"
	}
	body, err := get(ctx, c, path)
	if err != nil {
		return err
	}
	return a.print(w, body, asIs)
}
