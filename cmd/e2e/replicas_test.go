package e2e

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"addon-operator/testkit/devclustertest"
)

// This file holds the tests of high availability; replicas_harness_test.go has what
// they do to replicas.

// Three replicas; the leader is killed again and again at random moments while events and
// edits flow. No two of them act at the same time, the hook sees in the end what there
// is, and the release is of the last values. Issue 8, "Proof"; L1, L4, L5.
func TestLeaderIsKilled(t *testing.T) {
	kills := map[bool]int{false: 3, true: 20}[devclustertest.Full()]
	h := newFixture(t, "replicas")
	r := startReplicas(h, 3, hasty...)
	r.awaitConverged()

	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	type end struct {
		n   int
		err error
	}
	traffic := make(chan end, 1)
	go func() {
		n, err := h.traffic(ctx)
		traffic <- end{n, err}
	}()
	var takeovers []time.Duration
	for range kills {
		r.follower()
		leader := r.awaitLeader()
		moment := time.NewTimer(rand.N(300 * time.Millisecond))
		<-moment.C
		killed := time.Now()
		r.kill(leader)
		r.awaitLeader()
		takeovers = append(takeovers, time.Since(killed))
	}
	r.awaitConverged()
	stop()
	ended := <-traffic
	if ended.err != nil {
		t.Fatal(ended.err)
	}
	r.awaitConverged()
	h.awaitState()
	h.awaitConfigMap("work", "size", strconv.Itoa(ended.n))
	h.eventually("a release without anything pending", func() error {
		r.tend()
		if got := h.revisions("work"); !strings.HasSuffix(got, ":deployed") || strings.Count(got, "deployed") != 1 || strings.Contains(got, "pending") {
			return fmt.Errorf("%s", got)
		}
		return nil
	})
	terms := h.oneAfterAnother()
	r.settle()
	slices.Sort(takeovers)
	t.Logf("%d kills, %d replicas started, %d of them ran hooks, %d edits; takeover after SIGKILL: median %s, longest %s (lease 2s)",
		kills, r.started, terms, ended.n, takeovers[len(takeovers)/2].Round(time.Millisecond), takeovers[len(takeovers)-1].Round(time.Millisecond))
}

// A leader that is stopped until its time is over, and woken up: it kills its hooks, writes nothing and ends. L4, L5.
func TestStoppedLeaderDoesNotActWhenItWakesUp(t *testing.T) {
	h := newFixture(t, "replicas")
	r := startReplicas(h, 2, patient...)
	r.awaitConverged()
	r.follower()
	h.write("out/long", "")
	must(t, h.object("first", true))
	stopped := r.awaitLongHook(nil)
	must(t, stopped.cmd.Process.Signal(syscall.SIGSTOP))
	h.eventually("another leader", func() error {
		for _, o := range r.running {
			if o != stopped && leads(o) {
				return nil
			}
		}
		return errNotYet
	})
	must(t, stopped.cmd.Process.Signal(syscall.SIGCONT))
	if code := stopped.exit(); code != 3 {
		t.Errorf("exit code %d, want 3", code)
	}
	if n := stopped.count("leadership lost"); n != 1 {
		t.Errorf("the woken leader reports its loss %d times, want once", n)
	}
	h.remove("out/long")
	h.setConfig(map[string]string{"work": "size: 7"})
	r.awaitConverged()
	h.awaitConfigMap("work", "size", "7")
	h.awaitState()
	r.settle()
}

// A leader that is asked to end gives the lease back, so that the follower takes over at
// once, though the lease lasts for minutes; until then it is ready, says
// who leads, and writes nothing. L1, L2, L3.
func TestFollowerTakesOverAtOnce(t *testing.T) {
	h := newFixture(t, "replicas")
	r := startReplicas(h, 1, lasting...)
	leader := r.awaitConverged()
	follower := r.add()
	follower.expect("standby begins")
	h.eventually("a follower that is ready", func() error {
		if status, body := get(follower.public + "/readyz"); status != 200 || !strings.Contains(body, "ok: standby; replica-1 (") {
			return fmt.Errorf("%d %s", status, body)
		}
		return nil
	})
	_, verbose := get(follower.public + "/readyz?verbose")
	expectAll(t, verbose, "ok: standby; replica-1 (")
	for o, want := range map[*operator]string{leader: "1", follower: "0"} {
		_, page := get(o.public + "/metrics")
		expectAll(t, page, "addon_operator_leader "+want+"\n", "addon_operator_leader_transitions_total 0\n")
	}
	status, body := get("http://" + follower.debug + "/module/work/values.yaml")
	if status != 503 || !strings.Contains(body, "send the request to the leader") {
		t.Errorf("values of a follower: %d %s", status, body)
	}
	expectAll(t, follower.command("why", "work"), "this replica is a standby; replica-1")
	expectAll(t, follower.command("queue", "list"), "this replica is a standby; replica-1")
	expectAll(t, follower.command("--dump-actors"), "standby; replica-1")
	expectAll(t, leader.command("module", "list"), "This replica is the leader replica-1 since")

	if code := leader.terminate(); code != 0 {
		t.Errorf("exit code %d, want 0", code)
	}
	if n := leader.count("could not be released"); n > 0 {
		t.Error("the lease was not released")
	}
	follower.expect("this replica leads")
	follower.ready()
	_, page := get(follower.public + "/metrics")
	expectAll(t, page, "addon_operator_leader 1\n", "addon_operator_leader_transitions_total 1\n")
	t.Logf("%s from the leadership to the end of the first converge", follower.between("this replica leads", "INFO converged"))
	h.oneAfterAnother()
}

// The API server is away for longer than the lease: the leader kills its hooks and ends,
// the followers stay; when it is back, one leads, and what happened meanwhile is not
// lost. L4.
func TestAPIServerIsAwayLongerThanTheLease(t *testing.T) {
	h := newFixture(t, "replicas")
	line := newLine(t, "127.0.0.1:0", devclustertest.Start(t).RESTConfig().Host)
	r := startReplicas(h, 2, append([]string{"KUBE_SERVER=" + line.url}, patient...)...)
	r.awaitConverged()
	r.follower()
	h.write("out/long", "")
	must(t, h.object("before", true))
	leader := r.awaitLongHook(nil)
	line.cut()
	if code := leader.exit(); code != 3 {
		t.Errorf("exit code %d, want 3", code)
	}
	leader.expect("leadership lost")
	h.remove("out/long")
	must(t, h.object("meanwhile", true))
	h.setConfig(map[string]string{"work": "size: 5"})
	line.mend()
	r.awaitConverged()
	h.awaitState()
	h.awaitConfigMap("work", "size", "5")
	h.oneAfterAnother()
	r.settle()
}

// This file holds the tests of a Lease that is always taken, also by a single replica, and
// of what that makes possible: scaling, restarts and updates without two operators that
// act at the same time. ADDON_OPERATOR_HA is not set: the name of the Pod is enough.

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
