package lint

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"addon-operator/addons"
	"addon-operator/cmd/cli"
	"addon-operator/hooks"
	"addon-operator/kube/builtin"
	"addon-operator/values"
)

// flags are the options of the command, as they were given. run turns them into [Options].
type flags struct {
	output, release string
	values          []string
	strict, tests   bool
	limit           time.Duration // of a call of a hook or script
	stepLimit       time.Duration // of a step of a test
}

// Command returns the command lint. It returns an error if the check could not run; mistakes that were
// found are output, and end the program with code 1 ([cli.ExitError]).
func Command(c *cli.Config) *cobra.Command {
	f := &flags{}
	cmd := &cobra.Command{
		Use: "lint [DIR]", Short: "Find mistakes in modules without a cluster, each with its file and line",
		Long: `Finds mistakes that can be found without a cluster: the errors of loading, of 'values check', of --config of hooks,
of rendering and of tests, and kinds, versions and fields that Kubernetes does not have. Each has its position, an
excerpt, and a fix. DIR contains modules/ and global-hooks/, or modules, or is one module. Without DIR the
directories of the options are checked, or else the current one. Hooks run with --config, enabled scripts and tests
run; kubectl in them has no cluster. The exit code is 1 if there is an error, or with --strict a warning.`,
		Example: "  addon-operator lint\n  addon-operator lint modules/010-dns --kube-version v1.31\n  addon-operator lint -o github",
		Args:    cli.OneDirectory,
		RunE:    func(cmd *cobra.Command, args []string) error { return f.run(cmd, c, args) },
	}
	set := cmd.Flags()
	set.StringVarP(&f.output, "output", "o", "text", "format: text, json or github (annotations of a workflow)")
	set.StringVar(&f.release, "kube-version", builtin.Newest, "version of Kubernetes that the modules are for")
	set.StringArrayVar(&f.values, "values", nil, "file with values that hooks would set, such as {global: {…}}; can be given several times")
	set.BoolVar(&f.strict, "strict", false, "also fail on warnings")
	set.BoolVar(&f.tests, "tests", true, "also run the tests of modules")
	// A hook that answers later would not be loaded by the operator, whatever lint allows.
	set.DurationVar(&f.limit, "hook-limit", hooks.ConfigLimit, fmt.Sprintf("time limit for a hook to answer --config (at most %s, as in the operator), and for an enabled script", hooks.ConfigLimit))
	set.DurationVar(&f.stepLimit, "step-timeout", time.Minute, "time limit for the operator to become idle after a step of a test")
	return cmd
}

// run checks all options before it looks at a module: hooks of a large tree may run for minutes,
// and a misspelt option must not fail after them.
func (f *flags) run(cmd *cobra.Command, c *cli.Config, args []string) error {
	o := Options{Dirs: c.Dirs, Tests: f.tests, HookLimit: f.limit, StepTimeout: f.stepLimit, JQLibrary: c.JQDirs(), Chroot: c.ChrootDir, CRDSkip: c.CRDPrefixes()}
	release, err := builtin.ParseRelease(f.release)
	if err != nil {
		return cli.Usagef("--kube-version: %w", err)
	}
	o.Release = release
	switch f.output {
	case "text", "json", "github":
	default:
		return cli.Usagef("--output: %q is not text, json or github", f.output)
	}
	if f.limit <= 0 {
		return cli.Usagef("--hook-limit must be above 0, not %s", f.limit)
	}
	if f.stepLimit <= 0 {
		return cli.Usagef("--step-timeout must be above 0, not %s", f.stepLimit)
	}
	if err := f.read(&o); err != nil {
		return err
	}
	only, done, err := c.UseDirectory(args)
	if err != nil {
		return err
	}
	defer done()
	o.Dirs, o.Only = c.Dirs, only
	found, modules, err := Check(cmd.Context(), o)
	if err != nil {
		return err
	}
	if err := write(cmd.OutOrStdout(), f.output, found, summary(found, modules)); err != nil {
		return err
	}
	// The findings are the output. ExitError sets the code without printing another message.
	if count(found, Error) > 0 || f.strict && len(found) > 0 {
		return cli.ExitError(1)
	}
	return nil
}

// Report receives one finding of [Repeatedly]: the path of its file from the working directory,
// whether it is an error, a short form on one line, and the text that the command prints.
type Report = func(file string, bad bool, line, printed string)

// Repeatedly returns a function for 'dev' that checks what has changed since its last call; only is
// the directory of one module or of the global hooks, or "" for all. Tests of modules are not
// played: 'dev' plays them itself. The directories must exist, and calls must not overlap, because
// they share a [Memory]. When the function returns an error it has reported nothing.
func Repeatedly(c *cli.Config, dirs addons.Dirs, hookLimit time.Duration) (look func(ctx context.Context, only string, report Report) error, err error) {
	release, err := builtin.ParseRelease(builtin.Newest)
	if err != nil {
		return nil, err
	}
	o := Options{Dirs: dirs, Release: release, HookLimit: hookLimit, JQLibrary: c.JQDirs(), Chroot: c.ChrootDir, CRDSkip: c.CRDPrefixes(), Memory: &Memory{}}
	return func(ctx context.Context, only string, report Report) error {
		now := o
		now.Only = only
		found, _, err := Check(ctx, now)
		for _, f := range found {
			report(f.Path, f.Severity == Error, f.File+": "+f.Message, f.String())
		}
		return err
	}, nil
}

// read reads the files of --values, which win over the values on disk in the order of the options.
func (f *flags) read(o *Options) error {
	for _, file := range f.values {
		data, err := os.ReadFile(file)
		if err != nil {
			return fmt.Errorf("--values: %w", err)
		}
		tree, err := values.ParseYAML(data)
		if err != nil {
			return fmt.Errorf("--values: %s: %w", file, err)
		}
		o.Values = append(o.Values, tree)
	}
	return nil
}
