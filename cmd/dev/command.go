package dev

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"addon-operator/cmd/cli"
	"addon-operator/cmd/operator"
)

// flags are the options of the command: use the cluster of the kubeconfig, and agree to that.
type flags struct{ cluster, yes bool }

// Command returns the command dev. lint is that of package lint, which this package does not import.
func Command(c *cli.Config, lint Look) *cobra.Command {
	f := &flags{}
	cmd := &cobra.Command{
		Use: "dev [DIR]", Short: "Run modules while you edit them, and print the effect of each save",
		Long: `Starts the operator in this process on the modules in DIR, against a cluster in memory that is removed at the end,
or with --cluster against that of your kubeconfig, in a separate namespace in which no other operator runs. DIR is as
for lint; one module is enabled. Nothing is written to it.

On each save it prints the saved files, what lint finds in the module, with its tests, the
hooks that ran, with their output, and how the rendered objects changed. The first lines name the live page,
which shows the state of all modules. Ctrl-C ends it; with --cluster, the installed objects stay.`,
		Example: "  addon-operator dev\n  addon-operator dev modules/010-dns\n  addon-operator dev --cluster --namespace dns-dev --yes",
		Args:    cli.Arguments("[DIR]"),
		RunE:    func(cmd *cobra.Command, args []string) error { return f.run(cmd, c, lint, args) },
	}
	set := cmd.Flags()
	set.BoolVar(&f.cluster, "cluster", false, "use the cluster of the kubeconfig, in the namespace of --namespace (addon-operator-dev); without --yes it only shows which one that is")
	set.BoolVar(&f.yes, "yes", false, "agree to the use of that cluster")
	return cmd
}

// run prepares directories and cluster, and runs a session until a person ends it. What is
// temporary is removed last, after hooks that may use it have ended or were killed.
func (f *flags) run(cmd *cobra.Command, c *cli.Config, lint Look, args []string) (err error) {
	if f.yes && !f.cluster {
		return cli.Usagef("--yes needs --cluster")
	}
	// A terminal that is closed, and a pipe that no process reads, end it in good order, too. SIGPIPE
	// alone is no reason: it is also sent for connections that a client has closed. The write to
	// the output fails.
	ctx, end := signal.NotifyContext(cmd.Context(), syscall.SIGHUP)
	defer end()
	broken := make(chan os.Signal, 1)
	signal.Notify(broken, syscall.SIGPIPE)
	defer signal.Stop(broken)
	// The caller reports a failure, too. The operator may start several times, while
	// lint continues.
	operator.Process().Klog(slog.New(slog.DiscardHandler))
	p, err := prepare(c, args)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.close()) }()
	if f.cluster {
		err = p.current(ctx, c, cmd.OutOrStdout(), f.yes, cmd.Flags().Changed("namespace"))
	} else {
		err = p.inMemory(c)
	}
	if err == nil {
		err = p.setUp(ctx, c)
	}
	if err == nil {
		err = c.Complete()
	}
	if err != nil {
		return err
	}
	// Hooks inherit these from the process, as in a Pod: kubectl in a hook uses the same cluster.
	if err := errors.Join(os.Setenv("KUBECONFIG", p.kubeconfig), os.Setenv("ADDON_OPERATOR_NAMESPACE", c.Namespace)); err != nil {
		return err
	}
	out := cmd.OutOrStdout()
	s := newSession(c, p, lint, &printer{out: out, end: end, path: p.real})
	err = s.run(ctx)
	if f.cluster {
		fmt.Fprintf(out, "What was installed stays; kubectl delete namespace %s removes it.\n", c.Namespace)
	}
	return err
}

// welcome shows where the operator runs, once its addresses are known.
func (s *session) welcome(c *cli.Config) {
	s.started("modules of %s, against %s", s.place.what, s.place.cluster)
	s.started("for a second terminal: %s", s.place.secondTerminal(c))
	s.started("live page: %s", pageOf(c))
}

// secondTerminal is a line of shell with which commands in another terminal find this operator and
// its cluster.
func (p *place) secondTerminal(c *cli.Config) string {
	return fmt.Sprintf("export KUBECONFIG=%s ADDON_OPERATOR_NAMESPACE=%s DEBUG_HTTP_SERVER_ADDR=%s", p.kubeconfig, c.Namespace, c.DebugAddress)
}

func pageOf(c *cli.Config) string { return "http://" + c.DebugAddress + "/" }
