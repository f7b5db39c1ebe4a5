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
// When the API server has gone back to an earlier state, the ConfigMap that it has is
// notified in any case, with WentBack set.
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

// watchOne watches one object of the core group that holds values.
func (c *Client) watchOne(ctx context.Context, what, resource, namespace, name string, notify func(ConfigMap), api cache.ListWatch) {
	selector := fields.OneTermEqualSelector(metav1.ObjectNameField, name).String()
	store := &latest{name: name, changed: make(chan struct{}, 1)}
	follow := &feed{
		name:    what,
		key:     sourceKey{resource: corev1.SchemeGroupVersion.WithResource(resource), namespace: namespace},
		watches: c.watches,
		back:    c.back,
		store:   store,
		log:     c.log,
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

// latest is the store of a watch on one ConfigMap: its newest state.
type latest struct {
	name    string
	changed chan struct{} // one place: a state waits to be notified

	mu    sync.Mutex
	state ConfigMap
	back  bool // the next state is of a server that has gone back
}

// WentBack implements forgetful.
func (l *latest) WentBack() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.back = true
}

func (l *latest) set(state ConfigMap) error {
	l.mu.Lock()
	l.state = state
	l.mu.Unlock()
	select {
	case l.changed <- struct{}{}:
	default:
	}
	return nil
}

// deliver notifies states that differ from the one before, until ctx ends.
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
		state.WentBack, l.back = l.back, false
		l.mu.Unlock()
		if !first && !state.WentBack && last.Exists() == state.Exists() && last.ConfirmPurge == state.ConfirmPurge && maps.Equal(last.Data, state.Data) {
			continue
		}
		first = false
		last = ConfigMap{ResourceVersion: state.ResourceVersion, Data: maps.Clone(state.Data), ConfirmPurge: state.ConfirmPurge, Written: state.Written}
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
