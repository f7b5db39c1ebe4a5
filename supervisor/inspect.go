package supervisor

import (
	"cmp"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"reflect"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"text/tabwriter"
	"time"

	"github.com/asynkron/protoactor-go/actor"
)

// Inspector sees every actor of a [System]. It wraps the mailbox and what the mailbox
// invokes, so that actors need no code for it, and it sends no messages, so that it
// answers while they are stuck. Its price is about 0.1 µs a message.
type Inspector struct {
	actors  *actor.ActorSystem
	log     *slog.Logger
	crashed func() // ends the process; nil: the panic does
	first   sync.Once
	mu      sync.RWMutex
	probes  map[string]*probe
	// Restarts of all runs, also of those that are no longer there: the counter never falls.
	restarts atomic.Int64
}

// Status is what an actor publishes about itself: small, immutable, and without values of users,
// because everyone who may see the debug address sees it. It is shown as JSON and, by its String
// method, as text.
type Status interface{ fmt.Stringer }

// Live is a status that changes without a message, and so is made when it is read.
type Live func() fmt.Stringer

// String implements Status.
func (l Live) String() string { return l().String() }

// Publish replaces what the actor says about itself.
func (in *Inspector) Publish(pid *actor.PID, status Status) {
	if p := in.probe(pid.Id); p != nil {
		p.status.Store(&status)
	}
}

// Status returns what the actor with this path published last, or nil.
func (in *Inspector) Status(path string) Status {
	if p := in.probe(path); p != nil {
		return p.read()
	}
	return nil
}

func (in *Inspector) probe(id string) *probe {
	in.mu.RLock()
	defer in.mu.RUnlock()
	return in.probes[id]
}

// mailbox is the mailbox of every actor.
func (in *Inspector) mailbox() actor.Mailbox {
	p := &probe{in: in}
	p.Mailbox = actor.Unbounded(p)()
	return p
}

// probe wraps the mailbox of one actor and its invoker. The goroutine of the mailbox writes its
// fields and dumps read them, hence the atomics.
type probe struct {
	actor.Mailbox
	in     *Inspector
	next   actor.MessageInvoker
	id     string
	parent string
	kind   string
	run    bool // a worker of Runs: its failures are those of a task, and no crash

	suspended atomic.Bool
	stopping  atomic.Bool
	busy      atomic.Bool
	current   atomic.Value // reflect.Type of the message in work
	since     atomic.Int64 // unix nanoseconds of the last change of state
	processed atomic.Int64
	restarts  atomic.Int32
	failure   atomic.Pointer[string]
	stack     atomic.Pointer[string]
	status    atomic.Pointer[Status]
}

// read is the status of the actor as it is now; nil before the first one.
func (p *probe) read() Status {
	s := p.status.Load()
	if s == nil {
		return nil
	}
	if made, ok := (*s).(Live); ok {
		return made()
	}
	return *s
}

// RegisterHandlers implements actor.Mailbox. The invoker is the context of the actor.
func (p *probe) RegisterHandlers(next actor.MessageInvoker, dispatcher actor.Dispatcher) {
	p.next = next
	if ctx, ok := next.(actor.Context); ok {
		p.id, p.parent = ctx.Self().GetId(), ctx.Parent().GetId()
		p.kind = kindOf(ctx.Actor())
		_, p.run = ctx.Actor().(*worker)
	}
	p.turned()
	p.in.mu.Lock()
	p.in.probes[p.id] = p
	p.in.mu.Unlock()
	p.Mailbox.RegisterHandlers(p, dispatcher)
}

func kindOf(a actor.Actor) string {
	t := reflect.TypeOf(a)
	if t == nil {
		return "?"
	}
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return t.Name()
}

// PostSystemMessage implements actor.Mailbox.
func (p *probe) PostSystemMessage(message any) {
	switch message.(type) {
	case *actor.SuspendMailbox:
		p.suspended.Store(true)
		p.turned()
	case *actor.ResumeMailbox:
		p.suspended.Store(false)
		p.turned()
	case *actor.Stop:
		p.stopping.Store(true)
	case *actor.Restart:
		if p.stopping.Load() { // the library would revive the actor
			return
		}
	}
	p.Mailbox.PostSystemMessage(message)
}

// MailboxStarted implements actor.MailboxMiddleware.
func (p *probe) MailboxStarted() {}

// MessagePosted implements actor.MailboxMiddleware.
func (p *probe) MessagePosted(any) {}

// MessageReceived implements actor.MailboxMiddleware. The library calls it after the
// message was handled and not at all after a panic, so it is of no use here.
func (p *probe) MessageReceived(any) {}

// MailboxEmpty implements actor.MailboxMiddleware.
func (p *probe) MailboxEmpty() { p.turned() }

// InvokeUserMessage implements actor.MessageInvoker.
func (p *probe) InvokeUserMessage(message any) {
	p.begin(message)
	p.next.InvokeUserMessage(message)
	p.end()
}

// InvokeSystemMessage implements actor.MessageInvoker.
func (p *probe) InvokeSystemMessage(message any) {
	if _, ok := message.(*actor.Restart); ok {
		p.restarts.Add(1)
		p.in.restarts.Add(1)
	}
	p.begin(message)
	p.next.InvokeSystemMessage(message)
	p.end()
	switch message.(type) {
	case *actor.Stop, *actor.Terminated:
		p.forgetIfGone()
	}
}

// EscalateFailure implements actor.MessageInvoker. The mailbox calls it from its
// deferred recover, so the stack still holds the frames that panicked.
func (p *probe) EscalateFailure(reason, message any) {
	p.busy.Store(false)
	err, bug := asFailure(reason)
	text, stack := err.Error(), string(debug.Stack())
	p.failure.Store(&text)
	if !p.run {
		p.in.crash(p.id, message, reason, stack)
		return
	}
	if bug {
		p.stack.Store(&stack)
		p.in.log.Error("a task panicked; please report this", "actor", p.id, "err", err, "stack", stack)
	}
	p.next.EscalateFailure(reason, message)
	p.forgetIfGone()
}

func (p *probe) begin(message any) {
	p.current.Store(reflect.TypeOf(actor.UnwrapEnvelopeMessage(message)))
	p.turned()
	p.busy.Store(true)
}

func (p *probe) end() {
	p.busy.Store(false)
	p.processed.Add(1)
}

// turned notes the time of a change of state.
func (p *probe) turned() { p.since.Store(time.Now().UnixNano()) }

// forgetIfGone drops the probe once the library has removed the actor. The library does not report
// that, so it is checked after the messages that may lead to it.
func (p *probe) forgetIfGone() {
	if _, alive := p.in.actors.ProcessRegistry.GetLocal(p.id); alive {
		return
	}
	p.in.mu.Lock()
	defer p.in.mu.Unlock()
	if p.in.probes[p.id] == p {
		delete(p.in.probes, p.id)
	}
}

// Waiting returns how many messages wait in the mailboxes, by the names of the types of actors: there are as many module
// actors as modules, and a run for each task, so metrics of single actors would have no end.
func (in *Inspector) Waiting() map[string]int {
	in.mu.RLock()
	defer in.mu.RUnlock()
	all := map[string]int{}
	for _, p := range in.probes {
		all[p.kind] += max(0, p.Mailbox.UserMessageCount())
	}
	return all
}

// Statuses returns what all actors have published, by path.
func (in *Inspector) Statuses() map[string]Status {
	in.mu.RLock()
	probes := maps.Clone(in.probes)
	in.mu.RUnlock()
	all := make(map[string]Status, len(probes))
	for path, p := range probes {
		if s := p.read(); s != nil {
			all[path] = s
		}
	}
	return all
}

// state is one of idle, busy, suspended.
func (p *probe) state() string {
	switch {
	case p.busy.Load():
		return Busy
	case p.suspended.Load():
		return Suspended
	}
	return Idle
}

// crash ends the process at the first crash of an actor.
//
// A panic in the handler of an actor that is no run is a bug of the program: its handlers do no
// work that may fail. The handler has changed and sent only a part of what it should have, so the
// actor cannot continue. The process ends, and the next one starts from the state of the cluster.
//
// It runs in the goroutine of the actor, with the frames that panicked still on its stack. So
// the actor handles no other message, and other actors handle as few as possible.
func (in *Inspector) crash(who string, message, reason any, stack string) {
	err, _ := asFailure(reason)
	in.first.Do(func() {
		in.log.Error("actor crashed: the process ends; please report this", "actor", who, "message", fmt.Sprintf("%T", actor.UnwrapEnvelopeMessage(message)), "err", err, "stack", stack)
		if in.crashed == nil {
			panic(reason)
		}
		in.crashed()
	})
}

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
		first, _, _ := strings.Cut(n.LastFailure, "\n")
		status = strings.TrimSpace(status + " last failure: " + first)
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
