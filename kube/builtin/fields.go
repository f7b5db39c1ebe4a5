package builtin

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	kjson "sigs.k8s.io/json"
)

// Misfit is a field of an object that the API server would drop or refuse.
type Misfit struct {
	Path    []string // keys, and positions in lists; empty: the object as a whole
	Problem string   // what is wrong, and what to write
	// Known are the names of the fields that the kind has in this place, if it is an unknown one.
	Known []string
}

// Misfits compares the fields of an object with those of its kind, as strict field validation of
// the API server does. It returns nothing about kinds that it does not know. Of wrong types it
// reports the first one.
func (k *Kinds) Misfits(object map[string]any) []Misfit {
	apiVersion, _ := object["apiVersion"].(string)
	kind, _ := object["kind"].(string)
	gvk := schema.FromAPIVersionAndKind(apiVersion, kind)
	t := k.types[gvk]
	if t == nil {
		return nil
	}
	if served, _ := k.serves(t); !served {
		return nil
	}
	data, err := json.Marshal(object)
	if err != nil {
		return []Misfit{{Problem: err.Error()}}
	}
	// The decoder of API servers: it returns unknown fields as strict errors and goes on, but ends
	// at a value of a wrong type.
	var all []Misfit
	strict, err := kjson.UnmarshalStrict(data, reflect.New(t).Interface())
	if err != nil {
		all = append(all, mistyped(data, err))
	}
	unknown := regexp.MustCompile(`^unknown field "(.*)"$`) // the decoder has no type for this error
	for _, problem := range strict {
		found := unknown.FindStringSubmatch(problem.Error())
		if found == nil {
			all = append(all, Misfit{Problem: problem.Error()})
			continue
		}
		path := steps(found[1])
		all = append(all, Misfit{Path: path, Problem: "is not a field of " + kind, Known: fieldsAt(t, path[:len(path)-1])})
	}
	return all
}

// steps takes spec.containers[0].name apart. A key with dots looks like several steps, but none
// is above a field that a kind does not have, other than in maps, whose keys all are allowed.
func steps(path string) (all []string) {
	for step := range strings.SplitSeq(path, ".") {
		name, rest, _ := strings.Cut(step, "[")
		all = append(all, name)
		for index := range strings.SplitSeq(rest, "[") {
			if index = strings.TrimSuffix(index, "]"); index != "" {
				all = append(all, index)
			}
		}
	}
	return all
}

// mistyped explains an error of decoding to a person who writes templates: what the value must be,
// what it is, and what to change. data is what was decoded.
func mistyped(data []byte, err error) Misfit {
	var wrong *json.UnmarshalTypeError
	if !errors.As(err, &wrong) {
		return Misfit{Path: nil, Problem: strings.TrimPrefix(err.Error(), "json: ")}
	}
	m := Misfit{Path: pathAt(data, wrong.Offset)}
	switch wrong.Type.Kind() {
	case reflect.String:
		m.Problem = fmt.Sprintf("must be a string, is a %s; put it in quotes, in a template with | quote", named(wrong.Value))
	case reflect.Bool:
		m.Problem = fmt.Sprintf("must be true or false without quotes, is a %s", named(wrong.Value))
	case reflect.Slice, reflect.Array:
		m.Problem = fmt.Sprintf("must be a list, is a %s; begin each element with a dash", named(wrong.Value))
	case reflect.Map, reflect.Struct:
		m.Problem = fmt.Sprintf("must be a map, is a %s", named(wrong.Value))
	default:
		m.Problem = fmt.Sprintf("must be a number without quotes, is a %s", named(wrong.Value))
	}
	return m
}

// named is the type of a value of JSON, as the decoder names it, in the words of this program.
func named(value string) string {
	switch value {
	case "array":
		return "list"
	case "object":
		return "map"
	}
	return value
}

// pathAt is the path of the value that ends at an offset of JSON without spaces, or that holds it.
// An error of decoding has only that offset. It reads the text again, token by token, with a level
// for each map and list that is open, and stops at the first token that ends at the offset or
// behind it.
func pathAt(data []byte, offset int64) []string {
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber()
	type level struct {
		list  bool
		key   string // of a map: of the value that comes next, or is open; empty: none yet
		index int    // of a list: of the value that comes next, or is open
		value bool   // of a map: a value comes next
	}
	var stack []level
	path := func() (all []string) {
		for _, l := range stack {
			if l.list {
				all = append(all, strconv.Itoa(l.index))
			} else if l.key != "" {
				all = append(all, l.key)
			}
		}
		return all
	}
	for {
		token, err := decoder.Token()
		if err != nil {
			return path()
		}
		top := len(stack) - 1
		delim, isDelim := token.(json.Delim)
		// Between two values of a map, every token but its end is a key.
		if top >= 0 && !stack[top].list && !stack[top].value && (!isDelim || delim != '}') {
			stack[top].key, _ = token.(string)
			stack[top].value = true
			continue
		}
		if decoder.InputOffset() >= offset {
			return path()
		}
		switch {
		case isDelim && (delim == '{' || delim == '['):
			stack = append(stack, level{list: delim == '['})
			continue
		case isDelim:
			stack = stack[:top]
			top--
		}
		if top >= 0 { // a value is complete: a scalar, or the map or list that has just ended
			stack[top].index++
			stack[top].value = false
		}
	}
}

// fieldsAt are the names of the fields of a type below a path, sorted; nil when the path leads to
// something without fields. Keys of maps and positions in lists are skipped: all elements have one
// type.
func fieldsAt(t reflect.Type, path []string) (names []string) {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if len(path) > 0 {
		switch t.Kind() {
		case reflect.Slice, reflect.Array, reflect.Map:
			return fieldsAt(t.Elem(), path[1:])
		case reflect.Struct:
			if field, ok := fieldOf(t, path[0]); ok {
				return fieldsAt(field, path[1:])
			}
		}
		return nil
	}
	if t.Kind() != reflect.Struct {
		return nil
	}
	for _, f := range reflect.VisibleFields(t) {
		if name, _, _ := strings.Cut(f.Tag.Get("json"), ","); name != "" && name != "-" && f.IsExported() {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// fieldOf finds the field of a struct by its name in JSON, also one of an embedded struct.
func fieldOf(t reflect.Type, name string) (reflect.Type, bool) {
	for _, f := range reflect.VisibleFields(t) {
		if tag, _, _ := strings.Cut(f.Tag.Get("json"), ","); tag == name {
			return f.Type, true
		}
	}
	return nil, false
}
