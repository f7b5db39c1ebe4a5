package e2e

import (
	"errors"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

func TestAPIServerInMemoryRefusesAWrongCommandLine(t *testing.T) {
	t.Parallel()
	for situation, test := range map[string]struct {
		args string
		want string
	}{
		"no directory":      {"apiserver", "--dir is required"},
		"unknown flag":      {"apiserver --port 1", "--port"},
		"a stray argument":  {"apiserver now", `"now"`},
		"a file for a home": {"apiserver --dir " + filepath.Join("doc.go", "x"), "doc.go"},
	} {
		t.Run(situation, func(t *testing.T) {
			t.Parallel()
			out, err := exec.Command(program(), strings.Fields(test.args)...).CombinedOutput()
			var exit *exec.ExitError
			if !errors.As(err, &exit) || !strings.Contains(string(out), test.want) {
				t.Errorf("%v, %s; want an error with %q", err, out, test.want)
			}
		})
	}
}
