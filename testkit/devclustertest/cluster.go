package devclustertest

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
)

// Cluster is a running control plane.
type Cluster struct {
	root   string // of the repository
	dir    string // of the cluster
	config *rest.Config
	own    bool // of one test, which may kill it

	mu      sync.Mutex
	process *process // nil while killed
}

// shared is the cluster of this test binary.
var shared = sync.OnceValues(startShared)

// Start returns the cluster that all tests of this binary share; the first
// call starts it. It ends with the test binary, however that ends. With -short
// the test is skipped.
func Start(t testing.TB) *Cluster {
	t.Helper()
	skipWhenShort(t)
	cluster, err := shared()
	if err != nil {
		t.Fatal(err)
	}
	return cluster
}

// StartOwn starts a cluster for this test alone, which may Kill and Restart
// it. It is stopped, and its data removed, at the end of the test.
func StartOwn(t testing.TB) *Cluster {
	t.Helper()
	skipWhenShort(t)
	cluster, err := start(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	cluster.own = true
	t.Cleanup(func() { cluster.Kill(t) })
	return cluster
}

func skipWhenShort(t testing.TB) {
	t.Helper()
	if testing.Short() {
		t.Skip("needs a Kubernetes API server; -short is set")
	}
}

// startShared starts the cluster that nobody stops: it sees that the test
// binary is gone, and removes its directory.
func startShared() (*Cluster, error) {
	sweep(os.TempDir())
	dir, err := os.MkdirTemp("", tempPrefix)
	if err != nil {
		return nil, err
	}
	return start(dir, "--rm")
}

// start builds the program when needed and runs it on dir.
func start(dir string, flags ...string) (*Cluster, error) {
	root, err := repositoryRoot()
	if err != nil {
		return nil, err
	}
	if err := build(root, buildCluster); err != nil {
		return nil, err
	}
	process, err := startProcess(root, dir, flags...)
	if err != nil {
		return nil, err
	}
	cluster := &Cluster{root: root, dir: dir, process: process}
	cluster.config, err = clientcmd.BuildConfigFromFlags("", cluster.Kubeconfig())
	if err != nil {
		process.kill()
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
	if err := build(c.root, buildTools); err != nil {
		t.Fatal(err)
	}
	return filepath.Join(c.root, binDir)
}

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
	process, err := startProcess(c.root, c.dir, "--port", port)
	if err != nil {
		t.Fatal(err)
	}
	c.process = process
}

// Pause stops the cluster as a machine that hangs: its connections stay open and nobody answers.
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
		t.Fatal("this cluster is shared by all tests of the binary: use devclustertest.StartOwn to kill or restart one")
	}
}
