package remote

import (
	"bytes"
	"testing"

	"addon-operator/cmd/cli"
)

// configured are options as the command line gives them.
func configured(t *testing.T, args ...string) *cli.Config {
	t.Helper()
	root, c := cli.Root("test", func(string) (string, bool) { return "", false })
	must(t, root.ParseFlags(args))
	return c
}

// commanded runs a command line.
func commanded(args ...string) (output string, err error) {
	root, c := cli.Root("test", func(string) (string, bool) { return "", false })
	DumpActors(c, root)
	root.AddCommand(Raw(c))
	var out bytes.Buffer
	root.SetOut(&out)
	root.SetArgs(args)
	err = root.Execute()
	return out.String(), err
}

// must ends the test over an error of what it needs only.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
