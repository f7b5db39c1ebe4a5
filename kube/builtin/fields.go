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
	Path    []string // keys, and positions in lists
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
	var all []Misfit
	strict, err := kjson.UnmarshalStrict(data, reflect.New(t).Interface())
	if err != nil {
		all = append(all, mistyped(data, err))
	}
	unknown := regexp.MustCompile(`^unknown field "(.*)"$`)
	for _, problem := range strict {
		found := unknown.FindStringSubmatch(problem.Error())
		if found == nil {
			all = append(all, Misfit{Problem: problem.Error()})
			continue
		}
		path := steps(found[1])
		all = append(all, Misfit{Path: path, Problem: "is no field of " + kind, Known: fieldsAt(t, path[:len(path)-1])})
	}
	return all
}

// steps takes spec.containers[0].name apart. Keys that hold dots are not told from steps, but none
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

// mistyped words an error of decoding.
func mistyped(data []byte, err error) Misfit {
	var wrong *json.UnmarshalTypeError
	if !errors.As(err, &wrong) {
		return Misfit{Path: nil, Problem: strings.TrimPrefix(err.Error(), "json: ")}
	}
	m := Misfit{Path: pathAt(data, wrong.Offset)}
	switch wrong.Type.Kind() {
	case reflect.String:
		m.Problem = fmt.Sprintf("must be a text, is a %s; put it in quotes, in a template with | quote", wrong.Value)
	case reflect.Bool:
		m.Problem = fmt.Sprintf("must be true or false without quotes, is a %s", wrong.Value)
	case reflect.Slice, reflect.Array:
		m.Problem = fmt.Sprintf("must be a list, is a %s; begin each element with a dash", named(wrong.Value))
	case reflect.Map, reflect.Struct:
		m.Problem = fmt.Sprintf("must be a map, is a %s", named(wrong.Value))
	default:
		m.Problem = fmt.Sprintf("must be a number without quotes, is a %s", named(wrong.Value))
	}
	return m
}

// named is the type of a value of JSON in the words of this program.
func named(value string) string {
	switch value {
	case "string":
		return "text"
	case "array":
		return "list"
	case "object":
		return "map"
	}
	return value
}

// pathAt is the path of the value that ends at an offset of JSON without spaces, or that holds it.
func pathAt(data []byte, offset int64) []string {
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber()
	type level struct {
		list  bool
		key   string
		index int
		value bool // of a map: a value comes next
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
		if top >= 0 {
			stack[top].index++
			stack[top].value = false
		}
	}
}

// fieldsAt are the names of the fields of a type below a path.
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

func fieldOf(t reflect.Type, name string) (reflect.Type, bool) {
	for _, f := range reflect.VisibleFields(t) {
		if tag, _, _ := strings.Cut(f.Tag.Get("json"), ","); tag == name {
			return f.Type, true
		}
	}
	return nil, false
}
