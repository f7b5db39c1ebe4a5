package jq

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"math/big"
	"reflect"
	"regexp"
	"regexp/syntax"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/itchyny/gojq"
)

// maxExpression bounds the text of a program, in bytes: the library parses and compiles nested ones recursively.
const maxExpression = 64 << 10

// olderFunctions defines those functions of the jq program that the library leaves out and that existing filters use.
// Keys are sorted here in any case; output to stderr is dropped. Bessel functions of an order of a billion take
// minutes, so there are none.
const olderFunctions = `def keys_unsorted: keys; def leaf_paths: paths(scalars); def recurse_down: recurse;
def debug: .; def stderr: .; def jn(n; x): error("jn is not supported"); def yn(n; x): error("yn is not supported"); `

// Program is a compiled jq program. It is safe for concurrent use; one run of it follows the other.
type Program struct {
	query  *gojq.Query
	loader modules
	code   *gojq.Code
	run    sync.Mutex
	made   int // by the guards in this run

	regexes map[string]*regex // that the library keeps, too
}

// Compile compiles a program. Modules that it imports are searched in the directories of library; without any,
// imports fail. The functions that are added come first, so one of the same name in the program takes their place.
func Compile(expression string, library ...string) (*Program, error) {
	if len(expression) > maxExpression {
		return nil, fmt.Errorf("it has more than %d KiB", maxExpression>>10)
	}
	query, err := gojq.Parse(expression)
	if err != nil {
		return nil, err
	}
	defs, err := added()
	if err != nil {
		return nil, err
	}
	guard(query, defs)
	p := &Program{query: query, loader: modules{gojq.NewModuleLoader(library)}}
	return p, p.compile()
}

// compile compiles the program, with no regular expressions yet.
func (p *Program) compile() (err error) {
	p.code, err = gojq.Compile(p.query, gojq.WithModuleLoader(p.loader), gojq.WithFunction(within, 1, 3, p.within))
	p.regexes = map[string]*regex{}
	return err
}

// Results runs the program for an input, which it does not change. An error is the last result. "halt" ends a program,
// and is no error.
func (p *Program) Results(ctx context.Context, input any) iter.Seq2[any, error] {
	return func(yield func(any, error) bool) {
		p.run.Lock()
		defer p.run.Unlock()
		p.made = 0
		if len(p.regexes) > maxKept {
			if err := p.compile(); err != nil {
				yield(nil, err)
				return
			}
		}
		for results := p.code.RunWithContext(ctx, input); ; {
			result, more := results.Next()
			err, failed := result.(error)
			if halt, ok := errors.AsType[*gojq.HaltError](err); !more || ok && halt.Value() == nil {
				return
			}
			if failed {
				yield(nil, err)
				return
			}
			if !yield(result, nil) {
				return
			}
		}
	}
}

// Marshal writes a result as JSON. It refuses what is too large or nested too deep: whoever reads it later would fail.
func Marshal(result any) (json.RawMessage, error) {
	if size(result, maxDepth, maxValue) > maxValue {
		return nil, errTooLarge
	}
	return gojq.Marshal(result)
}

// The time limit of a program counts between its steps, so a step must not make much of little: "x" * 1e9, .[1e8] = 1,
// or a text that doubles. Neither the compiler nor a run of the library can be told a limit, so those operators and
// functions that can are replaced by functions that ask within first.
const (
	maxValue = 8 << 20   // bytes of one value; an object in the cluster has 1.5 MiB by default
	maxMade  = 128 << 20 // bytes of all that a run makes with guarded operators and functions, whether it keeps it or not
	maxDepth = 100       // of lists and objects, as in values

	maxDigits = 10_000    // of a number that is read: the time for it grows with their square
	maxPairs  = 32 << 20  // parts of two values that are compared with each other
	maxIndex  = 256 << 20 // the length of a text, or 16 times that of a list, times that of what is searched in it

	within = "_within" // the function that refuses
	prefix = "_guarded_"
)

var (
	errTooLarge = fmt.Errorf("a value has more than %d MiB, or is nested more than %d deep", maxValue>>20, maxDepth)
	errDigits   = fmt.Errorf("a number has more than %d digits", maxDigits)
	errPairs    = errors.New("to compare all parts of two large values takes too long")
)

// guards are what takes the place of operators and functions. The order of evaluation is that of the operators. Below
// them are functions with one guard each, after its name; a parameter with a dollar is an argument of the guard.
const guards = `
def _guarded_op_times(l; r): r as $r | l as $l | _within("times"; $l; $r) | $l * $r;
def _guarded_op_plus(l; r): r as $r | l as $l | _within("plus"; $l; $r) | $l + $r;
def _guarded_op_minus(l; r): r as $r | l as $l | $l | _within("pairs"; $r) | $l - $r;
def _guarded_op_assign(p; v): _within("paths"; [path(p)]) | p = v;
def _guarded_op_modify(p; f): _within("paths"; [path(p)]) | p |= f;
def _guarded_op_updateTimes(p; f): f as $x | _guarded_op_modify(p; _guarded_op_times(.; $x));
def _guarded_op_updatePlus(p; f): f as $x | _guarded_op_modify(p; _guarded_op_plus(.; $x));
def _guarded_op_updateMinus(p; f): f as $x | _guarded_op_modify(p; _guarded_op_minus(.; $x));
def _guarded_op_updateDivide(p; f): _within("paths"; [path(p)]) | p /= f;
def _guarded_op_updateModulo(p; f): _within("paths"; [path(p)]) | p %= f;
def _guarded_op_updateElse(p; f): _within("paths"; [path(p)]) | p //= f;
def _guarded_setpath(p; v): v as $v | p as $p | _within("paths"; [$p]) | setpath($p; $v);
def _guarded_pick(p): . as $v | null | _within("paths"; [$v | path(p)]) | $v | pick(p);
def _guarded_fromstream(f): fromstream(f | . as $e | null | _within("paths"; [$e[0]]) | $e);
def _guarded_op_text: _within("size");
def _guarded_add(f): [f] | _within("size") | add;
`

const guardedFunctions = `
size: tojson tostring add flatten flatten(d) implode
join: join($s)
transpose: transpose
digits: tonumber fromjson
pairs: contains($x) inside($x)
index: indices($x) index($x) rindex($x)
search: match($re) match($re;$flags) test($re) test($re;$flags) capture($re) capture($re;$flags) sub($re;s) sub($re;s;$flags)
searchAll: scan($re) scan($re;$flags) splits($re) splits($re;$flags) split($re;$flags) gsub($re;s) gsub($re;s;$flags)
`

//nolint:gochecknoglobals // a table
var guardedOperators = map[gojq.Operator]string{
	gojq.OpMul: "times", gojq.OpAdd: "plus", gojq.OpSub: "minus", gojq.OpAssign: "assign", gojq.OpModify: "modify",
	gojq.OpUpdateMul: "updateTimes", gojq.OpUpdateAdd: "updatePlus", gojq.OpUpdateSub: "updateMinus",
	gojq.OpUpdateDiv: "updateDivide", gojq.OpUpdateMod: "updateModulo", gojq.OpUpdateAlt: "updateElse",
}

// added are the definitions of the guards, before which are the older functions.
var added = sync.OnceValues(func() ([]*gojq.FuncDef, error) {
	text := olderFunctions + guards
	parameter := regexp.MustCompile(`\$\w+`)
	for row := range strings.Lines(strings.TrimSpace(guardedFunctions)) {
		name, functions, _ := strings.Cut(row, ":")
		for _, function := range strings.Fields(functions) {
			arguments := append([]string{strconv.Quote(name)}, parameter.FindAllString(function, -1)...)
			text += fmt.Sprintf("def %s%s: %s(%s) | %s;\n", prefix, function, within, strings.Join(arguments, "; "), function)
		}
	}
	query, err := gojq.Parse(text + ".")
	if err != nil {
		return nil, fmt.Errorf("functions that are added: %w", err)
	}
	return query.FuncDefs, nil
})

// needed are those of the definitions that a program uses, itself or by others, which come before them: the library
// compiles all that it is given.
func needed(query *gojq.Query, defs []*gojq.FuncDef) (some []*gojq.FuncDef) {
	used := map[string]bool{}
	note := func(node any) {
		if call, ok := node.(*gojq.Func); ok {
			used[call.Name] = true
		}
	}
	walk(reflect.ValueOf(query), note)
	for _, def := range slices.Backward(defs) {
		if used[def.Name] {
			walk(reflect.ValueOf(def.Body), note)
			some = append(some, def)
		}
	}
	slices.Reverse(some)
	return some
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
	defs, err := added()
	if err == nil {
		guard(query, defs)
	}
	return query, err
}

// LoadJSONWithMeta implements gojq.ModuleLoader.
func (m modules) LoadJSONWithMeta(name string, meta map[string]any) (any, error) {
	loader, _ := m.loader.(interface {
		LoadJSONWithMeta(name string, meta map[string]any) (any, error)
	})
	return loader.LoadJSONWithMeta(name, meta)
}

// guard puts definitions before a program, and replaces operators and functions in it. A function that the program
// defines itself is another one.
func guard(query *gojq.Query, defs []*gojq.FuncDef) {
	guarded := map[string]bool{}
	for _, def := range defs {
		if name, ok := strings.CutPrefix(def.Name, prefix); ok {
			guarded[fmt.Sprintf("%s/%d", name, len(def.Args))] = true
		}
	}
	walk(reflect.ValueOf(query), func(node any) {
		if def, ok := node.(*gojq.FuncDef); ok {
			delete(guarded, fmt.Sprintf("%s/%d", def.Name, len(def.Args)))
			for _, arg := range def.Args {
				delete(guarded, arg+"/0")
			}
		}
	})
	walk(reflect.ValueOf(query), func(node any) {
		switch node := node.(type) {
		case *gojq.Query:
			if name, ok := guardedOperators[node.Op]; ok {
				call := gojq.Func{Name: prefix + "op_" + name, Args: []*gojq.Query{node.Left, node.Right}}
				node.Term, node.Op, node.Left, node.Right = &gojq.Term{Type: gojq.TermTypeFunc, Func: &call}, 0, nil, nil
			}
		case *gojq.Func:
			if name := fmt.Sprintf("%s/%d", node.Name, len(node.Args)); guarded[name] {
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
	query.FuncDefs = append(needed(query, defs), query.FuncDefs...)
}

// sized is a query whose results are within the limits; without a query, its input.
func sized(q *gojq.Query) *gojq.Query {
	text := &gojq.Query{Term: &gojq.Term{Type: gojq.TermTypeFunc, Func: &gojq.Func{Name: prefix + "op_text"}}}
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
	case "pairs", "index", "digits", "search", "searchAll":
		if err := p.soon(input, args); err != nil {
			return err
		}
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

// soon refuses what takes too long.
func (p *Program) soon(input any, args []any) error {
	switch args[0] {
	case "pairs":
		if min(pairs(input, args[1], maxPairs), pairs(args[1], input, maxPairs)) < 0 { // "inside" turns them around
			return errPairs
		}
	case "index":
		if length(input)*length(args[1]) > maxIndex {
			return errPairs
		}
	case "digits":
		text, _ := input.(string)
		for number := range strings.FieldsFuncSeq(text, func(r rune) bool { return r < '0' || r > '9' }) {
			if len(number) > maxDigits {
				return errDigits
			}
		}
	default:
		return p.search(input, args[1:], args[0] == "searchAll")
	}
	return nil
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

// pairs is what is left when the parts of two values are compared as "contains" compares them, each with each.
func pairs(l, r any, left int) int {
	left--
	switch l := l.(type) {
	case []any:
		list, _ := r.([]any)
		for i := 0; i < len(list) && left >= 0; i++ {
			for j := 0; j < len(l) && left >= 0; j++ {
				left = pairs(l[j], list[i], left)
			}
		}
	case map[string]any:
		object, _ := r.(map[string]any)
		for key, value := range object {
			left = pairs(l[key], value, left)
		}
	}
	return left
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

// A search is one step of the library, which for each match counts the characters before it. So its time grows with
// the matches times the length of the text: it is 20 minutes for each "a" in a MiB of them.
const (
	maxSearch = 512 << 20 // of what a search costs; one is about a nanosecond
	perPart   = 16        // for each character that is looked at, and each part of the expression
	maxRegex  = 2 << 10   // bytes; a repetition makes up to 1000 times as much of it
	maxKept   = 100       // expressions: the library forgets none that it has compiled

	bytesPerPart = 256 // in memory
)

type regex struct {
	*regexp.Regexp
	parts int
}

// compiled is a regular expression; nil for one that the library refuses.
func (p *Program) compiled(text string) *regex {
	if p.regexes[text] == nil {
		parsed, err := syntax.Parse(text, syntax.Perl)
		if err != nil {
			return nil
		}
		code, err := syntax.Compile(parsed.Simplify())
		if err != nil {
			return nil
		}
		p.regexes[text] = &regex{regexp.MustCompile(text), len(code.Inst)}
		p.made += len(code.Inst) * bytesPerPart
	}
	return p.regexes[text]
}

// search returns an error if a search takes too long. args are the expression and flags, as those of jq. What the
// library refuses is no error here.
func (p *Program) search(input any, args []any, all bool) error {
	if list, ok := args[0].([]any); ok {
		args = list
	}
	text, _ := input.(string)
	expression, flags := "", ""
	if len(args) > 0 {
		expression, _ = args[0].(string)
	}
	if len(args) > 1 {
		flags, _ = args[1].(string)
	}
	if len(expression) > maxRegex {
		return fmt.Errorf("a regular expression has more than %d KiB", maxRegex>>10)
	}
	for _, flag := range []struct{ name, written string }{{"i", "(?i)"}, {"m", "(?s)"}} {
		if strings.Contains(flags, flag.name) {
			expression = flag.written + expression
		}
	}
	re := p.compiled(expression)
	if re == nil {
		return nil
	}
	all = all || strings.Contains(flags, "g")
	for left, rest := maxSearch, text; ; {
		left -= (1 + re.NumSubexp()) * len(text)
		reader := &bounded{strings.NewReader(rest), left / perPart / re.parts}
		left -= perPart * re.parts * reader.left
		found := re.FindReaderIndex(reader)
		left += perPart * re.parts * reader.left
		switch {
		case reader.left <= 0:
			return fmt.Errorf(`a regular expression takes too long in a text of %d KiB; search each of its lines: split("\n")[]`,
				len(text)>>10)
		case !all || found == nil || found[0] == len(rest):
			return nil
		}
		rest = rest[max(found[1], found[0]+1):]
	}
}

// bounded is a text of which only so many characters are read.
type bounded struct {
	*strings.Reader
	left int
}

// ReadRune implements io.RuneReader.
func (b *bounded) ReadRune() (rune, int, error) {
	if b.left--; b.left < 0 {
		return 0, 0, io.EOF
	}
	return b.Reader.ReadRune()
}
