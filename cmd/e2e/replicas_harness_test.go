package e2e

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"addon-operator/kube"
)

// replicas are several operators in one fixture; who ends by itself is started again, as
// kubelet would.
type replicas struct {
	*fixture
	env     []string
	running []*operator
	started int
}

// Times for tests in which the Lease must expire. What lies between the renew deadline and
// the lease duration is all the time that a loaded machine may take to kill.
//
//nolint:gochecknoglobals // constants
var (
	// hasty are for many changes of the leader by SIGKILL, which is noticed at once.
	hasty = leaseTimes(2*time.Second, time.Second, 100*time.Millisecond)
	// patient are for leaders that have to notice by themselves.
	patient = leaseTimes(8*time.Second, 3*time.Second, 200*time.Millisecond)
	// lasting are times in which no Lease expires during a test.
	lasting = leaseTimes(20*time.Minute, 10*time.Minute, 8*time.Minute)
)

func leaseTimes(duration, renewDeadline, retryPeriod time.Duration) []string {
	return []string{limited(limits{Lease: kube.LeaseOptions{Duration: duration, RenewDeadline: renewDeadline, RetryPeriod: retryPeriod}})}
}

func startReplicas(h *fixture, n int, env ...string) *replicas {
	r := &replicas{fixture: h, env: append([]string{"ADDON_OPERATOR_HA=true", "DEBUG_UNIX_SOCKET="}, env...)}
	for range n {
		r.add()
	}
	return r
}

// add starts one more; more are variables that are its own.
func (r *replicas) add(more ...string) *operator {
	r.started++
	o := r.start(slices.Concat([]string{"ADDON_OPERATOR_POD=replica-" + strconv.Itoa(r.started)}, r.env, more)...)
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

// follower is one that stands by.
func (r *replicas) follower() (found *operator) {
	r.t.Helper()
	r.eventually("a follower", func() error {
		r.tend()
		for _, o := range r.running {
			if !leads(o) && o.count("standby begins") > 0 {
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
			if o.running() && o.count("standby begins") == 0 && !leads(o) {
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

// rollOut replaces a replica as the Deployment of the chart does: the old one gets SIGTERM
// when the new one is ready, and not before.
func (r *replicas) rollOut(old *operator, more ...string) (next *operator) {
	r.t.Helper()
	next = r.add(more...)
	next.ready()
	if code := old.terminate(); code != 0 {
		r.t.Errorf("exit code %d after SIGTERM, want 0", code)
	}
	r.running = slices.DeleteFunc(r.running, func(other *operator) bool { return other == old })
	return next
}

// beats are what hooks wrote as long as they lived, in the order of time: the process of
// their operator.
func (h *fixture) beats() (operators []string) {
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
func (h *fixture) oneAfterAnother() (terms int) {
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

// object makes or deletes an object that the hook of the fixture watches.
func (h *fixture) object(name string, exists bool) error {
	maps := h.client.CoreV1().ConfigMaps(h.namespace)
	if !exists {
		return maps.Delete(h.ctx, name, metav1.DeleteOptions{})
	}
	_, err := maps.Create(h.ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{"test": "event"}}}, metav1.CreateOptions{})
	return err
}

// objects are those that exist.
func (h *fixture) objects() string {
	h.t.Helper()
	list, err := h.client.CoreV1().ConfigMaps(h.namespace).List(h.ctx, metav1.ListOptions{LabelSelector: labels.Set{"test": "event"}.String()})
	must(h.t, err)
	var names []string
	for _, o := range list.Items {
		names = append(names, o.Name)
	}
	slices.Sort(names)
	return strings.Join(names, " ")
}

// awaitState waits until the hook of the fixture has seen what there is.
func (h *fixture) awaitState() {
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
func (h *fixture) traffic(ctx context.Context) (n int, err error) {
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

// awaitLongHook waits until a leader is in the middle of the hook that runs as long as
// out/long exists, and returns that leader; except may still believe to lead.
func (r *replicas) awaitLongHook(except *operator) (leader *operator) {
	r.t.Helper()
	r.eventually("a leader in the middle of a hook", func() error {
		r.tend()
		for _, o := range r.running {
			if o != except && leads(o) && r.read("out/long-of-"+strconv.Itoa(o.cmd.Process.Pid)) != "" {
				leader = o
				return nil
			}
		}
		return errNotYet
	})
	return leader
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
	o.fixture.t.Helper()
	output, _ := o.run("", args...) // some commands are meant to fail
	return output
}

// line is the connection between operators and their API server, which can be cut.
type line struct {
	url string

	mu    sync.Mutex
	whole bool
	open  map[net.Conn]bool
}

// newLine listens at an address of its own, and is whole.
func newLine(t testing.TB, address, server string) *line {
	t.Helper()
	target, err := url.Parse(server)
	must(t, err)
	listener, err := net.Listen("tcp", address)
	must(t, err)
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
