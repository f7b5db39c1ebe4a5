package kube

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"time"

	"k8s.io/client-go/rest"
)

// ErrNotLeading is what a write fails with while the Fence is closed.
var ErrNotLeading = errors.New("this replica does not lead, so it must not write")

// ErrReleased is the cause of a Fence that was shut in good order: the Lease was given back.
var ErrReleased = errors.New("the lease was released")

// Fence lets requests that write through to the API server only while this replica
// leads (L5). It opens when its Lease is acquired, stays open for the renew deadline
// after the beginning of each successful renewal, and once shut stays shut: a process
// that has lost the lease must end.
//
// It is below everything else that could wait: it checks a request at the moment at which that is
// sent, however long a retry, a rate limit or a pool of connections has held it back.
type Fence struct {
	ctx  context.Context // done when the fence is shut, with the cause
	shut context.CancelCauseFunc

	mu    sync.Mutex
	until time.Time // zero: never opened
	timer *time.Timer
}

// NewFence makes a closed Fence.
func NewFence() *Fence {
	f := &Fence{}
	f.ctx, f.shut = context.WithCancelCause(context.Background())
	return f
}

// Check returns why this replica may not act as the leader; nil when it may. Every error is
// ErrNotLeading; after the end it is the cause, too. A deadline that has passed shuts the fence
// here if the timer is late, as after the process was stopped.
func (f *Fence) Check() error {
	if f.ctx.Err() != nil {
		return fmt.Errorf("%w: %w", ErrNotLeading, context.Cause(f.ctx))
	}
	f.mu.Lock()
	until := f.until
	f.mu.Unlock()
	switch {
	case until.IsZero():
		return fmt.Errorf("%w: it is a standby", ErrNotLeading)
	case passed(until):
		f.expire(until)
		return f.Check()
	}
	return nil
}

// Lost is done when the leadership is over: lost, or released. Its cause is the reason.
func (f *Fence) Lost() context.Context { return f.ctx }

// extend keeps the fence open until the given time. A process that was stopped in the
// middle of a renewal may come too late for it.
func (f *Fence) extend(until time.Time) error {
	f.mu.Lock()
	before := f.until
	if f.ctx.Err() == nil && !passed(until) && (before.IsZero() || !passed(before)) {
		f.until = until
		if f.timer != nil {
			f.timer.Stop()
		}
		f.timer = time.AfterFunc(time.Until(until), func() { _ = f.Check() }) // Check shuts
		f.mu.Unlock()
		return nil
	}
	f.mu.Unlock()
	f.expire(until)
	return f.Check()
}

// expire shuts the fence because of a deadline. It has no effect on one that is shut: the first
// cause stays.
func (f *Fence) expire(until time.Time) {
	f.shut(fmt.Errorf("the lease was not renewed in time, the deadline was %s", until.UTC().Format(time.RFC3339Nano)))
}

// passed looks at both clocks: the monotonic one of the process may stand still while the
// machine is suspended, and the one on the wall may be set back.
func passed(t time.Time) bool {
	now := time.Now()
	return !now.Before(t) || !now.Round(0).Before(t.Round(0))
}

// guard makes all clients of a configuration go through the fence: requests that write
// when they are handed to a connection, and everything when it is written to one after
// the leadership is over.
func (f *Fence) guard(config *rest.Config) {
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return fenced{f, next} })
	// The timeouts are those that the library gives a dialer of its own.
	dialer := &net.Dialer{Timeout: 30 * time.Second, KeepAlive: 30 * time.Second}
	config.Dial = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dialer.DialContext(ctx, network, address)
		if err != nil {
			return nil, err
		}
		return fencedConn{conn, f}, nil
	}
}

// fenced refuses requests that write, and cuts those that are under way when the fence
// is shut.
type fenced struct {
	fence *Fence
	next  http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (t fenced) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.Method == http.MethodGet || req.Method == http.MethodHead {
		return t.next.RoundTrip(req)
	}
	if err := t.fence.Check(); err != nil {
		if req.Body != nil {
			_ = req.Body.Close() // the contract of RoundTripper
		}
		return nil, err
	}
	ctx, cancel := context.WithCancelCause(req.Context())
	stop := context.AfterFunc(t.fence.ctx, func() { cancel(context.Cause(t.fence.ctx)) })
	release := func() { stop(); cancel(nil) }
	resp, err := t.next.RoundTrip(req.WithContext(ctx))
	if err != nil {
		release()
		return nil, err
	}
	resp.Body = &releasingBody{resp.Body, release}
	return resp, nil
}

// WrappedRoundTripper lets the libraries find what they look for in the transport.
func (t fenced) WrappedRoundTripper() http.RoundTripper { return t.next }

// releasingBody frees what a request holds when its answer has been read.
type releasingBody struct {
	io.ReadCloser
	release func()
}

// Close implements io.Closer.
func (b *releasingBody) Close() error {
	err := b.ReadCloser.Close()
	b.release()
	return err
}

// fencedConn writes nothing after the leadership is over. A request that has passed the fence waits
// in queues of the HTTP client before its bytes are sent; a process that is stopped then would send
// them when it continues.
type fencedConn struct {
	net.Conn
	fence *Fence
}

// Write implements net.Conn.
func (c fencedConn) Write(data []byte) (int, error) {
	c.fence.mu.Lock()
	opened := !c.fence.until.IsZero()
	c.fence.mu.Unlock()
	if opened { // a follower may read, and fenced has refused its writes
		if err := c.fence.Check(); err != nil {
			return 0, err
		}
	}
	return c.Conn.Write(data)
}
