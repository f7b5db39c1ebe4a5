package kube

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	typedcoordinationv1 "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/rest"
)

// LeaseOptions are the Lease for which a replica competes, and the durations of the election.
type LeaseOptions struct {
	Namespace, Name string
	Identity        string // of this process; no two processes have the same
	// A leader renews each RetryPeriod. It stops acting RenewDeadline after the beginning of its
	// last successful renewal. Another replica takes over Duration after it has seen that renewal,
	// at the earliest. The time in between is for killing hooks and cutting off writes.
	Duration, RenewDeadline, RetryPeriod time.Duration
}

// UsualLease has the times of the components of Kubernetes: a leader that hangs is replaced after 15 s, and has 5 s of
// them to kill its hooks and to stop writing.
func UsualLease() LeaseOptions {
	return LeaseOptions{Duration: 15 * time.Second, RenewDeadline: 10 * time.Second, RetryPeriod: 2 * time.Second}
}

// LeaseStatus is the view that a replica has of the leader.
type LeaseStatus struct {
	Identity    string    // of this replica
	Leading     bool      // this replica leads
	Holder      string    // identity of the leader; empty when there is none
	Since       time.Time // of Holder, or of none, as this replica saw it
	Transitions int       // how often the Lease changed hands
	Problem     string    // last error while accessing the Lease; empty when there is none
}

// Lease is the part of one replica in the election of a leader (L1). It does what the election of client-go does, but
// for three things that make it safe to act on: its Fence is open no longer than the Lease is certainly held, counted
// from before each request; what another client has written is bounded; and a Lease that was deleted is no free one.
type Lease struct {
	options LeaseOptions
	fence   *Fence
	log     *slog.Logger
	api     typedcoordinationv1.LeaseInterface

	end     context.CancelFunc // of the competition; nil: Compete was not called
	stopped chan struct{}      // closed at its end
	won     context.Context    // done when this replica leads; it stays so after the end
	win     context.CancelFunc

	mu     sync.Mutex
	status LeaseStatus
	// held is the Lease as this replica has written it, while it is the holder. It is renewed without a look: if it has
	// changed, the API server answers with a conflict.
	held    *coordinationv1.Lease
	version string    // of the Lease as this replica saw it last
	expires time.Time // when the holder has lost it, if this replica sees no renewal before
	bid     bool      // a request was sent that may have taken the Lease
	waited  bool      // an attempt has failed before the first that has not
}

// The pauses of a follower between two looks at the Lease: one that is released is taken within that time.
const followerPause = time.Second

// longestLease is for how much longer than its own duration a replica follows a holder that does not renew: replicas
// with other options hold the Lease longer, but one wrong write must not stop all replicas for years.
const longestLease = 10

// NewLease prepares the competition for a Lease. It makes no request. The client must
// have been connected with a Fence.
func (c *Client) NewLease(o LeaseOptions) (*Lease, error) {
	if c.fence == nil {
		return nil, errors.New("bug: a lease needs a client with a fence")
	}
	// A request that hangs must leave time for a second one.
	short := rest.CopyConfig(c.unfenced)
	short.QPS, short.Timeout = -1, o.RenewDeadline/2
	client, err := typedcoordinationv1.NewForConfig(short)
	if err != nil {
		return nil, fmt.Errorf("client for leases: %w", err)
	}
	won, win := context.WithCancel(context.Background())
	return &Lease{
		options: o, fence: c.fence, log: c.log, api: client.Leases(o.Namespace),
		stopped: make(chan struct{}), won: won, win: win,
		status: LeaseStatus{Identity: o.Identity, Since: time.Now()},
	}, nil
}

// Compete begins to compete for the Lease, until this replica leads or ctx ends. From then
// on the Lease is renewed until Release; Fence.Lost is done when a renewal fails.
// Compete is called once.
func (l *Lease) Compete(ctx context.Context) {
	ctx, l.end = context.WithCancel(context.WithoutCancel(ctx))
	go func() {
		defer close(l.stopped)
		for ctx.Err() == nil && l.fence.ctx.Err() == nil {
			// Not with ctx: it would leave open whether a request that is cut has taken the Lease.
			l.attempt(context.WithoutCancel(ctx))
			pause := l.options.RetryPeriod
			if l.won.Err() == nil {
				pause = wait.Jitter(min(pause, followerPause), 0.2)
			}
			select {
			case <-time.After(pause):
			case <-ctx.Done():
			case <-l.fence.ctx.Done():
			}
		}
	}()
}

// Waited reports whether this replica has been a standby: the Lease had a holder, or could not be read.
func (l *Lease) Waited() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.waited
}

// Await returns nil when this replica leads. When ctx ends before, it is no longer competed
// for.
func (l *Lease) Await(ctx context.Context) error {
	select {
	case <-l.won.Done():
		return nil
	case <-l.fence.ctx.Done():
		return context.Cause(l.fence.ctx)
	case <-ctx.Done():
		l.Release()
		return context.Cause(ctx)
	}
}

// attempt renews the Lease, or takes it when it may be taken.
func (l *Lease) attempt(ctx context.Context) {
	began := time.Now()
	l.mu.Lock()
	lease := l.held
	l.held = nil
	l.mu.Unlock()
	var err error
	if lease == nil {
		lease, err = l.api.Get(ctx, l.options.Name, metav1.GetOptions{})
		absent := apierrors.IsNotFound(err)
		if err != nil && !absent {
			l.failed(err)
			return
		}
		if absent {
			lease = &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: l.options.Namespace, Name: l.options.Name}}
		} else {
			l.observe(lease)
		}
		if err := l.mayTake(absent); err != nil || l.fence.ctx.Err() != nil {
			l.failed(err)
			return
		}
	}
	lease = l.taken(lease)
	if lease.ResourceVersion == "" {
		lease, err = l.api.Create(ctx, lease, metav1.CreateOptions{})
	} else {
		lease, err = l.api.Update(ctx, lease, metav1.UpdateOptions{})
	}
	if err == nil {
		// The fence counts from before the request, because the moment at which it took effect is unknown.
		err = l.fence.extend(began.Add(l.options.RenewDeadline))
	}
	if apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) {
		err = errNotOurs // another replica was faster
	}
	if err != nil {
		l.failed(err)
		return
	}
	l.observe(lease)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.held, l.status.Problem = lease, ""
	l.win()
}

// errNotOurs is why a Lease may not be taken that another replica holds, which is no problem.
var errNotOurs = errors.New("another replica holds the lease")

// mayTake returns why the Lease may not be taken. Its holder may still act when it was deleted.
func (l *Lease) mayTake(absent bool) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	holder := l.status.Holder
	switch {
	case holder == "" || holder == l.options.Identity || passed(l.expires):
		return nil
	case absent:
		return fmt.Errorf("the lease was deleted while %s held it; it may be taken when it would have expired", holder)
	}
	return errNotOurs
}

// taken is the Lease with this replica as its holder.
func (l *Lease) taken(before *coordinationv1.Lease) *coordinationv1.Lease {
	l.mu.Lock()
	l.bid = true
	l.mu.Unlock()
	lease, now := before.DeepCopy(), metav1.NowMicro()
	spec := &lease.Spec
	// One more must fit into its field, whatever another client has written.
	transitions := min(max(0, pointed(spec.LeaseTransitions)), math.MaxInt32-1)
	if pointed(spec.HolderIdentity) != l.options.Identity {
		spec.AcquireTime = &now
		if before.ResourceVersion != "" {
			transitions++
		}
	}
	spec.LeaseTransitions = &transitions
	spec.HolderIdentity, spec.RenewTime = &l.options.Identity, &now
	spec.LeaseDurationSeconds = new(int32(l.options.Duration / time.Second))
	return lease
}

// pointed is the value of a field that may be absent.
func pointed[T any](field *T) (value T) {
	if field != nil {
		value = *field
	}
	return value
}

// observe notes the Lease as it is: a holder has it for its duration from the moment at which this replica has seen a
// renewal. A leader that sees another holder shuts its fence.
func (l *Lease) observe(lease *coordinationv1.Lease) {
	holder := pointed(lease.Spec.HolderIdentity)
	seconds := min(max(1, int(pointed(lease.Spec.LeaseDurationSeconds))), longestLease*int(l.options.Duration/time.Second))
	l.mu.Lock()
	was := l.status.Holder
	if holder != was {
		l.status.Holder, l.status.Since = holder, time.Now()
	}
	if version := lease.ResourceVersion; version != l.version {
		l.version, l.expires = version, time.Now().Add(time.Duration(seconds)*time.Second)
	}
	l.status.Transitions = int(pointed(lease.Spec.LeaseTransitions))
	expires := l.expires
	l.mu.Unlock()
	switch {
	case holder == "" || holder == l.options.Identity:
	case was == l.options.Identity:
		l.fence.shut(fmt.Errorf("the lease was taken by %q", holder))
	case was != holder:
		l.log.Info("another replica holds the lease: this one waits until it is released or expires", "holder", holder, "lease", l.options.Name, "expires", expires.UTC().Format(time.RFC3339))
	}
}

// failed notes why this replica does not lead now.
func (l *Lease) failed(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.status.Problem = ""; err != nil && !errors.Is(err, errNotOurs) {
		l.status.Problem = err.Error()
	}
	if !l.waited && l.won.Err() == nil {
		l.waited = true
		l.log.Info("standby begins", "identity", l.options.Identity, "lease", l.options.Name)
	}
}

// Release gives the Lease back, so that another replica takes over at once. Everything that the
// leader does must have ended; the fence lets no write pass from here on. It returns when the Lease
// is released, or when it could not be in time: within twice the RenewDeadline.
func (l *Lease) Release() {
	lost := l.fence.ctx.Err() != nil // what was lost is not ours to release
	l.fence.shut(ErrReleased)
	if l.end == nil {
		return // it never competed
	}
	l.end()
	err := errors.New("a request for it takes too long")
	select {
	case <-l.stopped:
		l.mu.Lock()
		mine := l.bid && !lost
		l.mu.Unlock()
		if !mine {
			return
		}
		err = l.giveBack()
	case <-time.After(l.options.RenewDeadline):
	}
	if err != nil {
		l.log.Warn("the lease could not be released; another replica takes over when it expires", "lease", l.options.Name, "err", err)
		return
	}
	l.log.Info("the lease is released", "lease", l.options.Name)
}

// giveBack clears the holder of the Lease. The API server may still carry out a renewal whose answer was lost; then it
// writes a second time.
func (l *Lease) giveBack() error {
	ctx, cancel := context.WithTimeout(context.Background(), l.options.RenewDeadline)
	defer cancel()
	return retryOnConflict(func() error {
		lease, err := l.api.Get(ctx, l.options.Name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) || err == nil && pointed(lease.Spec.HolderIdentity) != l.options.Identity {
			return nil
		}
		if err != nil {
			return err
		}
		now := metav1.NowMicro()
		lease.Spec.HolderIdentity, lease.Spec.LeaseDurationSeconds = new(""), new(int32(1))
		lease.Spec.RenewTime, lease.Spec.AcquireTime = &now, &now
		_, err = l.api.Update(ctx, lease, metav1.UpdateOptions{})
		return err
	})
}

// Status returns the leader from the view of this replica.
func (l *Lease) Status() LeaseStatus {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.status
	s.Leading = s.Holder == s.Identity && l.fence.Check() == nil
	return s
}

// LeaseHolder returns the identity of who holds a Lease, and how long until it expires; "" for one
// that has no holder. Every operator holds its Lease, so this finds one that runs in the namespace.
func (c *Client) LeaseHolder(ctx context.Context, namespace, name string) (holder string, left time.Duration, err error) {
	leases, err := typedcoordinationv1.NewForConfig(c.config)
	if err != nil {
		return "", 0, fmt.Errorf("client for leases: %w", err)
	}
	lease, err := leases.Leases(namespace).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return "", 0, nil
	}
	if err != nil {
		return "", 0, fmt.Errorf("read the Lease %s/%s: %w", namespace, name, err)
	}
	duration := time.Duration(pointed(lease.Spec.LeaseDurationSeconds)) * time.Second
	if left = time.Until(pointed(lease.Spec.RenewTime).Add(duration)); left <= 0 {
		return "", 0, nil
	}
	return pointed(lease.Spec.HolderIdentity), left, nil
}
