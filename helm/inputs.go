package helm

import (
	"context"
	"encoding/json"
	"log/slog"
	"maps"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// inputsName is the object of all releases with their inputs. It is of the kind of the records.
const inputsName = "addon-operator.inputs"

// inputsPause is how long an operator collects changes before it writes the object.
const inputsPause = 30 * time.Second

// maxInputs bounds the object, in bytes. Of more releases none is remembered.
const maxInputs = 900 << 10

// inputs are what records were rendered from, where their annotation (note) has other inputs,
// because something has changed that no template prints: a value of global, a file, the build of
// the operator. They are in one object, so that such a change costs no write for each release. What
// is missing here, or was lost, costs a render at the next start, and nothing else.
type inputs struct {
	objects recordObjects
	current func(release string) string // id of the newest record, as far as it is known
	log     *slog.Logger

	mu      sync.Mutex
	known   map[string]input // by release; nil: not read yet
	version string           // resourceVersion of the object; empty: there is none
	due     *time.Timer      // nil: nothing is to be written
}

// input are fields of a note, for one record.
type input struct {
	Record string `json:"record"` // its id
	Inputs string `json:"inputs"`
	All    string `json:"all,omitempty"`
}

// of returns what a record was rendered from; false when that is not known.
func (i *inputs) of(ctx context.Context, release, record string) (input, bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.read(ctx)
	in := i.known[release]
	return in, in.Record == record
}

// read reads the object once. The caller holds the lock.
func (i *inputs) read(ctx context.Context) {
	if i.known != nil {
		return
	}
	stored, err := i.objects.Get(ctx, inputsName, metav1.GetOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		i.log.Debug("the inputs of releases cannot be read; their charts are rendered", "object", inputsName, "err", err)
		return
	}
	i.known, i.version = map[string]input{}, ""
	if err == nil {
		i.version = stored.ResourceVersion
		_ = json.Unmarshal(stored.Data[recordKey], &i.known) // of a broken one nothing is known
	}
}

// put notes what a record was rendered from, and has it written.
func (i *inputs) put(ctx context.Context, release string, in input) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.read(ctx)
	if i.known == nil || i.known[release] == in {
		return
	}
	i.known[release] = in
	if i.due == nil {
		i.due = time.AfterFunc(inputsPause, i.write)
	}
}

// write writes the object. After a failure it is read again with the next change.
func (i *inputs) write() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.due = nil
	maps.DeleteFunc(i.known, func(release string, in input) bool { return i.current(release) != in.Record })
	data, err := json.Marshal(i.known)
	if err != nil || len(data) > maxInputs {
		return
	}
	object := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Name: inputsName, ResourceVersion: i.version, Labels: map[string]string{"owner": pointerOwner},
		},
		Data: map[string][]byte{recordKey: data},
	}
	ctx := context.Background() // requests have limits of their own
	var written *corev1.Secret
	if i.version == "" {
		written, err = i.objects.Create(ctx, object, metav1.CreateOptions{})
	} else {
		written, err = i.objects.Update(ctx, object, metav1.UpdateOptions{})
	}
	if err != nil {
		i.known = nil
		i.log.Debug("the inputs of releases cannot be written; their charts are rendered at the next start",
			"object", inputsName, "err", err)
		return
	}
	i.version = written.ResourceVersion
}
