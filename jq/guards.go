package jq

import (
	"encoding/json"
	"fmt"
	"math/big"
	"reflect"

	"github.com/itchyny/gojq"
)

// The time limit of a program counts between its steps, so a step must not make much of little: "x" * 1e9, .[1e8] = 1,
// or a text that doubles. Neither the compiler nor a run of the library can be told a limit, so those operators and
// functions that can are replaced by functions that ask within first.
const (
	maxValue = 8 << 20   // bytes of one value; an object in the cluster has 1.5 MiB by default
	maxMade  = 128 << 20 // bytes of all that a run makes with guarded operators and functions, whether it keeps it or not
	maxDepth = 100       // of lists and objects, as in values

	within = "_within" // the function that refuses
	prefix = "_guarded_"
)

var errTooLarge = fmt.Errorf("a value has more than %d MiB, or is nested more than %d deep", maxValue>>20, maxDepth)

// guards are what takes the place of operators and functions. The order of evaluation is that of the operators.
const guards = `
def _guarded_times(l; r): r as $r | l as $l | _within("times"; $l; $r) | $l * $r;
def _guarded_plus(l; r): r as $r | l as $l | _within("plus"; $l; $r) | $l + $r;
def _guarded_assign(p; v): _within("paths"; [path(p)]) | p = v;
def _guarded_modify(p; f): _within("paths"; [path(p)]) | p |= f;
def _guarded_updateTimes(p; f): f as $x | _guarded_modify(p; _guarded_times(.; $x));
def _guarded_updatePlus(p; f): f as $x | _guarded_modify(p; _guarded_plus(.; $x));
def _guarded_updateMinus(p; f): _within("paths"; [path(p)]) | p -= f;
def _guarded_updateDivide(p; f): _within("paths"; [path(p)]) | p /= f;
def _guarded_updateModulo(p; f): _within("paths"; [path(p)]) | p %= f;
def _guarded_updateElse(p; f): _within("paths"; [path(p)]) | p //= f;
def _guarded_setpath(p; v): v as $v | p as $p | _within("paths"; [$p]) | setpath($p; $v);
def _guarded_pick(p): . as $v | null | _within("paths"; [$v | path(p)]) | $v | pick(p);
def _guarded_fromstream(f): fromstream(f | . as $e | null | _within("paths"; [$e[0]]) | $e);
def _guarded_join(s): s as $s | _within("join"; $s) | join($s);
def _guarded_text: _within("size");
def _guarded_tojson: _within("size") | tojson;
def _guarded_tostring: _within("size") | tostring;
def _guarded_add: _within("size") | add;
def _guarded_add(f): [f] | _guarded_add;
def _guarded_flatten: _within("size") | flatten;
def _guarded_flatten(d): _within("size") | flatten(d);
def _guarded_transpose: _within("transpose") | transpose;
def _guarded_implode: _within("size") | implode;
`

//nolint:gochecknoglobals // a table
var guardedOperators = map[gojq.Operator]string{
	gojq.OpMul: "times", gojq.OpAdd: "plus", gojq.OpAssign: "assign", gojq.OpModify: "modify",
	gojq.OpUpdateMul: "updateTimes", gojq.OpUpdateAdd: "updatePlus", gojq.OpUpdateSub: "updateMinus",
	gojq.OpUpdateDiv: "updateDivide", gojq.OpUpdateMod: "updateModulo", gojq.OpUpdateAlt: "updateElse",
}

//nolint:gochecknoglobals // a table
var guardedFunctions = map[string]bool{
	"setpath/2": true, "pick/1": true, "fromstream/1": true, "join/1": true, "tojson/0": true,
	"tostring/0": true, "add/0": true, "add/1": true, "flatten/0": true, "flatten/1": true, "transpose/0": true, "implode/0": true,
}

// modules loads modules that a program imports, with the guards in them.
type modules struct{ loader gojq.ModuleLoader }

// LoadModuleWithMeta implements gojq.ModuleLoader.
func (m modules) LoadModuleWithMeta(name string, meta map[string]any) (*gojq.Query, error) {
	loader, _ := m.loader.(interface {
		LoadModuleWithMeta(name string, meta map[string]any) (*gojq.Query, error)
	})
	query, err := loader.LoadModuleWithMeta(name, meta)
	if err != nil {
		return nil, err
	}
	added, err := gojq.Parse(guards + ".")
	guard(query)
	query.FuncDefs = append(added.FuncDefs, query.FuncDefs...)
	return query, err
}

// LoadJSONWithMeta implements gojq.ModuleLoader.
func (m modules) LoadJSONWithMeta(name string, meta map[string]any) (any, error) {
	loader, _ := m.loader.(interface {
		LoadJSONWithMeta(name string, meta map[string]any) (any, error)
	})
	return loader.LoadJSONWithMeta(name, meta)
}

// guard replaces operators and functions in a program. A function that the program defines itself is another one.
func guard(query *gojq.Query) {
	own := map[string]bool{}
	walk(reflect.ValueOf(query), func(node any) {
		if def, ok := node.(*gojq.FuncDef); ok {
			own[fmt.Sprintf("%s/%d", def.Name, len(def.Args))] = true
			for _, arg := range def.Args {
				own[arg+"/0"] = true
			}
		}
	})
	walk(reflect.ValueOf(query), func(node any) {
		switch node := node.(type) {
		case *gojq.Query:
			if name, ok := guardedOperators[node.Op]; ok {
				call := gojq.Func{Name: prefix + name, Args: []*gojq.Query{node.Left, node.Right}}
				node.Term, node.Op, node.Left, node.Right = &gojq.Term{Type: gojq.TermTypeFunc, Func: &call}, 0, nil, nil
			}
		case *gojq.Func:
			if name := fmt.Sprintf("%s/%d", node.Name, len(node.Args)); guardedFunctions[name] && !own[name] {
				node.Name = prefix + node.Name
			}
		case *gojq.String: // what is inserted into a text
			for i, q := range node.Queries {
				if q.Term == nil || q.Term.Str == nil {
					node.Queries[i] = sized(q)
				}
			}
		case *gojq.Term:
			if node.Type == gojq.TermTypeFormat && node.Str == nil {
				format := gojq.Term{Type: gojq.TermTypeFormat, Format: node.Format}
				query := &gojq.Query{Left: sized(nil), Op: gojq.OpPipe, Right: &gojq.Query{Term: &format}}
				*node = gojq.Term{Type: gojq.TermTypeQuery, SuffixList: node.SuffixList, Query: query}
			}
		}
	})
}

// sized is a query whose results are within the limits; without a query, its input.
func sized(q *gojq.Query) *gojq.Query {
	text := &gojq.Query{Term: &gojq.Term{Type: gojq.TermTypeFunc, Func: &gojq.Func{Name: prefix + "text"}}}
	if q != nil {
		text = &gojq.Query{Left: q, Op: gojq.OpPipe, Right: text}
	}
	return &gojq.Query{Term: &gojq.Term{Type: gojq.TermTypeQuery, Query: text}}
}

// walk visits all nodes of a program, what is in a node before it.
func walk(v reflect.Value, visit func(node any)) {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			walk(v.Elem(), visit)
			visit(v.Interface())
		}
	case reflect.Struct:
		for i := range v.NumField() {
			walk(v.Field(i), visit)
		}
	case reflect.Slice:
		for i := range v.Len() {
			walk(v.Index(i), visit)
		}
	}
}

// within returns its input, unless what the step after it makes is too large.
func (p *Program) within(input any, args []any) any {
	var n int
	switch args[0] {
	case "times":
		n = product(args[1], args[2])
	case "plus":
		n = length(args[1]) + length(args[2])
	case "paths":
		n = grown(input, args[1])
	case "join":
		list, _ := input.([]any)
		n = size(input, maxDepth, maxValue) + len(list)*length(args[1])
	case "transpose":
		n = transposed(input)
	default:
		n = size(input, maxDepth, maxValue)
	}
	p.made += n
	switch {
	case n > maxValue:
		return errTooLarge
	case p.made > maxMade:
		return fmt.Errorf("all values that it makes have more than %d MiB", maxMade>>20)
	}
	return input
}

// Sizes are in bytes. One that is too large is maxValue + 1 at least.
const (
	perElement = 16 // of a list in memory
	perValue   = 4  // as it is written, in addition to its text
)

func length(v any) int {
	switch v := v.(type) {
	case string:
		return len(v)
	case json.Number:
		return len(v)
	case []any:
		return perElement * len(v)
	case map[string]any:
		return 4 * perElement * len(v)
	case *big.Int:
		return v.BitLen() / 8
	}
	return 0
}

// product is what l * r makes. Large integers count more, for the time that they take.
func product(l, r any) int {
	for _, of := range [][2]any{{l, r}, {r, l}} {
		switch factor := of[0].(type) {
		case string:
			times, _ := gojq.ToFloat64(of[1])
			if !(times > 0) { // or NaN
				return 0
			}
			return int(min(maxValue+1, times*float64(len(factor))))
		case *big.Int:
			const slow = 64
			return slow * (length(l) + length(r))
		}
	}
	return length(l) + length(r)
}

// grown is by how much lists grow when something is written at the paths.
func grown(value, paths any) (n int) {
	list, _ := paths.([]any)
	for _, path := range list {
		keys, _ := path.([]any)
		at := value
		for _, key := range keys {
			if name, ok := key.(string); ok {
				object, _ := at.(map[string]any)
				at = object[name]
				continue
			}
			elements, _ := at.([]any)
			index, _ := gojq.ToInt(key) // 0 for a part of a list
			if at = nil; index >= 0 && index < len(elements) {
				at = elements[index]
			}
			n = min(maxValue+1, n+perElement*min(maxValue, max(0, index-len(elements))))
		}
	}
	return n
}

func transposed(v any) int {
	rows, _ := v.([]any)
	longest := 0
	for _, row := range rows {
		longest = max(longest, length(row))
	}
	return min(maxValue+1, longest*len(rows))
}

// size is that of a value as it will be written: what is in several places counts at each of them. It stops when it is
// beyond most, which a value that is nested too deep is, too.
func size(v any, depth, most int) int {
	n := perValue
	switch v := v.(type) {
	case []any:
		for _, e := range v {
			if n <= most && depth > 0 {
				n += size(e, depth-1, most-n)
			}
		}
	case map[string]any:
		for key, e := range v {
			if n <= most && depth > 0 {
				n += perValue + len(key) + size(e, depth-1, most-n)
			}
		}
	default:
		return n + length(v)
	}
	if depth <= 0 {
		return maxValue + 1
	}
	return n
}
