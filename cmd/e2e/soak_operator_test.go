package e2e

import (
	"bytes"
	"encoding/base64"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"addon-operator/kube"
)

// marker stands in Secrets and in values whose names say that they are secret. It must not be shown
// in a log, on a page, in an Event.
const marker = "planted-marker-7f3a9c"

// kubelet starts the operator whenever it has ended, as kubelet does with a container.
type kubelet struct {
	soak *soak

	mu        sync.Mutex
	current   *operator
	peakOf    func() int
	wanted    bool // it is started when it has ended
	killing   string
	started   int
	converges int
	peak      int            // MiB, of all operators
	ends      map[string]int // why, how often
	last      []string       // the logs of those that have ended
	done      sync.WaitGroup
}

func newKubelet(s *soak) *kubelet {
	k := &kubelet{soak: s, ends: map[string]int{}}
	s.sieve = k.read
	k.start()
	return k
}

// start has the operator run from now on.
func (k *kubelet) start() {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.wanted = true
	if k.current == nil {
		k.run()
	}
}

// run starts the operator; the caller holds the lock.
func (k *kubelet) run() {
	s := k.soak
	k.started++
	env := []string{
		limited(limits{
			Lease:       kube.LeaseOptions{Duration: 3 * time.Second, RenewDeadline: 2 * time.Second, RetryPeriod: 150 * time.Millisecond},
			DriftPeriod: 2 * time.Second,
		}),
		"ADDON_OPERATOR_HA=true", "ADDON_OPERATOR_POD=" + soakPod(k.started), "ADDON_OPERATOR_HOOK_TIMEOUT=5s",
		"ADDON_OPERATOR_START_WITH_LAST_VALID_CONFIG=true", "HOME=" + s.path("home"), "TMPDIR=" + s.path("tmp-of-others"), s.mark(k.started),
	}
	if k.started%4 == 2 { // a detailed log has no secrets either
		env = append(env, "LOG_LEVEL=debug")
	}
	env = append(env, s.options...)
	o := s.launch(append(env, strings.Fields(os.Getenv("SOAK_OPTIONS"))...)...)
	k.current, k.killing = o, ""
	k.peakOf = bounded(o)
	k.done.Add(1)
	go k.tend(o, k.started, k.peakOf)
}

// soakPod is the Pod of a start: kubelet restarts the container in the same one, whose lock file frees the Lease at
// once, and each third time it is another Pod, which waits until the Lease expires.
func soakPod(run int) string { return "soak-" + strconv.Itoa(run/3) }

// tend waits for the end of an operator and starts the next one a moment later.
func (k *kubelet) tend(o *operator, run int, peak func() int) {
	defer k.done.Done()
	<-o.exited
	if o.killed() { // kubelet ends what is left in the container
		k.soak.processesOf(run, true)
	}
	k.soak.expectNoProcessOf(run)
	k.mu.Lock()
	k.peak = max(k.peak, peak())
	why := k.killing
	if why == "" {
		why = "by itself: " + o.cmd.ProcessState.String()
		if o.cmd.ProcessState.ExitCode() == 1 { // it says why, up to the first detail
			says, _, _ := strings.Cut(strings.Join(tail(o.output.lines(), 1), ""), ";")
			why += ": " + says[:min(len(says), 100)]
		}
		if o.killed() {
			why = "SIGKILL by a hook"
		}
	}
	k.ends[why]++
	k.last = tail(append(k.last, append(o.output.lines(), "=== this operator has ended: "+why)...), 100_000)
	k.current = nil
	k.mu.Unlock()
	k.soak.note("the operator has ended: %s; its last line: %s", why, strings.Join(tail(o.output.lines(), 1), ""))
	if used := peak(); used >= memoryLimit {
		k.soak.violated("the operator used %d MiB of memory", used)
	}
	if strings.HasPrefix(why, "by itself: exit status 2") {
		k.soak.violated("the operator ended by exit code 2")
	}
	k.soak.pause(200 * time.Millisecond)
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.wanted && k.current == nil {
		k.run()
	}
}

func (o *operator) killed() bool {
	status, ok := o.cmd.ProcessState.Sys().(syscall.WaitStatus)
	return ok && status.Signal() == syscall.SIGKILL
}

// read looks at each line of the log. It returns whether the line is kept.
func (k *kubelet) read(line []byte) bool {
	for _, secret := range k.soak.model.secrets() {
		if bytes.Contains(line, []byte(secret)) || bytes.Contains(line, []byte(base64.StdEncoding.EncodeToString([]byte(secret)))) {
			k.soak.violated("the log has a secret: %s", line)
		}
	}
	for _, bug := range []string{"please report this", "bug:", "panic:", "DATA RACE", "fatal error:"} {
		if bytes.Contains(line, []byte(bug)) {
			k.soak.violated("the log speaks of a bug: %s", line)
		}
	}
	if bytes.Contains(line, []byte(`"converged"`)) {
		k.soak.mu.Lock()
		k.converges++
		k.soak.mu.Unlock()
	}
	return !bytes.Contains(line, []byte("flood-")) && !bytes.Contains(line, []byte("xxxxxxxxxxxxxxxx"))
}

// kill ends the operator that runs now, if there is one; why is for the report.
func (k *kubelet) kill(why string, signal syscall.Signal) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.current == nil {
		return false
	}
	k.killing = why
	return k.current.cmd.Process.Signal(signal) == nil
}

// wake lets an operator go on that was stopped.
func (k *kubelet) wake() { k.signal(syscall.SIGCONT) }

func (k *kubelet) signal(signal syscall.Signal) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.current != nil {
		_ = k.current.cmd.Process.Signal(signal) // it may be gone
	}
}

// now is the operator that runs, nil for none.
func (k *kubelet) now() (*operator, int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.current, k.started
}

// log is the end of all logs.
func (k *kubelet) log(n int) []string {
	k.mu.Lock()
	defer k.mu.Unlock()
	all := slices.Clone(k.last)
	if k.current != nil {
		all = append(all, k.current.output.lines()...)
	}
	return tail(all, n)
}

// stop ends the operator for good and returns its exit code.
func (k *kubelet) stop() int {
	k.mu.Lock()
	k.wanted = false
	o := k.current
	k.killing = "SIGTERM at the end"
	k.mu.Unlock()
	if o == nil {
		return 0
	}
	code := o.terminate()
	k.done.Wait()
	return code
}

// expectNoProcessOf complains when hooks of an operator outlive it. Daemons, which have left
// the process group of their hook, are known to do so: only the container ends them.
func (s *soak) expectNoProcessOf(run int) {
	var left []string
	deadline := time.Now().Add(10 * time.Second)
	for time.Now().Before(deadline) {
		if left = s.processesOf(run, false); len(left) == 0 {
			return
		}
		s.pause(20 * time.Millisecond)
	}
	s.violated("the operator %d has ended, and these still run: %s", run, strings.Join(left, ", "))
}

// mark is in the environment of an operator and of all that it starts.
func (s *soak) mark(run int) string { return fmt.Sprintf("SOAK_RUN=%s-%d", s.namespace, run) }

// processesOf lists what has the mark of one operator in its environment, apart from the
// daemons of hooks, which it kills, and with kill all others, too.
func (s *soak) processesOf(run int, kill bool) (left []string) {
	paths, _ := filepath.Glob("/proc/[0-9]*/environ") // the pattern is good
	mark := []byte("\x00" + s.mark(run) + "\x00")
	for _, path := range paths {
		environment, err := os.ReadFile(path)
		if err != nil || !bytes.Contains(environment, mark) {
			continue // it has ended, or is a stranger's
		}
		commandLine, _ := os.ReadFile(filepath.Join(filepath.Dir(path), "cmdline"))
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		if kill || bytes.HasPrefix(commandLine, []byte("soak-daemon")) || bytes.Contains(commandLine, []byte("soak-daemon")) {
			_ = syscall.Kill(pid, syscall.SIGKILL) // it may have ended
			continue
		}
		left = append(left, fmt.Sprintf("%d %q", pid, commandLine))
	}
	return left
}
