package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"time"

	"k8s.io/component-base/version"
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
