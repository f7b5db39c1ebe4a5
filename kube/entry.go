package kube

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"hash/maphash"
	"unique"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"addon-operator/values"
)

// objectKey names an object within a kind.
type objectKey struct{ namespace, name string }

func (k objectKey) compare(other objectKey) int {
	return cmp.Or(cmp.Compare(k.namespace, other.namespace), cmp.Compare(k.name, other.name))
}

// entry is what a Watch keeps of an object. There can be very many, so a field more costs memory
// for each object in each Watch. Hence hashes in place of texts: with the random seed of the
// Watcher, a user cannot craft two states with the same one.
type entry struct {
	object json.RawMessage // shared by all Watches that keep it; nil without KeepObjects
	result json.RawMessage // nil without Filter, and when it failed
	sum    uint64          // hash of the filter result or, without one, of the whole object (C38)
	uid    uint64          // hash of the UID: another one under the same name is another object
	failed bool            // the filter failed on this state
}

func (e entry) export(key objectKey) Object {
	return Object{Namespace: key.namespace, Name: key.name, Object: e.object, FilterResult: e.result}
}

// size is about what the entry takes in memory, with the object. It counts a shared object in full.
func (e entry) size(key objectKey) int {
	const overhead = 200 // the entry itself, its place in the map, the name
	return overhead + len(key.name) + len(e.object) + len(e.result)
}

// update is a new state of an object, made for one part: another part of the same source has
// another filter. Of a deleted object it is the last state.
type update struct {
	cut     bool // the list is too large for the part, and what it would keep of this object is left out
	key     objectKey
	version string // resourceVersion
	entry   entry
	err     error // of the filter
}

// document is an object as it came from the API server. It is encoded at most once, however many
// parts want it, and they share the bytes. One goroutine uses it.
type document struct {
	object  *unstructured.Unstructured
	encoded json.RawMessage
}

// newDocument takes an object, or no more than its metadata.
func newDocument(object *unstructured.Unstructured, metadata bool) *document {
	// Noise for hooks, and often half of the object.
	unstructured.RemoveNestedField(object.Object, "metadata", "managedFields")
	if metadata { // an API server may have sent more
		object.Object = map[string]any{"metadata": object.Object["metadata"]}
	}
	return &document{object: object}
}

func (d *document) key() objectKey {
	// A few namespaces, thousands of objects: the name of a namespace is in memory once.
	return objectKey{unique.Make(d.object.GetNamespace()).Value(), d.object.GetName()}
}

func (d *document) json() (json.RawMessage, error) {
	if d.encoded != nil {
		return d.encoded, nil
	}
	text, err := values.Encode(d.object.Object)
	d.encoded = bytes.Clone(text) // the buffer holds up to twice as much
	return d.encoded, err
}

// errFilterOfSecret replaces every error of a filter on a Secret: jq quotes the value that it fails on,
// and errors are logged and shown on pages (J7).
var errFilterOfSecret = errors.New("the jq filter fails or takes too long; its error is not shown, because it may quote the Secret")

// update filters the object for one Watch. A filter that fails leaves the
// object without a result; it then counts as changed when anything in it has
// changed, so that no event is lost (C39).
func (d *document) update(spec *Spec, seed maphash.Seed) update {
	u := update{key: d.key(), version: d.object.GetResourceVersion()}
	u.entry.uid = maphash.String(seed, string(d.object.GetUID()))
	if spec.Filter != nil {
		u.entry.result, u.err = spec.Filter(d.object.Object)
		u.entry.result = bytes.Clone(u.entry.result) // a buffer may hold more
	}
	if u.err != nil {
		u.entry.result, u.entry.failed = nil, true
		if d.object.GetKind() == "Secret" {
			u.err = errFilterOfSecret
		}
	}
	whole := spec.Filter == nil || u.entry.failed
	if !whole {
		u.entry.sum = maphash.Bytes(seed, u.entry.result)
	}
	if !whole && !spec.KeepObjects {
		return u
	}
	text, err := d.json()
	if err != nil { // counts and is logged as a failure of the filter
		u.err, u.entry.failed = err, true
		return u
	}
	if whole {
		u.entry.sum = maphash.Bytes(seed, text)
	}
	if spec.KeepObjects {
		u.entry.object = text
	}
	return u
}

// record is an object of a list, already cut down to what the listed parts keep of it: updates[i]
// is for parts[i] of the batch it was made for.
type record struct{ updates []update }

// batch are the parts that one list is made for. The parts of a source may change while the list is in
// progress; the batch has those that get the records.
type batch struct {
	parts []*part // never changes
	bytes []int   // that the list takes so far for each of them; only record touches it
}

// record reduces one object of the list for each part. When a part has no room for more, it keeps
// only the name of the object: the list continues, because other parts may have room, and the mark
// shows the part that it is too large. One goroutine calls it, for one object after another.
func (b *batch) record(document *document, seed maphash.Seed) *record {
	r := &record{updates: make([]update, len(b.parts))}
	if b.bytes == nil {
		b.bytes = make([]int, len(b.parts))
	}
	for i, p := range b.parts {
		if limit := p.watch.spec.Limit; limit > 0 && b.bytes[i] > limit {
			r.updates[i] = update{key: document.key(), version: document.object.GetResourceVersion(), cut: true}
			continue
		}
		r.updates[i] = document.update(&p.watch.spec, seed)
		b.bytes[i] += r.updates[i].entry.size(r.updates[i].key)
	}
	return r
}

// GetObjectKind and DeepCopyObject make a record pass as an API object on its
// way through the reflector. A record never changes, so it is its own copy.
func (r *record) GetObjectKind() schema.ObjectKind { return schema.EmptyObjectKind }

// DeepCopyObject returns the record.
func (r *record) DeepCopyObject() runtime.Object { return r }
