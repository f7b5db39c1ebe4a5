package kube

import (
	"context"
	"errors"
	"io"
	"math"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	typedcoordinationv1 "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/util/retry"

	"addon-operator/testkit/devclustertest"
)

// replica is one candidate with a client of its own.
type replica struct {
	*Lease
	fence  *Fence
	client *Client
	leads  chan error // of Compete
}

// patient are times at which no replica takes over unless the Lease was given back.
func patient(namespace, identity string) LeaseOptions {
	return LeaseOptions{Namespace: namespace, Name: "leader", Identity: identity, Duration: 20 * time.Minute, RenewDeadline: 10 * time.Minute, RetryPeriod: 8 * time.Minute}
}

// hasty are times for tests in which the Lease expires.
func hasty(namespace, identity string) LeaseOptions {
	return LeaseOptions{Namespace: namespace, Name: "leader", Identity: identity, Duration: 2 * time.Second, RenewDeadline: 1500 * time.Millisecond, RetryPeriod: 100 * time.Millisecond}
}

func newReplica(t *testing.T, cluster *devclustertest.Cluster, o LeaseOptions) *replica {
	t.Helper()
	r := prepareReplica(t, cluster, o)
	r.compete(t)
	return r
}

func prepareReplica(t *testing.T, cluster *devclustertest.Cluster, o LeaseOptions) *replica {
	t.Helper()
	fence := NewFence()
	client, err := Connect(Options{Kubeconfig: cluster.Kubeconfig(), Log: testLog(t), Fence: fence})
	must(t, err)
	lease, err := client.NewLease(o)
	must(t, err)
	return &replica{Lease: lease, fence: fence, client: client, leads: make(chan error, 1)}
}

func (r *replica) compete(t *testing.T) {
	t.Helper()
	r.Compete(t.Context())
	go func() { r.leads <- r.Await(t.Context()) }()
	t.Cleanup(func() { r.fence.shut(ErrReleased); <-r.stopped })
}

func (r *replica) awaitLeading(t *testing.T) *replica {
	t.Helper()
	must(t, await(t, "the leadership of "+r.options.Identity, r.leads))
	return r
}

// write tries to write a ConfigMap.
func (r *replica) write(t *testing.T, text string) error {
	t.Helper()
	_, err := r.client.ConfigMap(r.options.Namespace, "written").Write(t.Context(), nil, map[string]*string{text: &text})
	return err
}

// L4: whatever another client has written into the Lease, it is followed for a bounded time, and can be written again.
func TestLeaseWithNonsense(t *testing.T) {
	t.Parallel()
	w := newWorld(t, devclustertest.Start(t))
	namespace := w.Namespace(t)
	const most = int32(math.MaxInt32)
	lease := newLeaseObject("ghost", most, metav1.NowMicro())
	lease.Spec.LeaseTransitions = new(most)
	_, err := w.admin.CoordinationV1().Leases(namespace).Create(t.Context(), lease, metav1.CreateOptions{})
	must(t, err)
	options := hasty(namespace, "first")
	options.Duration, options.RenewDeadline = time.Second, 900*time.Millisecond
	first := newReplica(t, w.Cluster, options).awaitLeading(t)
	first.Release()
	newReplica(t, w.Cluster, patient(namespace, "second")).awaitLeading(t)
}

// L1, L2: one replica leads; the others know who, read, and write nothing. A leader that
// gives the Lease back has a successor at once, far before the Lease expires. Where the Lease is free a replica leads
// without having waited.
func TestOneReplicaLeadsAndTheNextTakesOverAtOnce(t *testing.T) {
	w := newWorld(t, devclustertest.Start(t))
	namespace := w.Namespace(t)
	first := prepareReplica(t, w.Cluster, patient(namespace, "first"))
	first.compete(t)
	if first.awaitLeading(t); first.Waited() {
		t.Error("the first one waited")
	}
	must(t, first.write(t, "first"))
	second := prepareReplica(t, w.Cluster, patient(namespace, "second"))
	second.compete(t)
	eventually(t, "the second one waits", second.Waited)
	eventually(t, "the follower knows its leader", func() bool { return second.Status().Holder == "first" })
	if s := second.Status(); s.Leading || s.Identity != "second" {
		t.Errorf("status of the follower: %+v", s)
	}
	if err := second.write(t, "second"); !errors.Is(err, ErrNotLeading) {
		t.Errorf("a write of the follower: %v, want ErrNotLeading", err)
	}
	if cm, err := second.client.ConfigMap(namespace, "written").Read(t.Context()); err != nil || cm.Data["first"] != "first" || len(cm.Data) != 1 {
		t.Errorf("the follower reads %v, %v", cm, err)
	}

	first.Release()
	second.awaitLeading(t)
	if err := second.write(t, "second"); err != nil {
		t.Error(err)
	}
	if err := first.write(t, "late"); !errors.Is(err, ErrNotLeading) {
		t.Errorf("a write after the release: %v, want ErrNotLeading", err)
	}
	if s := first.Status(); s.Leading {
		t.Errorf("status after the release: %+v", s)
	}
	if s := second.Status(); !s.Leading || s.Transitions != 1 {
		t.Errorf("status of the successor: %+v", s)
	}
}

// L4: who is gone without a word is followed when its Lease has expired.
func TestLeaseExpires(t *testing.T) {
	t.Parallel()
	w := newWorld(t, devclustertest.Start(t))
	namespace := w.Namespace(t)
	first := newReplica(t, w.Cluster, hasty(namespace, "first")).awaitLeading(t)
	options := patient(namespace, "second") // a busy machine may renew too late, and then the leadership is rightly lost
	options.RetryPeriod = 100 * time.Millisecond
	second := newReplica(t, w.Cluster, options)
	eventually(t, "the follower knows its leader", func() bool {
		return second.Status().Holder == "first" || second.won.Err() != nil
	})
	first.fence.shut(errors.New("killed")) // it renews no more, and releases nothing
	<-first.stopped
	second.awaitLeading(t)
	first.Release()
	if s := second.Status(); !s.Leading || s.Holder != "second" {
		t.Errorf("a late release of the first did harm: %+v", s)
	}
}

// conflicting refuses the first release, as when a renewal whose answer was lost is carried out late.
type conflicting struct {
	typedcoordinationv1.LeaseInterface
	conflicts int
}

func (c *conflicting) Update(ctx context.Context, lease *coordinationv1.Lease, o metav1.UpdateOptions) (*coordinationv1.Lease, error) {
	if c.conflicts--; c.conflicts >= 0 {
		return nil, apierrors.NewConflict(coordinationv1.Resource("leases"), "leader", errors.New("the object has been modified"))
	}
	return c.LeaseInterface.Update(ctx, lease, o)
}

// L1: a release that meets a late renewal is done once more.
func TestReleaseAfterALateRenewal(t *testing.T) {
	w := newWorld(t, devclustertest.Start(t))
	namespace := w.Namespace(t)
	leader := newReplica(t, w.Cluster, patient(namespace, "leader")).awaitLeading(t)
	leader.api = &conflicting{leader.api, 2} // it renews in eight minutes
	leader.Release()
	lease, err := w.admin.CoordinationV1().Leases(namespace).Get(t.Context(), "leader", metav1.GetOptions{})
	if err != nil || lease.Spec.HolderIdentity != nil && *lease.Spec.HolderIdentity != "" {
		t.Errorf("the lease after the release: %+v, %v", lease.Spec, err)
	}
}

// L4: who has the identity of the holder goes on at once, however long the Lease lasts: a container that is restarted
// in its Pod.
func TestLeaseIsOfThePod(t *testing.T) {
	w := newWorld(t, devclustertest.Start(t))
	namespace := w.Namespace(t)
	must(t, second(w.admin.CoordinationV1().Leases(namespace).Create(t.Context(), newLeaseObject("pod", 3600, metav1.NowMicro()), metav1.CreateOptions{})))
	next := prepareReplica(t, w.Cluster, patient(namespace, "pod"))
	next.compete(t)
	if next.awaitLeading(t); next.Waited() {
		t.Error("it waited")
	}
}

// L4: a Lease that somebody took ends the leadership when the leader sees it, at its next renewal.
func TestLeaseIsTaken(t *testing.T) {
	w := newWorld(t, devclustertest.Start(t))
	namespace := w.Namespace(t)
	options := patient(namespace, "leader")
	options.RetryPeriod = 100 * time.Millisecond
	leader := newReplica(t, w.Cluster, options).awaitLeading(t)
	leases := w.admin.CoordinationV1().Leases(namespace)
	thief := "thief"
	err := retry.RetryOnConflict(retry.DefaultRetry, func() error { // with a renewal
		lease, err := leases.Get(t.Context(), "leader", metav1.GetOptions{})
		if err != nil {
			return err
		}
		transitions := *lease.Spec.LeaseTransitions + 1
		lease.Spec.HolderIdentity, lease.Spec.LeaseTransitions = &thief, &transitions
		_, err = leases.Update(t.Context(), lease, metav1.UpdateOptions{})
		return err
	})
	must(t, err)
	await(t, "the end of the leadership", leader.fence.Lost().Done())
	if cause := context.Cause(leader.fence.Lost()); !strings.Contains(cause.Error(), `taken by "thief"`) {
		t.Errorf("cause: %v", cause)
	}
	if err := leader.write(t, "late"); !errors.Is(err, ErrNotLeading) {
		t.Errorf("a late write: %v, want ErrNotLeading", err)
	}
	leader.Release()
	lease, err := leases.Get(t.Context(), "leader", metav1.GetOptions{})
	if err != nil || *lease.Spec.HolderIdentity != "thief" {
		t.Errorf("the lease after all: %v, %v", lease, err)
	}
}

// L4: so does one that was deleted and made again by a replica that has never seen the
// leader; its count of transitions begins at zero.
func TestLeaseIsMadeAnewByAnother(t *testing.T) {
	w := newWorld(t, devclustertest.Start(t))
	namespace := w.Namespace(t)
	options := patient(namespace, "leader")
	options.RetryPeriod = time.Minute
	leader := newReplica(t, w.Cluster, options).awaitLeading(t)
	follower := newReplica(t, w.Cluster, patient(namespace, "follower"))
	eventually(t, "the follower sees the leader", func() bool { return follower.Status().Holder == "leader" })
	leases := w.admin.CoordinationV1().Leases(namespace)
	must(t, leases.Delete(t.Context(), "leader", metav1.DeleteOptions{}))
	thief := newLeaseObject("thief", 1200, metav1.NowMicro())
	thief, err := leases.Create(t.Context(), thief, metav1.CreateOptions{})
	must(t, err)
	leader.attempt(t.Context())
	leader.attempt(t.Context())
	await(t, "the end of the leadership", leader.fence.Lost().Done())

	nobody := ""
	thief.Spec.HolderIdentity = &nobody
	_, err = leases.Update(t.Context(), thief, metav1.UpdateOptions{})
	must(t, err)
	follower.awaitLeading(t)
}

// A Lease that was deleted is no free one: its holder may not know yet.
func TestDeletedLeaseIsNotTakenBeforeItsTime(t *testing.T) {
	w := newWorld(t, devclustertest.Start(t))
	namespace := w.Namespace(t)
	// A holder that is stopped, so that it does not make the Lease again.
	const holder = "stopped"
	lease := newLeaseObject(holder, 1200, metav1.NowMicro())
	leases := w.admin.CoordinationV1().Leases(namespace)
	must(t, second(leases.Create(t.Context(), lease, metav1.CreateOptions{})))
	follower := newReplica(t, w.Cluster, hasty(namespace, "follower"))
	eventually(t, "the follower knows the holder", func() bool { return follower.Status().Holder == holder })
	must(t, leases.Delete(t.Context(), "leader", metav1.DeleteOptions{}))
	eventually(t, "the follower waits", func() bool {
		return strings.Contains(follower.Status().Problem, "deleted while stopped held it")
	})
	if s := follower.Status(); s.Leading {
		t.Errorf("the follower leads: %+v", s)
	}
}

// A write that waits for its answer ends with the leadership, and so does everything on
// the connections of a process that was stopped beyond its time (L5).
func TestFenceCutsWhatIsUnderWay(t *testing.T) {
	arrived := make(chan struct{})
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	server := &http.Server{Handler: http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		close(arrived)
		<-r.Context().Done() // cut by the client
	})}
	go func() { _ = server.Serve(listener) }() // until Close
	t.Cleanup(func() { _ = server.Close() })

	fence := NewFence()
	must(t, fence.extend(time.Now().Add(time.Hour)))
	transport := fenced{fence, http.DefaultTransport}
	failed := make(chan error, 1)
	go func() {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+listener.Addr().String(), strings.NewReader("x"))
		if err != nil {
			failed <- err
			return
		}
		_, err = transport.RoundTrip(req) //nolint:bodyclose // there is none
		failed <- err
	}()
	await(t, "the request", arrived)
	fence.shut(errors.New("taken"))
	if err := await(t, "the end of the request", failed); err == nil {
		t.Error("the request went on")
	}
}

// The deadline counts by both clocks, and what was once over stays over.
func TestFenceIsOpenNoLongerThanTheLease(t *testing.T) {
	future, past := time.Now().Add(time.Hour), time.Now().Add(-time.Nanosecond)
	if err := NewFence().Check(); !errors.Is(err, ErrNotLeading) {
		t.Errorf("before the first time: %v", err)
	}
	f := NewFence()
	if err := errors.Join(f.extend(future), f.Check()); err != nil {
		t.Errorf("while it holds: %v", err)
	}
	f = NewFence()
	if err := f.extend(past); !errors.Is(err, ErrNotLeading) {
		t.Errorf("a renewal that comes too late: %v", err)
	}
	if err := f.extend(future); !errors.Is(err, ErrNotLeading) {
		t.Errorf("it opened again: %v", err)
	}
	f = NewFence()
	must(t, f.extend(time.Now().Add(50*time.Millisecond)))
	await(t, "the end of the time", f.Lost().Done())
	if err := f.Check(); !errors.Is(err, ErrNotLeading) || !strings.Contains(err.Error(), "not renewed in time") {
		t.Errorf("the time has run out: %v", err)
	}
	if !passed(past.Round(0)) || !passed(past) || passed(future.Round(0)) { // the wall clock alone, when the machine was suspended
		t.Error("a clock does not count")
	}
}

// After the leadership not even a read goes out on a connection; before the first one a
// follower reads.
func TestFencedConnection(t *testing.T) {
	ours, theirs := net.Pipe()
	go func() { _, _ = io.Copy(io.Discard, theirs) }() // until the pipe is closed
	t.Cleanup(func() { _ = ours.Close() })
	fence := NewFence()
	conn := fencedConn{ours, fence}
	if _, err := conn.Write([]byte("list")); err != nil {
		t.Errorf("standby: %v", err)
	}
	must(t, fence.extend(time.Now().Add(time.Hour)))
	if _, err := conn.Write([]byte("write")); err != nil {
		t.Errorf("leading: %v", err)
	}
	fence.shut(errors.New("taken"))
	if _, err := conn.Write([]byte("late")); !errors.Is(err, ErrNotLeading) {
		t.Errorf("afterwards: %v, want ErrNotLeading", err)
	}
}

func newLeaseObject(holder string, seconds int32, renewed metav1.MicroTime) *coordinationv1.Lease {
	return &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Name: "leader"},
		Spec:       coordinationv1.LeaseSpec{HolderIdentity: &holder, LeaseDurationSeconds: &seconds, AcquireTime: &renewed, RenewTime: &renewed},
	}
}
