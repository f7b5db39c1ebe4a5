package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime/debug"
	"strconv"

	"k8s.io/klog/v2"
)

// redirectLogs sends everything that the components would print to
// dir/devcluster.log, whose path it returns; the log of the run before stays
// as devcluster.log.old.
//
// The components share the process-wide klog and write to os.Stderr, so this
// sets process-wide state: it is called once, before any of them starts. The
// stderr given is ours, for the one message that must not hide in a file.
func redirectLogs(dir string, verbosity int, stderr io.Writer) (string, error) {
	path := filepath.Join(dir, "devcluster.log")
	if err := os.Rename(path, path+".old"); err != nil && !os.IsNotExist(err) {
		return "", fmt.Errorf("keeping the previous log: %w", err)
	}
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, fileMode)
	if err != nil {
		return "", fmt.Errorf("opening the log: %w", err)
	}
	os.Stdout, os.Stderr = file, file
	if err := debug.SetCrashOutput(file, debug.CrashOptions{}); err != nil {
		return "", fmt.Errorf("sending crashes to the log: %w", err)
	}

	flags := flag.NewFlagSet("klog", flag.ContinueOnError)
	klog.InitFlags(flags)
	if err := flags.Set("v", strconv.Itoa(verbosity)); err != nil {
		return "", fmt.Errorf("-v %d: %w", verbosity, err)
	}
	// A component that gives up calls klog.Fatal or klog.FlushAndExit.
	exit := klog.OsExit
	klog.OsExit = func(code int) {
		fmt.Fprintf(stderr, "devcluster: a component ended the process with code %d (see %s)\n", code, path)
		exit(code)
	}
	return path, nil
}
