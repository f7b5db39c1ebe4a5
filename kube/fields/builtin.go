package fields

import (
	"encoding/json"
	"fmt"
	"iter"
	"maps"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime"
)

// goType is the shape of a type of the API: its fields are those of its struct, by their names in
// JSON. It is never a pointer: pointed takes these off, because walk accepts null everywhere.
type goType struct{ reflect.Type }

func shapeOfType(object runtime.Object) shape { return goType{reflect.TypeOf(object).Elem()} }

// check implements shape. A value without fields is decoded into the type, as in the API server:
// only the types themselves can read quantities, times and base64, and limit the size of a number.
func (t goType) check(value any) (wrong string, inside bool) {
	want := t.want()
	switch want {
	case typeOf(value), "":
	default:
		return mustBe(want, value), false
	}
	if want == "a map" || want == "a list" {
		return "", true
	}
	data, err := json.Marshal(value)
	if err == nil {
		err = json.Unmarshal(data, reflect.New(t.Type).Interface())
	}
	switch {
	case err == nil:
		return "", false
	case want == "a number":
		return fmt.Sprintf("must be of type %s, is %s", t.Kind(), data), false
	}
	return "is not valid: " + err.Error(), false
}

// want is what the type is in JSON, as typeOf names it. It is empty for a type that decodes itself,
// whatever its kind, and for one that takes any value.
func (t goType) want() string {
	if reflect.PointerTo(t.Type).Implements(reflect.TypeFor[json.Unmarshaler]()) {
		return ""
	}
	switch t.Kind() {
	case reflect.Interface:
		return ""
	case reflect.Struct, reflect.Map:
		return "a map"
	case reflect.Slice:
		if t.Elem().Kind() != reflect.Uint8 { // in base64
			return "a list"
		}
		return "a string"
	case reflect.String:
		return "a string"
	case reflect.Bool:
		return "a boolean"
	default:
		return "a number"
	}
}

// field implements shape.
func (t goType) field(name string) shape {
	if t.Kind() == reflect.Map {
		return pointed(t.Elem())
	}
	for known, found := range fieldsOf(t.Type) {
		if known == name {
			return pointed(found)
		}
	}
	return nil
}

// names implements shape.
func (t goType) names() []string { return slices.Sorted(maps.Keys(maps.Collect(fieldsOf(t.Type)))) }

// element implements shape.
func (t goType) element() shape { return pointed(t.Elem()) }

// pointed is the shape of a type, or of what it points to.
func pointed(t reflect.Type) goType {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return goType{t}
}

// fieldsOf are the fields of a struct by their names in JSON, with those of embedded structs. It
// makes no map, because the walk looks for one name: schemas of definitions have many thousand.
func fieldsOf(t reflect.Type) iter.Seq2[string, reflect.Type] {
	return func(yield func(string, reflect.Type) bool) {
		for f := range t.Fields() {
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			switch {
			case name == "" && f.Anonymous:
				for below, found := range fieldsOf(pointed(f.Type).Type) {
					if !yield(below, found) {
						return
					}
				}
			case name != "" && name != "-" && !yield(name, f.Type):
				return
			}
		}
	}
}
