package values

import (
	"cmp"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Edit is a change of one value of the ConfigMap: of a whole key, or of a value below one. It works
// on the text, so that the comments that a person has written survive.
type Edit struct {
	// Path begins with "global", the key of a module, or that of a flag or mode.
	Path []string
	// Value is a tree as ParseYAML returns it. With Remove it is ignored.
	Value  any
	Remove bool
}

// Edited is what an edit does to the ConfigMap.
type Edited struct {
	// Key is the key of the ConfigMap to write, Text its new content; a nil Text removes the key.
	Key  string
	Text *string
	// Before is the value at the path before the edit; Had reports whether there was one.
	Before any
	Had    bool
}

// Unchanged reports that the ConfigMap already has what the edit wants.
func (e Edited) Unchanged(edit Edit) bool {
	return edit.Remove && !e.Had || !edit.Remove && e.Had && reflect.DeepEqual(e.Before, edit.Value)
}

// Apply returns the text that the key of the ConfigMap must have after the edit. All other values, comments and the
// order of keys stay; blanks and quotes may change. Where that is impossible, for example below an alias, the error
// contains the reason.
//
// Apply parses the result again and compares it with the expected tree (expected): a mistake of the library causes an
// error, never a wrong ConfigMap.
func (e Edit) Apply(data map[string]string) (Edited, error) {
	if len(e.Path) == 0 {
		return Edited{}, errors.New("the path is empty; it must begin with global or the key of a module")
	}
	key := e.Path[0]
	text, has := data[key]
	edited := Edited{Key: key}
	switch {
	case !isSwitch(key) && key != GlobalKey && !isKey(key):
		return edited, keyError(key)
	case isSwitch(key) && len(e.Path) > 1:
		return edited, fmt.Errorf("%s is a single string and has no keys below it", key)
	case isSwitch(key):
		edited.Had, edited.Before = has, strings.TrimSpace(text)
		if flag, ok := flagValue(edited.Before); ok {
			edited.Before = flag
		}
		if !e.Remove {
			if _, err := read(map[string]any{key: e.Value}, "", "", Document.add); err != nil {
				return edited, err
			}
			edited.Text = new(fmt.Sprint(e.Value))
		}
		return edited, nil
	}
	return edited, e.section(&edited, text, has)
}

// section edits the text of a section. A path of one element replaces or removes the whole key,
// which also repairs a text that cannot be parsed.
func (e Edit) section(edited *Edited, text string, has bool) error {
	tree, err := ParseYAML([]byte(text))
	if len(e.Path) == 1 { // what was there need not be readable
		edited.Before, edited.Had = tree, has
		if e.Remove {
			return nil
		}
		made, err := YAML(e.Value)
		edited.Text = new(string(made))
		return err
	}
	path := pointer(e.Path[1:])
	where := func(err error) error { return fmt.Errorf("%s: %w", Dotted(nil, e.Path), err) }
	switch {
	case err != nil:
		return fmt.Errorf("ConfigMap key %s is not valid: %w", e.Path[0], err)
	case tree != nil && !isContainer(tree):
		return where(fmt.Errorf("the text of the ConfigMap's key %s is %s; remove the key first", e.Path[0], describe(tree)))
	}
	// An edit without effect keeps the text as it is, even if it could not be changed.
	edited.Before, edited.Had = lookup(tree, path)
	if edited.Unchanged(e) {
		if has {
			edited.Text = &text
		}
		return nil
	}
	want, err := e.expected(tree, path)
	if err != nil {
		return where(err)
	}
	made, err := e.rewrite(text, path, want)
	if err != nil {
		return where(err)
	}
	if got, err := ParseYAML([]byte(made)); err != nil || !same(got, want) {
		return where(errors.New("the section cannot be changed there without changing something else, because of aliases or an unusual format; edit the ConfigMap manually"))
	}
	// Without any content the key is removed: Text stays nil.
	if strings.TrimSpace(made) != "" {
		edited.Text = &made
	}
	return nil
}

// same compares two trees. At the root an empty container and nothing are the same: the removal of
// the last key may leave either.
func same(a, b any) bool {
	return reflect.DeepEqual(a, b) || (a == nil || isEmpty(a)) && (b == nil || isEmpty(b))
}

// expected returns the tree after the edit. It creates missing maps, and refuses paths through scalars and to places
// that a list does not have. Apply has found before that the edit changes something.
func (e Edit) expected(tree any, path pointer) (any, error) {
	if tree == nil {
		tree = map[string]any{}
	}
	there := 0 // elements of the path that exist
	for ; there < len(path); there++ {
		if _, found := lookup(tree, path[:there+1]); !found {
			break
		}
	}
	after, end := tree, min(there+1, len(path))
	if there == len(path) {
		after = Operation{Op: "remove"}.over(tree, path, nil)
	}
	if e.Remove {
		return after, nil
	}
	after = Operation{Op: "add", Value: putAt(nil, path[end:], e.Value)}.over(after, path[:end], nil)
	parent, _ := lookup(tree, path[:there])
	_, list := parent.([]any)
	_, found := lookup(after, path)
	if appended := list && path[end-1] == appends; reflect.DeepEqual(after, tree) || !found && !appended || slices.Contains(path[there:], appends) && !appended {
		return nil, cmp.Or(absence(map[string]any{e.Path[0]: tree}, e.Path, true), errors.New("- is only a place in a list"))
	}
	return after, nil
}

// rewrite returns the text with the edit made in its nodes: comments and the order of keys stay, blanks and quotes
// may change. An empty section, or one of comments only, has no node to start from, so the new block is appended to
// the text.
func (e Edit) rewrite(text string, path pointer, want any) (string, error) {
	var document yaml.Node
	if err := yaml.Unmarshal([]byte(text), &document); err != nil { // JSON with escapes that the library does not read
		whole, err := JSON(want)
		return string(whole), err
	}
	if len(document.Content) == 0 || isNothing(document.Content[0]) {
		if text != "" && !strings.HasSuffix(text, "\n") {
			text += "\n"
		}
		block, err := YAML(putAt(nil, path, e.Value))
		return text + string(block), err
	}
	root := document.Content[0]
	if e.change(nil, root, path); len(root.Content) == 0 {
		return "", nil
	}
	return encode(&document)
}

// change descends along a path and changes the value at its end. key is that of the node in its map, else nil. What it
// cannot reach, as below an alias, stays as it is, which Apply notices.
func (e Edit) change(key, node *yaml.Node, path pointer) {
	defer moveComment(key, node)
	if len(path) == 0 || node.Kind == yaml.ScalarNode { // null: expected has refused all others
		made := yamlNode(putAt(nil, path, e.Value)) // its comments stay
		made.HeadComment, made.LineComment, made.FootComment = node.HeadComment, node.LineComment, node.FootComment
		*node = *made
		return
	}
	i, first := find(node, path[0]), 0
	if key = nil; node.Kind == yaml.MappingNode && i >= 0 {
		key, first = node.Content[i-1], 1
	}
	switch {
	case i >= 0 && e.Remove && len(path) == 1:
		if node.Content = slices.Delete(node.Content, i-first, i+1); len(node.Content) == 0 {
			node.Style = yaml.FlowStyle // {} or []: with nothing in it the value of its key would be null
		}
	case i >= 0:
		e.change(key, node.Content[i], path[1:])
	case !e.Remove:
		e.insert(node, path)
	}
}

// moveComment puts the comment on the line of a key where the library expects it: at the key if its value begins on
// the next line, else at the value.
func moveComment(key, node *yaml.Node) {
	if key == nil {
		return
	}
	comment := cmp.Or(key.LineComment, node.LineComment)
	if key.LineComment, node.LineComment = "", comment; node.Kind != yaml.ScalarNode && node.Style&yaml.FlowStyle == 0 {
		key.LineComment, node.LineComment = comment, ""
	}
}

// insert adds a key to a map, or an element to a list, after the last one.
func (e Edit) insert(node *yaml.Node, path pointer) {
	added := putAt(nil, path, e.Value)
	if node.Kind == yaml.SequenceNode {
		added = []any{putAt(nil, path[1:], e.Value)}
	}
	if len(node.Content) == 0 {
		node.Style = 0 // an empty one is always in brackets
	}
	node.Content = append(node.Content, yamlNode(added).Content...)
}

// isNothing reports whether a node has no text of its own, as the null value of "key:".
func isNothing(node *yaml.Node) bool {
	return node.Kind == yaml.ScalarNode && node.Value == "" && node.Style == 0 && node.Anchor == ""
}

// MaskAt returns the value at a path with everything hidden that looks like a secret, also by a key
// on the way to it (D38).
func MaskAt(path []string, value any) any {
	return Mask(value, secretPath(path))
}
