package supervisor

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"reflect"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// The states of an actor as a [Node] shows them.
const (
	Idle      = "idle"      // its mailbox is empty
	Busy      = "busy"      // it is handling the message in Node.Current
	Suspended = "suspended" // it failed and waits for its supervisor
)

// Node is one actor of a dump.
type Node struct {
	// Path is the full name, for example "operator/module/dns".
	Path string `json:"path"`
	// Type is the Go type behind the actor.
	Type string `json:"type"`
	// State is one of idle, busy, suspended.
	State string `json:"state"`
	// Current is the type of the message in work.
	Current string `json:"current,omitempty"`
	// Seconds since the last change of state.
	InStateSeconds float64 `json:"inStateSeconds"`
	// Messages waiting in the mailbox, without those of the library.
	UserMessages int `json:"userMessages"`
	// Messages handled, and how often a run was restarted; other actors never are.
	Processed int64 `json:"processed"`
	Restarts  int32 `json:"restarts"`
	// LastFailure and, for a bug, the stack where it happened.
	LastFailure string `json:"lastFailure,omitempty"`
	Stack       string `json:"stack,omitempty"`
	// Status is what the actor published about itself.
	Status   Status  `json:"status,omitempty"`
	Children []*Node `json:"children,omitempty"`
}

// Tree returns the actors as they are now. Children are sorted by path.
func (in *Inspector) Tree() []*Node {
	now := time.Now()
	in.mu.RLock()
	probes := maps.Clone(in.probes)
	in.mu.RUnlock()
	nodes := make(map[string]*Node, len(probes))
	for id, p := range probes {
		nodes[id] = p.node(now)
	}
	var roots []*Node
	for id, n := range nodes {
		if parent, ok := nodes[probes[id].parent]; ok {
			parent.Children = append(parent.Children, n)
		} else {
			roots = append(roots, n)
		}
	}
	byPath := func(a, b *Node) int { return cmp.Compare(a.Path, b.Path) }
	for _, n := range nodes {
		slices.SortFunc(n.Children, byPath)
	}
	slices.SortFunc(roots, byPath)
	return roots
}

// Walk visits all actors of a tree, a parent before its children.
func Walk(nodes []*Node, visit func(*Node)) {
	for _, n := range nodes {
		visit(n)
		Walk(n.Children, visit)
	}
}

// Restarts is the number of restarts of all runs since the start; other actors are never restarted.
func (in *Inspector) Restarts() int64 { return in.restarts.Load() }

func (p *probe) node(now time.Time) *Node {
	n := &Node{
		Path: p.id, Type: p.kind, State: p.state(),
		// The library's counter may fall below zero for an instant.
		UserMessages: max(0, p.Mailbox.UserMessageCount()),
		Processed:    p.processed.Load(), Restarts: p.restarts.Load(),
		// Nanoseconds mean nothing in a dump.
		InStateSeconds: max(0, now.Sub(time.Unix(0, p.since.Load())).Round(time.Millisecond).Seconds()),
	}
	if n.State == Busy {
		if t, ok := p.current.Load().(reflect.Type); ok {
			n.Current = strings.TrimPrefix(t.String(), "*")
		}
	}
	if f := p.failure.Load(); f != nil {
		n.LastFailure = *f
	}
	if s := p.stack.Load(); s != nil {
		n.Stack = *s
	}
	n.Status = p.read()
	return n
}

// WriteText writes the trees the way a person reads them: one line an actor, the
// branches drawn, the status at the end.
func WriteText(w io.Writer, roots []*Node) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "ACTOR\tSTATE\tFOR\tMAIL\tDONE\tRESTARTS\tSTATUS")
	for _, root := range roots {
		writeNode(table, root, "", "", "")
	}
	return table.Flush()
}

func writeNode(w io.Writer, n *Node, parent, branch, indent string) {
	state := n.State
	if n.Current != "" {
		state += " " + n.Current
	}
	status := ""
	if n.Status != nil {
		status = n.Status.String()
	}
	// A status has the last failure in its own words; bugs are always shown.
	if n.LastFailure != "" && (n.Status == nil || n.Stack != "") {
		status = strings.TrimSpace(status + " last failure: " + firstLine(n.LastFailure))
	}
	fmt.Fprintf(w, "%s%s\t%s\t%s\t%d\t%d\t%d\t%s\n", branch, strings.TrimPrefix(n.Path, parent), state,
		short(n.InStateSeconds), n.UserMessages, n.Processed, n.Restarts, status)
	for i, child := range n.Children {
		branch, below := "├── ", "│   "
		if i == len(n.Children)-1 {
			branch, below = "└── ", "    "
		}
		writeNode(w, child, n.Path+"/", indent+branch, indent+below)
	}
}

func short(s float64) string {
	d := time.Duration(s * float64(time.Second))
	if d >= 10*time.Second {
		return d.Round(time.Second).String()
	}
	return d.Round(10 * time.Millisecond).String()
}

// oneLine brings an error of many lines into one.
func oneLine(s string) string {
	return strings.Join(strings.Fields(strings.ReplaceAll(s, "\n", " ⏎ ")), " ")
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(s, "\n")
	return line
}
