package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"
)

// version is set by the linker.
var version = "dev"

// Exit codes.
const (
	exitStopped = 0
	exitRefused = 1 // start-up refused, or a command failed
	exitUsage   = 2
	exitLost    = 3 // another replica leads, or may: start again as stand-by
)

func main() { os.Exit(exitCode(runCommand())) }

func runCommand() error {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	defer stop()
	// A second signal must end the process at once: give the default action back.
	context.AfterFunc(ctx, stop)
	return command(os.LookupEnv).ExecuteContext(ctx)
}

func exitCode(err error) int {
	var usage usageError
	var code exitError
	switch {
	case err == nil:
		return exitStopped
	case errors.Is(err, errLeadershipLost): // the log has told
		return exitLost
	case errors.As(err, &code):
		return int(code)
	case errors.As(err, &usage):
		fmt.Fprintf(os.Stderr, "addon-operator: %v\nSee 'addon-operator --help'.\n", err)
		return exitUsage
	default:
		fmt.Fprintf(os.Stderr, "addon-operator: %v\n", err)
		return exitRefused
	}
}
