package kube

import (
	"context"
	"fmt"
	"sync"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/resourceversion"
)

// An API server whose etcd is restored from a backup counts its resource versions again from an older one. A watch that
// continues would get no event until the count has passed its version, and all that the operator knows is of a state
// that is gone. So before a reflector continues from a version, a consistent list must not be older. If it is, the
// process ends (Options.WentBack), and is started again (P14).

// continuity is what a feed knows of the versions that its reflector has seen.
type continuity struct {
	mu     sync.Mutex
	known  string // the newest version from which the reflector wanted to continue; empty: none yet
	listed string // that of a list from which no watch has begun yet
}

// listing notes a list, which has just shown the state of the API server.
func (f *feed) listing(list runtime.Object) {
	if accessor, err := meta.ListAccessor(list); err == nil {
		f.seen.mu.Lock()
		f.seen.listed = accessor.GetResourceVersion()
		f.seen.mu.Unlock()
	}
}

// passed returns an error when the API server has gone back behind a version from which the reflector continues.
func (f *feed) passed(ctx context.Context, version string) error {
	f.seen.mu.Lock()
	fresh := f.seen.listed != "" && f.seen.listed == version
	f.seen.listed = ""
	if version == "" || version == "0" { // it starts over, perhaps because its version is refused
		version = f.seen.known
	}
	f.seen.known = version
	f.seen.mu.Unlock()
	if fresh || version == "" {
		return nil
	}
	ask := f.list
	if f.first != nil {
		ask = f.first
	}
	list, err := ask(ctx, metav1.ListOptions{Limit: 1})
	switch {
	case apierrors.IsForbidden(err): // a role may allow to watch and not to list
		return nil
	case err != nil:
		return err
	}
	accessor, err := meta.ListAccessor(list)
	if err != nil {
		return err
	}
	order, incomparable := resourceversion.CompareResourceVersion(accessor.GetResourceVersion(), version)
	if incomparable != nil || order >= 0 {
		return nil //nolint:nilerr // what cannot be compared proves nothing
	}
	back := fmt.Errorf("the API server has gone back to an earlier state, as after a restore of etcd: %s were of version %s and are of %s", f.name, version, accessor.GetResourceVersion())
	if f.wentBack != nil {
		f.wentBack(back)
	}
	return back
}
