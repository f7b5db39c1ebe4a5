package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"addon-operator/values"
)

// usageError is a mistake in the words of the command line.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

// command builds the command line. lookup reads environment variables.
func command(lookup func(string) (string, bool)) *cobra.Command {
	var dumpActors bool
	var output string
	cfg := &Config{}
	root := &cobra.Command{
		Use:   "addon-operator",
		Short: "Keeps the add-ons of a Kubernetes cluster installed",
		Long: `addon-operator turns Helm charts into modules: charts with hooks that run at the
start, on schedules, on Kubernetes events and around Helm, an enabled script, values
and schemas. Without a command it starts the operator.`,
		SilenceErrors: true, SilenceUsage: true,
		Args: noArgs,
	}
	opts := cfg.declare(root.PersistentFlags())
	names := &completer{cfg, opts, lookup}
	root.PersistentPreRunE = func(*cobra.Command, []string) error {
		cfg.chooseSocket(opts, lookup)
		return opts.fromEnvironment(lookup)
	}
	start := func(cmd *cobra.Command, _ []string) error {
		if err := cfg.complete(opts, lookup); err != nil {
			return err
		}
		return run(cmd.Context(), cfg)
	}
	root.RunE = func(cmd *cobra.Command, args []string) error {
		if dumpActors {
			return dump(cmd.Context(), cmd.OutOrStdout(), cfg, output)
		}
		return start(cmd, args)
	}
	root.Flags().BoolVar(&dumpActors, "dump-actors", false, "print every mailbox of the running operator and exit")
	root.Flags().StringVarP(&output, "output", "o", "text", "format of --dump-actors: text, json or yaml")
	root.AddCommand(
		&cobra.Command{Use: "start", Short: "Start the operator (the default)", Args: noArgs, RunE: start},
		&cobra.Command{Use: "version", Short: "Print the version", Args: noArgs, Run: func(cmd *cobra.Command, _ []string) {
			fmt.Fprintln(cmd.OutOrStdout(), "addon-operator", version)
		}},
		whyCommand(cfg, names),
		planCommand(cfg, opts, lookup),
		valuesCommand(cfg, opts, lookup),
		rbacCommand(cfg, opts, lookup),
		moduleCommand(cfg, names), globalCommand(cfg), queueCommand(cfg, names),
		configCommand(cfg, names), logCommand(cfg), rawCommand(cfg, names),
		testCommand(cfg), hookCommand(cfg, names), initCommand(), apiserverCommand(), keepCommand(cfg),
	)
	describe(root)
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usageError{err} })
	return root
}

// noArgs takes what is left for a command that was not found, and proposes one.
func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	var known []string
	for _, c := range cmd.Commands() {
		if c.IsAvailableCommand() {
			known = append(known, c.Name())
		}
	}
	if near := values.Nearest(args[0], known); near != "" {
		return usageError{fmt.Errorf("unknown command or argument %q; did you mean %s?", args[0], near)}
	}
	return usageError{fmt.Errorf("unknown command or argument %q", args[0])}
}
