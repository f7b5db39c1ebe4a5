package kube

import (
	"context"
	"log/slog"
	"time"

	"golang.org/x/time/rate"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

// Notice is a fact that a person must see, recorded as a Kubernetes Event.
type Notice struct {
	// OnConfigMap: it is about the ConfigMap, and shown there. All others are shown on the
	// Pod of the operator, or on the ConfigMap when the Pod is not known.
	OnConfigMap bool
	Warning     bool
	Reason      string // one word in CamelCase
	Message     string // a sentence without secrets: every user with access to the namespace reads it
}

// RecorderOptions are the objects on which notices are shown.
type RecorderOptions struct {
	Namespace, ConfigMap string
	Pod                  string // may be empty
	Log                  *slog.Logger
}

// Recorder turns notices into Kubernetes Events. Nothing depends on them: it never blocks its
// callers, drops what comes too fast, and continues without the permission. It retries nothing,
// because each notice is in the log, too.
type Recorder struct {
	events  events
	options RecorderOptions
	notices chan Notice

	// Only the goroutine of work touches these.
	limits map[string]*rate.Limiter // by reason, of which there are few
	silent bool                     // the last Event was not recorded, which was logged
}

const (
	// pendingNotices is how many wait for a slow API server; more are dropped.
	pendingNotices = 100
	// Of one reason burstNotices are shown at once, then one each noticePause.
	burstNotices = 10
	noticePause  = 30 * time.Second
	// noticeLimit bounds the requests for one, so that an API server that hangs costs no more than
	// the notices that wait.
	noticeLimit = 10 * time.Second
)

// NewRecorder makes a recorder that works until ctx is done.
func (c *Client) NewRecorder(ctx context.Context, o RecorderOptions) *Recorder {
	r := &Recorder{events: events{c.core, c.config.UserAgent}, options: o, notices: make(chan Notice, pendingNotices), limits: map[string]*rate.Limiter{}}
	go r.work(ctx)
	return r
}

// Record takes a notice. It returns at once.
func (r *Recorder) Record(n Notice) {
	select {
	case r.notices <- n:
	default: // the queue is full; the log has the same text
	}
}

func (r *Recorder) work(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case n := <-r.notices:
			r.record(ctx, n)
		}
	}
}

func (r *Recorder) record(ctx context.Context, n Notice) {
	if r.limits[n.Reason] == nil {
		r.limits[n.Reason] = rate.NewLimiter(rate.Every(noticePause), burstNotices)
	}
	if !r.limits[n.Reason].Allow() {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, noticeLimit)
	defer cancel()
	kind, name := "ConfigMap", r.options.ConfigMap
	if !n.OnConfigMap && r.options.Pod != "" {
		kind, name = "Pod", r.options.Pod
	}
	eventType := "Normal"
	if n.Warning {
		eventType = "Warning"
	}
	err := r.events.record(ctx, subject{kind, r.options.Namespace, name}, eventType, n.Reason, n.Message)
	switch {
	case err == nil:
		r.silent = false
	case !r.silent && ctx.Err() == nil:
		r.silent = true
		fix := "the log has the same text"
		if apierrors.IsForbidden(err) {
			fix = "allow the operator to create and update events in its namespace; until then the log has the same text"
		}
		r.options.Log.Warn("an event could not be recorded", "reason", n.Reason, "err", err, "fix", fix)
	}
}
