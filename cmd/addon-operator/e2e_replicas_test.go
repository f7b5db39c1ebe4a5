package main_test

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/url"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"addon-operator/testkit/devclustertest"
)

// replicas are several operators in one house; who ends by itself is started again, as
// kubelet would.
type replicas struct {
	*house
	env     []string
	running []*operator
	started int
}

// hasty are the shortest times, for tests in which the Lease must expire.
var hasty = []string{"ADDON_OPERATOR_HA_LEASE_DURATION=1s", "ADDON_OPERATOR_HA_RENEW_DEADLINE=600ms", "ADDON_OPERATOR_HA_RETRY_PERIOD=100ms"} //nolint:gochecknoglobals // a constant

// lasting are times in which no Lease expires during a test.
var lasting = []string{"ADDON_OPERATOR_HA_LEASE_DURATION=20m", "ADDON_OPERATOR_HA_RENEW_DEADLINE=10m", "ADDON_OPERATOR_HA_RETRY_PERIOD=8m"} //nolint:gochecknoglobals // a constant

func startReplicas(h *house, n int, env ...string) *replicas {
	r := &replicas{house: h, env: append([]string{"ADDON_OPERATOR_HA=true", "DEBUG_UNIX_SOCKET="}, env...)}
	for range n {
		r.add()
	}
	return r
}

func (r *replicas) add() *operator {
	r.started++
	o := r.start(append([]string{"ADDON_OPERATOR_POD=replica-" + strconv.Itoa(r.started)}, r.env...)...)
	r.running = append(r.running, o)
	return o
}

func leads(o *operator) bool { return o.running() && o.count("this replica leads") > 0 }

// tend starts again who ended by itself; anything but the documented end fails the test.
func (r *replicas) tend() {
	r.t.Helper()
	for i, o := range slices.Backward(r.running) {
		if o.running() {
			continue
		}
		if code := o.cmd.ProcessState.ExitCode(); code != 3 {
			r.t.Fatalf("a replica ended with exit code %d:\n%s", code, strings.Join(o.output.lines(), "\n"))
		}
		r.running = slices.Delete(r.running, i, i+1)
		r.add()
	}
}

func (r *replicas) leader() *operator {
	for _, o := range r.running {
		if leads(o) {
			return o
		}
	}
	return nil
}

func (r *replicas) awaitLeader() (leader *operator) {
	r.t.Helper()
	r.eventually("a leader", func() error {
		r.tend()
		if leader = r.leader(); leader == nil {
			return errNotYet
		}
		return nil
	})
	return leader
}

// awaitConverged waits until some leader is ready.
func (r *replicas) awaitConverged() (leader *operator) {
	r.t.Helper()
	r.eventually("a leader that has converged", func() error {
		r.tend()
		if leader = r.leader(); leader == nil || leader.count("INFO converged") == 0 {
			return errNotYet
		}
		return nil
	})
	return leader
}

// follower is one that stands by, warm.
func (r *replicas) follower() (found *operator) {
	r.t.Helper()
	r.eventually("a follower", func() error {
		r.tend()
		for _, o := range r.running {
			if !leads(o) && o.count("stand-by is warm") > 0 {
				found = o
				return nil
			}
		}
		return errNotYet
	})
	return found
}

// settle waits until every replica that was started listens to SIGTERM, which the end of
// the test sends.
func (r *replicas) settle() {
	r.t.Helper()
	for _, o := range r.running {
		r.eventually("a replica that is up", func() error {
			if o.running() && o.count("stand-by begins") == 0 {
				return errNotYet
			}
			return nil
		})
	}
}

// kill kills a replica with SIGKILL and starts another in its place.
func (r *replicas) kill(o *operator) {
	o.kill()
	r.running = slices.DeleteFunc(r.running, func(other *operator) bool { return other == o })
	r.add()
}

// beats are what hooks wrote as long as they lived, in the order of time: the process of
// their operator.
func (h *house) beats() (operators []string) {
	var lines [][2]string
	for line := range strings.Lines(h.read("out/beats")) {
		if at, operator, ok := strings.Cut(strings.TrimSpace(line), " "); ok {
			lines = append(lines, [2]string{at, operator})
		}
	}
	slices.SortStableFunc(lines, func(a, b [2]string) int { return strings.Compare(a[0], b[0]) })
	for _, line := range lines {
		operators = append(operators, line[1])
	}
	return operators
}

// oneAfterAnother complains when an operator's hooks lived after another operator's had
// begun.
func (h *house) oneAfterAnother() (terms int) {
	h.t.Helper()
	terms = 0
	ended, last := map[string]bool{}, ""
	for i, operator := range h.beats() {
		if operator == last {
			continue
		}
		if ended[operator] {
			h.t.Errorf("beat %d is of operator %s, which was followed by another before", i, operator)
		}
		ended[last], last = true, operator
		terms++
	}
	return terms
}

// object makes or deletes an object that the hook of the house watches.
func (h *house) object(name string, exists bool) error {
	maps := h.client.CoreV1().ConfigMaps(h.namespace)
	if !exists {
		return maps.Delete(h.ctx, name, metav1.DeleteOptions{})
	}
	_, err := maps.Create(h.ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"test": "event"}}}, metav1.CreateOptions{})
	return err
}

// objects are those that exist.
func (h *house) objects() string {
	h.t.Helper()
	list, err := h.client.CoreV1().ConfigMaps(h.namespace).List(h.ctx, metav1.ListOptions{LabelSelector: labels.Set{"test": "event"}.String()})
	if err != nil {
		h.t.Fatal(err)
	}
	var names []string
	for _, o := range list.Items {
		names = append(names, o.Name)
	}
	slices.Sort(names)
	return strings.Join(names, " ")
}

// awaitState waits until the hook of the house has seen what there is.
func (h *house) awaitState() {
	h.t.Helper()
	h.eventually("the hook has seen all objects", func() error {
		if got, want := strings.TrimSpace(h.read("out/state")), h.objects(); got != want {
			return fmt.Errorf("it saw %q, there are %q", got, want)
		}
		return nil
	})
}

// traffic lets objects come and go and the values change until ctx ends; it returns the
// last value.
func (h *house) traffic(ctx context.Context) (n int, err error) {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return n, nil
		case <-tick.C:
		}
		n++
		if err := h.object("object-"+strconv.Itoa(n), true); err != nil {
			return n, err
		}
		if n > 3 {
			if err := h.object("object-"+strconv.Itoa(n-3), false); err != nil {
				return n, err
			}
		}
		h.setConfig(map[string]string{"work": "size: " + strconv.Itoa(n)})
	}
}

// Three replicas; the leader is killed twenty times at random moments while events and
// edits flow. No two of them act at the same time, the hook sees in the end what there
// is, and the release is of the last values. Issue 8, "Proof"; L1, L4, L5.
func TestLeaderIsKilledTwentyTimes(t *testing.T) {
	const kills = 20
	h := newHouse(t, "replicas")
	r := startReplicas(h, 3, hasty...)
	first := r.awaitConverged()
	t.Logf("cold: %s from the leadership to the end of the first converge", first.between("this replica leads", "INFO converged"))

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
	var takeovers, converges []time.Duration
	for range kills {
		r.follower()
		leader := r.awaitLeader()
		moment := time.NewTimer(rand.N(300 * time.Millisecond))
		<-moment.C
		killed := time.Now()
		r.kill(leader)
		next := r.awaitLeader()
		takeovers = append(takeovers, time.Since(killed))
		if d := next.between("this replica leads", "INFO converged"); d > 0 {
			converges = append(converges, d)
		}
	}
	last := r.awaitConverged()
	converges = append(converges, last.between("this replica leads", "INFO converged"))
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
	slices.Sort(converges)
	t.Logf("%d kills, %d replicas started, %d of them ran hooks, %d edits; takeover after SIGKILL: median %s, longest %s (lease 1s); warm: median %s from the leadership to the end of the first converge",
		kills, r.started, terms, ended.n, takeovers[len(takeovers)/2].Round(time.Millisecond), takeovers[len(takeovers)-1].Round(time.Millisecond), converges[len(converges)/2])
}

// A leader that is stopped beyond its lease, in the middle of a hook, and woken up again:
// its hooks are dead before the next leader acts, and it does nothing more but end. L5.
func TestStoppedLeaderDoesNotActWhenItWakesUp(t *testing.T) {
	h := newHouse(t, "replicas")
	r := startReplicas(h, 2, hasty...)
	r.awaitConverged()
	r.follower()
	h.write("out/long", "")
	if err := h.object("first", true); err != nil {
		t.Fatal(err)
	}
	leader := r.awaitLeader()
	h.awaitBeatOf(leader)
	if err := leader.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	next := r.awaitOther(leader)
	h.awaitBeatOf(next)
	if err := leader.cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	if code := leader.exit(); code != 3 {
		t.Errorf("exit code %d, want 3", code)
	}
	h.remove("out/long")
	h.setConfig(map[string]string{"work": "size: 7"})
	r.awaitConverged()
	h.awaitConfigMap("work", "size", "7")
	h.awaitState()
	h.oneAfterAnother()
	r.settle()
	if n := leader.count("the leadership is lost"); n != 1 {
		t.Errorf("the woken leader tells %d times of its loss, want once", n)
	}
}

// awaitOther waits for a leader beside one that may still believe to lead.
func (r *replicas) awaitOther(than *operator) (leader *operator) {
	r.t.Helper()
	r.eventually("another leader", func() error {
		r.tend()
		for _, o := range r.running {
			if o != than && leads(o) {
				leader = o
				return nil
			}
		}
		return errNotYet
	})
	return leader
}

func (h *house) awaitBeatOf(o *operator) {
	h.t.Helper()
	h.eventually("a hook of this operator", func() error {
		if slices.Contains(h.beats(), strconv.Itoa(o.cmd.Process.Pid)) {
			return nil
		}
		return errNotYet
	})
}

// A leader that is asked to end gives the lease back, so that the follower takes over at
// once, though the lease lasts for minutes; until then it is as ready as its leader, says
// who leads, and writes nothing. L1, L2, L3.
func TestFollowerTakesOverAtOnce(t *testing.T) {
	h := newHouse(t, "replicas")
	r := startReplicas(h, 1, lasting...)
	leader := r.awaitConverged()
	follower := r.add()
	follower.expect("stand-by is warm", "modules=1", "cold=0")
	h.eventually("a follower as ready as its leader", func() error {
		if status, body := get(follower.public + "/readyz"); status != 200 || !strings.Contains(body, "ok: stand-by; replica-1 (") {
			return fmt.Errorf("%d %s", status, body)
		}
		return nil
	})
	_, verbose := get(follower.public + "/readyz?verbose")
	expectAll(t, verbose, "operator: stand-by; replica-1", "stand-by: hooks of 1 of 1 module are loaded", "monitors: 1 binding")
	if status, body := get(follower.public + "/readyz?own"); status != 500 {
		t.Errorf("the follower for itself: %d %s", status, body)
	}
	for o, want := range map[*operator]string{leader: "1", follower: "0"} {
		_, page := get(o.public + "/metrics")
		expectAll(t, page, "addon_operator_leader "+want+"\n", "addon_operator_leader_transitions_total 0\n")
	}
	status, body := get("http://" + follower.debug + "/module/work/values.yaml")
	if status != 503 || !strings.Contains(body, "ask the leader") {
		t.Errorf("values of a follower: %d %s", status, body)
	}
	expectAll(t, follower.command("why", "work"), "this replica is stand-by; replica-1")
	expectAll(t, follower.command("queue", "list"), "this replica is stand-by; replica-1")
	expectAll(t, follower.command("--dump-actors"), "stand-by; replica-1", "standby")
	expectAll(t, leader.command("--dump-actors"), "leader since")

	if code := leader.terminate(); code != 0 {
		t.Errorf("exit code %d, want 0", code)
	}
	if n := leader.count("could not be released"); n > 0 {
		t.Error("the lease was not released")
	}
	follower.expect("this replica leads")
	if status, body := get(follower.public + "/readyz?own"); status != 200 {
		follower.ready()
	} else {
		expectAll(t, body, "ok")
	}
	_, page := get(follower.public + "/metrics")
	expectAll(t, page, "addon_operator_leader 1\n", "addon_operator_leader_transitions_total 1\n")
	t.Logf("warm: %s from the leadership to the end of the first converge", follower.between("this replica leads", "INFO converged"))
	h.oneAfterAnother()
}

// The API server is away for longer than the lease: the leader kills its hooks and ends,
// the followers stay; when it is back, one leads, and what happened meanwhile is not
// lost. L4.
func TestAPIServerIsAwayLongerThanTheLease(t *testing.T) {
	h := newHouse(t, "replicas")
	line := newLine(t, devclustertest.Start(t).RESTConfig().Host)
	r := startReplicas(h, 2, append([]string{"KUBE_SERVER=" + line.url}, hasty...)...)
	r.awaitConverged()
	r.follower()
	h.write("out/long", "")
	if err := h.object("before", true); err != nil {
		t.Fatal(err)
	}
	h.awaitBeatOf(r.awaitLeader())
	leader := r.awaitLeader()
	line.cut()
	if code := leader.exit(); code != 3 {
		t.Errorf("exit code %d, want 3", code)
	}
	leader.expect("the leadership is lost")
	h.remove("out/long")
	if err := h.object("meanwhile", true); err != nil {
		t.Fatal(err)
	}
	h.setConfig(map[string]string{"work": "size: 5"})
	line.mend()
	r.awaitConverged()
	h.awaitState()
	h.awaitConfigMap("work", "size", "5")
	h.oneAfterAnother()
	r.settle()
}

// between is the time between two lines of the log; 0 while one of them is missing.
func (o *operator) between(from, to string) time.Duration {
	at := func(text string) (found time.Time) {
		o.output.mu.Lock()
		defer o.output.mu.Unlock()
		for line := range strings.Lines(string(o.output.data)) {
			if strings.Contains(flat(line), text) {
				_, rest, _ := strings.Cut(line, `"time":"`)
				stamp, _, _ := strings.Cut(rest, `"`)
				found, _ = time.Parse(time.RFC3339Nano, stamp) // the zero time does for "not found"
				return found
			}
		}
		return found
	}
	begin, end := at(from), at(to)
	if begin.IsZero() || end.IsZero() {
		return 0
	}
	return end.Sub(begin).Round(time.Millisecond)
}

// command runs a command of the program against an operator; its output is all that it
// printed, on stdout or stderr.
func (o *operator) command(args ...string) string {
	o.house.t.Helper()
	path, err := built()
	if err != nil {
		o.house.t.Fatal(err)
	}
	cmd := exec.Command(path, args...)
	cmd.Env = o.env
	output, _ := cmd.CombinedOutput() // some commands are meant to fail
	return string(output)
}

// line is the connection between operators and their API server, which can be cut.
type line struct {
	url string

	mu    sync.Mutex
	whole bool
	open  map[net.Conn]bool
}

func newLine(t *testing.T, server string) *line {
	t.Helper()
	target, err := url.Parse(server)
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l := &line{url: "https://" + listener.Addr().String(), whole: true, open: map[net.Conn]bool{}}
	t.Cleanup(func() { _ = listener.Close(); l.cut() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return // the end of the test
			}
			go l.carry(conn, target.Host)
		}
	}()
	return l
}

func (l *line) carry(from net.Conn, target string) {
	defer from.Close()
	to, err := net.Dial("tcp", target)
	if err != nil {
		return
	}
	defer to.Close()
	l.mu.Lock()
	whole := l.whole
	l.open[from], l.open[to] = true, true
	l.mu.Unlock()
	if !whole {
		return
	}
	go func() {
		_, _ = io.Copy(to, from) // until one of them is closed
		_ = to.Close()
	}()
	_, _ = io.Copy(from, to)
}

func (l *line) cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.whole = false
	for conn := range l.open {
		_ = conn.Close()
		delete(l.open, conn)
	}
}

func (l *line) mend() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.whole = true
}
