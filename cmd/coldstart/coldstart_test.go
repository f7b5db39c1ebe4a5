package coldstart_test

import (
	"os"
	"os/exec"
	"runtime/debug"
	"strings"
	"testing"

	_ "k8s.io/client-go/kubernetes/scheme" // a library with much to initialise

	"addon-operator/cmd/coldstart"
)

// The default returns after the start; the choice of a person stays.
func TestOver(t *testing.T) {
	defer debug.SetGCPercent(debug.SetGCPercent(7))
	for set, want := range map[string]int{"": 100, "50": 7} {
		t.Setenv("GOGC", set)
		debug.SetGCPercent(7)
		coldstart.Over()
		if got := debug.SetGCPercent(7); got != want {
			t.Errorf("GOGC=%s: %d %% after the start, want %d", set, got, want)
		}
	}
}

// What only imports little comes before; the libraries that make much come after.
func TestOrder(t *testing.T) {
	t.Setenv("GODEBUG", "inittrace=1")
	out, err := exec.Command(os.Args[0], "-test.run=^$").CombinedOutput()
	before, after, _ := strings.Cut(string(out), "\ninit addon-operator/cmd/coldstart ")
	if err != nil || strings.Contains(before, "\ninit k8s.io/api/") || !strings.Contains(after, "\ninit k8s.io/api/") {
		t.Errorf("%v, in this order:\n%s", err, out)
	}
}
