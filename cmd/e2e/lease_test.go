package e2e

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
)

// This file holds the tests of a Lease that is always taken, also by a single replica, and
// of what that makes possible: scaling, restarts and updates without two operators that
// act at the same time. Nobody sets ADDON_OPERATOR_HA here: the name of the Pod is enough.

// inCluster are the replicas of a Deployment, n at first.
func inCluster(h *fixture, n int, env ...string) *replicas {
	r := &replicas{fixture: h, env: append([]string{"DEBUG_UNIX_SOCKET="}, env...)}
	for range n {
		r.add()
	}
	return r
}

// From one replica to three and back, without a detour over none; the leader is killed on
// the way, and one ends in good order. No two ever act at the same time. L1, L5.
func TestScaling(t *testing.T) {
	h := newFixture(t, "replicas")
	r := inCluster(h, 1, patient...) // the leader is found by its name, so a busy machine must not lose the Lease
	first := r.awaitConverged()
	expectAll(t, first.command("module", "list"), "This replica is the leader replica-1 since")
	for range 2 {
		r.add()
	}
	r.follower().expect("another replica holds the lease: this one waits", "expires=20", "holder=replica-1_")
	must(t, h.object("one", true))
	h.awaitState()
	if n := len(slices.DeleteFunc(slices.Clone(r.running), func(o *operator) bool { return !leads(o) })); n != 1 {
		t.Errorf("%d replicas lead", n)
	}
	r.kill(first) // and a Deployment starts another
	r.awaitConverged()
	must(t, h.object("two", true))
	h.awaitState()
	for len(r.running) > 1 { // the leader goes first
		r.settle()
		leader := r.awaitLeader()
		if code := leader.terminate(); code != 0 {
			t.Errorf("exit code %d after SIGTERM, want 0", code)
		}
		r.running = slices.DeleteFunc(r.running, func(o *operator) bool { return o == leader })
	}
	r.awaitConverged()
	must(t, h.object("three", true))
	h.awaitState()
	h.awaitRevisions("work", "1:deployed")
	if terms := h.oneAfterAnother(); terms < 3 {
		t.Errorf("%d operators ran hooks, want at least 3", terms)
	}
}

// A container that was killed in the middle of a hook is started again in its Pod: it leads at once, though its Lease
// lasts for minutes more. A Pod that has only the same name waits. L4.
func TestKilledContainerLeadsAtOnceAgain(t *testing.T) {
	h := newFixture(t, "replicas")
	r := inCluster(h, 0, lasting...)
	pod := func(uid, port string) *operator {
		o := h.start(slices.Concat(r.env, []string{"ADDON_OPERATOR_POD=pod", "ADDON_OPERATOR_POD_UID=" + uid, "ADDON_OPERATOR_LISTEN_PORT=" + port})...)
		o.public = "http://127.0.0.1:" + port
		r.running = append(r.running, o)
		return o
	}
	port := freePort(t) // a Pod keeps its address
	pod("1", port)
	r.awaitConverged()
	h.write("out/long", "")
	must(t, h.object("one", true))
	killed := r.awaitLongHook(nil)
	killed.kill()
	r.running = nil
	h.remove("out/long")

	stranger := pod("2", freePort(t))
	stranger.expect("another replica holds the lease: this one waits")
	again := pod("1", port)
	again.expect("this replica leads")
	again.ready()
	h.awaitState()
	h.oneAfterAnother()
	if leads(stranger) {
		t.Error("a Pod that has only the name of the leader has taken its Lease")
	}
}

// versions are two directories of modules, as two images have them: that of the second has a
// hook that fails.
func versions(h *fixture) (good, failing string) {
	h.t.Helper()
	must(h.t, os.CopyFS(h.path("failing"), os.DirFS(h.path("modules"))))
	h.write("failing/010-work/hooks/fail.sh", "#!/usr/bin/env bash\nif [[ $1 == --config ]]; then echo '{configVersion: v1, beforeHelm: 1}'; exit; fi\nexit 1\n")
	return "MODULES_DIR=" + h.path("modules"), "MODULES_DIR=" + h.path("failing")
}

func (o *operator) awaitFailing() {
	o.fixture.t.Helper()
	o.fixture.eventually("a first converge that fails", func() error {
		if status, body := get(o.public + "/readyz?verbose"); status != 500 || !strings.Contains(body, "the first converge has not finished") || !strings.Contains(body, "BACKOFF") {
			return fmt.Errorf("%d %s", status, body)
		}
		return nil
	})
}

// A single replica is updated without a gap: the new one stands by before the old one goes.
// Neither a converge that fails before, nor one that fails after holds an update up, in
// either direction. L3.
func TestSingleReplicaIsRolledOut(t *testing.T) {
	h := newFixture(t, "replicas")
	good, failing := versions(h)
	r := inCluster(h, 1, lasting...)
	one := r.awaitConverged()
	// From one that works to one that works.
	two := r.rollOut(one, good)
	two.expect("this replica leads")
	two.ready()
	// To one that fails: a follower does not know that yet, a leader says so.
	three := r.rollOut(two, failing)
	three.expect("this replica leads")
	three.awaitFailing()
	// To another one that fails: it is not stuck.
	four := r.rollOut(three, failing)
	four.expect("this replica leads")
	four.awaitFailing()
	// And back.
	five := r.rollOut(four, good)
	five.expect("this replica leads")
	five.ready()
	must(t, h.object("one", true))
	h.awaitState()
	h.awaitRevisions("work", "1:deployed")
	h.oneAfterAnother()
}

// So are three: the update that repairs a converge goes through while it fails, one replica
// after the other. L3.
func TestReplicasAreRolledOutWhileTheirLeaderFails(t *testing.T) {
	h := newFixture(t, "replicas")
	good, failing := versions(h)
	r := inCluster(h, 0, lasting...)
	for range 3 {
		r.add(failing)
	}
	r.awaitLeader().awaitFailing()
	for _, old := range slices.Clone(r.running) {
		r.rollOut(old, good)
	}
	r.awaitConverged().ready()
	must(t, h.object("one", true))
	h.awaitState()
	for _, o := range r.running {
		o.ready()
	}
	h.oneAfterAnother()
}
