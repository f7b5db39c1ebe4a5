package kube

import (
	"context"
	"maps"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
)

// Watch calls notify with the ConfigMap as it is first seen, and then
// each time its data differ from what was notified last; with the zero value
// when it does not exist (D14, P1). It returns at once and watches until ctx
// ends, also while the API server is away: after that only the state then
// current is notified, if it differs.
//
// notify is called from one goroutine. A slow notify loses no state for good:
// states that were replaced meanwhile are skipped.
func (s ConfigMapStore) Watch(ctx context.Context, notify func(ConfigMap)) {
	api := s.api()
	s.client.watchOne(ctx, s.String(), "configmaps", s.namespace, s.name, notify, cache.ListWatch{
		ListWithContextFunc:  func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) { return api.List(ctx, o) },
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) { return api.Watch(ctx, o) },
	})
}

// watchOne watches one object of the core group that holds values. List and watch select it by its
// name, because a role may allow to read this name only (L6).
func (c *Client) watchOne(ctx context.Context, what, resource, namespace, name string, notify func(ConfigMap), api cache.ListWatch) {
	selector := fields.OneTermEqualSelector(metav1.ObjectNameField, name).String()
	store := &latest{name: name, changed: make(signal, 1)}
	follow := &feed{
		name:    what,
		key:     sourceKey{resource: corev1.SchemeGroupVersion.WithResource(resource), namespace: namespace},
		watches: c.watches, wentBack: c.wentBack,
		store: store,
		log:   c.log,
		list: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			o.FieldSelector = selector
			return api.ListWithContextFunc(ctx, o)
		},
		watch: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			o.FieldSelector = selector
			return api.WatchFuncWithContext(ctx, o)
		},
	}
	go follow.run(ctx)
	go store.deliver(ctx, notify)
}

// latest is the store of a watch on one ConfigMap, or one Secret: it keeps only the newest state.
// The goroutine of the reflector sets it, and that of deliver notifies it, so that a notify that
// blocks does not hold up the watch.
type latest struct {
	name    string
	changed signal // a state waits to be notified

	mu    sync.Mutex
	state ConfigMap
}

func (l *latest) set(state ConfigMap) error {
	l.mu.Lock()
	l.state = state
	l.mu.Unlock()
	l.changed.raise()
	return nil
}

// deliver notifies states that differ from the one before, until ctx ends. Only what others may
// change counts as a difference: not the version, which every new label changes, and not the
// annotation Written, which only the operator sets.
func (l *latest) deliver(ctx context.Context, notify func(ConfigMap)) {
	var last ConfigMap
	for first := true; ; {
		select {
		case <-ctx.Done():
			return
		case <-l.changed:
		}
		l.mu.Lock()
		state := l.state
		l.mu.Unlock()
		if !first && last.Exists() == state.Exists() && last.ConfirmPurge == state.ConfirmPurge && maps.Equal(last.Data, state.Data) {
			continue
		}
		first = false
		// A copy, because notify may keep and change what it gets.
		last = ConfigMap{ResourceVersion: state.ResourceVersion, Data: maps.Clone(state.Data), ConfirmPurge: state.ConfirmPurge}
		notify(state)
	}
}

// The methods of cache.ReflectorStore.

func (l *latest) Add(object any) error { return l.Update(object) }

func (l *latest) Update(object any) error {
	if state, ok := l.read(object); ok {
		return l.set(state)
	}
	return nil
}

// read understands the ConfigMap, or the Secret, that is watched.
func (l *latest) read(object any) (ConfigMap, bool) {
	switch o := object.(type) {
	case *corev1.ConfigMap:
		if o.Name == l.name {
			return ConfigMapOf(o), true
		}
	case *corev1.Secret:
		if o.Name == l.name {
			return SecretOf(o), true
		}
	}
	return ConfigMap{}, false
}

func (l *latest) Delete(any) error { return l.set(ConfigMap{}) }

func (l *latest) Replace(objects []any, _ string) error {
	for _, object := range objects {
		if state, ok := l.read(object); ok {
			return l.set(state)
		}
	}
	return l.set(ConfigMap{})
}

func (l *latest) Resync() error { return nil }
