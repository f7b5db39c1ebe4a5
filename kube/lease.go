package kube

import (
	"cmp"
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
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	typedcoordinationv1 "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/klog/v2"
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

// Check returns an error for wrong durations; all mistakes are joined.
func (o LeaseOptions) Check() error {
	var errs []error
	if o.Duration < time.Second || o.Duration%time.Second != 0 {
		errs = append(errs, fmt.Errorf("the lease duration must be whole seconds, at least 1, not %s", o.Duration))
	}
	if o.RenewDeadline >= o.Duration {
		errs = append(errs, fmt.Errorf("the renew deadline must be shorter than the lease duration %s, not %s: the difference is the time to stop", o.Duration, o.RenewDeadline))
	}
	if o.RetryPeriod <= 0 || time.Duration(leaderelection.JitterFactor*float64(o.RetryPeriod)) >= o.RenewDeadline {
		errs = append(errs, fmt.Errorf("the retry period must be above 0 and at most %s, a little below the renew deadline, not %s", o.RenewDeadline*4/5, o.RetryPeriod))
	}
	return errors.Join(errs...)
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

// Lease is the part of one replica in the election of a leader (L1). The election itself is
// client-go's. What is added makes it safe to act on: a Fence, which is open no longer than the
// Lease is certainly held, and a watch, by which a follower notices a released Lease at once.
type Lease struct {
	options LeaseOptions
	fence   *Fence
	log     *slog.Logger
	record  resourcelock.Interface
	elector *leaderelection.LeaderElector
	follow  *feed

	running context.Context    // of the competition; Compete sets it and stop, before all that use them
	stop    context.CancelFunc // ends it; nil: Compete was not called
	stopped chan struct{}      // closed at the end of the election
	won     chan struct{}      // closed when this replica leads; it stays so after the end
	waits   chan struct{}      // closed when it is known that this replica does not lead at once
	due     signal             // a follower should look at the Lease at once

	mu       sync.Mutex
	status   LeaseStatus
	uid      types.UID     // of the Lease in the last event of the watch
	seen     time.Time     // when this replica learned last that there is a holder
	duration time.Duration // for which the holder has taken the Lease
	renewed  metav1.Time   // by another replica, as the election has seen it
	expires  *time.Timer   // fires when that was too long ago
	reading  error         // of the last look at the Lease
	writing  error         // of the last attempt to take it
}

// NewLease prepares the competition for a Lease. It makes no request. The client must
// have been connected with a Fence.
func (c *Client) NewLease(o LeaseOptions) (*Lease, error) {
	if err := o.Check(); err != nil {
		return nil, err
	}
	if c.fence == nil {
		return nil, errors.New("bug: a lease needs a client with a fence")
	}
	// A request that hangs must leave time for a second one.
	short := rest.CopyConfig(c.unfenced)
	short.QPS, short.Timeout = -1, o.RenewDeadline/2
	renewing, err := typedcoordinationv1.NewForConfig(short)
	if err != nil {
		return nil, fmt.Errorf("client for leases: %w", err)
	}
	watching, err := typedcoordinationv1.NewForConfig(c.unfenced)
	if err != nil {
		return nil, fmt.Errorf("client for leases: %w", err)
	}
	l := &Lease{
		options: o, fence: c.fence, log: c.log, duration: o.Duration,
		stopped: make(chan struct{}), won: make(chan struct{}), waits: make(chan struct{}), due: make(signal, 1),
		status: LeaseStatus{Identity: o.Identity, Since: time.Now()},
	}
	l.follow = l.newFeed(watching.Leases(o.Namespace), c.watches)
	l.follow.wentBack = c.wentBack
	l.record = &resourcelock.LeaseLock{
		LeaseMeta: metav1.ObjectMeta{Namespace: o.Namespace, Name: o.Name},
		Client:    renewing, LockConfig: resourcelock.ResourceLockConfig{Identity: o.Identity},
	}
	l.elector, err = leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock:          &lock{lease: l, Interface: l.record},
		LeaseDuration: o.Duration, RenewDeadline: o.RenewDeadline, RetryPeriod: o.RetryPeriod,
		Callbacks: leaderelection.LeaderCallbacks{OnStartedLeading: func(context.Context) {}, OnStoppedLeading: func() {}},
		Name:      o.Name,
	})
	if err != nil {
		return nil, fmt.Errorf("lease %s/%s: %w", o.Namespace, o.Name, err)
	}
	return l, nil
}

// Look reads the Lease once, before Compete: it opens the connection to the API server and
// finds out who leads while the caller has something else to do.
func (l *Lease) Look(ctx context.Context) {
	if record, _, err := l.record.Get(ctx); err == nil {
		l.correct(record)
		l.observe(*record)
	}
}

// Compete begins to compete for the Lease, until this replica leads or ctx ends. From then
// on the Lease is renewed until Release; Fence.Lost is done when a renewal fails.
// Compete is called once.
func (l *Lease) Compete(ctx context.Context) {
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	running = klog.NewContext(running, klog.Background())
	l.running, l.stop = running, stop
	go l.follow.run(running)
	go l.elect(running)
}

// AtOnce reports whether this replica leads without having waited, because the Lease has had no
// holder since Look. It returns as soon as that is clear.
func (l *Lease) AtOnce(ctx context.Context) bool {
	select {
	case <-l.won:
	case <-l.waits:
	case <-l.fence.ctx.Done():
	case <-ctx.Done():
	}
	select {
	case <-l.waits:
		return false
	default:
		return l.hasWon()
	}
}

// Await returns nil when this replica leads. When ctx ends before, it is no longer competed
// for.
func (l *Lease) Await(ctx context.Context) error {
	select {
	case <-l.won:
		return nil
	case <-l.fence.ctx.Done():
		return context.Cause(l.fence.ctx)
	case <-ctx.Done():
		l.Release()
		return context.Cause(ctx)
	}
}

// longestLease is for how much longer than its own duration a replica follows a holder that does not renew: replicas
// with other options hold the Lease longer, but one wrong write must not stop all replicas for years.
const longestLease = 10

// correct bounds what another client may have written into the Lease. A transition more must still fit into its
// field, or the API server would refuse each later write.
func (l *Lease) correct(r *resourcelock.LeaderElectionRecord) {
	r.LeaseDurationSeconds = min(max(1, r.LeaseDurationSeconds), longestLease*int(l.options.Duration/time.Second))
	r.LeaderTransitions = min(max(0, r.LeaderTransitions), math.MaxInt32-1)
}

// wait notes that this replica does not lead at once. The caller holds the mutex.
func (l *Lease) wait() {
	select {
	case <-l.waits:
	default:
		close(l.waits)
	}
}

// elect runs the election. A follower is woken up when the Lease is free, was renewed, or
// has expired, so that it need not wait for its next look: the library takes a Lease for
// renewed from the moment at which it observed the renewal.
func (l *Lease) elect(ctx context.Context) {
	defer close(l.stopped)
	for ctx.Err() == nil && l.fence.ctx.Err() == nil {
		attempt, cancel := context.WithCancel(ctx)
		go l.interrupt(attempt, cancel)
		l.elector.Run(attempt)
		cancel()
	}
}

// interrupt ends an attempt of a follower when it should look, and that of a leader
// when its leadership is over. An attempt that wins at this very moment is no loss: the
// next one finds that the Lease is its own.
func (l *Lease) interrupt(attempt context.Context, end context.CancelFunc) {
	due := l.due
	if l.hasWon() {
		due = nil
	}
	for {
		select {
		case <-due:
			if l.hasWon() {
				due = nil
				continue
			}
		case <-l.fence.ctx.Done():
		case <-attempt.Done():
		}
		end()
		return
	}
}

// Release gives the Lease back, so that another replica takes over at once. Everything that the
// leader does must have ended; the fence lets no write pass from here on. It returns when the Lease
// is released, or when it could not be in time: within twice the RenewDeadline.
func (l *Lease) Release() {
	mine := l.hasWon() && l.fence.ctx.Err() == nil // what was lost is not ours to release
	l.fence.shut(ErrReleased)
	if l.stop == nil {
		return // it never competed
	}
	l.stop()
	err := errors.New("a request for it takes too long")
	select {
	case <-l.stopped:
		if err = nil; mine {
			err = l.giveBack()
		}
	case <-time.After(l.options.RenewDeadline):
	}
	switch {
	case err != nil:
		l.log.Warn("the lease could not be released; another replica takes over when it expires", "lease", l.options.Name, "err", err)
	case mine:
		l.log.Info("the lease is released", "lease", l.options.Name)
	}
}

// hasWon reports whether this replica has led, now or earlier.
func (l *Lease) hasWon() bool {
	select {
	case <-l.won:
		return true
	default:
		return false
	}
}

// giveBack clears the holder of the Lease. The library would do so as soon as its context ends,
// when the leader may still have work to finish. The API server may still carry out a renewal
// whose request was cut; giveBack then writes a second time.
func (l *Lease) giveBack() error {
	ctx, cancel := context.WithTimeout(context.Background(), l.options.RenewDeadline)
	defer cancel()
	return retryOnConflict(func() error {
		r, _, err := l.record.Get(ctx)
		if apierrors.IsNotFound(err) || err == nil && r.HolderIdentity != l.options.Identity {
			return nil
		}
		if err != nil {
			return err
		}
		now := metav1.Now()
		return l.record.Update(ctx, resourcelock.LeaderElectionRecord{
			LeaderTransitions: r.LeaderTransitions, LeaseDurationSeconds: 1, RenewTime: now, AcquireTime: now,
		})
	})
}

// Status returns the leader from the view of this replica.
func (l *Lease) Status() LeaseStatus {
	l.mu.Lock()
	defer l.mu.Unlock()
	s := l.status
	s.Leading = s.Holder == s.Identity && l.fence.Check() == nil
	if err := cmp.Or(l.reading, l.writing); err != nil {
		s.Problem = err.Error()
	}
	return s
}

// observe notes a record of the Lease. Records come from the election (what it reads and what it
// has written), from the watch and from Look, in any goroutine. A leader that sees another holder
// shuts its fence.
func (l *Lease) observe(r resourcelock.LeaderElectionRecord) {
	l.mu.Lock()
	was := l.status.Holder
	if r.HolderIdentity != was {
		l.status.Holder, l.status.Since = r.HolderIdentity, time.Now()
	}
	if r.HolderIdentity != l.options.Identity {
		l.writing = nil // it is not our turn
	}
	if r.HolderIdentity != "" {
		l.seen, l.duration = time.Now(), time.Duration(r.LeaseDurationSeconds)*time.Second
		if r.HolderIdentity != l.options.Identity {
			l.wait()
		}
	}
	expires := l.seen.Add(l.duration)
	l.status.Transitions = max(l.status.Transitions, r.LeaderTransitions)
	l.mu.Unlock()
	switch {
	case was == l.options.Identity && r.HolderIdentity != was:
		l.fence.shut(fmt.Errorf("the lease was taken by %q", r.HolderIdentity))
	case r.HolderIdentity == "", r.HolderIdentity == l.options.Identity:
	case r.HolderIdentity != was:
		l.log.Info("another replica holds the lease: this one waits until it is released or expires", "holder", r.HolderIdentity, "lease", l.options.Name, "expires", expires.UTC().Format(time.RFC3339))
	}
}

// heldByOther reports whether another replica may still believe that it leads, although the
// Lease was deleted.
func (l *Lease) heldByOther() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if holder := l.status.Holder; holder != "" && holder != l.options.Identity && !passed(l.seen.Add(l.duration)) {
		return fmt.Errorf("the lease was deleted while %s held it; it may be taken when it would have expired", holder)
	}
	return nil
}

// read remembers how the last look at the Lease went. That it does not exist is no problem: the
// election creates it.
func (l *Lease) read(err error) {
	if apierrors.IsNotFound(err) {
		err = nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.reading = err
	if err != nil {
		l.wait()
	}
}

// wrote remembers how the last attempt to take the Lease went. A conflict is no problem: another
// replica was faster.
func (l *Lease) wrote(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if err != nil {
		l.wait()
	}
	if apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) {
		err = nil
	}
	l.writing = err
}

// lock is the Lease that the election uses: the one of the library, with a fence, with the state of the
// watch.
type lock struct {
	resourcelock.Interface
	lease *Lease
}

// bidding is the context for a request. interrupt ends the attempt of a follower when it should
// look again, but not a request that is under way: that would log an error, and leave open whether
// the API server has given it the Lease.
func (k *lock) bidding(ctx context.Context) context.Context {
	if k.lease.hasWon() {
		return ctx
	}
	return k.lease.running
}

// Get implements resourcelock.Interface.
//
// The library takes a Lease for renewed when its text has changed, and in that text times
// have whole seconds: it would see only one renewal in a second, and the Lease would
// expire up to a second too early. The time of the renewal is added in full.
func (k *lock) Get(ctx context.Context) (*resourcelock.LeaderElectionRecord, []byte, error) {
	record, raw, err := k.Interface.Get(k.bidding(ctx))
	k.lease.read(err)
	if err != nil {
		return nil, nil, err
	}
	k.lease.correct(record)
	k.lease.observe(*record)
	k.lease.lookWhenExpired(*record)
	return record, record.RenewTime.AppendFormat(raw, time.RFC3339Nano), nil
}

// Create implements resourcelock.Interface.
func (k *lock) Create(ctx context.Context, r resourcelock.LeaderElectionRecord) error {
	if err := k.lease.heldByOther(); err != nil {
		return err
	}
	return k.lease.write(r, func() error { return k.Interface.Create(k.bidding(ctx), r) })
}

// Update implements resourcelock.Interface.
func (k *lock) Update(ctx context.Context, r resourcelock.LeaderElectionRecord) error {
	return k.lease.write(r, func() error { return k.Interface.Update(k.bidding(ctx), r) })
}

// write acquires or renews. The fence counts from before the request, because the
// moment at which it took effect is unknown.
func (l *Lease) write(r resourcelock.LeaderElectionRecord, send func() error) error {
	began := time.Now()
	if l.fence.ctx.Err() != nil { // a shut fence never opens again: the Lease would have a holder that does not act
		return l.fence.Check()
	}
	if err := send(); err != nil {
		l.wrote(err)
		return err
	}
	l.wrote(nil)
	if err := l.fence.extend(began.Add(l.options.RenewDeadline)); err != nil {
		return err
	}
	l.observe(r)
	select {
	case <-l.won:
	default:
		close(l.won)
	}
	return nil
}

// newFeed watches the Lease: a follower sees its release at once, and a leader sees
// that another replica took it.
func (l *Lease) newFeed(api typedcoordinationv1.LeaseInterface, watches Watches) *feed {
	selector := fields.OneTermEqualSelector(metav1.ObjectNameField, l.options.Name).String()
	return &feed{
		name: fmt.Sprintf("Lease %s/%s", l.options.Namespace, l.options.Name), store: leaseStore{l}, log: l.log, watches: watches,
		key: sourceKey{resource: coordinationv1.SchemeGroupVersion.WithResource("leases"), namespace: l.options.Namespace},
		list: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			o.FieldSelector = selector
			return api.List(ctx, o)
		},
		watch: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			o.FieldSelector = selector
			return api.Watch(ctx, o)
		},
	}
}

// leaseStore is the store of that watch.
type leaseStore struct{ lease *Lease }

func (s leaseStore) Add(object any) error { return s.Update(object) }

func (s leaseStore) Update(object any) error {
	if l, ok := object.(*coordinationv1.Lease); ok && l.Name == s.lease.options.Name {
		s.lease.news(l.UID, *resourcelock.LeaseSpecToLeaderElectionRecord(&l.Spec))
	}
	return nil
}

func (leaseStore) Delete(any) error { return nil } // the election finds out by itself, without haste

func (s leaseStore) Replace(objects []any, _ string) error {
	for _, object := range objects {
		_ = s.Update(object) // never fails
	}
	return nil
}

func (leaseStore) Resync() error { return nil }

// news is observe for an event of the watch, which may be older than what is known: that
// this replica does not hold the Lease is left to the election to find out, but right
// away. A Lease that was deleted and created again is newer than all that is known, although
// its count of transitions starts again.
func (l *Lease) news(uid types.UID, r resourcelock.LeaderElectionRecord) {
	l.correct(&r)
	l.mu.Lock()
	recreated := l.uid != "" && l.uid != uid
	l.uid = uid
	if recreated {
		l.status.Transitions = r.LeaderTransitions
	}
	stale := !recreated && (r.LeaderTransitions < l.status.Transitions || l.status.Holder == l.options.Identity && r.LeaderTransitions == l.status.Transitions)
	l.mu.Unlock()
	if stale {
		return
	}
	l.observe(r)
	if r.HolderIdentity != l.options.Identity {
		l.due.raise()
	}
}

// lookWhenExpired is called when the election sees the Lease. The library counts from
// when it sees a renewal for the first time, which is a moment after this.
func (l *Lease) lookWhenExpired(r resourcelock.LeaderElectionRecord) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if r.HolderIdentity == l.options.Identity || r.RenewTime.Equal(&l.renewed) {
		return
	}
	if l.expires != nil {
		l.expires.Stop()
	}
	l.renewed = r.RenewTime
	l.expires = time.AfterFunc(time.Duration(r.LeaseDurationSeconds)*time.Second+wait.Jitter(afterExpiry, 2), l.due.raise)
}

// afterExpiry is more than passes until the library begins to count. It is jittered, because
// all followers see a renewal at the same time, and would bid at the same time.
const afterExpiry = 100 * time.Millisecond
