package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"syscall"
	"time"

	"github.com/spf13/pflag"
	"go.etcd.io/etcd/client/pkg/v3/transport"
	"go.etcd.io/etcd/server/v3/embed"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	cliflag "k8s.io/component-base/cli/flag"
	"k8s.io/component-base/version"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/cmd/kube-apiserver/app"
	apioptions "k8s.io/kubernetes/cmd/kube-apiserver/app/options"
)

// startTimeout bounds the way from exec to ready. An idle machine needs 3 to
// 4 s; one with a compiler on every core, ten times that.
const startTimeout = 3 * time.Minute

// The components get this long to end in order. Nothing is lost when they do
// not make it: etcd has written what it acknowledged, and what a process wrote
// survives the process.
const (
	controllersGrace = 3 * time.Second
	apiServerGrace   = 5 * time.Second
)

// serve runs the cluster in o.dir until ctx ends, and returns nil then.
func serve(ctx context.Context, o options, stdout, stderr io.Writer) error {
	dir, err := filepath.Abs(o.dir)
	if err != nil {
		return fmt.Errorf("--dir %s: %w", o.dir, err)
	}
	unlock, err := lockDir(dir)
	if err != nil {
		return err
	}
	defer unlock()
	if o.remove {
		defer removeDir(dir)
	}
	logPath, err := redirectLogs(dir, o.verbosity, stderr)
	if err != nil {
		return err
	}
	err = runCluster(ctx, dir, o, stdout)
	if err != nil && ctx.Err() == nil {
		return fmt.Errorf("%w (see %s)", err, logPath)
	}
	return nil
}

// component is a part of the cluster that runs in its own goroutine.
type component struct {
	cancel context.CancelFunc
	done   chan struct{} // closed when it has ended
	err    error         // why; to be read after done
}

// launch runs f with a context that does not end with ctx: components are
// stopped one after the other, the controllers before their API server.
func launch(ctx context.Context, name string, f func(context.Context) error) *component {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	c := &component{cancel: cancel, done: make(chan struct{})}
	go func() {
		defer close(c.done)
		err := f(ctx)
		if err == nil {
			err = errors.New("ended by itself")
		}
		c.err = fmt.Errorf("%s: %w", name, err)
	}()
	return c
}

// stop ends the component and waits for it, at most grace.
func (c *component) stop(grace time.Duration) {
	c.cancel()
	select {
	case <-c.done:
	case <-time.After(grace):
	}
}

// runCluster starts the components in order, says so, and stops them in the
// opposite order when ctx ends or one of them does.
func runCluster(ctx context.Context, dir string, o options, stdout io.Writer) error {
	listener, err := listen(dir, o.port)
	if err != nil {
		return err
	}
	defer listener.Close()
	keys, err := ensurePKI(filepath.Join(dir, "pki"))
	if err != nil {
		return err
	}
	access, err := ensureAccess(dir, listener.Addr().String(), keys)
	if err != nil {
		return err
	}
	store, err := startEtcd(filepath.Join(dir, "etcd"), keys)
	if err != nil {
		return err
	}
	defer store.Close()

	// One limit for all of what follows. The deferred calls stop the components in the opposite
	// order, each while those that it needs still run.
	started, cancelStart := context.WithTimeout(ctx, startTimeout)
	defer cancelStart()
	server := launch(ctx, "kube-apiserver", func(ctx context.Context) error {
		return runAPIServer(ctx, listener, store.endpoint, keys, access)
	})
	defer server.stop(apiServerGrace)
	if err := waitFor(started, server, access.apiServerReady); err != nil {
		return err
	}
	controllers := launch(ctx, "kube-controller-manager", func(ctx context.Context) error {
		return runControllers(ctx, keys, access, o.node)
	})
	defer controllers.stop(controllersGrace)
	if err := waitFor(started, controllers, access.controllersReady); err != nil {
		return err
	}

	fmt.Fprintf(stdout, "devcluster ready: KUBECONFIG=%s server=%s version=%s\n", access.kubeconfig, access.server, version.Get().GitVersion)
	select {
	case <-ctx.Done():
		return nil
	case <-server.done:
		return server.err
	case <-controllers.done:
		return controllers.err
	case err := <-store.Err():
		return fmt.Errorf("etcd: %w", err)
	}
}

// waitFor calls ready, 40 times a second, until it returns no error, the component ends, or ctx
// does. A component that ends is reported with its own error, which is the cause.
func waitFor(ctx context.Context, c *component, ready func(context.Context) error) error {
	tick := time.NewTicker(25 * time.Millisecond)
	defer tick.Stop()
	for {
		err := ready(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("not ready after %s: %w", startTimeout, err)
		case <-c.done:
			return c.err
		case <-tick.C:
		}
	}
}

// loopback is the only interface the cluster listens on.
const loopback = "127.0.0.1"

// runAPIServer runs kube-apiserver on the listener until ctx ends.
func runAPIServer(ctx context.Context, listener net.Listener, etcdEndpoint string, keys pki, access access) error {
	o := apioptions.NewServerRunOptions()
	err := parseFlags(o.Flags(),
		"--etcd-servers="+etcdEndpoint, "--etcd-cafile="+keys.ca, "--etcd-certfile="+keys.cert, "--etcd-keyfile="+keys.key,
		"--bind-address="+loopback, "--tls-cert-file="+keys.cert, "--tls-private-key-file="+keys.key,
		"--authorization-mode=RBAC", "--token-auth-file="+access.tokens,
		"--service-account-issuer=https://kubernetes.default.svc",
		"--service-account-key-file="+keys.tokenKey, "--service-account-signing-key-file="+keys.tokenKey,
		"--service-cluster-ip-range="+serviceRange,
		"--allow-privileged=true", "--kubelet-certificate-authority="+keys.ca,
		// The Service "kubernetes" is for Pods, and none ever runs. Its
		// Endpoints may not hold a loopback address.
		"--endpoint-reconciler-type=none", "--advertise-address="+loopback,
		// Fairness between clients, and profiles, cost time that a test waits.
		"--enable-priority-and-fairness=false", "--profiling=false",
	)
	if err != nil {
		return err
	}
	// Opened by us, so that the port cannot be taken between choice and use.
	o.SecureServing.Listener = listener
	if err := o.GenericServerRunOptions.ComponentGlobalsRegistry.Set(); err != nil {
		return err
	}
	completed, err := o.Complete(ctx)
	if err != nil {
		return err
	}
	if problems := completed.Validate(); len(problems) > 0 {
		return utilerrors.NewAggregate(problems)
	}
	return app.Run(ctx, completed)
}

// parseFlags sets the options behind the sections the way the component's own
// command line would.
func parseFlags(sections cliflag.NamedFlagSets, args ...string) error {
	flags := pflag.NewFlagSet("component", pflag.ContinueOnError)
	for _, section := range sections.FlagSets {
		flags.AddFlagSet(section)
	}
	return flags.Parse(args)
}

// etcdTimeout bounds etcd's start; alone in its cluster it needs milliseconds,
// or a second when it has a long log to read.
const etcdTimeout = time.Minute

// etcd is the running store.
type etcd struct {
	*embed.Etcd
	endpoint string // URL for clients
}

// startEtcd opens the store in dir and returns when it serves. Both its ports
// are free ones and ask for a certificate of the cluster: not every user of the
// machine may read what is in etcd.
func startEtcd(dir string, keys pki) (*etcd, error) {
	if err := os.MkdirAll(dir, dirMode); err != nil {
		return nil, fmt.Errorf("etcd: %w", err)
	}
	anyPort := url.URL{Scheme: "https", Host: loopback + ":0"}
	tls := transport.TLSInfo{CertFile: keys.cert, KeyFile: keys.key, TrustedCAFile: keys.ca, ClientCertAuth: true}

	config := embed.NewConfig()
	config.Dir = dir
	config.ListenClientUrls, config.AdvertiseClientUrls = []url.URL{anyPort}, []url.URL{anyPort}
	config.ListenPeerUrls, config.AdvertisePeerUrls = []url.URL{anyPort}, []url.URL{anyPort}
	config.InitialCluster = config.InitialClusterFromName(config.Name)
	config.ClientTLSInfo, config.PeerTLSInfo = tls, tls
	// A crash of the machine may cost the data of a test cluster; a crash of
	// the process does not.
	config.UnsafeNoFsync = true
	// The only member need not wait for the others before it leads.
	config.TickMs, config.ElectionMs = 20, 200
	config.EnableGRPCGateway = false // it has no JSON clients
	config.LogLevel, config.LogOutputs = "error", []string{"stderr"}

	server, err := embed.StartEtcd(config)
	if err != nil {
		return nil, fmt.Errorf("etcd: %w", err)
	}
	select {
	case <-server.Server.ReadyNotify():
	case err := <-server.Err():
		server.Close()
		return nil, fmt.Errorf("etcd: %w", err)
	case <-time.After(etcdTimeout):
		server.Close()
		return nil, errors.New("etcd: not ready after a minute")
	}
	return &etcd{Etcd: server, endpoint: "https://" + server.Clients[0].Addr().String()}, nil
}

// parentPoll is how often the parent is checked. The kernel's own signal for
// this (PR_SET_PDEATHSIG) fires when the *thread* that forked us ends, which
// for a parent written in Go can be at any time; so it is polled.
const parentPoll = 250 * time.Millisecond

// withParent returns a context that ends with ctx or with the process pid;
// pid 0 means ctx alone.
func withParent(ctx context.Context, pid int) context.Context {
	if pid == 0 {
		return ctx
	}
	ctx, cancel := context.WithCancel(ctx)
	direct := os.Getppid() == pid
	go func() {
		defer cancel()
		tick := time.NewTicker(parentPoll)
		defer tick.Stop()
		for !gone(pid, direct) {
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
		}
	}()
	return ctx
}

// gone reports whether the process pid has ended. A direct parent that ended
// loses its children at once, even while it is a zombie which still takes
// signals; of any other process we can only ask whether a signal would arrive.
func gone(pid int, direct bool) bool {
	if direct {
		return os.Getppid() != pid
	}
	return errors.Is(syscall.Kill(pid, 0), syscall.ESRCH)
}

// redirectLogs sends everything that the components would print to
// dir/devcluster.log, whose path it returns; the log of the run before stays
// as devcluster.log.old.
//
// The components share the process-wide klog and write to os.Stderr, so this
// sets process-wide state: it is called once, before any of them starts. The
// stderr given is ours, for the one message that must not hide in a file.
func redirectLogs(dir string, verbosity int, stderr io.Writer) (string, error) {
	path := filepath.Join(dir, "devcluster.log")
	if err := os.Rename(path, path+".old"); err != nil && !os.IsNotExist(err) {
		return "", fmt.Errorf("keeping the previous log: %w", err)
	}
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, fileMode)
	if err != nil {
		return "", fmt.Errorf("opening the log: %w", err)
	}
	os.Stdout, os.Stderr = file, file
	if err := debug.SetCrashOutput(file, debug.CrashOptions{}); err != nil {
		return "", fmt.Errorf("sending crashes to the log: %w", err)
	}

	flags := flag.NewFlagSet("klog", flag.ContinueOnError)
	klog.InitFlags(flags)
	if err := flags.Set("v", strconv.Itoa(verbosity)); err != nil {
		return "", fmt.Errorf("-v %d: %w", verbosity, err)
	}
	// A component that gives up calls klog.Fatal or klog.FlushAndExit.
	exit := klog.OsExit
	klog.OsExit = func(code int) {
		fmt.Fprintf(stderr, "devcluster: a component ended the process with code %d (see %s)\n", code, path)
		exit(code)
	}
	return path, nil
}
