package health

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/cli-utils/pkg/kstatus/status"
)

// The states of an object, in the words of kstatus.
const (
	// Current: its status reports that the desired state of its spec is reached. An object without a status is
	// current.
	Current = "Current"
	// InProgress: its controller is at work, or has not begun.
	InProgress = "InProgress"
	// Failed: its controller has given up.
	Failed = "Failed"
	// Terminating: it is deleted, and a finalizer keeps it.
	Terminating = "Terminating"
	// Unknown: it was not read yet, may not be read, or has a status that makes no sense.
	Unknown = "Unknown"
)

// Health is the state of one object, one of the constants. Message is a sentence for people, empty
// when it is current, of at most maxMessage bytes.
type Health struct {
	State   string
	Message string
}

// maxMessage bounds what a controller can make the operator keep of each object.
const maxMessage = 512

// Of assesses an object, which must have its status.
func Of(object *unstructured.Unstructured) Health {
	h, deleted := deleting(object)
	if deleted {
		return h
	}
	result, err := status.Compute(object)
	switch {
	case err != nil:
		h.State, h.Message = Unknown, brief(err.Error())
	case result.Status == status.CurrentStatus:
		h.State = Current
	default:
		h.State, h.Message = result.Status.String(), brief(result.Message)
	}
	return h
}

// deleting is the health of an object that is being deleted.
func deleting(o metav1.Object) (h Health, deleted bool) {
	if o.GetDeletionTimestamp() == nil {
		return Health{}, false
	}
	message := "it is being deleted"
	if keep := o.GetFinalizers(); len(keep) > 0 {
		message += ", and waits for its finalizers: " + strings.Join(keep, ", ")
	}
	return Health{State: Terminating, Message: brief(message)}, true
}

// brief is a message on one line.
func brief(message string) string {
	message = strings.Join(strings.Fields(message), " ")
	if len(message) <= maxMessage {
		return message
	}
	return strings.ToValidUTF8(message[:maxMessage], "") + " …"
}

// HasStatus reports whether objects of a kind must be read to assess their health: the others, such
// as ConfigMaps, are current as long as they exist and are not being deleted. Custom resources are
// taken to have a status.
func HasStatus(kind schema.GroupKind) bool {
	switch kind.Group {
	case "rbac.authorization.k8s.io", "admissionregistration.k8s.io", "scheduling.k8s.io", "storage.k8s.io", "node.k8s.io", "coordination.k8s.io":
		return false
	case "networking.k8s.io":
		return kind.Kind == "Ingress"
	case "":
		switch kind.Kind {
		case "ConfigMap", "Secret", "ServiceAccount", "Endpoints", "LimitRange", "PodTemplate", "Event":
			return false
		}
	}
	return true
}

const (
	workers = 4
	// firstPause is before the first read of an object. A watch that begins names many at once: listFrom or more of one
	// kind in one namespace are listed together.
	firstPause = 20 * time.Millisecond
	listFrom   = 4
	listPage   = 25 // definitions may have half a megabyte each
	// readPause is between two reads of one object.
	readPause = time.Second
	// retryPause is how long after a failed read the next one comes.
	retryPause = 10 * time.Second
)

// Follower keeps the health of objects up to date: Changed names what has changed, workers read it
// and report. It is safe for concurrent use.
type Follower struct {
	client dynamic.Interface
	labels string
	report func(schema.GroupKind, types.NamespacedName, Health)
	queue  workqueue.TypedDelayingInterface[object]

	mu      sync.Mutex
	objects map[object]*followed
	// unread has, by kind and namespace, those that wait for their first read since they were written.
	unread map[object]map[object]*followed
}

type object struct {
	schema.GroupKind
	types.NamespacedName
}

// alike stands for all objects of the kind in the namespace.
func (o object) alike() object {
	o.Name = ""
	return o
}

// followed is one object. Whoever finds it changed since a read began makes a new one, so that the read does not
// count.
type followed struct {
	mapping *meta.RESTMapping
	known   *Health   // nil: not read yet
	version string    // resourceVersion that was read
	alone   bool      // a list would cost more than it spares
	next    time.Time // it is not read again before
}

// NewFollower makes a follower that reads nothing until Run. labels select objects, and those that Changed names are
// among them. report is called when the health of an object has changed, and for the first one that is known. It must
// return at once, and must not call the Follower, whose lock is held.
func NewFollower(client dynamic.Interface, labels string, report func(schema.GroupKind, types.NamespacedName, Health)) *Follower {
	return &Follower{
		client: client, labels: labels, report: report, queue: workqueue.NewTypedDelayingQueue[object](),
		objects: map[object]*followed{}, unread: map[object]map[object]*followed{},
	}
}

// Run reads what Changed names, until ctx ends.
func (f *Follower) Run(ctx context.Context) {
	defer context.AfterFunc(ctx, f.queue.ShutDown)()
	var running sync.WaitGroup
	for range workers {
		running.Go(func() {
			for {
				o, ended := f.queue.Get()
				if ended {
					return
				}
				f.read(ctx, o)
				f.queue.Done(o)
			}
		})
	}
	running.Wait()
}

// Changed notifies the follower that an object exists in this version. It returns at once.
func (f *Follower) Changed(m *meta.RESTMapping, live *metav1.PartialObjectMetadata) {
	o := object{m.GroupVersionKind.GroupKind(), types.NamespacedName{Namespace: live.Namespace, Name: live.Name}}
	f.mu.Lock()
	defer f.mu.Unlock()
	old := f.objects[o]
	if old != nil && old.version == live.ResourceVersion && live.ResourceVersion != "" && HasStatus(o.GroupKind) {
		old.mapping = m // the kind may be served in another version than before
		return          // as it is after each new list of a watch
	}
	now := &followed{mapping: m, next: time.Now().Add(firstPause)}
	if old != nil {
		now.known, now.next = old.known, old.next
	}
	f.objects[o] = now
	if !HasStatus(o.GroupKind) {
		health, deleted := deleting(live)
		if !deleted {
			health.State = Current
		}
		f.learn(o, now, health)
		return
	}
	f.enqueue(o, now)
}

// enqueue has an object read. The caller holds the lock.
func (f *Follower) enqueue(o object, of *followed) {
	if of.known == nil {
		alike := o.alike()
		if f.unread[alike] == nil {
			f.unread[alike] = map[object]*followed{}
		}
		f.unread[alike][o] = of
	}
	f.queue.AddAfter(o, time.Until(of.next))
}

// Again notifies the follower that an object was just written: its assessment may be out of date, so it is read
// again, and reported also when its health is the same. A read in progress does not count. Again
// returns at once.
func (f *Follower) Again(kind schema.GroupKind, name types.NamespacedName) {
	o := object{kind, name}
	f.mu.Lock()
	defer f.mu.Unlock()
	old := f.objects[o]
	switch {
	case old == nil || f.unread[o.alike()][o] != nil: // its first read is still to come
	case !HasStatus(kind):
		f.report(kind, name, *old.known)
	default:
		now := &followed{mapping: old.mapping, next: old.next}
		f.objects[o] = now
		f.enqueue(o, now)
	}
}

// Gone notifies the follower that an object does not exist any more, or is no longer ours. It returns at once.
func (f *Follower) Gone(kind schema.GroupKind, name types.NamespacedName) {
	f.mu.Lock()
	defer f.mu.Unlock()
	o := object{kind, name}
	delete(f.objects, o)
	delete(f.unread[o.alike()], o)
}

// learn keeps the health of an object, and reports it if it is another one than before. The caller
// holds the lock, so reports about an object arrive in order.
func (f *Follower) learn(o object, of *followed, now Health) {
	changed := of.known == nil || *of.known != now
	of.known = &now
	if changed {
		f.report(o.GroupKind, o.NamespacedName, now)
	}
}

// read reads an object, and with it those that are alike and were not read yet, if they are many.
func (f *Follower) read(ctx context.Context, o object) {
	f.mu.Lock()
	of, unread := f.objects[o], f.unread[o.alike()]
	switch {
	case of == nil || of.version != "" || of.known == nil && !of.alone && unread[o] == nil: // gone, or a list has it
		f.mu.Unlock()
	case !of.alone && of.known == nil && len(unread) >= listFrom:
		delete(f.unread, o.alike())
		f.mu.Unlock()
		f.list(ctx, o.alike(), of.mapping, unread)
	default:
		delete(unread, o)
		f.mu.Unlock()
		f.get(ctx, o, of)
	}
}

// list reads objects that are alike by lists of all that are, as long as these cost fewer requests than to get each:
// others may have thousands there. What it has not found is read by itself.
func (f *Follower) list(ctx context.Context, alike object, m *meta.RESTMapping, unread map[object]*followed) {
	options := metav1.ListOptions{LabelSelector: f.labels, Limit: listPage}
	for found := listFrom; found >= listFrom && len(unread) > 0; {
		page, err := f.client.Resource(m.Resource).Namespace(alike.Namespace).List(ctx, options)
		if err != nil {
			break
		}
		found = 0
		for i := range page.Items {
			one := alike
			one.Name = page.Items[i].GetName()
			if of := unread[one]; of != nil {
				f.assess(ctx, one, of, &page.Items[i], nil)
				delete(unread, one)
				found++
			}
		}
		if options.Continue = page.GetContinue(); options.Continue == "" {
			break
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	for one, of := range unread {
		of.alone = true
		f.queue.Add(one)
	}
}

func (f *Follower) get(ctx context.Context, o object, of *followed) {
	live, err := f.client.Resource(of.mapping.Resource).Namespace(o.Namespace).Get(ctx, o.Name, metav1.GetOptions{})
	f.assess(ctx, o, of, live, err)
}

// assess learns the health of an object from what was read of it. The lock was not held meanwhile, so what was read
// does not count if the object is another one since. After an error it is Unknown, and read again later.
func (f *Follower) assess(ctx context.Context, o object, of *followed, live *unstructured.Unstructured, err error) {
	if apierrors.IsNotFound(err) || ctx.Err() != nil { // Gone comes
		return
	}
	var health Health
	if err != nil {
		health = Health{State: Unknown, Message: brief(fmt.Sprintf("get %s %s: %v", o.Kind, o.NamespacedName, err))}
	} else {
		health = Of(live)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	now := f.objects[o]
	if now == nil {
		return
	}
	now.next = time.Now().Add(readPause)
	if now != of { // whoever has changed it has queued it
		return
	}
	if f.learn(o, now, health); err != nil {
		f.queue.AddAfter(o, retryPause)
		return
	}
	now.version = live.GetResourceVersion()
}
