// Package manifest reads what a chart was rendered to, as leniently as Helm itself: a manifest that
// Helm has installed must be readable, or its release could not be upgraded or removed. Everything
// is bounded before it is parsed.
package manifest

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strings"

	"github.com/pmezard/go-difflib/difflib"
	"go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	sigsyaml "sigs.k8s.io/yaml"
)

// Object names one object of a manifest. It is comparable; but two mentions of one object may
// differ in the version of the API and in an omitted namespace.
type Object struct {
	GVK       schema.GroupVersionKind
	Namespace string // empty: the namespace of the release, or the kind has none
	Name      string
}

// String returns "Kind namespace/name".
func (o Object) String() string {
	if o.Namespace == "" {
		return o.GVK.Kind + " " + o.Name
	}
	return o.GVK.Kind + " " + o.Namespace + "/" + o.Name
}

// NamespacedName is the object without its kind.
func (o Object) NamespacedName() types.NamespacedName {
	return types.NamespacedName{Namespace: o.Namespace, Name: o.Name}
}

// Of names an object.
func Of(u *unstructured.Unstructured) Object {
	return Object{GVK: u.GroupVersionKind(), Namespace: u.GetNamespace(), Name: u.GetName()}
}

// Parse reads a YAML stream, if it is within the limits (Check). Empty documents are left out,
// lists are flattened. One document that cannot be read makes the whole stream an error.
func Parse(text string) ([]*unstructured.Unstructured, error) {
	if err := Check(text); err != nil {
		return nil, err
	}
	var objects []*unstructured.Unstructured
	reader := utilyaml.NewYAMLReader(bufio.NewReader(strings.NewReader(text)))
	for {
		document, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return objects, nil
		}
		if err != nil {
			return nil, fmt.Errorf("read manifest: %w", err)
		}
		found, err := parseDocument(document)
		if err != nil {
			return nil, err
		}
		objects = append(objects, found...)
	}
}

// parseDocument makes objects of one document. A list is flattened; an empty document has no objects. An error never
// quotes the document: it may be a Secret.
func parseDocument(document []byte) ([]*unstructured.Unstructured, error) {
	data := document // JSON has escapes that YAML lacks
	if !json.Valid(document) {
		var err error
		if data, err = sigsyaml.YAMLToJSON(document); err != nil {
			return nil, err
		}
	}
	var tree any
	if err := utiljson.Unmarshal(data, &tree); err != nil || tree == nil {
		return nil, err
	}
	fields, ok := tree.(map[string]any)
	if !ok {
		return nil, errors.New("a document is not an object with apiVersion and kind; does a template print text outside of comments?")
	}
	u := &unstructured.Unstructured{Object: fields}
	if err := checkTypes(u); err != nil {
		return nil, err
	}
	if !u.IsList() {
		return []*unstructured.Unstructured{u}, nil
	}
	return listItems(u)
}

// checkTypes refuses what no API server takes, and reads what has no value as the
// server does: "labels:" is no labels, "key:" below it an empty text. The accessors of
// unstructured objects would see no labels at all because of it.
func checkTypes(u *unstructured.Unstructured) error {
	if u.GetKind() == "" {
		return errors.New("a document has no kind")
	}
	metadata, isMap := u.Object["metadata"].(map[string]any)
	if !isMap && u.Object["metadata"] != nil {
		return fmt.Errorf("%s: metadata is not a map", u.GetKind())
	}
	for _, field := range []string{"labels", "annotations"} {
		texts, _ := metadata[field].(map[string]any)
		if value, there := metadata[field]; there && value == nil {
			delete(metadata, field)
		}
		for key, value := range texts {
			if value == nil {
				texts[key] = ""
			}
		}
	}
	return nil
}

// listItems are the objects in a list. An item without kind and version has those of the list, as
// in kubectl and Helm: a ConfigMapList has ConfigMaps.
func listItems(list *unstructured.Unstructured) ([]*unstructured.Unstructured, error) {
	var items []*unstructured.Unstructured
	err := list.EachListItem(func(o runtime.Object) error {
		item, ok := o.(*unstructured.Unstructured)
		if !ok {
			return fmt.Errorf("%s: an item is not an object", list.GetKind())
		}
		if item.GetKind() == "" && item.GetAPIVersion() == "" {
			item.SetKind(strings.TrimSuffix(list.GetKind(), "List"))
			item.SetAPIVersion(list.GetAPIVersion())
		}
		items = append(items, item)
		return checkTypes(item)
	})
	if err != nil {
		return nil, err
	}
	return items, nil
}

// A manifest comes from a release record, which every client with write access to Secrets in the
// namespace can forge, or from a chart that repeats texts that people wrote into values. With aliases of aliases, a
// text of some hundred bytes can expand to gigabytes (D39).
const (
	// MaxSize bounds a manifest, and what a document is with all aliases written out, in bytes. The
	// API server takes 3 MiB for an object; the record of a release, packed, has 1 MiB.
	MaxSize = 16 << 20
	// MaxParts bounds the lines and elements of a manifest. Each takes some hundred bytes while it
	// is parsed.
	MaxParts = 500_000
)

var (
	errTooLarge  = fmt.Errorf("the manifest is larger than %d MiB, with all aliases written out", MaxSize>>20)
	errTooMany   = fmt.Errorf("the manifest has more than %d lines and elements of lists and maps", MaxParts)
	errInCircles = errors.New("an anchor contains itself")
)

// Check refuses a text that would take much more memory than any object of a cluster, before it is
// parsed. A text that it accepts is safe for Parse, and for all code of Helm that reads manifests. A text that
// is not YAML passes: the parser reports the mistake. Most texts have no alias, and are only scanned.
func Check(text string) error {
	if len(text) > MaxSize {
		return errTooLarge
	}
	parts := 0
	for _, separator := range []string{"\n", ",", "[", "{"} {
		parts += strings.Count(text, separator)
	}
	if parts > MaxParts {
		return errTooMany
	}
	for document := range strings.SplitSeq(text, "\n---") {
		if !strings.Contains(document, "&") || !strings.Contains(document, "*") {
			continue
		}
		var root yaml.Node
		if yaml.Unmarshal([]byte(document), &root) != nil {
			continue // the parser explains it
		}
		if _, err := (expansion{}).size(&root); err != nil {
			return err
		}
	}
	return nil
}

// expansion has the sizes of nodes with an anchor, so that each is measured once however many
// aliases refer to it; nodes that are being measured have the size -1.
type expansion map[*yaml.Node]int

// size is how large a node is with all aliases written out, in bytes. It ends as soon as a sum is
// too large, so the work is bounded as well.
func (e expansion) size(n *yaml.Node) (int, error) {
	if n.Kind == yaml.AliasNode {
		return e.size(n.Alias)
	}
	switch known := e[n]; {
	case known < 0:
		return 0, errInCircles
	case known > 0:
		return known, nil
	}
	if n.Anchor != "" {
		e[n] = -1
	}
	sum := 1 + len(n.Value)
	for _, child := range n.Content {
		size, err := e.size(child)
		if err != nil {
			return 0, err
		}
		if sum += size; sum > MaxSize {
			return 0, errTooLarge
		}
	}
	if n.Anchor != "" {
		e[n] = sum
	}
	return sum, nil
}

// Misprint looks for a mistake of printf in what a template has printed, such as %!d(float64=1). It returns the
// line of the first one, and its text up to the value, which may be a secret; 0 if there is none.
func Misprint(text string) (line int, mistake string) {
	if !strings.Contains(text, "%!") {
		return 0, ""
	}
	misprints := regexp.MustCompile(`%!(?:(\((?:EXTRA|NOVERB|BADWIDTH|BADPREC)\b)|` +
		`([a-zA-Z]\()(?:BADINDEX\)|PANIC=|<nil>\)|\*?[\w.\[\]{}]+(?: \{\})?=))`)
	found := misprints.FindStringSubmatchIndex(text)
	if found == nil {
		return 0, ""
	}
	end := max(found[3], found[5]) // of the group that matched
	return 1 + strings.Count(text[:found[0]], "\n"), text[found[0]:end] + "…)"
}

// Unified is a unified diff of two objects as YAML, empty when they are equal; nil is an
// object that does not exist.
func Unified(before, after map[string]any, from, to string) string {
	return UnifiedTexts(written(before), written(after), from, to)
}

// UnifiedTexts is a unified diff of two texts, empty when they are equal.
func UnifiedTexts(before, after, from, to string) string {
	a, b := slices.Collect(strings.Lines(before)), slices.Collect(strings.Lines(after)) // each with its end, as difflib wants
	text, err := difflib.GetUnifiedDiffString(difflib.UnifiedDiff{A: a, B: b, FromFile: from, ToFile: to, Context: 3})
	if err != nil { // writing into memory does not fail
		return err.Error()
	}
	return text
}

// written is an object for a diff.
func written(object map[string]any) string {
	if object == nil {
		return ""
	}
	text, err := sigsyaml.Marshal(object)
	if err != nil {
		return err.Error() + "\n"
	}
	return string(text)
}
