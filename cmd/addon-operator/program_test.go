package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const (
	// programName is the file name under which this test is the program: linking the
	// program a second time, with the race detector, takes half a minute of a small machine.
	programName = "addon-operator"
	// programVariable tells all tests where that file is.
	programVariable = "ADDON_OPERATOR_E2E_PROGRAM"
	// Without noRaceSleep, each program with the race detector sleeps for a second at its end.
	raceVariable, noRaceSleep = "GORACE", "atexit_sleep_ms=0"
	// together is the number of tests at a time: they wait more than they compute.
	together = "6"
)

// TestMain is main when this binary is called by the name of the program.
func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) == programName {
		main()
	}
	os.Exit(runTests(m))
}

func runTests(m *testing.M) int {
	flag.Parse()
	if !slices.ContainsFunc(os.Args, func(arg string) bool { return strings.Contains(arg, "parallel") }) {
		_ = flag.Set("test.parallel", together) // the flag exists in every test binary
	}
	dir, err := os.MkdirTemp("", "addon-operator-e2e-")
	if err == nil {
		defer os.RemoveAll(dir)
		path := filepath.Join(dir, programName)
		err = errors.Join(os.Setenv(programVariable, path), os.Setenv(raceVariable, noRaceSleep), linkSelf(path))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

// linkSelf gives this binary another name. A symbolic link does not do: whoever asks for
// its own path would be told the old one.
func linkSelf(path string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	if os.Link(self, path) == nil {
		return nil
	}
	from, err := os.Open(self) // on another file system
	if err != nil {
		return err
	}
	defer from.Close()
	to, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o755)
	if err != nil {
		return err
	}
	_, err = io.Copy(to, from)
	return errors.Join(err, to.Close())
}
