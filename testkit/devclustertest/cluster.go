package devclustertest

import (
	"bufio"
	"errors"
	"flag"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// Cluster is a running control plane.
type Cluster struct {
	root   string // of the repository
	dir    string // of the cluster
	config *rest.Config
	own    bool     // of one test, which may kill it
	flags  []string // of each start

	mu      sync.Mutex
	process *process // nil while killed, and where another binary has started it
}

// shared is the cluster that this test binary shares with the others of its go test.
var shared = sync.OnceValues(startShared)

// Start returns the cluster that all tests of one go test share, those of other packages
// too; the first call starts it. It ends with go test, however that ends: packages must
// not define the same cluster-wide objects. A test binary that is run by hand has a
// cluster of its own. With -short the test is skipped.
func Start(t testing.TB) *Cluster {
	t.Helper()
	skipWhenShort(t)
	cluster, err := shared()
	if err != nil {
		t.Fatal(err)
	}
	return cluster
}

// StartOwn starts a cluster for this test alone, which finds nothing of others in it, and may Kill
// and Restart it. It is stopped, and its data removed, at the end of the test.
func StartOwn(t testing.TB) *Cluster {
	t.Helper()
	return startOwn(t)
}

// StartWithNode is StartOwn with a node, which runs no containers: Pods count as running, and those
// of Jobs as succeeded.
func StartWithNode(t testing.TB) *Cluster {
	t.Helper()
	return startOwn(t, "--node")
}

func startOwn(t testing.TB, flags ...string) *Cluster {
	t.Helper()
	cluster := startIn(t, t.TempDir(), flags...)
	t.Cleanup(func() { cluster.Kill(t) })
	return cluster
}

// startIn starts a cluster that the test may kill.
func startIn(t testing.TB, dir string, flags ...string) *Cluster {
	t.Helper()
	skipWhenShort(t)
	root, err := repositoryRoot()
	if err == nil {
		err = build(root, ofVersion(buildCluster))
	}
	if err != nil {
		t.Fatal(err)
	}
	cluster, err := start(root, dir, flags...)
	if err != nil {
		t.Fatal(err)
	}
	cluster.own = true
	return cluster
}

// atATime is how many clusters the tests of one binary borrow at the same time: a start costs more
// than the wait.
const atATime = 2

// slots has an element for each cluster that a test may borrow: one that runs, or nil where the test has to start it.
// None runs longer than the test binary.
var slots = sync.OnceValue(func() chan *Cluster {
	all := make(chan *Cluster, atATime)
	for range atATime {
		all <- nil
	}
	return all
})

// Borrow returns a cluster that no other test uses at the same time, which the test may Kill and
// Restart, as one of StartOwn. But earlier tests of the binary may have used it, and left objects
// in it: a start takes seconds of a processor. So a third test waits for one, and no test borrows
// several. A test that fails does not give it back.
func Borrow(t testing.TB) *Cluster {
	t.Helper()
	skipWhenShort(t)
	cluster := <-slots()
	if cluster == nil { // another one may run
		select {
		case cluster = <-slots():
			slots() <- nil
		default:
		}
	}
	running := cluster
	t.Cleanup(func() { slots() <- running })
	if cluster == nil {
		dir, err := os.MkdirTemp("", tempPrefix)
		if err != nil {
			t.Fatal(err)
		}
		cluster = startIn(t, dir, "--rm")
	}
	t.Cleanup(func() {
		cluster.Resume(t)
		if running = cluster; cluster.runs() && !t.Failed() {
			return
		}
		running = nil
		cluster.Kill(t)
		_ = os.RemoveAll(cluster.dir) // what stays is removed by a later sweep
	})
	return cluster
}

// runs reports whether the cluster was not left killed.
func (c *Cluster) runs() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.process != nil
}

func skipWhenShort(t testing.TB) {
	t.Helper()
	if testing.Short() {
		t.Skip("needs a Kubernetes API server; -short is set")
	}
}

// startShared returns the cluster of the go test that runs this binary and starts it when no
// other binary has done so. It stops by itself: it sees that its owner is gone, and removes its
// directory.
func startShared() (*Cluster, error) {
	sweep(os.TempDir())
	root, err := repositoryRoot()
	if err != nil {
		return nil, err
	}
	if err := build(root, ofVersion(buildCluster)); err != nil {
		return nil, err
	}
	unlock, err := lockFile(filepath.Join(root, binDir, ".shared.lock"))
	if err != nil {
		return nil, err
	}
	defer unlock()
	owner := owner()
	dir := filepath.Join(os.TempDir(), tempPrefix+strconv.Itoa(owner))
	if _, err := os.Stat(filepath.Join(dir, "kubeconfig")); err == nil {
		if !abandoned(filepath.Join(dir, "lock")) {
			return newCluster(root, dir, nil)
		}
		// Of an older process of the same number, which was killed with its cluster.
		if err := os.RemoveAll(dir); err != nil {
			return nil, err
		}
	}
	return start(root, dir, "--rm", "--parent-pid", strconv.Itoa(owner))
}

// owner returns the process whose end ends the shared cluster: go test, which starts one
// binary for each package, and else this process. Only go test sets paniconexit0.
func owner() int {
	if f := flag.Lookup("test.paniconexit0"); f != nil && f.Value.String() == "true" {
		return os.Getppid()
	}
	return os.Getpid()
}

// start runs the program on dir.
func start(root, dir string, flags ...string) (*Cluster, error) {
	process, err := startProcess(root, dir, flags...)
	if err != nil {
		return nil, err
	}
	cluster, err := newCluster(root, dir, process)
	if err != nil {
		process.kill()
		return nil, err
	}
	cluster.flags = flags
	return cluster, nil
}

// newCluster is the cluster that runs on dir.
func newCluster(root, dir string, process *process) (*Cluster, error) {
	cluster := &Cluster{root: root, dir: dir, process: process}
	var err error
	if cluster.config, err = clientcmd.BuildConfigFromFlags("", cluster.Kubeconfig()); err != nil {
		return nil, err
	}
	cluster.config.QPS = -1
	cluster.config.WarningHandler = rest.NoWarnings{}
	return cluster, nil
}

// Kubeconfig returns the path of an admin's kubeconfig. It stays valid across
// Kill and Restart.
func (c *Cluster) Kubeconfig() string {
	return filepath.Join(c.dir, "kubeconfig")
}

// RESTConfig returns a client configuration of the admin, the caller's to
// change, without a limit on requests per second. It stays valid across Kill
// and Restart.
func (c *Cluster) RESTConfig() *rest.Config {
	return rest.CopyConfig(c.config)
}

// Tools returns a directory for PATH that has kubectl and jq, for hooks in
// tests; it builds them when they are not there.
func (c *Cluster) Tools(t testing.TB) string {
	t.Helper()
	if err := tools(); err != nil {
		t.Fatal(err)
	}
	return filepath.Join(c.root, binDir)
}

// tools builds them, or finds that they are there, once for all tests of a binary.
var tools = sync.OnceValue(func() error {
	root, err := repositoryRoot()
	if err != nil {
		return err
	}
	return build(root, buildTools)
})

// Kill ends the cluster as a power cut would (SIGKILL), and returns when its
// connections are gone. On a killed cluster it does nothing.
func (c *Cluster) Kill(t testing.TB) {
	t.Helper()
	c.mustBeOwn(t)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.process != nil {
		c.process.kill()
		c.process = nil
	}
}

// Restart kills the cluster if it runs and starts it again, on the same port
// and with the same data; it returns when the cluster is ready.
func (c *Cluster) Restart(t testing.TB) {
	t.Helper()
	c.Kill(t)
	c.mu.Lock()
	defer c.mu.Unlock()
	// Asked for by name, the port is the same or the start fails; left to the
	// program, a port taken meanwhile would be replaced and clients be lost.
	_, port, err := net.SplitHostPort(strings.TrimPrefix(c.config.Host, "https://"))
	if err != nil {
		t.Fatal(err)
	}
	process, err := startProcess(c.root, c.dir, append([]string{"--port", port}, c.flags...)...)
	if err != nil {
		t.Fatal(err)
	}
	c.process = process
}

// Backup stops the running cluster for the time of a copy, and returns what restores the state
// that it has now: this restarts it.
func (c *Cluster) Backup(t testing.TB) (restore func()) {
	t.Helper()
	data, backup := filepath.Join(c.dir, "etcd"), filepath.Join(t.TempDir(), "etcd")
	c.Pause(t)
	err := errors.Join(c.awaitPause(), os.CopyFS(backup, os.DirFS(data)))
	c.Resume(t)
	if err != nil {
		t.Fatal(err)
	}
	return func() {
		t.Helper()
		c.Kill(t)
		if err := errors.Join(os.RemoveAll(data), os.CopyFS(data, os.DirFS(backup))); err != nil {
			t.Fatal(err)
		}
		c.Restart(t)
	}
}

// Pause stops the cluster as a machine that hangs: its connections stay open without an answer.
// Resume ends that; on a killed cluster both do nothing.
func (c *Cluster) Pause(t testing.TB) {
	t.Helper()
	c.signal(t, syscall.SIGSTOP)
}

// Resume ends a Pause.
func (c *Cluster) Resume(t testing.TB) {
	t.Helper()
	c.signal(t, syscall.SIGCONT)
}

// awaitPause waits until no thread of a paused cluster runs any more: from then on its files
// are those that a crash would leave.
func (c *Cluster) awaitPause() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.process == nil {
		return nil
	}
	for {
		var status syscall.WaitStatus
		_, err := syscall.Wait4(c.process.command.Process.Pid, &status, syscall.WUNTRACED, nil)
		switch {
		case errors.Is(err, syscall.EINTR):
		case err != nil:
			return fmt.Errorf("waiting until the cluster has stopped: %w", err)
		case !status.Stopped():
			return errors.New("the cluster has ended")
		default:
			return nil
		}
	}
}

func (c *Cluster) signal(t testing.TB, signal syscall.Signal) {
	t.Helper()
	c.mustBeOwn(t)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.process == nil {
		return
	}
	if err := c.process.command.Process.Signal(signal); err != nil {
		t.Fatal(err)
	}
}

func (c *Cluster) mustBeOwn(t testing.TB) {
	t.Helper()
	if !c.own {
		t.Fatal("this cluster is shared by all tests: use devclustertest.StartOwn to kill or restart one")
	}
}

// process is one run of the program.
type process struct {
	command *exec.Cmd
	ready   string // the line that said so, without its end
}

// startProcess runs the program on dir and returns when it is ready. It ends
// with this process, or with that of the flag --parent-pid: it gets the process to
// watch, so that not even a kill between its fork and its first look leaves it
// behind.
func startProcess(root, dir string, flags ...string) (*process, error) {
	args := append([]string{"--dir", dir, "--parent-pid", strconv.Itoa(os.Getpid())}, flags...)
	command := exec.Command(filepath.Join(root, binDir, clusterProgram()), args...)
	// Its start leaves much garbage: a collector that works less saves a quarter of its processor
	// time.
	command.Env = append(os.Environ(), "GOGC=400", "GOMEMLIMIT=700MiB")
	// A pipe of our own, not ours to inherit: go test waits for every process that
	// holds the test's output open.
	stdout, err := command.StdoutPipe()
	if err != nil {
		return nil, err
	}
	// A file and no pipe: the program may outlive this process, and a write into a pipe
	// without a reader would end it.
	complaint, err := os.CreateTemp("", tempPrefix+"stderr-")
	if err != nil {
		return nil, err
	}
	defer complaint.Close()
	defer os.Remove(complaint.Name())
	command.Stderr = complaint
	if err := command.Start(); err != nil {
		return nil, fmt.Errorf("starting devcluster: %w", err)
	}
	// The program bounds its start itself and ends when it does not make it;
	// then the pipe closes.
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil || !strings.HasPrefix(line, "devcluster ready:") {
		_ = command.Process.Kill()
		err = errors.Join(err, command.Wait())
		text, _ := os.ReadFile(complaint.Name()) // what it has said makes the error better
		return nil, fmt.Errorf("devcluster did not start: %w\n%s", err, text)
	}
	return &process{command: command, ready: strings.TrimSpace(line)}, nil
}

// kill ends the process without giving it a chance, and waits until it is
// gone. Its error says only that it was killed.
func (p *process) kill() {
	_ = p.command.Process.Kill()
	_ = p.command.Wait()
}

// tempPrefix begins the names of the directories of shared clusters.
const tempPrefix = "devcluster-"

// sweepAge spares a cluster that has its directory and not yet its lock.
const sweepAge = time.Minute

// sweep removes directories of shared clusters that were killed before they
// could remove them; each holds about 100 MB. A running cluster holds the lock
// in its directory. What cannot be removed stays: it belongs to another user.
func sweep(temp string) {
	locks, err := filepath.Glob(filepath.Join(temp, tempPrefix+"*", "lock"))
	if err != nil {
		return // only a wrong pattern
	}
	for _, lock := range locks {
		info, err := os.Stat(lock)
		if err == nil && time.Since(info.ModTime()) > sweepAge && abandoned(lock) {
			_ = os.RemoveAll(filepath.Dir(lock))
		}
	}
}

// abandoned reports whether the lock is free.
func abandoned(lock string) bool {
	file, err := os.OpenFile(lock, os.O_RDWR, 0)
	if err != nil {
		return false
	}
	defer file.Close()
	return syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil
}
