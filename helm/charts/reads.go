package charts

import (
	"cmp"
	"maps"
	"path"
	"slices"
	"strings"
	"text/template/parse"

	"helm.sh/helm/v3/pkg/chart"
)

// maxTexts bounds how many texts in values are parsed because a chart may execute them with tpl.
// Beyond it all values count as read.
const maxTexts = 1000

// reads is the set of values that templates read, as a tree of paths below .Values; below a whole
// one everything is read. What cannot be known for certain counts as read: a warning that a value
// has no effect must be true (H23).
type reads struct {
	whole bool
	below map[string]*reads
}

// add notes that the value at a path is read as a whole. What was noted below it is forgotten.
func (r *reads) add(path ...string) {
	for _, element := range path {
		if r.whole {
			return
		}
		if r.below == nil {
			r.below = map[string]*reads{}
		}
		next := r.below[element]
		if next == nil {
			next = &reads{}
			r.below[element] = next
		}
		r = next
	}
	r.whole, r.below = true, nil
}

// merge adds what others read, below the path at. Paths are clipped before each append, here and
// below, because siblings share their beginning.
func (r *reads) merge(others *reads, at ...string) {
	if others.whole {
		r.add(at...)
		return
	}
	for key, next := range others.below {
		r.merge(next, append(slices.Clip(at), key)...)
	}
}

// templates are the values that some templates read, and whether they execute texts that are not among them.
// The analysis follows no variables and no calls: it collects each mention of .Values anywhere, and
// a named template counts for every chart, whoever includes it.
type templates struct {
	reads   *reads
	tpl     bool // texts from values or files are executed
	foreign bool // another chart's files may be executed
}

// parseTemplate notes what a file reads; ok is false if it cannot be parsed. A template with a name
// may be executed with the values of any chart of the tree; what is outside of named templates only
// with those of its own chart.
func parseTemplate(name, text string, named, own *templates) (ok bool) {
	tree := parse.New(name)
	tree.Mode = parse.SkipFuncCheck
	all := map[string]*parse.Tree{}
	if _, err := tree.Parse(text, "", "", all); err != nil {
		return false
	}
	for defined, one := range all {
		to := named
		if defined == name {
			to = own
		}
		to.node(one.Root)
	}
	return true
}

// node notes what a part of a template reads. Nodes of all types arrive here; what is no statement
// is an expression.
func (t *templates) node(n parse.Node) {
	switch n := n.(type) {
	case *parse.ListNode:
		if n == nil {
			return
		}
		for _, child := range n.Nodes {
			t.node(child)
		}
	case *parse.ActionNode:
		t.node(n.Pipe)
	case *parse.IfNode:
		t.branch(&n.BranchNode)
	case *parse.RangeNode:
		t.branch(&n.BranchNode)
	case *parse.WithNode:
		t.branch(&n.BranchNode)
	case *parse.TemplateNode:
		t.node(n.Pipe)
	default:
		t.value(n)
	}
}

// value notes what an expression reads. A mention of the word Values as a text may be a key that is
// looked up in a context, so then everything counts as read.
func (t *templates) value(n parse.Node) {
	switch n := n.(type) {
	case *parse.PipeNode:
		if n == nil {
			return
		}
		for _, command := range n.Cmds {
			t.command(command)
		}
	case *parse.CommandNode:
		t.command(n)
	case *parse.FieldNode, *parse.VariableNode, *parse.ChainNode:
		t.chain(n)
	case *parse.StringNode:
		if n.Text == "Values" {
			t.reads.add()
		}
	}
}

func (t *templates) branch(n *parse.BranchNode) {
	t.node(n.Pipe)
	t.node(n.List)
	t.node(n.ElseList)
}

// chain notes the values that a chain of fields reads, or those of the expression that it begins
// with, as in (index .Values.a "b").c.
func (t *templates) chain(n parse.Node) {
	if at, ok := valuesPath(n); ok {
		t.reads.add(at...)
		return
	}
	if chain, ok := n.(*parse.ChainNode); ok {
		t.node(chain.Node)
	}
}

// valuesPath returns the path below .Values that a node reads: .Values.a, $.Values.a,
// .ctx.Values.a, (.Values).a. A read of a subchart by .Subcharts is a read of the section of that
// subchart.
func valuesPath(n parse.Node) (at []string, ok bool) {
	switch n := n.(type) {
	case *parse.FieldNode:
		return below(n.Ident)
	case *parse.VariableNode:
		return below(n.Ident[1:])
	case *parse.ChainNode:
		if at, ok := valuesPath(n.Node); ok {
			return append(slices.Clip(at), n.Field...), true
		}
		return below(n.Field)
	case *parse.PipeNode:
		if len(n.Cmds) == 1 && len(n.Cmds[0].Args) == 1 && len(n.Decl) == 0 {
			return valuesPath(n.Cmds[0].Args[0])
		}
	}
	return nil, false
}

// below returns what follows Values in a chain of fields. Of a chain through .Subcharts it is the
// name of the subchart alone, so its whole section counts as read.
func below(identifiers []string) (at []string, ok bool) {
	if i := slices.Index(identifiers, "Subcharts"); i >= 0 {
		return identifiers[i+1 : min(i+2, len(identifiers))], true
	}
	i := slices.Index(identifiers, "Values")
	if i < 0 {
		return nil, false
	}
	return identifiers[i+1:], true
}

// command notes what a call reads. Functions that look up a key (index, get, hasKey, dig) read only
// that key.
func (t *templates) command(c *parse.CommandNode) {
	name := ""
	if function, ok := c.Args[0].(*parse.IdentifierNode); ok {
		name = function.Ident
	}
	args := c.Args
	switch name {
	case "index":
		if len(args) >= 3 {
			args = t.lookup(args, args[1], args[2:])
		}
	case "get", "hasKey", "set":
		if len(args) >= 3 {
			args = t.lookup(args, args[1], args[2:3])
		}
	case "dig":
		if len(args) >= 4 {
			args = t.lookup(args, args[len(args)-1], args[1:len(args)-2])
		}
	case "dict":
		t.dict(args[1:])
		return
	case "tpl":
		t.tpl = true
	case "include":
		t.includes(args)
	}
	for _, arg := range args {
		t.node(arg)
	}
}

// lookup notes keys that are looked up in values, and returns the arguments that are not covered by
// that. A computed key may be any, so everything below counts as read.
func (t *templates) lookup(args []parse.Node, in parse.Node, keys []parse.Node) []parse.Node {
	at, ok := valuesPath(in)
	if !ok {
		return args
	}
	at = slices.Clone(at)
	rest := []parse.Node{}
	for _, arg := range args {
		if arg != in && !slices.Contains(keys, arg) {
			rest = append(rest, arg)
		}
	}
	for i, key := range keys {
		text, ok := key.(*parse.StringNode)
		if !ok {
			rest = append(rest, keys[i:]...)
			break
		}
		at = append(at, text.Text)
	}
	t.reads.add(at...)
	return rest
}

// dict notes what a call of dict reads, which makes a context for another template. The values
// themselves under the key Values are not read by that: the other template reads them as .Values.
func (t *templates) dict(args []parse.Node) {
	for i := 0; i < len(args); i++ {
		if key, ok := args[i].(*parse.StringNode); ok && key.Text == "Values" && i+1 < len(args) {
			i++ // anything else under this key counts as read: it is another thing than .Values
			if at, isValues := valuesPath(args[i]); isValues && len(at) == 0 {
				continue
			}
		}
		t.node(args[i])
	}
}

// includes notes when files of another chart may be executed: the name of the template is a path,
// or is computed. Names that begin with .Template.BasePath are files of the own chart.
func (t *templates) includes(args []parse.Node) {
	if len(args) < 2 {
		return
	}
	if text, ok := args[1].(*parse.StringNode); ok {
		t.foreign = t.foreign || strings.Contains(text.Text, "/")
		return
	}
	t.foreign = t.foreign || !strings.Contains(args[1].String(), ".Template.BasePath")
}

// readers are what all templates of a chart and its subcharts read: the named ones together, the
// others by chart. broken: one of them cannot be parsed, so everything counts as read. They depend
// on the files only, and do not change once they are made.
type readers struct {
	named  *templates
	own    map[*chart.Chart]*templates
	broken bool
}

// readersOf parses the templates of a chart and its subcharts.
func readersOf(ch *chart.Chart) *readers {
	r := &readers{named: &templates{reads: &reads{}}, own: map[*chart.Chart]*templates{}}
	r.parse(ch, ch.Name())
	return r
}

// parse adds the templates of one chart of the tree, by the names that Helm gives them.
func (r *readers) parse(ch *chart.Chart, dir string) {
	own := &templates{reads: &reads{}}
	r.own[ch] = own
	for _, t := range ch.Templates {
		if !parseTemplate(path.Join(dir, t.Name), string(t.Data), r.named, own) {
			r.broken = true
		}
	}
	for _, sub := range ch.Dependencies() {
		r.parse(sub, path.Join(dir, "charts", sub.Name()))
	}
}

// tpl reports whether a template executes texts. If none does, texts in values are no templates.
func (r *readers) tpl() bool {
	return r.any(func(t *templates) bool { return t.tpl })
}

func (r *readers) any(is func(*templates) bool) bool {
	return is(r.named) || slices.ContainsFunc(slices.Collect(maps.Values(r.own)), is)
}

// foreign reports whether charts may execute each other's files.
func (r *readers) foreign() bool {
	return r.any(func(t *templates) bool { return t.foreign })
}

// all lists the values that the chart reads: in its templates, in those of its subcharts, which read
// their sections, and in Chart.yaml (conditions, tags, imports). texts are the strings that tpl may
// execute.
func (r *readers) all(ch *chart.Chart, texts []string) *reads {
	sum := &reads{}
	everywhere := &templates{reads: &reads{}}
	everywhere.reads.merge(r.named.reads)
	if r.tpl() {
		r.execute(texts, everywhere)
	}
	if r.foreign() {
		for _, own := range r.own {
			everywhere.reads.merge(own.reads)
		}
	}
	if r.broken {
		everywhere.reads.add()
	}
	r.sum(ch, everywhere.reads, sum, nil)
	return sum
}

// execute parses the texts that tpl may execute, in values and in files of charts, as templates.
// One that cannot be parsed makes everything count as read: it may be a part of a template.
func (r *readers) execute(texts []string, into *templates) {
	if len(texts) > maxTexts {
		into.reads.add()
	}
	for own := range r.own {
		for _, f := range own.Files {
			text := string(f.Data)
			if isProse(f.Name) || !strings.Contains(text, "{{") || !strings.Contains(text, "Values") {
				continue
			}
			if !parseTemplate("file", text, into, into) {
				into.reads.add()
			}
		}
	}
	for _, text := range texts[:min(len(texts), maxTexts)] {
		if strings.Contains(text, "Values") && !parseTemplate("value", text, into, into) {
			into.reads.add()
		}
	}
}

// isProse reports files that no template executes: documentation, definitions, and tests of the
// chart.
func isProse(name string) bool {
	first, _, _ := strings.Cut(name, "/")
	return slices.Contains([]string{".md", ".gotmpl"}, path.Ext(name)) || slices.Contains([]string{"crds", "ci", "unittests", "tests"}, first)
}

// sum adds what is read of the values of one chart, which are at the path at of the whole. Helm
// itself reads some of them: tags and conditions of dependencies, and values that Chart.yaml
// imports.
func (r *readers) sum(ch *chart.Chart, everywhere, into *reads, at []string) {
	into.merge(everywhere, at...)
	if own := r.own[ch]; own != nil {
		into.merge(own.reads, at...)
	}
	if len(at) > 0 { // a subchart reads the global of all charts, and the global in its own section
		r.globalOf(ch, everywhere, into)
		into.add(append(slices.Clip(at), globalKey)...)
	}
	into.add(append(slices.Clip(at), "tags")...)
	for _, d := range ch.Metadata.Dependencies {
		if d == nil {
			continue
		}
		for condition := range strings.SplitSeq(d.Condition, ",") {
			if condition = strings.TrimSpace(condition); condition != "" {
				elements := strings.Split(condition, ".")
				if into.add(append(slices.Clip(at), elements...)...); elements[0] == globalKey {
					into.add(elements...)
				}
			}
		}
		if len(d.ImportValues) > 0 {
			into.add(append(slices.Clip(at), cmp.Or(d.Alias, d.Name))...)
		}
	}
	for _, sub := range ch.Dependencies() {
		for _, section := range Sections(ch, sub) {
			r.sum(sub, everywhere, into, append(slices.Clip(at), section))
		}
	}
}

// globalOf adds what a subchart reads of the global that all charts share, at the top level.
func (r *readers) globalOf(ch *chart.Chart, everywhere, into *reads) {
	for _, some := range []*reads{everywhere, r.own[ch].reads} {
		if some.whole {
			into.add(globalKey)
		} else if global := some.below[globalKey]; global != nil {
			into.merge(global, globalKey)
		}
	}
}

// Sections are the keys under which a chart has the values of a subchart: one for each alias in
// Chart.yaml, and the name of the subchart when Chart.yaml does not declare it.
func Sections(ch, sub *chart.Chart) []string {
	var names []string
	for _, d := range ch.Metadata.Dependencies {
		if d != nil && d.Name == sub.Name() {
			names = append(names, cmp.Or(d.Alias, d.Name))
		}
	}
	if len(names) == 0 {
		names = []string{sub.Name()}
	}
	return names
}
