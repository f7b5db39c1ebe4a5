package kube_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"addon-operator/kube"
	"addon-operator/kube/apiserver"
)

// L1: a leader that renews keeps the Lease, also when it lasts no longer than the second to
// which the library rounds its times. The time is virtual: by a real clock a busy machine
// may renew too late, and then the leadership is rightly lost.
func TestRenewedLeaseIsNotTaken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := apiserver.New("v1.36.0")
		const namespace = "n"
		server.EnsureNamespace(namespace)
		compete := func(identity string) (*kube.Lease, *kube.Fence) {
			fence := kube.NewFence()
			client, err := kube.Connect(kube.Options{Config: server.RESTConfig(), Fence: fence})
			if err != nil {
				t.Fatal(err)
			}
			lease, err := client.NewLease(kube.LeaseOptions{
				Namespace: namespace, Name: "leader", Identity: identity,
				Duration: time.Second, RenewDeadline: 900 * time.Millisecond, RetryPeriod: 130 * time.Millisecond,
			})
			if err != nil {
				t.Fatal(err)
			}
			lease.Compete(t.Context())
			return lease, fence
		}
		leader, fence := compete("leader")
		if err := leader.Await(t.Context()); err != nil {
			t.Fatal(err)
		}
		follower, _ := compete("follower")
		<-time.After(time.Minute) // virtual
		if fence.Lost().Err() != nil || !leader.Status().Leading {
			t.Errorf("the leader has lost the Lease: %v", context.Cause(fence.Lost()))
		}
		if s := follower.Status(); s.Holder != "leader" || s.Leading {
			t.Errorf("status of the follower: %+v", s)
		}
		leader.Release()
		follower.Release()
		synctest.Wait()
	})
}
