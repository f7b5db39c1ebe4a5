package dryrun

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/pmezard/go-difflib/difflib"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"

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

// Diff is a unified diff of the object as YAML, without what the API server keeps
// for itself. It is empty for a deletion.
func (c Change) Diff(secrets bool) string {
	if c.Verb == Deleted {
		return ""
	}
	before, after := c.shown(secrets)
	return Unified(before, after, c.Object.String()+" (cluster)", c.Object.String()+" (planned)")
}

// Unified is a unified diff of two objects as YAML, empty when they are equal; nil is an
// object that does not exist.
func Unified(before, after map[string]any, from, to string) string {
	text, err := difflib.GetUnifiedDiffString(difflib.UnifiedDiff{A: lines(before), B: lines(after), FromFile: from, ToFile: to, Context: 3})
	if err != nil { // writing into memory does not fail
		return err.Error()
	}
	return text
}

// lines are those of an object for a diff, each with its end, as difflib wants them.
func lines(object map[string]any) []string {
	all := yamlLines("", object)
	for i := range all {
		all[i] += "\n"
	}
	return all
}

// yamlLines is YAML for people, which need not be parsed again. A marshaller quotes a text of
// several lines as a whole when one of them ends with a space, and folds long ones. Here each line of the text
// is a line of its own, so that a diff shows the one that differs. Scalars have no lines: see
// yamlEntry.
func yamlLines(indent string, value any) []string {
	var out []string
	switch v := value.(type) {
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			out = append(out, yamlEntry(indent, yamlScalar(key)+":", v[key])...)
		}
	case []any:
		for _, item := range v {
			inner := yamlLines(indent+"  ", item)
			if len(inner) == 0 {
				out = append(out, yamlEntry(indent, "-", item)...)
				continue
			}
			inner[0] = indent + "- " + inner[0][len(indent)+len("- "):]
			out = append(out, inner...)
		}
	}
	return out
}

// yamlEntry is a value below its key, or behind the dash of its item. Lists are not indented below
// their key, as kubectl writes them.
func yamlEntry(indent, head string, value any) []string {
	below := indent + "  "
	if _, ok := value.([]any); ok {
		below = indent
	}
	inner := yamlLines(below, value)
	text, _ := value.(string)
	switch {
	case len(inner) > 0:
	case strings.Contains(strings.TrimSuffix(text, "\n"), "\n"):
		if head += " |"; !strings.HasSuffix(text, "\n") {
			head += "-"
		}
		for line := range strings.SplitSeq(strings.TrimSuffix(text, "\n"), "\n") {
			inner = append(inner, below+line)
		}
	default:
		head += " " + yamlScalar(value)
	}
	return append([]string{indent + head}, inner...)
}

// yamlScalar is a value on one line; an empty map or list is one, too.
func yamlScalar(value any) string {
	text, err := yaml.Marshal(value)
	line := strings.TrimSuffix(string(text), "\n")
	if err != nil || strings.Contains(line, "\n") {
		return fmt.Sprintf("%q", value)
	}
	return line
}

// shown are both sides without noise and, unless secrets shall be shown, without
// the values of a Secret and what Mask hides.
func (c Change) shown(secrets bool) (before, after map[string]any) {
	before, after = cleaned(c.Before), cleaned(c.After)
	if gvk := c.Object.GVK; !secrets && gvk.Group == "" && gvk.Kind == "Secret" {
		maskSecret(before, after)
	}
	if !secrets && c.Mask != nil {
		return HideBoth(before, after, c.Mask)
	}
	return before, after
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

// maskSecret hides the values of a Secret on both sides, in place; where they differ, the marks
// differ, so that the difference is shown. A side that is nil has nothing to hide.
func maskSecret(before, after map[string]any) {
	all := func(string) bool { return true }
	for _, field := range []string{"data", "stringData"} {
		maskTexts(before, after, all, field)
	}
	maskTexts(before, after, func(key string) bool { return key == lastApplied }, "metadata", "annotations")
}

// maskTexts masks texts in the map at a path of both sides.
func maskTexts(before, after map[string]any, secret func(key string) bool, path ...string) {
	old, fresh := mapAt(before, path), mapAt(after, path)
	for key, value := range fresh {
		if !secret(key) {
			continue
		}
		fresh[key] = masked
		if known, ok := old[key]; ok && !equalValues(known, value) {
			fresh[key] = masked + changedMark
		}
	}
	for key := range old {
		if secret(key) {
			old[key] = masked
		}
	}
}

func mapAt(object map[string]any, path []string) map[string]any {
	for _, field := range path {
		object, _ = object[field].(map[string]any)
	}
	return object
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
