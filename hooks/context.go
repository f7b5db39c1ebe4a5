package hooks

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"slices"

	"addon-operator/values"
)

// ContextType is what happened, for a hook of protocol v1; order bindings and protocol v0 have
// none.
type ContextType string

// The context types of C31.
const (
	TypeSynchronization ContextType = "Synchronization"
	TypeEvent           ContextType = "Event"
	TypeSchedule        ContextType = "Schedule"
	TypeGroup           ContextType = "Group"
)

// Object is one element of "objects" and of a snapshot. An absent part is nil; the result of a
// filter that gave nothing is the JSON text null (C37).
type Object struct {
	Object       json.RawMessage `json:"object,omitempty"`
	FilterResult json.RawMessage `json:"filterResult,omitempty"`
}

// Resource names the object of a v0 event; such contexts carry coordinates only (C20).
type Resource struct {
	Namespace string // "" for an object of the cluster; the field is absent then
	Kind      string
	Name      string
}

// Context is one element of the array that a hook reads from BINDING_CONTEXT_PATH. Its JSON has
// exactly the fields that C31 (v1) and C32 (v0) list for its type, whatever other fields are set.
type Context struct {
	Binding      string
	Type         ContextType // "" for order bindings and for every context of protocol v0
	WatchEvent   string      // Added, Modified or Deleted: for TypeEvent, and together with Resource
	Object       json.RawMessage
	FilterResult json.RawMessage
	Objects      []Object            // TypeSynchronization
	Snapshots    map[string][]Object // nil: the field is absent; TypeGroup always has it
	GroupName    string              // TypeGroup, and what Compact looks at
	Resource     *Resource           // v0 events only
}

// wireContext has the fields of C31 and C32 in the order in which people like to read them. Objects
// and Snapshots are pointers to distinguish an empty field from an absent one.
type wireContext struct {
	Binding           string               `json:"binding"`
	Type              ContextType          `json:"type,omitempty"`
	GroupName         string               `json:"groupName,omitempty"`
	WatchEvent        string               `json:"watchEvent,omitempty"`
	ResourceEvent     string               `json:"resourceEvent,omitempty"`
	ResourceNamespace string               `json:"resourceNamespace,omitempty"`
	ResourceKind      string               `json:"resourceKind,omitempty"`
	ResourceName      string               `json:"resourceName,omitempty"`
	Object            json.RawMessage      `json:"object,omitempty"`
	FilterResult      json.RawMessage      `json:"filterResult,omitempty"`
	Objects           *[]Object            `json:"objects,omitempty"`
	Snapshots         *map[string][]Object `json:"snapshots,omitempty"`
}

// MarshalJSON writes the context as the hook reads it. Empty lists are written as [], never as
// null.
func (c Context) MarshalJSON() ([]byte, error) {
	return values.Encode(c.wire())
}

// writeContexts writes the array of BINDING_CONTEXT_PATH; it is never null (X18). It writes object
// by object: each context repeats the snapshots that it asked for, so the whole array may not fit
// into memory (P5).
func writeContexts(out io.Writer, contexts []Context) error {
	w := contextWriter{out: bufio.NewWriterSize(out, 64<<10)}
	w.list(len(contexts), func(i int) { w.context(contexts[i]) })
	return errors.Join(w.err, w.out.Flush())
}

// contextWriter writes JSON piece by piece. It keeps the first error and then writes nothing more.
type contextWriter struct {
	out *bufio.Writer
	err error
}

// context writes one context: first its small fields at once, without the closing brace, then its
// lists.
func (w *contextWriter) context(c Context) {
	head := c.wire()
	objects, snapshots := head.Objects, head.Snapshots
	head.Objects, head.Snapshots = nil, nil
	w.value(head, "}")
	if objects != nil {
		w.text(`,"objects":`)
		w.objects(*objects)
	}
	if snapshots != nil {
		w.text(`,"snapshots":{`)
		for i, name := range slices.Sorted(maps.Keys(*snapshots)) {
			if i > 0 {
				w.text(",")
			}
			w.value(name, "")
			w.text(":")
			w.objects((*snapshots)[name])
		}
		w.text("}")
	}
	w.text("}")
}

func (w *contextWriter) objects(list []Object) {
	w.list(len(list), func(i int) { w.value(list[i], "") })
}

func (w *contextWriter) list(n int, element func(i int)) {
	w.text("[")
	for i := 0; i < n && w.err == nil; i++ {
		if i > 0 {
			w.text(",")
		}
		element(i)
	}
	w.text("]")
}

// value writes a value as JSON without the given ending.
func (w *contextWriter) value(v any, without string) {
	text, err := values.Encode(v)
	if w.err == nil {
		w.err = err
	}
	w.bytes(bytes.TrimSuffix(text, []byte(without)))
}

func (w *contextWriter) text(s string) { w.bytes([]byte(s)) }

func (w *contextWriter) bytes(b []byte) {
	if w.err == nil {
		_, w.err = w.out.Write(b)
	}
}

// wire selects the fields that belong to the type of the context.
func (c Context) wire() wireContext {
	wire := wireContext{Binding: c.Binding, Type: c.Type}
	if c.Snapshots != nil || c.Type == TypeGroup {
		snapshots := make(map[string][]Object, len(c.Snapshots))
		for name, objects := range c.Snapshots {
			snapshots[name] = notNil(objects)
		}
		wire.Snapshots = &snapshots
	}
	switch {
	case c.Type == TypeSynchronization:
		objects := notNil(c.Objects)
		wire.Objects = &objects
	case c.Type == TypeEvent:
		wire.WatchEvent = c.WatchEvent
		wire.Object, wire.FilterResult = c.Object, c.FilterResult
	case c.Type == TypeGroup:
		wire.GroupName = c.GroupName
	case c.Type == "" && c.Resource != nil:
		wire.Snapshots = nil
		wire.ResourceEvent = resourceEvent(c.WatchEvent)
		wire.ResourceNamespace, wire.ResourceKind, wire.ResourceName = c.Resource.Namespace, c.Resource.Kind, c.Resource.Name
	}
	return wire
}

// Compact keeps only the last of neighbouring contexts with the same group, because its snapshots
// contain everything that the others would show. It keeps all contexts without a group, and the
// order (C42). The argument is not changed.
func Compact(contexts []Context) []Context {
	var kept []Context
	for i, context := range contexts {
		last := i == len(contexts)-1
		if !last && context.GroupName != "" && context.GroupName == contexts[i+1].GroupName {
			continue
		}
		kept = append(kept, context)
	}
	return kept
}

// resourceEvent returns the name of a watch event in protocol v0.
func resourceEvent(watchEvent string) string {
	switch watchEvent {
	case Added:
		return "add"
	case Modified:
		return "update"
	case Deleted:
		return "delete"
	}
	return ""
}

// notNil turns nil into an empty list: a hook reads [], never null.
func notNil(objects []Object) []Object {
	if objects == nil {
		return []Object{}
	}
	return objects
}
