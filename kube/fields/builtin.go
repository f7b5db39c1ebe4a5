package fields

import (
	"encoding/json"
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

// check implements shape. A type that decodes itself is a leaf, whatever its kind: whether a text
// is a quantity or a time, only its own method knows.
func (t goType) check(value any) (wrong string, inside bool) {
	if reflect.PointerTo(t.Type).Implements(reflect.TypeFor[json.Unmarshaler]()) { // quantities, times, numbers or texts
		data, err := json.Marshal(value)
		if err == nil {
			err = json.Unmarshal(data, reflect.New(t.Type).Interface())
		}
		if err != nil {
			return "is not valid: " + err.Error(), false
		}
		return "", false
	}
	list, isList := value.([]any)
	_, isMap := value.(map[string]any)
	_, isText := value.(string)
	_, isBool := value.(bool)
	switch t.Kind() {
	case reflect.Struct, reflect.Map:
		if !isMap {
			return mustBe("a map", value), false
		}
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 { // in base64
			if isText {
				return "", false
			}
			return mustBe("a string in base64", value), false
		}
		if !isList {
			return mustBe("a list", value), false
		}
		return "", len(list) > 0
	case reflect.String:
		if !isText {
			return mustBe("a string; write it in quotes", value), false
		}
	case reflect.Bool:
		if !isBool {
			return mustBe("true or false", value), false
		}
	default:
		return t.checkNumber(value), false
	}
	return "", isMap
}

// checkNumber decodes the value into the type, which finds fractions and numbers that are too
// large, as the API server does. A type that is an interface takes any value.
func (t goType) checkNumber(value any) string {
	if t.Kind() == reflect.Interface {
		return ""
	}
	want := "a number"
	if t.Kind() != reflect.Float64 && t.Kind() != reflect.Float32 {
		want = "a whole number"
	}
	data, err := json.Marshal(value)
	if err != nil || !isNumber(value) {
		return mustBe(want+", without quotes", value)
	}
	if err := json.Unmarshal(data, reflect.New(t.Type).Interface()); err != nil {
		return "must be " + want + ", is " + string(data)
	}
	return ""
}

// field implements shape.
func (t goType) field(name string) shape {
	if t.Kind() == reflect.Map {
		return pointed(t.Elem())
	}
	if found, ok := fieldsOf(t.Type)[name]; ok {
		return pointed(found)
	}
	return nil
}

// names implements shape.
func (t goType) names() []string { return slices.Sorted(maps.Keys(fieldsOf(t.Type))) }

// element implements shape.
func (t goType) element() shape { return pointed(t.Elem()) }

// pointed is the shape of a type, or of what it points to.
func pointed(t reflect.Type) shape {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return goType{t}
}

// fieldsOf are the fields of a struct by their names in JSON, with those of embedded structs.
func fieldsOf(t reflect.Type) map[string]reflect.Type {
	all := map[string]reflect.Type{}
	for f := range t.Fields() {
		name, options, _ := strings.Cut(f.Tag.Get("json"), ",")
		switch {
		case name == "-" || !f.IsExported() && !f.Anonymous:
		case name == "" && (f.Anonymous || strings.Contains(options, "inline")):
			embedded := f.Type
			if embedded.Kind() == reflect.Pointer {
				embedded = embedded.Elem()
			}
			maps.Copy(all, fieldsOf(embedded))
		case name != "":
			all[name] = f.Type
		}
	}
	return all
}
