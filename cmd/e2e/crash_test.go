package e2e

import (
	"strings"
	"testing"
)

// The operator dies in the middle of its first converge, after a config patch and one of
// two releases; the next one goes on from what is in the cluster. Issue 2, "Proof".
func TestKilledInTheMiddleOfAConverge(t *testing.T) {
	h := newFixture(t, "crash")
	o := h.start()
	h.awaitJournal("there")
	password := h.config()["second"]
	if password == "" {
		t.Fatal("the config patch of the first hook was not written at once")
	}
	o.kill()
	if got := h.revisions("first") + h.revisions("second"); got != "1:deployed" {
		t.Fatalf("releases at the moment of the kill: %s", got)
	}

	h.write("out/go", "")
	h.start().ready()
	h.awaitJournal("there there")
	h.awaitRevisions("first", "1:deployed")
	h.awaitRevisions("second", "1:deployed")
	if got := h.config()["second"]; got != password {
		t.Errorf("the password was %q and is %q", password, got)
	}
	if rendered := h.configMap("second")["password"]; !strings.Contains(password, rendered) {
		t.Errorf("the chart has the password %q, the ConfigMap of the operator %q", rendered, password)
	}
}

// The operator dies while Helm installs, and again while Helm upgrades; the next one needs
// no help with the pending release. H8.
func TestKilledWhileHelmWorks(t *testing.T) {
	h := newFixture(t, "stuck_helm")
	o := h.start()
	h.awaitRevisions("stuck", "1:pending-install")
	o.kill()
	h.setConfig(map[string]string{"stuck": "blocked: false"})
	o = h.start().ready()
	h.awaitConfigMap("stuck", "size", "one")
	h.awaitRevisions("stuck", "1:deployed")

	h.setConfig(map[string]string{"stuck": "size: two"})
	h.awaitRevisions("stuck", "1:deployed 2:pending-upgrade")
	o.kill()
	h.setConfig(map[string]string{"stuck": "size: two\nblocked: false"})
	h.start().ready()
	h.awaitConfigMap("stuck", "size", "two")
	h.awaitRevisions("stuck", "1:superseded 2:failed 3:deployed")
}
