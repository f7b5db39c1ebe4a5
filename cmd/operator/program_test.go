package operator

import (
	"bytes"
	"io"

	"github.com/spf13/cobra"

	"addon-operator/cmd/cli"
	"addon-operator/cmd/remote"
)

// program has the commands that ask a running operator, and prints to out.
func program(out io.Writer) *cobra.Command {
	root, c := cli.Root("test", func(string) (string, bool) { return "", false })
	root.RunE = Start(c).RunE
	remote.DumpActors(c, root)
	root.AddCommand(append(remote.Pages(c), remote.Plan(c, Plan), remote.Raw(c))...)
	root.SetOut(out)
	root.SetErr(io.Discard)
	return root
}

// commanded runs a command line.
func commanded(args ...string) (output string, err error) {
	var out bytes.Buffer
	root := program(&out)
	root.SetArgs(args)
	err = root.Execute()
	return out.String(), err
}
