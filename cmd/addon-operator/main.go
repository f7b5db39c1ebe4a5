package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"addon-operator/cmd/cli"
	"addon-operator/hooks"
)

// Exit codes. A cli.ExitError is another one.
const (
	exitStopped = 0
	exitRefused = 1 // start-up refused, or a command failed
	exitUsage   = 2
)

func main() { os.Exit(runCommand()) }

func runCommand() int {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	// A second signal must end the process at once: give the default action back.
	context.AfterFunc(ctx, stop)
	cmd, err := command(os.LookupEnv).ExecuteContextC(ctx)
	report(cmd.CommandPath(), err)
	return exitCode(err)
}

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

// report prints why the program ends and, after a usage error, whose help to read. What ends
// with an exit code of its own has said why.
func report(command string, err error) {
	if err == nil || errors.As(err, new(cli.ExitError)) {
		return
	}
	fmt.Fprintf(os.Stderr, "addon-operator: %s\n", hooks.Printable(err.Error()))
	if errors.As(err, new(cli.UsageError)) {
		fmt.Fprintf(os.Stderr, "See '%s --help'.\n", command)
	}
}
