package helm

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"

	"addon-operator/helm/manifest"
)

// Verb is what would happen to an object.
type Verb string

// Verbs.
const (
	Created Verb = "create"
	Changed Verb = "change"
	Deleted Verb = "delete"
)

// Change is what an Apply or an Uninstall would do to one object.
type Change struct {
	Object manifest.Object
	Verb   Verb
	// Note names the part that could not be tried, and the reason; empty when the API server has tried the change.
	// With a Note, After is the object that was sent, or the present object.
	Note string

	// Before and After are the object as the API server has it, values of Secrets included; nil:
	// there is none. They are not changed: what is shown is made of copies.
	Before, After map[string]any

	// Mask hides more than the values of Secrets, in a copy of the same structure; nil for no more.
	Mask func(object map[string]any) map[string]any
}

// Field is one value of an object that would change.
type Field struct {
	Path          string // such as spec.template.spec.containers[0].image
	Before, After any    // nil: there is none
}

// masked replaces a value of a Secret.
const masked = "***"

// Fields are the values that differ, sorted by their paths. Values of a Secret, and those that Mask selects,
// are masked, unless secrets is set; the masks still show that they differ.
func (c Change) Fields(secrets bool) []Field {
	var fields []Field
	before, after := c.shown(secrets)
	compare("", before, after, &fields)
	return fields
}

// Paths are those of the fields that differ, sorted.
func (c Change) Paths() (all []string) {
	for _, f := range c.Fields(false) {
		all = append(all, f.Path)
	}
	return all
}

// Diff is a unified diff of the object as YAML, without what the API server keeps
// for itself. It is empty for a deletion.
func (c Change) Diff(secrets bool) string {
	if c.Verb == Deleted {
		return ""
	}
	before, after := c.shown(secrets)
	return manifest.Unified(before, after, c.Object.String()+" (cluster)", c.Object.String()+" (planned)")
}

// shown are both sides without noise and, unless secrets shall be shown, without
// the values of a Secret and what Mask hides.
func (c Change) shown(secrets bool) (before, after map[string]any) {
	before, after = cleaned(c.Before), cleaned(c.After)
	if secrets {
		return before, after
	}
	return HideBoth(before, after, func(object map[string]any) map[string]any {
		if gvk := c.Object.GVK; gvk.Group == "" && gvk.Kind == "Secret" {
			object = withoutData(object)
		}
		if c.Mask != nil {
			object = c.Mask(object)
		}
		return object
	})
}

// cleaned copies an object without what the API server writes itself: status is a controller's, and
// the other fields change with each write.
func cleaned(object map[string]any) map[string]any {
	if object == nil {
		return nil
	}
	out := runtime.DeepCopyJSON(object)
	delete(out, "status")
	if metadata, ok := out["metadata"].(map[string]any); ok {
		for _, field := range []string{"managedFields", "resourceVersion", "uid", "generation", "creationTimestamp", "selfLink"} {
			delete(metadata, field)
		}
	}
	return out
}

// lastApplied holds the whole object, and so the values of a Secret, too.
const lastApplied = "kubectl.kubernetes.io/last-applied-configuration"

// withoutData is a copy of a Secret without its values.
func withoutData(secret map[string]any) map[string]any {
	out := runtime.DeepCopyJSON(secret)
	for _, field := range []string{"data", "stringData"} {
		data, _ := out[field].(map[string]any)
		for key := range data {
			data[key] = masked
		}
	}
	metadata, _ := out["metadata"].(map[string]any)
	annotations, _ := metadata["annotations"].(map[string]any)
	if annotations[lastApplied] != nil {
		annotations[lastApplied] = masked
	}
	return out
}

// compare collects the leaves that differ. Lists of another length differ as a whole, because it
// would be a guess which element was removed.
func compare(path string, before, after any, fields *[]Field) {
	b, ok1 := before.(map[string]any)
	a, ok2 := after.(map[string]any)
	if ok1 && ok2 {
		keys := maps.Clone(b)
		maps.Copy(keys, a)
		for _, key := range slices.Sorted(maps.Keys(keys)) {
			compare(join(path, key), b[key], a[key], fields)
		}
		return
	}
	bl, ok1 := before.([]any)
	al, ok2 := after.([]any)
	if ok1 && ok2 && len(bl) == len(al) {
		for i := range bl {
			compare(fmt.Sprintf("%s[%d]", path, i), bl[i], al[i], fields)
		}
		return
	}
	if !equalValues(before, after) {
		*fields = append(*fields, Field{path, before, after})
	}
}

// equalValues does not distinguish an integer from the same number as a float: decoders differ in
// it. JSON is only compared when the quick way finds a difference.
func equalValues(a, b any) bool {
	if reflect.DeepEqual(a, b) {
		return true
	}
	x, err1 := json.Marshal(a)
	y, err2 := json.Marshal(b)
	return err1 == nil && err2 == nil && bytes.Equal(x, y)
}

// join appends a key to a path; one with dots or slashes is in brackets.
func join(path, key string) string {
	if strings.ContainsAny(key, "./[]") {
		return fmt.Sprintf("%s[%q]", path, key)
	}
	if path == "" {
		return key
	}
	return path + "." + key
}

// HideBoth masks differing values on both sides, so that neither the old nor the new secret is shown,
// but the fact that they differ is. A mask keeps the structure of an object; nil is an
// object that does not exist.
//
// A value is a secret as soon as one side looks like one: a password that was replaced by a
// harmless text must not be shown on the left. Neither before nor after is changed; the results may
// share parts with what mask returns.
func HideBoth(before, after map[string]any, mask func(object map[string]any) map[string]any) (map[string]any, map[string]any) {
	if before == nil || after == nil {
		if before != nil {
			before = mask(before)
		}
		if after != nil {
			after = mask(after)
		}
		return before, after
	}
	b, a := hide(before, after, mask(before), mask(after))
	old, _ := b.(map[string]any)
	fresh, _ := a.(map[string]any)
	return old, fresh
}

// hide returns what may be shown of a value before and after; the last two are what the mask shows of them. It descends
// as long as both sides have the same structure. Of anything else that differs, nothing is shown if the mask has found
// a secret on one side.
func hide(b, a, shownB, shownA any) (any, any) {
	oldMap, ok1 := b.(map[string]any)
	newMap, ok2 := a.(map[string]any)
	if ok1 && ok2 {
		hiddenB, _ := shownB.(map[string]any)
		hiddenA, _ := shownA.(map[string]any)
		outB, outA := maps.Clone(hiddenB), maps.Clone(hiddenA)
		for key, value := range oldMap {
			if other, both := newMap[key]; both {
				outB[key], outA[key] = hide(value, other, hiddenB[key], hiddenA[key])
			}
		}
		return outB, outA
	}
	oldList, _ := b.([]any)
	newList, _ := a.([]any)
	hiddenB, _ := shownB.([]any)
	hiddenA, _ := shownA.([]any)
	if n := len(oldList); n > 0 && n == len(newList) && n == len(hiddenB) && n == len(hiddenA) {
		outB, outA := make([]any, n), make([]any, n)
		for i := range n {
			outB[i], outA[i] = hide(oldList[i], newList[i], hiddenB[i], hiddenA[i])
		}
		return outB, outA
	}
	isHiddenA := !equalValues(a, shownA)
	switch {
	case !isHiddenA && equalValues(b, shownB):
		return b, a
	case equalValues(b, a) && isHiddenA: // a mask decides by what is around a value, too
		return shownA, shownA
	case equalValues(b, a):
		return shownB, shownB
	}
	return hidden(b, masked), hidden(a, masked+changedMark)
}

// hidden is the mark in the place of a value; that there is none is shown.
func hidden(value any, mark string) any {
	if value == nil {
		return nil
	}
	return mark
}

// changedMark marks a hidden value that differs.
const changedMark = " (changed)"
