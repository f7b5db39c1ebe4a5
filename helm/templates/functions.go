package templates

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"strings"
	"text/template"

	"github.com/BurntSushi/toml"
	"github.com/Masterminds/sprig/v3"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"
	goyaml "sigs.k8s.io/yaml/goyaml.v3"

	"addon-operator/helm/manifest"
)

// weighing is the function that looks at what is printed.
const weighing = "_weigh"

// functions are those of Helm, each within the budget. One that is missing here fails a render, which Helm then does.
func (r *rendering) functions() template.FuncMap {
	all := sprig.TxtFuncMap()
	delete(all, "env")
	delete(all, "expandenv")
	maps.Copy(all, template.FuncMap{
		"toToml": toTOML, "fromToml": fromTOML, "toYaml": toYAML, "toYamlPretty": toYAMLPretty, "fromYaml": fromYAML, "fromYamlArray": fromYAMLArray,
		"toJson": toJSON, "fromJson": fromJSON, "fromJsonArray": fromJSONArray, "lookup": r.look, "required": required,
		"getHostByName": func(string) string { return "" },
		// These are Go's own, which have no bounds either.
		"print": fmt.Sprint, "printf": fmt.Sprintf, "println": fmt.Sprintln,
		"html": template.HTMLEscaper, "js": template.JSEscaper, "urlquery": template.URLQueryEscaper,
	})
	before := r.checks()
	for name, f := range all {
		all[name] = r.bounded(f, before[name], references()[name])
	}
	all[weighing] = func(v reflect.Value) reflect.Value { // a copy would lose methods of its pointer
		if v.IsValid() && v.Kind() != reflect.String && v.CanInterface() {
			r.size(v.Interface())
		}
		return v
	}
	return all
}

// texts are functions that return texts; most of what is printed comes from them.
func texts() map[string]bool {
	return map[string]bool{"include": true, "tpl": true, "toYaml": true, "quote": true, "squote": true, "indent": true, "nindent": true, "printf": true, "toJson": true, "b64enc": true, "trim": true}
}

// references are functions that return what they are given, or a part of it.
func references() map[string]bool {
	return map[string]bool{
		"default": true, "coalesce": true, "ternary": true, "get": true, "set": true, "unset": true, "dig": true, "required": true, "fail": true, "lookup": true,
		"first": true, "last": true, "mustFirst": true, "mustLast": true, "merge": true, "mergeOverwrite": true, "mustMerge": true, "mustMergeOverwrite": true,
	}
}

// check looks at the arguments of a function before it is called.
type check func(args []any)

// checks are for functions that make much of little, or follow their arguments into the depth.
func (b *budget) checks() map[string]check {
	const number = 12 // bytes of one, in a list or in a text
	deep := func(args []any) {
		for _, arg := range args {
			b.size(arg)
		}
	}
	random := func(args []any) {
		const slow = 32 // a random character takes a microsecond
		b.times(integer(args, 0), slow)
		b.make(slow * max(integer(args, 0), 0))
	}
	lines := func(args []any) { b.times(integer(args, 0), strings.Count(text(args, 1), "\n")+1) }
	parts := func(args []any) { b.times(strings.Count(text(args, 1), text(args, 0))+1, 4*number) }
	parsed := func(args []any) {
		const tree = 8 // times as large as its text
		if err := manifest.Check(text(args, 0)); err != nil {
			panic(b.exceeded("it parses a text that is too large: %s", err))
		}
		b.make(tree * len(text(args, 0)))
	}
	all := map[string]check{
		"repeat":    func(args []any) { b.times(integer(args, 0), len(text(args, 1))) },
		"until":     func(args []any) { b.numbers(0, integer(args, 0), 1) },
		"untilStep": func(args []any) { b.numbers(integer(args, 0), integer(args, 1), integer(args, 2)) },
		"seq":       b.sequence,
		"wrapWith":  func(args []any) { b.times(len(text(args, 1)), len(text(args, 2))/max(integer(args, 0), 1)+1) },
		"replace":   func(args []any) { b.times(strings.Count(text(args, 2), text(args, 0)), len(text(args, 1))) },
		"join":      func(args []any) { deep(args); b.times(len(text(args, 0)), length(args[1])) },
		"printf":    func(args []any) { deep(args); b.need(widths(text(args, 0))) },
	}
	for names, c := range map[string]check{
		"randAlphaNum randAlpha randAscii randNumeric randBytes": random,
		"indent nindent":        lines,
		"split splitList":       parts,
		"deepCopy mustDeepCopy": func(args []any) { b.make(b.size(args[0])) },
		"fromYaml fromYamlArray fromJson fromJsonArray mustFromJson fromToml":                                parsed,
		"toYaml toYamlPretty toJson toPrettyJson toRawJson mustToJson mustToPrettyJson mustToRawJson toToml": deep,
		"print println html js urlquery cat quote squote toString toStrings deepEqual":                       deep,
		"merge mergeOverwrite mustMerge mustMergeOverwrite sortAlpha compact mustCompact uniq mustUniq":      deep,
	} {
		for name := range strings.FieldsSeq(names) {
			all[name] = c
		}
	}
	return all
}

// times needs room for n times m bytes.
func (b *budget) times(n, m int) {
	if n > 0 && m > 0 {
		if n > b.most.made/m {
			b.need(b.most.made + 1)
		}
		b.need(n * m)
	}
}

// numbers needs room for those from start to stop.
func (b *budget) numbers(start, stop, step int) {
	const number = 16 // bytes of one
	if step != 0 {
		b.times(int(min(abs(float64(stop)-float64(start))/abs(float64(step)), float64(b.most.made))), number)
	}
}

// sequence takes the arguments of seq: the end, or start and end, or start, step and end.
func (b *budget) sequence(args []any) {
	switch len(args) {
	case 1:
		b.numbers(1, integer(args, 0), 1)
	case 2:
		b.numbers(integer(args, 0), integer(args, 1), 1)
	case 3:
		b.numbers(integer(args, 0), integer(args, 2), integer(args, 1))
	}
}

func abs(f float64) float64 { return max(f, -f) }

// widths is how much the numbers in a format may pad; a star can be a million, as Go allows.
func widths(format string) int {
	const most = 1_000_000
	sum, number := 0, 0
	for _, c := range []byte(format) {
		switch {
		case c >= '0' && c <= '9':
			number = min(10*number+int(c-'0'), most)
			continue
		case c == '*':
			number = most
		}
		sum, number = sum+number, 0
	}
	return sum + number
}

func integer(args []any, i int) int {
	n, _ := args[i].(int)
	return n
}

func text(args []any, i int) string {
	s, _ := args[i].(string)
	return s
}

// length is the length of a list.
func length(list any) int {
	if v := reflect.ValueOf(list); v.Kind() == reflect.Slice || v.Kind() == reflect.Array {
		return v.Len()
	}
	return 1
}

// bounded is the same function, which looks at its arguments first and counts its result. That of a reference was counted
// where it was made. The signatures that are written out are those of most calls; reflection takes some time.
func (b *budget) bounded(f any, before check, reference bool) any {
	counted := func(s string) string { b.make(len(s)); return s }
	switch f := f.(type) {
	case func(string) string:
		if before == nil {
			return func(s string) string { return counted(f(s)) }
		}
	case func(string, string) string:
		if before == nil {
			return func(x, y string) string { return counted(f(x, y)) }
		}
	case func(any) string:
		return func(v any) string {
			if before != nil {
				before([]any{v})
			}
			return counted(f(v))
		}
	case func(...any) string:
		return func(vs ...any) string {
			if before != nil {
				before(vs)
			}
			return counted(f(vs...))
		}
	case func(string, ...any) string:
		return func(s string, vs ...any) string {
			before(append([]any{s}, vs...))
			return counted(f(s, vs...))
		}
	case func(int, string) string:
		return func(n int, s string) string {
			if before != nil {
				before([]any{n, s})
			}
			return counted(f(n, s))
		}
	}
	return b.reflected(reflect.ValueOf(f), before, reference)
}

func (b *budget) reflected(f reflect.Value, before check, reference bool) any {
	t := f.Type()
	kind := t.Out(0).Kind()
	grows := !reference && (kind == reflect.String || kind == reflect.Slice || kind == reflect.Map || kind == reflect.Interface)
	if before == nil && !grows {
		return f.Interface()
	}
	call := f.Call
	if t.IsVariadic() {
		call = f.CallSlice
	}
	return reflect.MakeFunc(t, func(in []reflect.Value) []reflect.Value {
		if before != nil {
			before(plain(in, t.IsVariadic()))
		}
		out := call(in)
		if grows {
			b.make(shallow(out[0]))
		}
		return out
	}).Interface()
}

// plain are arguments as a check wants them.
func plain(in []reflect.Value, variadic bool) []any {
	var args []any
	for i, v := range in {
		if variadic && i == len(in)-1 {
			for n := range v.Len() {
				args = append(args, v.Index(n).Interface())
			}
			continue
		}
		args = append(args, v.Interface())
	}
	return args
}

// shallow is the size of a result without what it refers to. Items count for half: a list is often made by appending, and
// all but the last are garbage.
func shallow(v reflect.Value) int {
	const item, entry = 8, 64
	if v.Kind() == reflect.Interface {
		v = v.Elem()
	}
	switch v.Kind() {
	case reflect.String:
		return v.Len()
	case reflect.Slice:
		return v.Len() * item
	case reflect.Map:
		return v.Len() * entry
	}
	return 0
}

func required(warn string, value any) (any, error) {
	if value == nil || value == "" {
		return value, errors.New(warn)
	}
	return value, nil
}

// look is lookup: one object, all of a kind, or an empty map when there is none.
func (r *rendering) look(apiVersion, kind, namespace, name string) (map[string]any, error) {
	all, namespaced, err := r.lookup.GetClientFor(apiVersion, kind)
	if err != nil {
		return map[string]any{}, err
	}
	client := dynamic.ResourceInterface(all)
	if namespaced && namespace != "" {
		client = all.Namespace(namespace)
	}
	var found interface{ UnstructuredContent() map[string]any }
	if name != "" {
		found, err = client.Get(r.ctx, name, metav1.GetOptions{})
	} else {
		found, err = client.List(r.ctx, metav1.ListOptions{})
	}
	switch {
	case apierrors.IsNotFound(err):
		return map[string]any{}, nil
	case err != nil:
		return map[string]any{}, err
	}
	return found.UnstructuredContent(), nil
}

// Errors in these are texts or nothing, as templates know it from Helm.

func toYAML(v any) string {
	data, err := yaml.Marshal(v)
	if err != nil {
		return ""
	}
	return strings.TrimSuffix(string(data), "\n")
}

func toYAMLPretty(v any) string {
	var data bytes.Buffer
	encoder := goyaml.NewEncoder(&data)
	encoder.SetIndent(2)
	if encoder.Encode(v) != nil {
		return ""
	}
	return strings.TrimSuffix(data.String(), "\n")
}

func toJSON(v any) string {
	data, err := json.Marshal(v)
	if err != nil {
		return ""
	}
	return string(data)
}

func toTOML(v any) string {
	var data bytes.Buffer
	if err := toml.NewEncoder(&data).Encode(v); err != nil {
		return err.Error()
	}
	return data.String()
}

func fromYAML(text string) map[string]any {
	return toMap(text, func(data []byte, to any) error { return yaml.Unmarshal(data, to) })
}
func fromJSON(text string) map[string]any { return toMap(text, json.Unmarshal) }
func fromTOML(text string) map[string]any { return toMap(text, toml.Unmarshal) }
func fromYAMLArray(text string) []any {
	return toList(text, func(data []byte, to any) error { return yaml.Unmarshal(data, to) })
}
func fromJSONArray(text string) []any { return toList(text, json.Unmarshal) }

func toMap(text string, parse func([]byte, any) error) map[string]any {
	m := map[string]any{}
	if err := parse([]byte(text), &m); err != nil {
		m["Error"] = err.Error()
	}
	return m
}

func toList(text string, parse func([]byte, any) error) []any {
	l := []any{}
	if err := parse([]byte(text), &l); err != nil {
		l = []any{err.Error()}
	}
	return l
}
