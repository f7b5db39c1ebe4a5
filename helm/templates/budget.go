package templates

import (
	"context"
	"fmt"
	"reflect"
	"strings"
	"text/template"
	"text/template/parse"
	"time"

	"addon-operator/helm/manifest"
)

// limits of one render.
type limits struct {
	printed int // bytes that all templates of a chart print together
	made    int // bytes that includes and functions return, in sum
	steps   int // passes of loops, texts and values that are printed
}

// usual limits: a release may hold a mebibyte, packed. The largest public charts print five, make some ten on the way, and
// take ten thousand steps.
func usual() limits {
	return limits{printed: manifest.MaxSize, made: 64 << 20, steps: 1_000_000}
}

const (
	maxDepth = 500 // templates that call each other, and maps and lists in each other
	maxTime  = time.Minute
)

// LimitError ends a render that takes too much.
type LimitError struct {
	Template string
	Problem  string
}

func (e *LimitError) Error() string {
	return fmt.Sprintf("%s: %s; a number in the values may be too large, or templates repeat each other", e.Template, e.Problem)
}

// budget is what a render has used.
type budget struct {
	ctx   context.Context
	most  limits
	used  limits
	depth int
}

func (b *budget) exceeded(format string, args ...any) error {
	return &LimitError{Problem: fmt.Sprintf(format, args...)}
}

// room refuses n more bytes when there is no room for them.
func (b *budget) room(n int) error {
	if n < 0 || n > b.most.made-b.used.made {
		return b.exceeded("its functions and includes return more than %d MiB", b.most.made>>20)
	}
	return nil
}

// need is room for functions that cannot return an error: the engine makes one of a panic.
func (b *budget) need(n int) {
	if err := b.room(n); err != nil {
		panic(err)
	}
}

func (b *budget) make(n int) {
	b.need(n)
	b.used.made += n
}

func (b *budget) step() error {
	const seldom = 1 << 10
	if b.used.steps++; b.used.steps > b.most.steps {
		return b.exceeded("it takes more than %d steps", b.most.steps)
	}
	if b.used.steps%seldom == 0 && b.ctx.Err() != nil {
		if context.Cause(b.ctx) == context.DeadlineExceeded { //nolint:errorlint // it is the cause itself
			return b.exceeded("it takes more than %s", maxTime)
		}
		return b.ctx.Err()
	}
	return nil
}

// output is what a template prints.
type output struct {
	strings.Builder
	budget  *budget
	printed bool // or it is returned to a template
}

// Write implements io.Writer.
func (o *output) Write(p []byte) (int, error) {
	b := o.budget
	if err := b.step(); err != nil {
		return 0, err
	}
	switch {
	case len(p) > 0:
	case cap(p) == enters:
		if b.depth++; b.depth > maxDepth {
			return 0, b.exceeded("templates call each other more than %d deep", maxDepth)
		}
	case cap(p) == leaves:
		b.depth--
	}
	if o.printed {
		if b.used.printed += len(p); b.used.printed > b.most.printed {
			return 0, b.exceeded("the chart prints more than %d MiB", b.most.printed>>20)
		}
	} else {
		if err := b.room(len(p)); err != nil {
			return 0, err
		}
		b.used.made += len(p)
	}
	return o.Builder.Write(p)
}

// text is the output without what Go prints for missing values.
func (o *output) text() string { return strings.ReplaceAll(o.String(), "<no value>", "") }

// Templates of which nothing is printed would take as long as they like, so an empty text is printed at each pass of a loop,
// and at the beginning and the end of each template. Its capacity tells output which one it is.
const (
	loops  = 0
	enters = 1
	leaves = 2
)

func mark(at parse.Pos, which int) parse.Node {
	return &parse.TextNode{NodeType: parse.NodeText, Pos: at, Text: make([]byte, 0, which)}
}

// marked are the trees that have their marks: those of a clone are the same.
type marked map[*parse.Tree]bool

func (m marked) all(t *template.Template) {
	m.tree(t.Tree)
	for _, one := range t.Templates() {
		m.tree(one.Tree)
	}
}

func (m marked) tree(t *parse.Tree) {
	if t == nil || t.Root == nil || m[t] {
		return
	}
	m[t] = true
	m.list(t.Root)
	t.Root.Nodes = append(append([]parse.Node{mark(t.Root.Pos, enters)}, t.Root.Nodes...), mark(t.Root.Pos, leaves))
}

func (m marked) list(l *parse.ListNode) {
	if l == nil {
		return
	}
	for _, node := range l.Nodes {
		switch n := node.(type) {
		case *parse.IfNode:
			m.list(n.List)
			m.list(n.ElseList)
		case *parse.WithNode:
			m.list(n.List)
			m.list(n.ElseList)
		case *parse.RangeNode:
			m.list(n.List)
			m.list(n.ElseList)
			n.List.Nodes = append([]parse.Node{mark(n.List.Pos, loops)}, n.List.Nodes...)
		case *parse.ActionNode:
			weighed(n.Pipe)
		}
	}
}

// weighed passes what is printed through a function that weighs it: a map can hold itself.
func weighed(pipe *parse.PipeNode) {
	if len(pipe.Decl) > 0 {
		return
	}
	if call, ok := pipe.Cmds[len(pipe.Cmds)-1].Args[0].(*parse.IdentifierNode); ok && texts()[call.Ident] {
		return
	}
	pipe.Cmds = append(pipe.Cmds, &parse.CommandNode{
		NodeType: parse.NodeCommand, Pos: pipe.Pos, Args: []parse.Node{parse.NewIdentifier(weighing).SetPos(pipe.Pos)},
	})
}

// size is about how much memory a copy of a value takes, or its text.
func (b *budget) size(value any) int { return b.sizeAt(value, 0, 0) }

func (b *budget) sizeAt(value any, sum, depth int) int {
	const word = 16
	if depth > maxDepth {
		panic(b.exceeded("a value is nested more than %d deep", maxDepth))
	}
	sum += word
	b.need(sum)
	switch v := value.(type) {
	case nil, bool, int, int64, float64:
	case string:
		sum += len(v)
	case map[string]any:
		for key, child := range v {
			sum = b.sizeAt(child, sum+word+len(key), depth+1)
		}
	case []any:
		for _, child := range v {
			sum = b.sizeAt(child, sum, depth+1)
		}
	default:
		return b.sizeOther(reflect.ValueOf(value), sum, depth)
	}
	return sum
}

// sizeOther is for what sprig and Helm make beside JSON: named maps, lists of texts.
func (b *budget) sizeOther(v reflect.Value, sum, depth int) int {
	switch v.Kind() {
	case reflect.String:
		return sum + v.Len()
	case reflect.Map:
		for each := v.MapRange(); each.Next(); {
			sum = b.sizeAt(each.Value().Interface(), sum, depth+1)
		}
	case reflect.Slice, reflect.Array:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			return sum + v.Len()
		}
		for i := range v.Len() {
			sum = b.sizeAt(v.Index(i).Interface(), sum, depth+1)
		}
	}
	return sum
}
