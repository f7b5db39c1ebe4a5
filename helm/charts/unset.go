package charts

import (
	"maps"
	"path"
	"slices"
	"strings"
	"text/template/parse"
	"unicode/utf8"
)

// Unset is a value that a template prints, and that nothing sets.
type Unset struct {
	Path         []string // below .Values
	File         string   // below Root
	Line, Column int      // of the file, from 1
	Known        []string // what is set next to it
}

// Unset looks for values that the templates of a chart that is the module print, and that are
// neither in its values.yaml nor in merged, all values of the module. What is not certain is left
// out: what is in a condition, or in the body of one that mentions it, has a default, is computed,
// or is in a template with a name. Charts with subcharts are left out as a whole.
func (c *Chart) Unset(merged map[string]any) (found []Unset) {
	if c.inner || c.chart.Metadata == nil || len(c.chart.Dependencies()) > 0 {
		return nil
	}
	set := over(c.chart.Values, merged)
	for _, t := range c.chart.Templates {
		name, text := path.Join(c.chart.Name(), t.Name), string(t.Data)
		tree := parse.New(name)
		tree.Mode = parse.SkipFuncCheck
		all := map[string]*parse.Tree{}
		if _, err := tree.Parse(text, "", "", all); err != nil || all[name] == nil {
			continue // the render reports the reason
		}
		u := &unset{set: set}
		u.node(all[name].Root, nil)
		for _, one := range u.found {
			before := text[:min(int(one.at)+len(one.text), len(text))] // the position is that of any part
			before = before[:max(strings.LastIndex(before, one.text), 0)]
			line := before[strings.LastIndexByte(before, '\n')+1:]
			found = append(found, Unset{one.path, t.Name, 1 + strings.Count(before, "\n"), 1 + utf8.RuneCountInString(line), one.known})
		}
	}
	return found
}

// unset collects what is found in one template.
type unset struct {
	set   map[string]any
	found []unsetAt
}

// unsetAt is a value that is not set. text is how the template writes it, and at a position in it.
type unsetAt struct {
	path, known []string
	text        string
	at          parse.Pos
}

// node visits what a template prints. asked are the paths of the conditions around it: a template
// that tests a value before it prints it handles its absence.
func (u *unset) node(n parse.Node, asked [][]string) {
	switch n := n.(type) {
	case *parse.ListNode:
		if n == nil {
			return
		}
		for _, child := range n.Nodes {
			u.node(child, asked)
		}
	case *parse.ActionNode:
		u.pipe(n.Pipe, asked)
	case *parse.IfNode:
		u.branch(&n.BranchNode, asked)
	case *parse.WithNode:
		u.branch(&n.BranchNode, asked)
	case *parse.RangeNode:
		u.branch(&n.BranchNode, asked)
	}
}

// branch visits both branches of a condition, with the paths of the condition added to asked.
func (u *unset) branch(n *parse.BranchNode, asked [][]string) {
	asked = append(slices.Clip(asked), chainsIn(n.Pipe)...)
	u.node(n.List, asked)
	u.node(n.ElseList, asked)
}

// pipe looks at a pipe that prints a value as it is, or through functions that do nothing about
// an absent one. All other functions, such as default and required, may.
func (u *unset) pipe(n *parse.PipeNode, asked [][]string) {
	if n == nil || len(n.Decl) > 0 || len(n.Cmds) == 0 || len(n.Cmds[0].Args) != 1 {
		return
	}
	for _, command := range n.Cmds[1:] {
		name, ok := command.Args[0].(*parse.IdentifierNode)
		if !ok || !slices.Contains([]string{"quote", "squote", "toString", "int", "int64", "upper", "lower", "trim", "b64enc", "indent", "nindent", "toYaml", "toJson"}, name.Ident) {
			return
		}
	}
	node := n.Cmds[0].Args[0]
	at, ok := valuesPath(node)
	if !ok || len(at) == 0 || slices.ContainsFunc(asked, func(p []string) bool { return len(p) <= len(at) && slices.Equal(p, at[:len(p)]) }) {
		return
	}
	var here any = u.set
	for i, step := range at {
		fields, isMap := here.(map[string]any)
		if !isMap {
			return // rendering fails, or prints a part of something else
		}
		next, there := fields[step]
		if !there && i == len(at)-1 {
			u.found = append(u.found, unsetAt{at, slices.Sorted(maps.Keys(fields)), node.String(), node.Position()})
		}
		here = next
	}
}

// chainsIn are the paths that a pipe mentions.
func chainsIn(n parse.Node) (all [][]string) {
	if at, ok := valuesPath(n); ok {
		return [][]string{at}
	}
	switch n := n.(type) {
	case *parse.PipeNode:
		for _, command := range n.Cmds {
			all = append(all, chainsIn(command)...)
		}
	case *parse.CommandNode:
		for _, arg := range n.Args {
			all = append(all, chainsIn(arg)...)
		}
	}
	return all
}
