package e2e

import (
	"testing"
)

// dump asks the running operator for its actors, as a person would in its Pod.
func (o *operator) dump(args ...string) string {
	o.fixture.t.Helper()
	out, err := o.run("", append([]string{"--dump-actors"}, args...)...)
	if err != nil {
		o.fixture.t.Fatalf("--dump-actors %s: %v\n%s", args, err, out)
	}
	return out
}

// The stop comes before the operator is up.
func TestStopWhileTheAPIServerIsAway(t *testing.T) {
	h := newFixture(t, "web")
	o := h.start("KUBE_SERVER=https://127.0.0.1:" + freePort(t))
	o.expect("will retry")
	if code := o.terminate(); code != 0 {
		t.Errorf("exit code %d, want 0", code)
	}
}
