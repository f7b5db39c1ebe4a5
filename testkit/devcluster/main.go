package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"syscall"

	"k8s.io/component-base/version"
)

// Exit codes.
const (
	exitStopped = 0 // asked to stop, or the parent is gone
	exitFailed  = 1 // could not start, or a component ended by itself
	exitUsage   = 2
)

// options are the command line.
type options struct {
	dir       string
	port      int // 0: the port of the previous run, else any free one
	parentPID int // 0: no process stops the cluster by its end
	remove    bool
	node      bool // there is a node, on which all Pods count as running
	verbosity int
}

func main() {
	os.Exit(run(os.Args[1:], os.Stdout, os.Stderr))
}

// run is main with its world as parameters. Only the ready line goes to stdout.
func run(args []string, stdout, stderr io.Writer) int {
	o, err := parseOptions(args, stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return exitStopped
	case err != nil:
		fmt.Fprintln(stderr, "devcluster:", err)
		return exitUsage
	}

	// The first signal asks for an orderly stop; stop() gives the default back,
	// so that a second one ends the process at once.
	ctx, stop := signal.NotifyContext(context.Background(), stopSignals(o)...)
	defer stop()
	context.AfterFunc(ctx, stop)

	if err := serve(withParent(ctx, o.parentPID), o, stdout, stderr); err != nil {
		fmt.Fprintln(stderr, "devcluster:", err)
		return exitFailed
	}
	return exitStopped
}

// stopSignals are the signals that stop the cluster: all but those that the
// parent has set to be ignored, as nohup does, and a shell for what it runs in the
// background. A detached cluster does not end with its terminal.
func stopSignals(o options) []os.Signal {
	signals := []os.Signal{syscall.SIGTERM, syscall.SIGINT}
	if o.parentPID != 0 {
		signals = append(signals, syscall.SIGHUP)
	} else {
		signal.Ignore(syscall.SIGHUP)
	}
	return slices.DeleteFunc(signals, signal.Ignored)
}

// parseOptions reads the command line; problems with single flags and the
// help text go to stderr.
func parseOptions(args []string, stderr io.Writer) (options, error) {
	o := options{}
	var detach bool
	flags := flag.NewFlagSet("devcluster", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.StringVar(&o.dir, "dir", "", "directory of the cluster: data, keys, kubeconfig, log (required)")
	flags.IntVar(&o.port, "port", 0, "loopback port of the API server (default: the one of the previous run, else a free one)")
	flags.IntVar(&o.parentPID, "parent-pid", os.Getppid(), "stop when this process has ended")
	flags.BoolVar(&detach, "detach", false, "keep running when the parent process has ended")
	flags.BoolVar(&o.remove, "rm", false, "remove the directory after the stop")
	flags.BoolVar(&o.node, "node", false, "add a node on which all Pods count as running, without containers")
	flags.IntVar(&o.verbosity, "v", 0, "verbosity of the components in devcluster.log, 0 to 10")
	if err := flags.Parse(args); err != nil {
		return options{}, err
	}
	if detach {
		o.parentPID = 0
	}
	return o, o.validate(flags.Args())
}

// validate returns all problems at once, with the flag and what it takes. rest are the arguments
// that are no flags.
func (o options) validate(rest []string) error {
	var problems []error
	if len(rest) > 0 {
		problems = append(problems, fmt.Errorf("unexpected argument %q: everything is a flag, see --help", rest[0]))
	}
	if o.dir == "" {
		problems = append(problems, errors.New("--dir is required: the directory that keeps the cluster"))
	}
	if o.port < 0 || o.port > 65535 {
		problems = append(problems, fmt.Errorf("--port %d: want 1 to 65535, or 0 for any", o.port))
	}
	if o.parentPID < 0 {
		problems = append(problems, fmt.Errorf("--parent-pid %d: want the id of a process, or 0 for none", o.parentPID))
	}
	// Without the version the API server calls itself v0.0.0 and clients that
	// compare versions (Helm's kubeVersion for one) refuse it.
	if version.Get().Major == "" {
		problems = append(problems, errors.New("built without its version: build with -ldflags \"$(sh ldflags)\", as make devcluster does"))
	}
	return errors.Join(problems...)
}
