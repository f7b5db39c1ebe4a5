package kube

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/url"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"k8s.io/klog/v2"
)

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

// lister and watcher are the two requests a feed makes.
type (
	lister  func(ctx context.Context, options metav1.ListOptions) (runtime.Object, error)
	watcher func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error)
)

// feed keeps a store equal to the objects of the API server, whatever happens to the connection. It is a
// reflector of client-go whose failures are visible, and whose pauses depend on their cause.
//
// As the ListerWatcher of the reflector it makes the requests, notes their results, and checks before each request that
// continues from a version that the API server has not gone back (wentback.go). A store is called by the goroutine of run
// only.
type feed struct {
	name    string    // of what is watched, for logs: "secrets in namespace a"
	key     sourceKey // for metrics
	watches Watches   // never nil
	list    lister
	watch   watcher
	store   cache.ReflectorStore
	log     *slog.Logger
	again   signal      // has the reflector list again; nil: never
	missing func()      // called when the API server does not serve the resource; may be nil
	failed  func(error) // a request failed; may be nil
	health  health      // read by other goroutines, for states

	first    lister          // lists at most one object, where list reads all; nil: list does
	wentBack func(err error) // Options.WentBack
	seen     continuity
}

// run feeds the store until ctx ends.
func (f *feed) run(ctx context.Context) {
	ctx = klog.NewContext(ctx, klog.Background())
	reflector := cache.NewReflectorWithOptions(f, nil, f.store, cache.ReflectorOptions{
		Name:            f.name,
		TypeDescription: f.name,
		Backoff:         newPause(pauseLost),
	})
	var pause *wait.Backoff // grows while the cause stays the same
	var cause string
	for ctx.Err() == nil {
		started := time.Now()
		// A reflector returns when it wants to list again: after an error,
		// or because its resource version is too old.
		if f.listAndWatch(ctx, reflector) {
			continue
		}
		limit, now := f.pauseLimit()
		if pause == nil || now != cause || time.Since(started) > pauseReset {
			pause, cause = newPause(limit), now
		}
		_ = sleep(ctx, pause.Step()) // the loop checks ctx
	}
}

// listAndWatch reports whether it has ended because another list is wanted. Errors are seen in ListWithContext and
// WatchWithContext.
func (f *feed) listAndWatch(ctx context.Context, reflector *cache.Reflector) (again bool) {
	attempt, end := context.WithCancel(ctx)
	defer end()
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_ = reflector.ListAndWatchWithContext(attempt)
	}()
	select {
	case <-f.again:
		end()
		<-ended
		return true
	case <-ended:
		return false
	}
}

// pauseLimit returns the longest pause after the last failure, and the name of
// its cause: another cause starts with short pauses again.
func (f *feed) pauseLimit() (limit time.Duration, cause string) {
	switch c := f.health.condition(); {
	case c.forbidden():
		return pauseForbidden, "forbidden"
	case apierrors.IsNotFound(c.err):
		return pauseMissing, "missing"
	default:
		return pauseLost, "lost"
	}
}

// newPause makes pauses that grow from pauseFirst to limit and stay there. The library ends the
// steps at the cap; their number must only be large enough to reach it.
func newPause(limit time.Duration) *wait.Backoff {
	return &wait.Backoff{Duration: pauseFirst, Factor: 2, Jitter: 0.2, Steps: 1 << 20, Cap: limit}
}

// List implements cache.ListerWatcher; reflectors prefer the other form.
func (f *feed) List(options metav1.ListOptions) (runtime.Object, error) {
	return f.ListWithContext(context.Background(), options)
}

// Watch implements cache.ListerWatcher; reflectors prefer the other form.
func (f *feed) Watch(options metav1.ListOptions) (watch.Interface, error) {
	return f.WatchWithContext(context.Background(), options)
}

// ListWithContext lists and notes a failure. A success does not end an outage yet: a role may allow
// list and not watch, and the watch comes next.
func (f *feed) ListWithContext(ctx context.Context, options metav1.ListOptions) (runtime.Object, error) {
	watched, unanswered := f.watchAttempts(ctx, "list")
	if err := f.passed(watched, options.ResourceVersion); err != nil {
		if !*unanswered {
			f.note(ctx, "list", err)
		}
		return nil, err
	}
	list, err := f.list(watched, options)
	switch {
	case err == nil:
		f.listing(list)
	case !*unanswered:
		f.note(ctx, "list", err)
	}
	return list, err
}

// WatchWithContext opens a watch and notes how it went.
func (f *feed) WatchWithContext(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
	watched, unanswered := f.watchAttempts(ctx, "watch")
	if err := f.passed(watched, options.ResourceVersion); err != nil {
		if !*unanswered {
			f.note(ctx, "watch", err)
		}
		return nil, err
	}
	stream, err := f.watch(watched, options)
	if *unanswered || options.SendInitialEvents != nil && unsupported(err) {
		return stream, err // noted already; or no failure, because the reflector lists instead
	}
	f.note(ctx, "watch", err)
	return stream, err
}

// watchAttempts notes each attempt at a request that gets no answer, at once and not after the
// retries of the library. unanswered is whether the last one was such: then its error is noted
// already.
func (f *feed) watchAttempts(ctx context.Context, verb string) (watched context.Context, unanswered *bool) {
	unanswered = new(bool)
	return withAttempts(ctx, func(err error) {
		*unanswered = err != nil
		if err != nil {
			f.note(ctx, verb, err)
		}
	}), unanswered
}

// unsupported reports that the API server cannot send the initial list as a
// stream.
func unsupported(err error) bool {
	return apierrors.IsInvalid(err) || apierrors.IsBadRequest(err) || apierrors.IsMethodNotSupported(err)
}

// plain removes the URL of a request from its error, because it hides what went wrong; the caller
// names what it asked for. An EOF gets words that a person understands.
func plain(err error) error {
	if request, ok := errors.AsType[*url.Error](err); ok {
		err = request.Err
	}
	if errors.Is(err, io.EOF) {
		return fmt.Errorf("the connection was closed without an answer: %w", err)
	}
	return err
}

// note keeps the outcome of a request. A resource version that is too old or too new is no failure:
// it is how a reflector learns that a new list is due.
func (f *feed) note(ctx context.Context, verb string, err error) {
	switch {
	case ctx.Err() != nil: // the watch ends; its requests fail because of that
	case err == nil:
		if outage := f.health.recover(verb, time.Now()); outage > 0 {
			f.log.Info("watch is restored", "watch", f.name, "after", outage.Round(time.Millisecond))
		}
	case apierrors.IsResourceExpired(err), apierrors.IsGone(err),
		apierrors.HasStatusCause(err, metav1.CauseTypeResourceVersionTooLarge):
		f.watches.WatchFailed(failureKind(err))
	default:
		err = plain(err)
		if f.health.fail(verb, err, time.Now()) {
			f.log.Warn("watch is interrupted, will retry", "watch", f.name, "verb", verb, "err", err)
			f.watches.WatchInterrupted(f.key.gvr(), f.key.namespace)
		}
		f.watches.WatchFailed(failureKind(err))
		if apierrors.IsNotFound(err) && f.missing != nil {
			f.missing()
		}
		if f.failed != nil {
			f.failed(err)
		}
	}
}
