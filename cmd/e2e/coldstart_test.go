package e2e

import (
	"os/exec"
	"strings"
	"testing"
)

// What coldstart does would be in vain after the libraries have been initialised.
func TestTheColdStartBeginsBeforeTheLibraries(t *testing.T) {
	t.Parallel()
	cmd := exec.Command(program(), "version")
	cmd.Env = append(cmd.Environ(), "GODEBUG=inittrace=1")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("version: %v\n%s", err, out)
	}
	before, _, found := strings.Cut(string(out), "init addon-operator/cmd/operator/coldstart ")
	if !found {
		t.Fatalf("coldstart is not among the packages:\n%s", out)
	}
	for _, library := range []string{"jsonschema", "client-go/kubernetes/scheme", "helm.sh/helm/v3/pkg/action"} {
		if strings.Contains(before, library) {
			t.Errorf("%s is initialised before coldstart", library)
		}
	}
}
