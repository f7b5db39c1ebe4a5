package values

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	kjson "sigs.k8s.io/json"
)

// Patch is a list of operations of RFC 6902, applied one after another.
type Patch []Operation

// Operation is one step of a patch. Paths are JSON pointers in canonical form that begin with the
// key of the section; ParsePatch makes sure of the form.
type Operation struct {
	Op       string `json:"op"` // add, remove, replace, test, move or copy (D18)
	Path     string `json:"path"`
	From     string `json:"from,omitempty"` // where move and copy take the value from
	Value    any    `json:"-"`              // a tree
	HasValue bool   `json:"-"`              // distinguishes the value null from no value

	by Origin // of a saved operation
}

// MarshalJSON writes the operation as RFC 6902 requires, and more fields for the origin of a saved one.
func (o Operation) MarshalJSON() ([]byte, error) {
	type plain Operation
	out := struct {
		plain
		Value *any `json:"value,omitempty"`
		Origin
	}{plain: plain(o), Origin: o.by}
	if o.HasValue {
		out.Value = &o.Value
	}
	return Encode(out)
}

// String returns what the operation does without its value, which may be a secret (D38). Errors and
// logs contain it.
func (o Operation) String() string {
	if o.From != "" {
		return fmt.Sprintf("%s %s to %s", o.Op, o.From, o.Path)
	}
	return o.Op + " " + o.Path
}

// ParsePatch reads the content of a patch file (D17–D19): nothing, an operation, a list of
// operations, or several of these one after another. An empty file is a nil patch. It accepts paths
// in the old dotted form (someModule.param) and returns a warning for each of them. An error names
// the first faulty operation: a patch is applied as a whole or not at all. A file of more than
// 1 MiB is refused (D39).
func ParsePatch(data []byte) (patch Patch, warnings []string, err error) {
	if err := CheckSize(int64(len(data))); err != nil {
		return nil, nil, fmt.Errorf("patch: %w", err)
	}
	decoder := json.NewDecoder(bytes.NewReader(data))
	for {
		var next json.RawMessage
		if err := decoder.Decode(&next); errors.Is(err, io.EOF) {
			return patch, warnings, nil
		} else if err != nil {
			return nil, nil, fmt.Errorf("patch is not a stream of JSON objects and arrays: %w; write it with jq, which adds quotes and commas",
				jsonError(data, decoder, err))
		}
		operations := []json.RawMessage{next}
		if next[0] == '[' {
			_ = json.Unmarshal(next, &operations) // it is an array
		}
		for _, text := range operations {
			if len(patch) == maxOperations {
				return nil, nil, fmt.Errorf("the patch has more than %d operations; write larger values with fewer operations",
					maxOperations)
			}
			operation, dotted, err := parseOperation(text)
			if warnings = append(warnings, dotted...); err != nil {
				return nil, warnings, fmt.Errorf("patch operation %d: %w", len(patch)+1, err)
			}
			patch = append(patch, operation)
		}
	}
}

// parseOperation reads one operation and checks that it has what its op requires. It ignores
// unknown keys, as RFC 6902 requires, but refuses a key that occurs twice: which of the two was
// meant is unknown (A.13), and encoding/json would silently take the last one. It converts the paths into their
// canonical form: from then on equal paths have equal texts, and mustPointer can read them.
func parseOperation(data []byte) (o Operation, dotted []string, err error) {
	var in struct {
		Op    *string         `json:"op"`
		Path  *string         `json:"path"`
		From  *string         `json:"from"`
		Value json.RawMessage `json:"value"`
	}
	if data[0] != '{' {
		return o, nil, errors.New("must be an object like {\"op\": \"add\", \"path\": \"/someModule/param\", \"value\": 1}")
	}
	problems, err := kjson.UnmarshalStrict(data, &in, kjson.DisallowDuplicateFields)
	if err != nil {
		return o, nil, fmt.Errorf("op, path and from must be strings: %w", err)
	}
	refuse := func(format string, args ...any) { problems = append(problems, fmt.Errorf(format, args...)) }
	text := func(name string, field *string) string {
		if field == nil {
			refuse("%s is missing", name)
			return ""
		}
		return *field
	}
	canonical := func(name string, field *string) string {
		given := text(name, field)
		full := given
		if full != "" && full[0] != '/' { // the old form (D19), which cannot write a dot inside of a key
			full = JSONPointer(strings.Split(given, ".")...)
			dotted = append(dotted, fmt.Sprintf("patch path %q has the old dotted form; write %q", given, full))
		}
		path, err := parsePointer(full)
		if field != nil && err != nil {
			refuse("path %q %w", given, err)
			return given
		}
		return path.String()
	}
	o.Op, o.Path = text("op", in.Op), canonical("path", in.Path)
	switch o.Op {
	case "move", "copy":
		o.From = canonical("from", in.From)
	case "add", "replace", "test":
		if o.HasValue = in.Value != nil; !o.HasValue {
			refuse("value is missing")
		} else if o.Value, err = ParseJSON(in.Value); err != nil {
			refuse("value: %w", err)
		}
	case "remove", "":
	default:
		refuse("op %q is unknown; use add, remove, replace, test, move or copy", o.Op)
	}
	err = errors.Join(problems...)
	if name := strings.TrimSpace(o.String()); err != nil && name != "" {
		err = fmt.Errorf("%s: %w", name, err)
	}
	return o, dotted, err
}

// Origin records the task that changed values, and the time. The caller passes it with a change: this package has
// no clock and no tasks.
type Origin struct {
	// Hook and Task are the name of the hook and the ID of the task that ran it; empty for a
	// person's edit of the ConfigMap.
	Hook string `json:"hook,omitempty"`
	Task string `json:"task,omitempty"`
	// Revision is the resourceVersion of the ConfigMap that brought the values.
	Revision string    `json:"resourceVersion,omitempty"`
	Time     time.Time `json:"time,omitzero"`
}

// Origin returns who wrote a saved operation; the zero value for one that was not saved.
func (o Operation) Origin() Origin { return o.by }

// Flag is the decision of a global hook to enable or disable a module (D25).
type Flag struct {
	Key   string // like someModuleEnabled
	Value *bool  // nil withdraws the decision
}

// ForGlobal divides the patch of a global hook into operations on global values and flags (D20,
// D25), each in their order. It refuses all other paths. Values have no
// global.enabledModules, so a section refuses patches of it (D9).
func (p Patch) ForGlobal() (global Patch, flags []Flag, err error) {
	for _, operation := range p {
		var err error
		switch path := mustPointer(operation.Path); {
		case len(path) > 0 && isFlag(path[0]):
			var flag Flag
			flag, err = operation.flag(path)
			flags = append(flags, flag)
		case operation.within(GlobalKey):
			global = append(global, operation)
		default:
			err = fmt.Errorf("global hooks may change only /%s and flags such as /someModuleEnabled", GlobalKey)
		}
		if err != nil {
			return nil, nil, fmt.Errorf("patch operation %s: %w", operation, err)
		}
	}
	return global, flags, nil
}

// within reports whether the path and, of move and copy, from are in the section with a key: both read or
// change values.
func (o Operation) within(key string) bool {
	section := pointer{key}
	return section.contains(mustPointer(o.Path)) && (o.From == "" || section.contains(mustPointer(o.From)))
}

// flag reads an operation on /someModuleEnabled.
func (o Operation) flag(path pointer) (Flag, error) {
	value, ok := flagValue(o.Value)
	switch {
	case len(path) != 1:
		return Flag{}, fmt.Errorf("%s is a flag and has no keys", path[0])
	case o.Op == "remove":
		return Flag{Key: path[0]}, nil
	case o.Op != "add" && o.Op != "replace":
		return Flag{}, errors.New("flags can only be added, replaced and removed")
	case !ok:
		return Flag{}, fmt.Errorf("value must be true or false, is %s", describe(o.Value))
	}
	return Flag{Key: path[0], Value: &value}, nil
}

// apply executes a patch on a section as RFC 6902 requires (D21): a missing path, a missing parent, an index out of
// range and a failed test are errors. Hooks of a module change nothing else than its section: neither global values
// (X15) nor flags nor other modules (D20). A section that is removed is empty. steps are the adds and removes that it
// took.
func (p Patch) apply(key string, section any) (patched any, steps Patch, err error) {
	tree, copied, own := any(map[string]any{key: section}), 0, copies{}
	for i, o := range p {
		var done Patch
		if !o.within(key) {
			err = fmt.Errorf("hooks of this module may change only /%s", key)
		} else {
			tree, done, err = o.execute(tree, own)
		}
		if o.Op == "copy" && err == nil { // copies of copies double at each operation
			size, nodes, _ := measure(done[0].Value)
			if copied += size + nodes; copied > maxSize {
				err = errTooLarge
			}
		}
		if err != nil {
			return nil, nil, fmt.Errorf("patch operation %d, %s: %w", i+1, o, err)
		}
		steps = append(steps, done...)
	}
	patched, _ = lookup(tree, pointer{key})
	if err := errors.Join(checkSection(key, patched), bounded(patched)); err != nil {
		return nil, nil, fmt.Errorf("section %s after the patch: %w", key, err)
	}
	return patched, steps, nil
}

// execute executes one operation on a tree of sections. Values of move and copy become those of the steps, because
// what they are taken from may not exist when the steps are replayed over other layers.
func (o Operation) execute(tree any, own copies) (after any, steps Patch, err error) {
	path, from := mustPointer(o.Path), mustPointer(o.From)
	remove, add := Operation{Op: "remove", Path: o.Path}, Operation{Op: "add", Path: o.Path, Value: o.Value, HasValue: true}
	if o.From != "" {
		clear(own) // what is copied is in two places
		if err := absence(tree, from, false); err != nil {
			return nil, nil, err
		}
		add.Value, _ = lookup(tree, from)
	}
	before := tree
	if o.Op == "move" {
		if from.contains(path) && len(path) > len(from) {
			return nil, nil, errors.New("a value cannot be moved into itself")
		}
		remove.Path = o.From
		before = remove.over(tree, from, nil)
	}
	if err := absence(before, path, o.Op == "add" || o.From != ""); err != nil {
		return nil, nil, err
	}
	if removed := mustPointer(remove.Path); len(removed) == 1 {
		section, _ := lookup(tree, removed)
		remove = Operation{Op: "add", Path: remove.Path, Value: emptyLike(section), HasValue: true}
	}
	switch o.Op {
	case "test":
		if value, _ := lookup(tree, path); !reflect.DeepEqual(value, o.Value) {
			return nil, nil, errors.New("the test failed: the value is different")
		}
	case "add", "copy":
		steps = Patch{add}
	case "remove":
		steps = Patch{remove}
	default: // replace and move; in a list an add inserts
		steps = Patch{remove, add}
	}
	for _, step := range steps {
		tree = step.over(tree, mustPointer(step.Path), own)
	}
	return tree, steps, nil
}

// absence names the first element of a path that leads nowhere. adds: the last one need not be there.
func absence(tree any, path pointer, adds bool) error {
	for i, element := range path {
		child, ok := lookup(tree, path[i:i+1])
		switch container := tree.(type) {
		case map[string]any:
			if !ok && !(adds && i == len(path)-1) {
				return fmt.Errorf("there is no %s", path[:i+1])
			}
		case []any:
			index, isIndex := listIndex(element)
			after := adds && i == len(path)-1 && (element == appends || isIndex && index == len(container))
			if !ok && !after {
				return fmt.Errorf("%s is a list of %d, %q is not an index of it", path[:i], len(container), element)
			}
		default:
			return fmt.Errorf("%s is %s, which has no elements or keys", path[:i], describe(tree))
		}
		tree = child
	}
	return nil
}

// foldLimit is the number of saved operations through lists that one container may collect. Appends
// cannot be dropped (D23), so a hook that appends at every run would make the list of patches
// grow without end; beyond the limit the present value of the container is saved instead.
// From then on a change of the layers below that container has no effect on it.
const foldLimit = 256

// maxSaved bounds all saved operations of a section in the same way.
const maxSaved = 10_000

// save adds the steps of a patch to the saved ones (D22). A step drops earlier ones at or below its path, unless that
// leads through a list. merged are the values with all of them.
func (p Patch) save(steps Patch, by Origin, key string, merged any) Patch {
	all, later, fold, counts := slices.Concat(p, steps), map[string]bool{}, map[string]bool{}, map[string]int{}
	for i := len(p); i < len(all); i++ {
		all[i].by = by
	}
	slices.Reverse(all)
	all = slices.DeleteFunc(all, func(o Operation) bool {
		for path := o.Path; path != ""; path = path[:strings.LastIndexByte(path, '/')] {
			if later[path] {
				return true
			}
		}
		later[o.Path] = aboveLists(o.Path) == o.Path
		return false
	})
	slices.Reverse(all)
	for _, o := range all {
		above := aboveLists(o.Path)
		if counts[above]++; above != o.Path && counts[above] > foldLimit {
			fold[above] = true
		}
	}
	if len(all) > maxSaved {
		fold = map[string]bool{JSONPointer(key): true}
	}
	for _, path := range sortedKeys(fold) {
		all = append(all.without(path), present(path, key, merged, by))
	}
	return all
}

// present returns the operation that makes a value what it is.
func present(path, key string, merged any, by Origin) Operation {
	value, there := lookup(map[string]any{key: merged}, mustPointer(path))
	if !there {
		return Operation{Op: "remove", Path: path, by: by}
	}
	return Operation{Op: "add", Path: path, Value: value, HasValue: true, by: by}
}

// without drops the operations at or below a path. Paths are compared as texts, which are canonical; a common prefix
// is not enough: /m/ab is not below /m/a.
func (p Patch) without(path string) Patch {
	return slices.DeleteFunc(p, func(o Operation) bool {
		below, found := strings.CutPrefix(o.Path, path)
		return found && (below == "" || below[0] == '/')
	})
}

// replay executes saved operations over layers that may have changed since (D22).
func (p Patch) replay(section any) any {
	own := copies{}
	for _, o := range p {
		section = o.over(section, mustPointer(o.Path)[1:], own)
	}
	return section
}

// over executes an add or a remove leniently: it always succeeds. A value to remove may be missing; missing maps above
// a value are made; an index beyond the end appends. An operation below a scalar, or in a list that no longer
// exists, has no effect, because what the hook wanted to change does not exist any more. Of the tree, only maps of own
// are changed.
func (o Operation) over(tree any, path pointer, own copies) any {
	switch {
	case len(path) == 0 && o.Op == "remove":
		return emptyLike(tree)
	case len(path) == 0:
		return o.Value
	}
	switch container := tree.(type) {
	case map[string]any:
		return o.overMap(container, path, own)
	case []any:
		return o.overList(container, path, own)
	}
	return tree
}

// copies are maps that were made for a patch, by address. It may change them: a patch of thousands of operations would
// copy a map at each.
type copies map[uintptr]map[string]any

func (c copies) of(m map[string]any) map[string]any {
	if _, own := c[reflect.ValueOf(m).Pointer()]; own {
		return m
	}
	m = maps.Clone(m)
	if c != nil {
		c[reflect.ValueOf(m).Pointer()] = m
	}
	return m
}

func (o Operation) overMap(m map[string]any, path pointer, own copies) any {
	child := m[path[0]]
	below := path[1:].String()
	if child == nil && (o.Op == "remove" && len(path) > 1 || aboveLists(below) != below) {
		return m
	} else if child == nil && len(path) > 1 {
		child = map[string]any{}
	}
	changed := own.of(m)
	if len(path) == 1 && o.Op == "remove" {
		delete(changed, path[0])
	} else {
		changed[path[0]] = o.over(child, path[1:], own)
	}
	return changed
}

func (o Operation) overList(list []any, path pointer, own copies) any {
	i, ok := listIndex(path[0])
	adds := o.Op == "add" && len(path) == 1
	if adds && (path[0] == appends || i > len(list)) {
		i, ok = len(list), true
	}
	changed := slices.Clone(list)
	switch {
	case adds && ok:
		return slices.Insert(changed, i, o.Value)
	case !ok || i >= len(list):
		return list
	case len(path) == 1:
		return slices.Delete(changed, i, i+1)
	}
	changed[i] = o.over(list[i], path[1:], own)
	return changed
}

// pointer is a parsed JSON pointer, without escapes. nil is the root.
type pointer []string

// parsePointer reads a path of a patch, like "/a/b~1c/0". Empty keys, which JSON allows, are
// refused as misprints. Callers put the path before the error.
func parsePointer(text string) (pointer, error) {
	if text == "" {
		return nil, errors.New("is empty; it must begin with / and the key of the section")
	}
	if strings.Contains(text+"/", "//") {
		return nil, errors.New("has an empty element")
	}
	return splitPointer(text)
}

// splitPointer parses any JSON pointer, also one with empty keys, as schemas may have.
func splitPointer(text string) (pointer, error) {
	if text == "" {
		return nil, nil
	}
	elements := strings.Split(strings.TrimPrefix(text, "/"), "/")
	for i, element := range elements {
		if strings.Count(element, "~") != strings.Count(element, "~0")+strings.Count(element, "~1") {
			return nil, fmt.Errorf("has %q: write ~ as ~0 and / as ~1", element)
		}
		elements[i] = strings.ReplaceAll(strings.ReplaceAll(element, "~1", "/"), "~0", "~") // so ~01 stays ~1
	}
	return elements, nil
}

// mustPointer reads the path of an operation, which was checked when it was parsed.
func mustPointer(text string) pointer {
	p, _ := parsePointer(text)
	return p
}

// String writes the pointer in its canonical form: equal pointers have equal texts.
func (p pointer) String() string { return JSONPointer(p...) }

// JSONPointer writes keys and indices as the path of a patch.
func JSONPointer(path ...string) string {
	var out strings.Builder
	for _, element := range path {
		out.WriteString("/" + strings.ReplaceAll(strings.ReplaceAll(element, "~", "~0"), "/", "~1"))
	}
	return out.String()
}

// contains reports whether q is p or below it.
func (p pointer) contains(q pointer) bool {
	return len(q) >= len(p) && slices.Equal(p, q[:len(p)])
}

// appends is the element that means the place after the last one of a list.
const appends = "-"

// listIndex reads an index as RFC 6901 writes it: no sign, no leading zero. Nine digits are more
// than any list has, and fit into an int everywhere.
func listIndex(element string) (int, bool) {
	if len(element) > 9 || !allDigits(element) || (element[0] == '0' && len(element) > 1) {
		return 0, false
	}
	index, err := strconv.Atoi(element)
	return index, err == nil
}

// aboveLists returns the longest beginning of a path that certainly goes through maps only. What the rest means
// depends on the operations before it (D23). The text of a path does not distinguish lists from maps with numbers as
// keys; the answer is the shorter one, which is the safe one. Escapes do not matter: neither indexes nor "-" have
// any.
func aboveLists(path string) string {
	for start := 0; start < len(path); {
		element, _, _ := strings.Cut(path[start+1:], "/")
		if _, isIndex := listIndex(element); isIndex || element == appends {
			return path[:start]
		}
		start += 1 + len(element)
	}
	return path
}

// lookup returns the value at a path, and whether there is one: the value may be null. "-" leads
// nowhere.
func lookup(tree any, path pointer) (any, bool) {
	for _, element := range path {
		switch container := tree.(type) {
		case map[string]any:
			child, ok := container[element]
			if !ok {
				return nil, false
			}
			tree = child
		case []any:
			index, ok := listIndex(element)
			if !ok || index >= len(container) {
				return nil, false
			}
			tree = container[index]
		default:
			return nil, false
		}
	}
	return tree, true
}

// Dotted writes a path as users write it: someModule.a.b[2]["odd key"]. The tree distinguishes
// lists from maps; where it does not have the path, elements are keys.
func Dotted(tree any, path []string) string {
	var out strings.Builder
	for i, element := range path {
		_, inList := tree.([]any)
		tree, _ = lookup(tree, pointer{element})
		switch {
		case inList:
			out.WriteString("[" + element + "]")
		case !isWord(element):
			out.WriteString("[" + strconv.Quote(element) + "]")
		case i > 0:
			out.WriteString("." + element)
		default:
			out.WriteString(element)
		}
	}
	return out.String()
}

// isWord reports whether a key can follow a dot without quotes.
func isWord(key string) bool {
	return key != "" && strings.IndexFunc(key, func(r rune) bool {
		return !(r == '_' || r == '-' || r >= '0' && r <= '9' || r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z')
	}) < 0
}

// ParsePath reads a path of a user: dotted, a.b[2]["odd key"], as explanations and violations print
// it, or a JSON pointer, /a/b/2. Quotes and escapes are those of Go.
func ParsePath(text string) ([]string, error) {
	if strings.HasPrefix(text, "/") {
		path, err := splitPointer(text)
		if err != nil {
			return nil, fmt.Errorf("path %q %w", text, err)
		}
		return path, nil
	}
	var path []string
	element := regexp.MustCompile(`^(?:\.?([^.\[]+)|\[("(?:[^"\\]|\\.)*")\]|\[([^\]"'\[]+)\])`)
	for rest := text; rest != ""; {
		found := element.FindStringSubmatch(rest)
		if found == nil || rest[0] == '.' && len(path) == 0 || found[1] != "" && rest[0] != '.' && len(path) > 0 {
			return nil, fmt.Errorf(`path %q: write a.b for a key, [2] for an index, and ["odd.key"] for a key with special characters`, text)
		}
		key := cmp.Or(found[1], found[3])
		if found[2] != "" {
			var err error
			if key, err = strconv.Unquote(found[2]); err != nil {
				return nil, fmt.Errorf("path %q: %s is not quoted as in Go", text, found[2])
			}
		}
		path, rest = append(path, key), rest[len(found[0]):]
	}
	return path, nil
}
