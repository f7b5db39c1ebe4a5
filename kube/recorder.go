package kube

import (
	"context"
	"log/slog"
	"strings"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/metadata"
	events "k8s.io/client-go/tools/record"
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

// Recorder turns notices into Kubernetes Events (D16). Nothing depends on them: it never blocks its callers, drops
// what comes too fast, and continues without the permission, because each notice is in the log, too.
type Recorder struct {
	recorder events.EventRecorder
	options  RecorderOptions
}

const (
	// Of one reason burstNotices are shown at once, then one each noticePause.
	burstNotices = 10
	noticePause  = 30 * time.Second
	// maxEventMessage is the limit of the API server, in bytes.
	maxEventMessage = 1024
)

// NewRecorder makes a recorder that works until ctx is done.
func (c *Client) NewRecorder(ctx context.Context, o RecorderOptions) *Recorder {
	broadcaster := events.NewBroadcaster(events.WithContext(ctx), events.WithCorrelatorOptions(events.CorrelatorOptions{
		BurstSize: burstNotices, QPS: 1 / float32(noticePause.Seconds()),
		SpamKeyFunc: func(e *corev1.Event) string { return e.Reason },
	}))
	broadcaster.StartRecordingToSink(&eventSink{EventSink: &typedcorev1.EventSinkImpl{Interface: c.core.Events("")}, ctx: ctx, metadata: c.metadata, log: o.Log})
	return &Recorder{broadcaster.NewRecorder(scheme.Scheme, corev1.EventSource{Component: c.config.UserAgent}), o}
}

// Record takes a notice. It returns at once.
func (r *Recorder) Record(n Notice) {
	about := &corev1.ObjectReference{APIVersion: "v1", Kind: "ConfigMap", Namespace: r.options.Namespace, Name: r.options.ConfigMap}
	if !n.OnConfigMap && r.options.Pod != "" {
		about.Kind, about.Name = "Pod", r.options.Pod
	}
	eventType := corev1.EventTypeNormal
	if n.Warning {
		eventType = corev1.EventTypeWarning
	}
	if len(n.Message) > maxEventMessage {
		n.Message = strings.ToValidUTF8(n.Message[:maxEventMessage-len("…")], "") + "…"
	}
	r.recorder.Event(about, eventType, n.Reason, n.Message)
}

// eventSink writes the Events, one after the other.
type eventSink struct {
	events.EventSink

	ctx      context.Context
	metadata metadata.Interface
	log      *slog.Logger
	silent   atomic.Bool // that Events may not be written was logged
}

// Create implements events.EventSink. 'kubectl describe' selects by the UID of the object; without one the Event is
// still in the list of Events. The library compares Events with those that it has made, without the UID.
func (s *eventSink) Create(e *corev1.Event) (*corev1.Event, error) {
	e.InvolvedObject.UID = s.uid(e.InvolvedObject)
	made, err := s.EventSink.Create(e)
	switch {
	case apierrors.IsForbidden(err):
		if !s.silent.Swap(true) {
			s.log.Warn("an event could not be recorded", "reason", e.Reason, "err", err, "fix", "allow the operator to create and patch events in its namespace; until then the log has the same text")
		}
		made, err = e, nil
	case err == nil:
		s.silent.Store(false)
	}
	if made != nil {
		made.InvolvedObject.UID = ""
	}
	return made, err
}

// uid is empty for an object that cannot be read.
func (s *eventSink) uid(of corev1.ObjectReference) types.UID {
	resource := corev1.SchemeGroupVersion.WithResource(strings.ToLower(of.Kind) + "s")
	object, err := s.metadata.Resource(resource).Namespace(of.Namespace).Get(s.ctx, of.Name, metav1.GetOptions{})
	if err != nil {
		return ""
	}
	return object.UID
}
