package kube

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
	"log/slog"
	"net/url"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
)

// pageSize bounds the memory of a list that cannot be streamed, in objects.
const pageSize = 100

// The pauses between attempts. An API server that was away must be found again
// within 2 s, so the pause for a lost connection stays short; a denial is
// rarely lifted soon, but right after its start an API server denies all until
// it has read its roles, so that pause starts short too.
const (
	pauseFirst     = 100 * time.Millisecond
	pauseLost      = time.Second
	pauseMissing   = 5 * time.Second
	pauseForbidden = 30 * time.Second
	pauseReset     = 10 * time.Second // of a working watch: the next failure is a new one
)

// sourceKey is what distinguishes sources: Watches with an equal key share one. The selectors
// are in a normal form (labelText), because they are compared as texts.
type sourceKey struct {
	resource  schema.GroupVersionResource
	namespace string // empty: all
	labels    string
	fields    string
	metadata  bool // nothing else of the objects is read
}

// String names the source in logs and states: "secrets in namespace a".
func (k sourceKey) String() string {
	text := k.resource.GroupResource().String()
	if k.metadata {
		text = "metadata of " + text
	}
	for _, part := range [][2]string{{" with ", k.fields}, {" labelled ", k.labels}, {" in namespace ", k.namespace}} {
		if part[1] != "" {
			text += part[0] + part[1]
		}
	}
	return text
}

// source hands the events of one reflector of client-go to its parts; Watches of the same selection share it. It
// keeps no objects: each part keeps what its filter leaves of them. A part that comes when the reflector watches
// needs the objects, too: the reflector lists again, for all parts, and to the others that list shows nothing new.
//
// It makes the requests of the reflector, so that failures are visible, pauses depend on their cause, and no watch
// continues from a version that the API server has gone back behind.
type source struct {
	key     sourceKey
	api     dynamic.ResourceInterface
	seed    maphash.Seed
	watches Watches // never nil
	log     *slog.Logger
	health  health // read by other goroutines, for states
	// wentBack is Options.WentBack.
	wentBack func(error)

	// Guarded by the lock of the Watcher.
	holders int // parts that are attached
	stop    context.CancelFunc

	// Held while parts receive an event or a list, so that a part sees each change exactly once,
	// however it joins or leaves. The lock of a Watch is taken after it.
	mu    sync.Mutex
	parts []*part // receive each list and, from then on, each event
	batch *batch  // the list that is due, or in progress, is made for these; nil: the reflector watches
	lists int     // complete lists of the reflector
	again func()  // has the reflector list again; it never blocks
	// The newest version from which the reflector wanted to continue, and that of a list from which
	// no watch has begun yet; empty: none.
	known, listed string
}

var _ cache.TransformingStore = (*source)(nil)

// api is what a source lists and watches.
func (c *Client) api(key sourceKey) dynamic.ResourceInterface {
	whole := c.dynamic.Resource(key.resource).Namespace(key.namespace)
	if !key.metadata {
		return whole
	}
	return metadataOnly{whole, c.metadata.Resource(key.resource).Namespace(key.namespace)}
}

// metadataOnly lists and watches metadata, as protobuf, which takes a fraction of the CPU that JSON takes. The garbage
// collector of Kubernetes reads all kinds in this way.
type metadataOnly struct {
	dynamic.ResourceInterface

	metadata metadata.ResourceInterface
}

// List implements dynamic.ResourceInterface.
func (m metadataOnly) List(ctx context.Context, o metav1.ListOptions) (*unstructured.UnstructuredList, error) {
	page, err := m.metadata.List(ctx, o)
	if err != nil {
		return nil, err
	}
	list := &unstructured.UnstructuredList{}
	list.SetResourceVersion(page.ResourceVersion)
	list.SetContinue(page.Continue)
	for i := range page.Items {
		list.Items = append(list.Items, *metadataOf(&page.Items[i]))
	}
	return list, nil
}

// Watch implements dynamic.ResourceInterface. Its events have objects of type PartialObjectMetadata.
func (m metadataOnly) Watch(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
	return m.metadata.Watch(ctx, o)
}

// objectOf is an object as a watch sends it.
func objectOf(sent any) (*unstructured.Unstructured, bool) {
	if metadata, ok := sent.(*metav1.PartialObjectMetadata); ok {
		return metadataOf(metadata), true
	}
	whole, ok := sent.(*unstructured.Unstructured)
	return whole, ok
}

// metadataOf is an object with its metadata alone.
func metadataOf(object *metav1.PartialObjectMetadata) *unstructured.Unstructured {
	object.ManagedFields = nil
	fields, _ := runtime.DefaultUnstructuredConverter.ToUnstructured(&object.ObjectMeta) // it fails on no metadata
	return &unstructured.Unstructured{Object: map[string]any{"metadata": fields}}
}

// run reads until ctx ends.
func (s *source) run(ctx context.Context) {
	ctx = klog.NewContext(ctx, klog.Background())
	ctx = context.WithValue(ctx, watchingKey{}, true)
	requests := &cache.ListWatch{ListWithContextFunc: s.list, WatchFuncWithContext: s.watch}
	reflector := cache.NewReflectorWithOptions(requests, nil, s, cache.ReflectorOptions{
		Name:            s.key.String(),
		TypeDescription: s.key.String(),
		Backoff:         newPause(pauseLost),
	})
	var pause *wait.Backoff // grows while the cause stays the same
	var longest time.Duration
	for ctx.Err() == nil {
		started := time.Now()
		// A reflector returns when it wants to list again: after an error, which list and watch have seen,
		// or because its resource version is too old.
		attempt, end := context.WithCancel(ctx)
		s.mu.Lock()
		s.again = end
		s.mu.Unlock()
		_ = reflector.ListAndWatchWithContext(attempt)
		again := attempt.Err() != nil
		if end(); again {
			continue
		}
		if now := s.longestPause(); pause == nil || now != longest || time.Since(started) > pauseReset {
			pause, longest = newPause(now), now
		}
		_ = sleep(ctx, pause.Step()) // the loop checks ctx
	}
}

// longestPause depends on the cause of the last failure: another cause starts with short pauses again.
func (s *source) longestPause() time.Duration {
	switch c := s.health.condition(); {
	case c.forbidden():
		return pauseForbidden
	case apierrors.IsNotFound(c.err):
		return pauseMissing
	default:
		return pauseLost
	}
}

// newPause makes pauses that grow from pauseFirst to limit and stay there. The library ends the
// steps at the cap; their number must only be large enough to reach it.
func newPause(limit time.Duration) *wait.Backoff {
	return &wait.Backoff{Duration: pauseFirst, Factor: 2, Jitter: 0.2, Steps: 1 << 20, Cap: limit}
}

// list lists everything. A success does not end an outage yet: a role may allow list and not watch, and
// the watch comes next.
func (s *source) list(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
	s.continues(o.ResourceVersion)
	list, err := s.pages(ctx, s.startList())
	if err == nil {
		err = s.compare(list.ResourceVersion)
	}
	if err != nil {
		s.note(ctx, "list", err)
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.listed = list.ResourceVersion
	return list, nil
}

// watch opens a watch, and notes how that went. After a request without an answer the reflector waits a moment and
// continues from where it was, as if the connection had been refused.
func (s *source) watch(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
	streamed := o.SendInitialEvents != nil && *o.SendInitialEvents
	var stream watch.Interface
	err := s.passed(ctx, o.ResourceVersion)
	if err == nil {
		if streamed {
			s.startList()
			o.ResourceVersion = s.firstVersion(o.ResourceVersion)
		}
		o.LabelSelector, o.FieldSelector = s.key.labels, s.key.fields
		stream, err = s.api.Watch(ctx, o)
	}
	// The API server cannot send the initial list as a stream.
	unsupported := apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) || apierrors.IsMethodNotSupported(err)
	if streamed && unsupported {
		return stream, err // no failure, because the reflector lists instead
	}
	s.note(ctx, "watch", err)
	if _, ok := errors.AsType[noAnswer](err); ok {
		err = syscall.ECONNREFUSED
	}
	return stream, err
}

// plain removes the URL of a request from its error, because it hides what went wrong; the caller
// names what it asked for. An EOF gets words that a person understands.
func plain(err error) error {
	if request, ok := errors.AsType[*url.Error](err); ok {
		err = request.Err
	}
	if hidden, ok := errors.AsType[noAnswer](err); ok {
		err = hidden.cause
	}
	if errors.Is(err, io.EOF) {
		return fmt.Errorf("the connection was closed without an answer: %w", err)
	}
	return err
}

// note keeps the outcome of a request. A resource version that is too old or too new is no failure:
// it is how a reflector learns that a new list is due. The parts are told of failures.
func (s *source) note(ctx context.Context, verb string, err error) {
	switch {
	case ctx.Err() != nil: // the watch ends; its requests fail because of that
	case err == nil:
		if outage := s.health.recover(verb, time.Now()); outage > 0 {
			s.log.Info("watch is restored", "watch", s.key.String(), "after", outage.Round(time.Millisecond))
		}
	case apierrors.IsResourceExpired(err), apierrors.IsGone(err),
		apierrors.HasStatusCause(err, metav1.CauseTypeResourceVersionTooLarge):
		s.watches.WatchFailed(failureKind(err))
	default:
		err = plain(err)
		if s.health.fail(verb, err, time.Now()) {
			level := slog.LevelWarn
			if apierrors.IsNotFound(err) { // the Watches say that they wait for the kind
				level = slog.LevelDebug
			}
			s.log.Log(ctx, level, "watch is interrupted, will retry", "watch", s.key.String(), "verb", verb, "err", err)
			resource := s.key.resource
			s.watches.WatchInterrupted(resource.GroupVersion().String()+"/"+resource.Resource, s.key.namespace)
		}
		s.watches.WatchFailed(failureKind(err))
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, p := range s.parts {
			p.failed(err)
		}
	}
}

// firstVersion returns the version at which a streamed list may begin. The first list takes
// the cache of the API server, "0", as informers do: for a list that is
// as new as the latest write to any object, the API server waits for a notification
// from its store, up to 100 ms, and a converge writes all the time. Nothing is
// lost by it: objects that the list lacks follow as events. Later lists,
// which replace lost events, must not go back in time.
func (s *source) firstVersion(asked string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if asked == "" && s.lists == 0 {
		return "0"
	}
	return asked
}

// startList fixes which parts the list that starts now is for.
func (s *source) startList() *batch {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.batch = &batch{parts: slices.Clone(s.parts)}
	return s.batch
}

// pages lists everything in one consistent state, cutting each page down to
// what the batch keeps before it asks for the next.
func (s *source) pages(ctx context.Context, b *batch) (*metainternalversion.List, error) {
	options := metav1.ListOptions{LabelSelector: s.key.labels, FieldSelector: s.key.fields, Limit: pageSize}
	list := &metainternalversion.List{}
	for {
		page, err := s.api.List(ctx, options)
		if err != nil {
			return nil, err
		}
		for i := range page.Items {
			list.Items = append(list.Items, b.record(newDocument(&page.Items[i], s.key.metadata), s.seed))
		}
		list.ResourceVersion = page.GetResourceVersion()
		if options.Continue = page.GetContinue(); options.Continue == "" {
			return list, nil
		}
	}
}

// attach adds a part. It will be in the list that is due, or in another one.
func (s *source) attach(p *part) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.parts = append(s.parts, p)
	if s.batch == nil {
		s.again()
	}
	if c := s.health.condition(); c.forbidden() { // the next attempt, which would tell, may be half a minute away
		p.failed(c.err)
	}
}

// detach removes a part; it gets nothing after detach has returned.
func (s *source) detach(p *part) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.parts = slices.DeleteFunc(s.parts, func(other *part) bool { return other == p })
}

// Transformer cuts the objects of a streamed list down as they arrive. The
// reflector applies it to lists only; the events that follow come whole.
func (s *source) Transformer() cache.TransformFunc {
	return func(object any) (any, error) {
		whole, ok := objectOf(object)
		if !ok {
			return object, nil
		}
		s.mu.Lock()
		b := s.batch
		s.mu.Unlock()
		return b.record(newDocument(whole, s.key.metadata), s.seed), nil
	}
}

// Replace takes a complete list. Parts turn the difference from their objects
// into changes, so that a second list (after a 410, for example) is notified like the
// events that it replaces.
func (s *source) Replace(objects []any, _ string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	listed := s.batch.parts
	for i, p := range listed {
		if slices.Contains(s.parts, p) {
			p.replace(recordsOf(objects, i))
			p.joined = true
		}
	}
	s.lists++
	s.batch = nil
	if slices.ContainsFunc(s.parts, func(p *part) bool { return !p.joined }) { // it came while this list was in progress
		s.again()
	}
	return nil
}

// recordsOf collects the updates for the i-th part of a batch.
func recordsOf(objects []any, i int) []update {
	updates := make([]update, 0, len(objects))
	for _, object := range objects {
		if r, ok := object.(*record); ok {
			updates = append(updates, r.updates[i])
		}
	}
	return updates
}

// Add takes an ADDED event.
func (s *source) Add(object any) error { return s.event(object, (*part).put) }

// Update takes a MODIFIED event.
func (s *source) Update(object any) error { return s.event(object, (*part).put) }

// Delete takes a DELETED event.
func (s *source) Delete(object any) error { return s.event(object, (*part).remove) }

// Resync does nothing: parts keep what they have.
func (s *source) Resync() error { return nil }

// event filters an object for each part, and applies it to those that have had a list. The filters run
// with the lock held: a slow one delays the source, but each part must get the events in order.
func (s *source) event(object any, apply func(*part, update)) error {
	whole, ok := objectOf(object)
	if !ok {
		return fmt.Errorf("watch %s: unexpected %T in the stream", s.key, object)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	document := newDocument(whole, s.key.metadata)
	for _, p := range s.parts {
		if p.joined {
			apply(p, document.update(&p.watch.spec, s.seed))
		}
	}
	return nil
}

// An API server whose etcd is restored from a backup counts its resource versions again from an older one. A watch
// that continues would get no event until the count has passed its version, and all that the operator knows is of a
// state that is gone. So before a reflector continues from a version, a consistent list must not be older. If it is,
// the process ends (Options.WentBack), and is started again (P14).

// continues notes the version from which the reflector wants to continue, and returns the newest one. fresh is whether
// that is the one of a list which has just shown the state of the API server.
func (s *source) continues(version string) (known string, fresh bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	fresh = s.listed != "" && s.listed == version
	s.listed = ""
	if version != "" && version != "0" { // else it starts over, perhaps because its version is refused
		s.known = version
	}
	return s.known, fresh
}

// passed returns an error when the API server has gone back behind a version from which the reflector continues.
func (s *source) passed(ctx context.Context, version string) error {
	if known, fresh := s.continues(version); fresh || known == "" {
		return nil
	}
	one := metav1.ListOptions{Limit: 1}
	if strings.HasPrefix(s.key.fields, metav1.ObjectNameField+"=") { // a role may allow to list these names only
		one.FieldSelector = s.key.fields
	}
	list, err := s.api.List(ctx, one)
	switch {
	case apierrors.IsForbidden(err): // a role may allow to watch and not to list
		return nil
	case err != nil:
		return err
	}
	return s.compare(list.GetResourceVersion())
}

// compare returns an error when a consistent list is older than what is known.
func (s *source) compare(version string) error {
	s.mu.Lock()
	known := s.known
	s.mu.Unlock()
	if !Older(version, known) { // what cannot be compared proves nothing
		return nil
	}
	back := fmt.Errorf("the API server has gone back to an earlier state, as after a restore of etcd: %s were of version %s and are of %s", s.key, known, version)
	if s.wentBack != nil {
		s.wentBack(back)
	}
	return back
}
