package kube

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/resourceversion"
	"k8s.io/client-go/tools/cache"
)

// An API server whose etcd is restored from a backup goes back in time: it counts its
// resource versions again from an older one. A watch that continues from its version would get no
// event until the count has passed it, and code that compares resource versions would take
// every event for an old one. So a feed remembers the newest version that it has received, and
// compares it with a consistent list each time it begins to watch again. A server that only
// lags behind the others has no older consistent list. All that the operator knows is then of a
// state that is gone, so the process ends (Options.WentBack) and is started again.

// versions is the store of a feed, in front of the one that it keeps equal.
type versions struct {
	cache.ReflectorStore
	feed *feed
	ctx  context.Context // of the feed
}

var (
	_ cache.TransformingStore      = versions{}
	_ cache.ReflectorBookmarkStore = versions{}
)

// Add implements cache.ReflectorStore.
func (v versions) Add(object any) error {
	v.feed.saw(object)
	return v.ReflectorStore.Add(object)
}

// Update implements cache.ReflectorStore.
func (v versions) Update(object any) error {
	v.feed.saw(object)
	return v.ReflectorStore.Update(object)
}

// Delete implements cache.ReflectorStore.
func (v versions) Delete(object any) error {
	v.feed.saw(object)
	return v.ReflectorStore.Delete(object)
}

// Bookmark implements cache.ReflectorBookmarkStore.
func (v versions) Bookmark(version string) error {
	v.feed.sawVersion(version)
	if store, ok := v.ReflectorStore.(cache.ReflectorBookmarkStore); ok {
		return store.Bookmark(version)
	}
	return nil
}

// Transformer implements cache.TransformingStore.
func (v versions) Transformer() cache.TransformFunc {
	if store, ok := v.ReflectorStore.(cache.TransformingStore); ok {
		return store.Transformer()
	}
	return nil
}

// Replace implements cache.ReflectorStore. A list that is older than what was seen is that
// of a server that lags, unless a consistent one is older, too.
func (v versions) Replace(objects []any, version string) error {
	f := v.feed
	if known := f.newest(); isOlder(version, known) {
		now, err := f.consistentVersion(v.ctx)
		if err != nil {
			return fmt.Errorf("%s: a list is of version %s, older than %s, and cannot be checked: %w", f.name, version, known, err)
		}
		if !isOlder(now, known) {
			return fmt.Errorf("%s: a list is of version %s, older than %s, and the API server has %s: it is not used", f.name, version, known, now)
		}
		back := fmt.Errorf("the API server has gone back to an earlier state, as after a restore of etcd: %s were of version %s and are of %s", f.name, known, version)
		if f.wentBack != nil {
			f.wentBack(back)
		}
		return back
	}
	f.listed(version)
	return v.ReflectorStore.Replace(objects, version)
}

// isOlder compares resource versions; ones that cannot be compared are not older.
func isOlder(a, than string) bool {
	order, err := resourceversion.CompareResourceVersion(a, than)
	return err == nil && order < 0
}

func (f *feed) newest() string {
	f.seen.Lock()
	defer f.seen.Unlock()
	return f.seen.version
}

// listed notes the version of a list that is used.
func (f *feed) listed(version string) {
	f.seen.Lock()
	defer f.seen.Unlock()
	f.seen.version, f.seen.listed = version, version
}

// begins reports whether a watch from this version is the first after a list: that list has just
// shown the state of the API server, so no other request is needed.
func (f *feed) begins(version string) bool {
	f.seen.Lock()
	defer f.seen.Unlock()
	first := f.seen.listed == version
	f.seen.listed = ""
	return first
}

func (f *feed) saw(object any) {
	if accessor, err := meta.Accessor(object); err == nil {
		f.sawVersion(accessor.GetResourceVersion())
	}
}

func (f *feed) sawVersion(version string) {
	f.seen.Lock()
	defer f.seen.Unlock()
	if f.seen.version == "" || isOlder(f.seen.version, version) {
		f.seen.version = version
	}
}

// consistentVersion is the resource version that the API server has now, not one of its
// caches.
func (f *feed) consistentVersion(ctx context.Context) (string, error) {
	ask := f.list
	if f.first != nil {
		ask = f.first
	}
	list, err := ask(ctx, metav1.ListOptions{Limit: 1})
	if err != nil {
		return "", err
	}
	accessor, err := meta.ListAccessor(list)
	if err != nil {
		return "", err
	}
	return accessor.GetResourceVersion(), nil
}

// passed returns an error, by which the reflector begins with a new list, when the API
// server has gone back behind the version from which a watch would continue.
func (f *feed) passed(ctx context.Context, version string) error {
	if version == "" || version == "0" || f.begins(version) {
		return nil
	}
	now, err := f.consistentVersion(ctx)
	switch {
	case apierrors.IsForbidden(err): // a role may allow to watch and not to list
		return nil
	case err != nil:
		return err
	case isOlder(now, version):
		return apierrors.NewResourceExpired(fmt.Sprintf("the API server has gone back from version %s to %s", version, now))
	}
	return nil
}
