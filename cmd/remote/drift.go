package remote

import (
	"fmt"
	"io"
	"net/url"

	"github.com/spf13/cobra"

	"addon-operator/cmd/cli"
	"addon-operator/messages"
)

// moduleDrift is the command module drift. It shows the result of the operator's last check and
// makes none.
func moduleDrift(c *cli.Config, names *completer) *cobra.Command {
	a := &asking{config: c}
	cmd := &cobra.Command{
		Use: "drift NAME", Short: "Print which fields of a module's objects others have changed",
		Long: `Prints the result of the last drift check: fields that the chart sets and that have
another value in the cluster. The option --drift determines whether the operator checks for drift.`,
		Example:           "  addon-operator module drift ingress-nginx",
		Args:              cli.OneArg("the name of one module, such as 'dns' for 010-dns"),
		ValidArgsFunction: first(names.modules),
		RunE: func(cmd *cobra.Command, args []string) error {
			return a.show(cmd, "/module/"+url.PathEscape(args[0])+"/drift", nil, driftTable)
		},
	}
	// format and not flags: --show-secrets is about Secrets only here, as in its help.
	a.format(cmd, "table", "json", "yaml")
	cmd.Flags().BoolVar(&a.secrets, "show-secrets", false, "show the values of Secrets")
	return cmd
}

// driftTable has a line for each changed field. An empty table can mean four things, so a
// sentence explains it: not checked, checked with an error, not checked yet, or nothing found.
func driftTable(w io.Writer, body []byte) error {
	var drift messages.Drift
	if err := decoded(body, &drift); err != nil {
		return err
	}
	nothing := fmt.Sprintf("No object was changed (%s).", at(drift.Checked))
	switch {
	case drift.Mode == messages.DriftOff:
		nothing = "Drift is not checked: the option --drift is off."
	case drift.Error != "":
		return fmt.Errorf("the last drift check failed: %s", drift.Error)
	case drift.Checked.IsZero():
		nothing = "Not checked yet: the module must have run, and must not be in maintenance."
	}
	var rows [][]string
	for _, object := range drift.Objects {
		for _, field := range object.Fields {
			rows = append(rows, []string{object.Object, field.Path, shown(w, field.Found), shown(w, field.Chart)})
		}
	}
	return table(w, nothing, "OBJECT FIELD FOUND CHART", rows)
}
