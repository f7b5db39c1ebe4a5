package supervisor

import (
	"cmp"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
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
	probes  map[string]*probe // by the path of the actor
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
		p.mu.Lock()
		defer p.mu.Unlock()
		p.status = status
	}
}

// Status returns what the actor with this path published last, or nil.
func (in *Inspector) Status(path string) Status {
	if p := in.probe(path); p != nil {
		return p.node().Status
	}
	return nil
}

func (in *Inspector) probe(path string) *probe {
	in.mu.RLock()
	defer in.mu.RUnlock()
	return in.probes[path]
}

// mailbox is the mailbox of every actor.
func (in *Inspector) mailbox() actor.Mailbox {
	return &probe{Mailbox: actor.Unbounded()(), in: in, gone: make(chan struct{})}
}

// probe wraps the mailbox of one actor and its invoker.
type probe struct {
	actor.Mailbox
	in   *Inspector
	next actor.MessageInvoker
	path string
	kind string        // the type of the actor
	run  bool          // a worker of [Runs]: its failures are those of a task, and no crash
	gone chan struct{} // closed when the library has removed the actor

	mu      sync.Mutex
	current any       // the message in work; nil for none
	since   time.Time // when that began, or the last one was handled
	status  Status
}

// RegisterHandlers implements actor.Mailbox. The invoker is the context of the actor.
func (p *probe) RegisterHandlers(next actor.MessageInvoker, dispatcher actor.Dispatcher) {
	p.next = next
	if ctx, ok := next.(actor.Context); ok {
		p.path = ctx.Self().GetId()
		_, p.kind, _ = strings.Cut(fmt.Sprintf("%T", ctx.Actor()), ".")
		_, p.run = ctx.Actor().(*worker)
	}
	p.handles(nil)
	p.in.mu.Lock()
	p.in.probes[p.path] = p
	p.in.mu.Unlock()
	p.Mailbox.RegisterHandlers(p, dispatcher)
}

// InvokeUserMessage implements actor.MessageInvoker.
func (p *probe) InvokeUserMessage(message any) {
	p.handles(message)
	p.next.InvokeUserMessage(message)
	p.handles(nil)
}

// InvokeSystemMessage implements actor.MessageInvoker. The library does not report that it has removed an actor, so
// that is checked after each of these messages, which may lead to it.
func (p *probe) InvokeSystemMessage(message any) {
	p.handles(message)
	p.next.InvokeSystemMessage(message)
	p.handles(nil)
	if _, alive := p.in.actors.ProcessRegistry.GetLocal(p.path); alive {
		return
	}
	p.in.mu.Lock()
	defer p.in.mu.Unlock()
	if p.in.probes[p.path] == p {
		delete(p.in.probes, p.path)
		close(p.gone)
	}
}

// EscalateFailure implements actor.MessageInvoker: what fails in a run is decided by its owner, and the process ends
// at the first crash of another actor.
//
// A panic in the handler of an actor that is no run is a bug of the program: its handlers do no work that may fail.
// The handler has changed and sent only a part of what it should have, so the
// actor cannot continue. The process ends, and the next one starts from the state of the cluster.
//
// The mailbox calls it from its deferred recover, in the goroutine of the actor, with the frames that panicked still
// on its stack. So the actor handles no other message, and other actors handle as few as possible.
func (p *probe) EscalateFailure(reason, message any) {
	if p.run {
		p.handles(nil)
		if _, expected := reason.(failure); !expected { // F11
			bug := fmt.Errorf("bug: %v", reason)
			p.in.log.Error("a task panicked; please report this", "actor", p.path, "err", bug, "stack", string(debug.Stack()))
			reason = failure{bug}
		}
		p.next.EscalateFailure(reason, message)
		return
	}
	p.in.first.Do(func() {
		p.in.log.Error("actor crashed: the process ends; please report this", "actor", p.path, "message", typeOf(message),
			"err", fmt.Sprint("bug: ", reason), "stack", string(debug.Stack()))
		if p.in.crashed == nil {
			panic(reason)
		}
		p.in.crashed()
	})
}

// handles notes the message in work; nil when it is handled.
func (p *probe) handles(message any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.current, p.since = message, time.Now()
}

func typeOf(message any) string { return fmt.Sprintf("%T", actor.UnwrapEnvelopeMessage(message)) }

// Waiting returns how many messages wait in the mailboxes, by the names of the types of actors: there are as many
// module actors as modules, and a run for each task, so metrics of single actors would have no end.
func (in *Inspector) Waiting() map[string]int {
	all := map[string]int{}
	for _, p := range in.all() {
		all[p.kind] += max(0, p.UserMessageCount())
	}
	return all
}

// Statuses returns what all actors have published, by path.
func (in *Inspector) Statuses() map[string]Status {
	all := map[string]Status{}
	for _, p := range in.all() {
		if s := p.node().Status; s != nil {
			all[p.path] = s
		}
	}
	return all
}

func (in *Inspector) all() []*probe {
	in.mu.RLock()
	defer in.mu.RUnlock()
	return slices.Collect(maps.Values(in.probes))
}

// Node is one actor of a dump.
type Node struct {
	// Path is the full name, for example "operator/module/dns".
	Path string `json:"path"`
	// Current is the type of the message in work; empty for none.
	Current string `json:"current,omitempty"`
	// Seconds since that began, or since the last message was handled.
	InStateSeconds float64 `json:"inStateSeconds"`
	// Messages waiting in the mailbox, without those of the library.
	UserMessages int `json:"userMessages"`
	// Status is what the actor published about itself.
	Status Status `json:"status,omitempty"`
}

// Nodes returns the actors as they are now, by path, each before its children.
func (in *Inspector) Nodes() []*Node {
	var nodes []*Node
	for _, p := range in.all() {
		nodes = append(nodes, p.node())
	}
	slices.SortFunc(nodes, func(a, b *Node) int { return cmp.Compare(a.Path, b.Path) })
	return nodes
}

func (p *probe) node() *Node {
	p.mu.Lock()
	current, since, status := p.current, p.since, p.status
	p.mu.Unlock()
	if made, ok := status.(Live); ok {
		status = made()
	}
	// The library's counter may fall below zero for an instant, and nanoseconds mean nothing in a dump.
	n := &Node{Path: p.path, UserMessages: max(0, p.UserMessageCount()), Status: status}
	n.InStateSeconds = max(0, time.Since(since).Round(time.Millisecond).Seconds())
	if current != nil {
		n.Current = strings.TrimPrefix(typeOf(current), "*")
	}
	return n
}

// WriteText writes the actors the way a person reads them: one line an actor, the status at the end.
func WriteText(w io.Writer, nodes []*Node) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "ACTOR\tSTATE\tFOR\tMAIL\tSTATUS")
	for _, n := range nodes {
		state, status := "idle", ""
		if n.Current != "" {
			state = "busy " + n.Current
		}
		if n.Status != nil {
			status = n.Status.String()
		}
		lasted := time.Duration(n.InStateSeconds * float64(time.Second)).Round(10 * time.Millisecond)
		fmt.Fprintf(table, "%s\t%s\t%s\t%d\t%s\n", n.Path, state, lasted, n.UserMessages, status)
	}
	return table.Flush()
}
