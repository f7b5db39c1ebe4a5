package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/signal"
	"syscall"

	"addon-operator/cmd/cli"
	"addon-operator/helm/charts"
	"addon-operator/hooks"
	"addon-operator/supervisor"
)

// These are exit codes (Design 9). A [cli.ExitError] has another one.
const (
	exitStopped = 0
	exitRefused = 1 // start-up refused, or a command failed
	exitUsage   = 2
)

func main() { os.Exit(runCommand()) }

// runCommand runs the command line and returns the exit code. os.Exit runs no deferred functions,
// so main calls it alone.
func runCommand() int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	// A second signal must end the process at once: give the default action back.
	context.AfterFunc(ctx, stop)
	// Until start redirects it to the log of the operator.
	lines := slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{ReplaceAttr: cli.WithoutTime})
	charts.RedirectLog(slog.New(supervisor.Sparing(lines)))
	// It returns the command that ran, whose help is named after a usage error.
	cmd, err := command(os.LookupEnv).ExecuteContextC(ctx)
	report(cmd.CommandPath(), err)
	return exitCode(err)
}

// exitCode decides by the type of the error, at any depth.
func exitCode(err error) int {
	var code cli.ExitError
	switch {
	case err == nil:
		return exitStopped
	case errors.As(err, &code):
		return int(code)
	case errors.As(err, new(cli.UsageError)):
		return exitUsage
	}
	return exitRefused
}

// report prints why the program ends and, after a usage error, whose help to read. A command that
// ends with an exit code of its own has printed the reason. Control characters are escaped (J10).
func report(command string, err error) {
	if err == nil || errors.As(err, new(cli.ExitError)) {
		return
	}
	fmt.Fprintf(os.Stderr, "addon-operator: %s\n", hooks.Printable(err.Error()))
	if errors.As(err, new(cli.UsageError)) {
		fmt.Fprintf(os.Stderr, "See '%s --help'.\n", command)
	}
}
