package lint

import (
	"context"
	"slices"

	"github.com/spf13/cobra"

	"addon-operator/addons"
	"addon-operator/cmd/cli"
	"addon-operator/hooks"
)

// flags are the options of the command, as they were given. run turns them into [Options].
type flags struct {
	output        string
	values        []string
	strict, tests bool
}

// Command returns the command lint. It returns an error if the check could not run; mistakes that were
// found are output, and end the program with code 1 ([cli.ExitError]).
func Command(c *cli.Config) *cobra.Command {
	f := &flags{}
	cmd := &cobra.Command{
		Use: "lint [DIR]", Short: "Find mistakes in modules without a cluster, each with its file and line",
		Long: `Finds mistakes that can be found without a cluster: the errors of loading, of 'values check', of --config
of hooks, of rendering and of the tests of modules, and kinds, versions and fields that Kubernetes does not have.
Each finding is a line with its file, its position and a fix. A cause comes before what follows from it.

DIR contains modules/ and global-hooks/, or modules, or is one module. Without DIR the directories of the options
are checked, or else the current one. Hooks run with --config, enabled scripts run with the values on disk, and
tests run; kubectl in them has no cluster.

The exit code is 1 if there is an error, or with --strict a warning, and 0 otherwise.`,
		Example: "  addon-operator lint\n  addon-operator lint modules/010-dns --values hooks.yaml\n  addon-operator lint -o github",
		Args:    cli.Arguments("[DIR]"),
		RunE:    func(cmd *cobra.Command, args []string) error { return f.run(cmd, c, args) },
	}
	set := cmd.Flags()
	set.StringVarP(&f.output, "output", "o", "text", "format: text, json or github (annotations of a workflow)")
	set.StringArrayVar(&f.values, "values", nil, "file with values that hooks would set, such as {global: {…}}; can be given several times")
	set.BoolVar(&f.strict, "strict", false, "also fail on warnings")
	set.BoolVar(&f.tests, "tests", true, "also run the tests of modules")
	return cmd
}

// run checks all options before it looks at a module: hooks of a large tree may run for minutes,
// and a misspelt option must not fail after them.
func (f *flags) run(cmd *cobra.Command, c *cli.Config, args []string) error {
	if !slices.Contains([]string{"text", "json", "github"}, f.output) {
		return cli.Usagef("--output: %q is not text, json or github", f.output)
	}
	o := optionsOf(c)
	o.Tests = f.tests
	var err error
	if o.Values, err = cli.ReadValues(f.values); err != nil {
		return err
	}
	only, done, err := c.UseDirectory(args)
	if err != nil {
		return err
	}
	defer done()
	o.Dirs, o.Only = c.Dirs, only
	found, summary, err := Check(cmd.Context(), o)
	if err != nil {
		return err
	}
	if err := write(cmd.OutOrStdout(), f.output, found, summary); err != nil {
		return err
	}
	// The findings are the output. ExitError sets the code without printing another message.
	if count(found, Error) > 0 || f.strict && len(found) > 0 {
		return cli.ExitError(1)
	}
	return nil
}

func optionsOf(c *cli.Config) Options {
	// A hook that answers later would not be loaded by the operator.
	return Options{HookLimit: hooks.ConfigLimit, JQLibrary: c.JQDirs(), Chroot: c.ChrootDir, CRDSkip: c.CRDPrefixes()}
}

// Look checks for 'dev' the directory of one module or of the global hooks, or all for "", with or without tests. It
// calls report with each finding: whether it is an error, and the line that the command prints; and returns the last
// line. When it returns an error it has reported nothing.
func Look(ctx context.Context, c *cli.Config, dirs addons.Dirs, only string, tests bool, report func(bad bool, line string)) (summary string, err error) {
	o := optionsOf(c)
	o.Dirs, o.Only, o.Tests = dirs, only, tests
	found, summary, err := Check(ctx, o)
	for _, f := range found {
		report(f.Severity == Error, f.String())
	}
	return summary, err
}
