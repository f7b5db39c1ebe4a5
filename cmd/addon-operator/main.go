package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"addon-operator/hooks"
)

// version is set by the linker.
var version = "dev"

// Exit codes.
const (
	exitStopped = 0
	exitRefused = 1 // start-up refused, or a command failed
	exitUsage   = 2
	exitLost    = 3 // another replica leads, or may: start again as stand-by
	exitCrashed = 4 // a bug in an actor
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
	var usage usageError
	var code exitError
	switch {
	case err == nil:
		return exitStopped
	case errors.Is(err, errLeadershipLost):
		return exitLost
	case errors.As(err, &code):
		return int(code)
	case errors.As(err, &usage):
		return exitUsage
	}
	return exitRefused
}

// report prints why the program ends and, after a usage error, whose help to read.
func report(command string, err error) {
	var usage usageError
	var code exitError
	switch {
	case err == nil, errors.Is(err, errLeadershipLost), errors.As(err, &code): // the log, or the output, has it
	case errors.As(err, &usage):
		fmt.Fprintf(os.Stderr, "addon-operator: %s\nSee '%s --help'.\n", hooks.Printable(err.Error()), command)
	default:
		fmt.Fprintf(os.Stderr, "addon-operator: %s\n", hooks.Printable(err.Error()))
	}
}
