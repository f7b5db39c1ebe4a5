package hooks

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"slices"
	"strings"

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
	Review       json.RawMessage     // chapter O: {"request": …}
	FromVersion  string              // TypeConversion
	ToVersion    string              // TypeConversion
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
	FromVersion       string               `json:"fromVersion,omitempty"`
	ToVersion         string               `json:"toVersion,omitempty"`
	Review            json.RawMessage      `json:"review,omitempty"`
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
func writeContexts(to io.Writer, contexts []Context) error {
	out := bufio.NewWriter(to)
	var failed error
	write := func(before string, v any, without string) { // bufio keeps the first error of out
		text, err := values.Encode(v)
		failed = errors.Join(failed, err)
		_, _ = out.WriteString(before)
		_, _ = out.Write(bytes.TrimSuffix(text, []byte(without)))
	}
	objects := func(list []Object) {
		separator := "["
		for _, object := range list {
			write(separator, object, "")
			separator = ","
		}
		_, _ = out.WriteString(strings.TrimSuffix(separator, ",") + "]")
	}
	separator := "["
	for _, c := range contexts {
		head := c.wire()
		lists, snapshots := head.Objects, head.Snapshots
		head.Objects, head.Snapshots = nil, nil
		write(separator, head, "}") // its lists follow
		if lists != nil {
			_, _ = out.WriteString(`,"objects":`)
			objects(*lists)
		}
		if snapshots != nil {
			between := `,"snapshots":{`
			for _, name := range slices.Sorted(maps.Keys(*snapshots)) {
				write(between, name, "")
				_, _ = out.WriteString(":")
				objects((*snapshots)[name])
				between = ","
			}
			_, _ = out.WriteString(strings.TrimSuffix(between, ",") + "}")
		}
		_, _ = out.WriteString("}")
		separator = ","
	}
	_, _ = out.WriteString(strings.TrimSuffix(separator, ",") + "]")
	return errors.Join(failed, out.Flush())
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
	case c.Type == TypeValidating || c.Type == TypeMutating || c.Type == TypeConversion:
		wire.Review, wire.FromVersion, wire.ToVersion = c.Review, c.FromVersion, c.ToVersion
	case c.Type == "" && c.Resource != nil:
		wire.Snapshots = nil
		wire.ResourceEvent = map[string]string{Added: "add", Modified: "update", Deleted: "delete"}[c.WatchEvent]
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
		if i+1 == len(contexts) || context.GroupName == "" || context.GroupName != contexts[i+1].GroupName {
			kept = append(kept, context)
		}
	}
	return kept
}

// notNil turns nil into an empty list: a hook reads [], never null.
func notNil(objects []Object) []Object {
	if objects == nil {
		return []Object{}
	}
	return objects
}
