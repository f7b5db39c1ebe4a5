package objectpatch

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/validate/content"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubeyaml "k8s.io/apimachinery/pkg/util/yaml"
	kjson "sigs.k8s.io/json"

	"addon-operator/jq"
	"addon-operator/values"
)

// Operation is what a Patch does (K2).
type Operation string

// The operations that hooks may ask for.
const (
	Create             Operation = "Create"             // an object that exists is an error
	CreateIfNotExists  Operation = "CreateIfNotExists"  // an object that exists stays as it is
	CreateOrUpdate     Operation = "CreateOrUpdate"     // an object that exists is replaced (X30)
	ServerSideApply    Operation = "ServerSideApply"    // the fields given become ours, others stay
	Delete             Operation = "Delete"             // with its dependents; waits until it is gone
	DeleteInBackground Operation = "DeleteInBackground" // returns at once
	DeleteNonCascading Operation = "DeleteNonCascading" // leaves the dependents alone
	MergePatch         Operation = "MergePatch"         // RFC 7386
	JSONPatch          Operation = "JSONPatch"          // RFC 6902
	JQPatch            Operation = "JQPatch"            // what the filter makes of the object
)

// Patch is one operation on one object, checked as far as that goes without the API server. Parse
// makes them, and nothing changes one after that: a copy shares Object and Data. What kind,
// namespace and permissions allow is known only to the API server (Client.ApplyObjectPatches in package kube).
type Patch struct {
	Operation  Operation `json:"operation"`
	APIVersion string    `json:"apiVersion"` // empty: the preferred version of the kind (K4)
	Kind       string    `json:"kind"`
	Namespace  string    `json:"namespace"`
	Name       string    `json:"name"` // empty only for Create with metadata.generateName

	Subresource         string `json:"subresource"`         // without slash
	IgnoreMissingObject bool   `json:"ignoreMissingObject"` // patches of absent objects succeed (K3)
	IgnoreHookError     bool   `json:"ignoreHookError"`     // apply it even when the hook failed (K9); for the caller
	Unanswered          bool   `json:"-"`                   // it was tried, without an answer, and may be done

	// One of these is set, by the operation; none for deletes.
	Object map[string]any `json:"-"` // of Create…, CreateOrUpdate, ServerSideApply; integers are int64
	Data   []byte         `json:"-"` // of MergePatch and JSONPatch: the patch as JSON
	Filter *jq.Program    `json:"-"` // of JQPatch, see Transform
}

// String names the operation in errors: "MergePatch Deployment d/web".
func (p Patch) String() string {
	kind, name := strings.TrimPrefix(p.APIVersion+"/"+p.Kind, "/"), strings.TrimPrefix(p.Namespace+"/"+p.Name, "/")
	text := fmt.Sprintf("%s %s %s", p.Operation, kind, name)
	if p.Subresource != "" {
		text += " (" + p.Subresource + ")"
	}
	return text
}

// Creates reports whether the operation may create an object: all those do that have one.
func (p Patch) Creates() bool { return p.Object != nil }

// Deletes reports whether the operation removes an object.
func (p Patch) Deletes() bool {
	return p.Operation == Delete || p.Operation == DeleteInBackground || p.Operation == DeleteNonCascading
}

// patchDocument is an operation as a hook writes it. The payloads are decoded after the
// operation, which determines their types.
type patchDocument struct {
	Patch
	Object     json.RawMessage `json:"object"`
	MergePatch json.RawMessage `json:"mergePatch"`
	JSONPatch  json.RawMessage `json:"jsonPatch"`
	JQFilter   string          `json:"jqFilter"`
}

// compile checks the document.
func (d *patchDocument) compile(jqLibrary []string) (*Patch, error) {
	p := &d.Patch
	p.Subresource = strings.TrimPrefix(p.Subresource, "/")
	var err error
	switch d.Operation {
	case Create, CreateIfNotExists, CreateOrUpdate, ServerSideApply:
		err = cmp.Or(d.onlyPayload("object"), p.setObject(d.Object))
	case Delete, DeleteInBackground, DeleteNonCascading:
		err = cmp.Or(d.onlyPayload(""), p.named())
	case MergePatch:
		err = cmp.Or(d.onlyPayload("mergePatch"), p.named(), p.setPatch("mergePatch", d.MergePatch, new(map[string]any)))
	case JSONPatch:
		err = cmp.Or(d.onlyPayload("jsonPatch"), p.named(), p.setJSONPatch(d.JSONPatch))
	case JQPatch:
		err = cmp.Or(d.onlyPayload("jqFilter"), p.named(), p.setFilter(d.JQFilter, jqLibrary))
	case "":
		err = errors.New("operation is missing")
	default:
		err = fmt.Errorf("unknown operation %q", d.Operation)
	}
	if err := cmp.Or(err, p.possible()); err != nil {
		return nil, err
	}
	return p, nil
}

// possible refuses names that cannot be a part of a URL: no object has one, and a slash would
// address another resource than the one that was checked. Empty ones pass: named refuses those that
// must not be.
func (p *Patch) possible() error {
	for _, part := range []struct{ field, text string }{{"namespace", p.Namespace}, {"name", p.Name}, {"subresource", p.Subresource}} {
		if problems := content.IsPathSegmentName(part.text); len(problems) > 0 {
			return fmt.Errorf("%s %q: %s", part.field, part.text, strings.Join(problems, ", "))
		}
	}
	return nil
}

// onlyPayload reports payloads that the operation would ignore: a mistake in the operation's name
// would otherwise pass unnoticed.
func (d *patchDocument) onlyPayload(field string) error {
	for _, payload := range []struct {
		name  string
		given bool
	}{{"object", d.Object != nil}, {"mergePatch", d.MergePatch != nil}, {"jsonPatch", d.JSONPatch != nil}, {"jqFilter", d.JQFilter != ""}} {
		if payload.given && payload.name != field {
			return fmt.Errorf("%s is not supported by %s", payload.name, d.Operation)
		}
	}
	return nil
}

// named checks that the object has a kind and a name. The kind alone may be unknown to the API
// server, and the namespace depends on it, so neither is checked here.
func (p *Patch) named() error {
	switch {
	case p.Kind == "":
		return errors.New("kind is missing")
	case p.Name == "":
		return errors.New("name is missing")
	}
	return nil
}

// setObject takes the object, whose own fields name it. Names next to it are not used: some hooks write them for each
// operation.
func (p *Patch) setObject(given json.RawMessage) error {
	if err := mapOrText("object", given, &p.Object); err != nil {
		return err
	}
	// Decoding reports a name that is no text, which a look into the map would take for absent.
	var head metav1.PartialObjectMetadata
	text, err := json.Marshal(p.Object)
	if err = cmp.Or(err, json.Unmarshal(text, &head)); err != nil {
		return fmt.Errorf("object: %w", err)
	}
	p.APIVersion, p.Kind, p.Namespace, p.Name = head.APIVersion, head.Kind, head.Namespace, head.Name
	if p.Operation == Create && p.Name == "" && head.GenerateName != "" {
		return nil
	}
	if err := p.named(); err != nil {
		return fmt.Errorf("object: %w", err)
	}
	return nil
}

// setPatch takes a patch that decodes into a value like into, and keeps it as JSON: the API server
// reads no YAML for these types of patches.
func (p *Patch) setPatch(field string, given json.RawMessage, into any) error {
	if err := mapOrText(field, given, into); err != nil {
		return err
	}
	var err error
	p.Data, err = json.Marshal(into)
	return err
}

// setJSONPatch checks the form of each step: a step that the API server refuses would fail after
// other operations are done (D26).
func (p *Patch) setJSONPatch(given json.RawMessage) error {
	var steps []map[string]any
	if err := p.setPatch("jsonPatch", given, &steps); err != nil {
		return err
	}
	for i, step := range steps {
		op, _ := step["op"].(string)
		_, hasValue := step["value"]
		switch {
		case !slices.Contains([]string{"add", "remove", "replace", "move", "copy", "test"}, op):
			return fmt.Errorf("jsonPatch: operation %d: unknown op %v", i, step["op"])
		case !isPointer(step["path"]):
			return fmt.Errorf("jsonPatch: operation %d: path %v is not a JSON pointer", i, step["path"])
		case !hasValue && (op == "add" || op == "replace" || op == "test"): // the API server would take it for null
			return fmt.Errorf("jsonPatch: operation %d: value is missing", i)
		case (op == "move" || op == "copy") && !isPointer(step["from"]):
			return fmt.Errorf("jsonPatch: operation %d: from %v is not a JSON pointer", i, step["from"])
		}
	}
	return nil
}

// isPointer reports whether a value is a JSON pointer (RFC 6901): empty for the whole object, else
// it begins with a slash.
func isPointer(field any) bool {
	text, ok := field.(string)
	return ok && (text == "" || strings.HasPrefix(text, "/"))
}

// setFilter compiles the filter.
func (p *Patch) setFilter(expression string, jqLibrary []string) (err error) {
	if expression == "" {
		return errors.New("jqFilter is missing")
	}
	if p.Filter, err = jq.Compile(expression, jqLibrary...); err != nil {
		return fmt.Errorf("jqFilter %q: %w", expression, err)
	}
	return nil
}

// mapOrText decodes a field that may be given as it is or as a text of YAML or JSON (K3).
func mapOrText(field string, given json.RawMessage, into any) (err error) {
	var text string
	if json.Unmarshal(given, &text) == nil {
		given = []byte(text)
	}
	if len(given) > 0 {
		err = decode(given, into)
	}
	switch {
	case err != nil:
		return fmt.Errorf("%s: %w", field, err)
	case reflect.ValueOf(into).Elem().IsNil():
		return fmt.Errorf("%s is missing", field)
	}
	return nil
}

// maxDocuments bounds what a file of small documents leads to (K1): each takes some kilobytes before it is
// applied. The size of the file itself is limited by its reader.
const maxDocuments = 50_000

// Parse reads the file that a hook wrote: JSON objects one after another, or YAML documents (K1), divided at lines
// of three dashes. The first mistake is reported, with the number of the document, and then nothing is returned: the
// operations of a hook are applied all or not at all. An empty file has no operations. Modules that
// the filters of JQPatch import are searched in jqLibrary.
func Parse(data []byte, jqLibrary ...string) (patches []Patch, err error) {
	reader := kubeyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(data)))
	for {
		text, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return patches, nil
		}
		for err == nil && len(text) > 0 {
			var one []byte
			one, text = first(bytes.TrimSpace(text))
			var patch *Patch
			if patch, err = parseOne(one, jqLibrary); patch != nil {
				patches = append(patches, *patch)
			}
			if len(patches) > maxDocuments {
				return nil, fmt.Errorf("there are more than %d operations; write fewer in one run", maxDocuments)
			}
		}
		if err != nil {
			return nil, fmt.Errorf("document %d: %w", len(patches)+1, err)
		}
	}
}

// first divides JSON objects that follow one another, with or without a line break.
func first(text []byte) (one, rest []byte) {
	decoder := json.NewDecoder(bytes.NewReader(text))
	var object json.RawMessage
	if bytes.HasPrefix(text, []byte("{")) && decoder.Decode(&object) == nil {
		return object, text[decoder.InputOffset():]
	}
	return text, nil // of YAML, or with a mistake
}

// parseOne returns nil for a document that has nothing but comments. It is strict: a misspelt field would otherwise
// change what the operation does, without a word.
func parseOne(text []byte, jqLibrary []string) (*Patch, error) {
	var document *patchDocument
	if err := decode(text, &document); err != nil || document == nil {
		return nil, err
	}
	return document.compile(jqLibrary)
}

// decode reads JSON, or YAML as values are read, with integers as int64, so that large ones come out as they went
// in. It refuses keys that a map has twice, of which the last would win, and what aliases make too large.
func decode(text []byte, into any) error {
	if !json.Valid(text) {
		tree, err := values.ParseYAML(text)
		if err != nil {
			return err
		}
		if text, err = values.Encode(tree); err != nil {
			return err
		}
	}
	wrong, err := kjson.UnmarshalStrict(text, into)
	return errors.Join(append(wrong, err)...)
}

// filterLimit bounds one application of a filter: a jq program need not end. It is far above what
// any useful filter takes, because after it the whole operation fails.
const filterLimit = 10 * time.Second

var errNotOne = errors.New("it must return exactly one object")

// Transform applies a filter that has to make exactly one object of an object, as the filter of a JQPatch does. The
// object stays as it is, and shares nothing with the result. It checks only that the result is a map: whether it is
// still the same object is for the caller.
func Transform(ctx context.Context, filter *jq.Program, object map[string]any) (next map[string]any, err error) {
	text, err := json.Marshal(object)
	if err != nil {
		return nil, err
	}
	// jq has numbers of its own. As json.Number, those that the filter does not touch keep each
	// digit.
	var input any
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	if err := decoder.Decode(&input); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, filterLimit)
	defer cancel()
	text = nil
	for result, err := range filter.Results(ctx, input) {
		if err == nil && text != nil {
			err = errNotOne
		}
		if err == nil {
			text, err = jq.Marshal(result)
		}
		if err != nil {
			return nil, err
		}
	}
	if err := decode(text, &next); err != nil || next == nil {
		return nil, errNotOne
	}
	return next, nil
}
