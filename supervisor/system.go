package supervisor

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"

	"github.com/asynkron/protoactor-go/actor"
	"github.com/cenkalti/backoff/v4"
	cmap "github.com/orcaman/concurrent-map"
)

// Options of a [System].
type Options struct {
	Log *slog.Logger
	// Dispatcher runs the mailboxes of all actors but the runs. Nil: a goroutine for
	// each mailbox that has work. Tests give one that draws the order from a seed.
	Dispatcher actor.Dispatcher
	// Backoff makes the delays between the attempts at a task. Nil: those of [Backoff].
	Backoff func() backoff.BackOff
	// Crashed is called after the first panic in a handler of an actor that is no run was logged,
	// in the goroutine of that actor. It must end the process. Nil: the panic ends it.
	Crashed func()
	// Observe is called with each message before its receiver handles it, and the function that it
	// returns is called afterwards. Tests panic in them to simulate a bug of the receiver. asked:
	// the sender waits for the answer ([System.Ask]), which is not observed itself.
	Observe func(receiver *actor.PID, message any, asked bool) (handled func())
}

// System is a protoactor system whose actors are inspected, and whose process ends when one of them
// crashes.
type System struct {
	Actors    *actor.ActorSystem
	Inspector *Inspector

	backoff    func() backoff.BackOff
	dispatcher actor.Dispatcher
	options    []actor.PropsOption // of all actors but the runs
}

// throughput is how many messages of a mailbox are handled before other goroutines have a turn.
const throughput = 300

// NewSystem makes an actor system; it starts no goroutine.
func NewSystem(o Options) *System {
	smallRegistry()
	quiet := slog.New(warnings{o.Log.Handler().WithAttrs([]slog.Attr{slog.String("component", "protoactor")})})
	actors := actor.NewActorSystem(actor.WithLoggerFactory(func(*actor.ActorSystem) *slog.Logger { return quiet }))
	in := &Inspector{actors: actors, log: o.Log, crashed: o.Crashed, probes: map[string]*probe{}}
	s := &System{Actors: actors, Inspector: in, dispatcher: o.Dispatcher, backoff: o.Backoff}
	if s.backoff == nil {
		s.backoff = Backoff
	}
	if s.dispatcher == nil {
		s.dispatcher = actor.NewDefaultDispatcher(throughput)
	}
	s.options = []actor.PropsOption{actor.WithMailbox(in.mailbox), actor.WithDispatcher(s.dispatcher)}
	if o.Observe != nil {
		s.options = append(s.options, actor.WithReceiverMiddleware(s.observed(o.Observe)))
	}
	return s
}

func (s *System) observed(observe func(*actor.PID, any, bool) func()) actor.ReceiverMiddleware {
	return func(next actor.ReceiverFunc) actor.ReceiverFunc {
		return func(ctx actor.ReceiverContext, envelope *actor.MessageEnvelope) {
			asked := false
			if envelope.Sender != nil {
				process, _ := s.Actors.ProcessRegistry.Get(envelope.Sender)
				_, asked = process.(*answers)
			}
			handled := observe(ctx.Self(), envelope.Message, asked)
			next(ctx, envelope)
			handled()
		}
	}
}

// smallRegistry makes the registry of an actor system fit its actors. The library has 1,024
// maps of 32 shards each: 3 MB, and most of the time that a start takes, for some hundred
// actors. The number of shards is a variable of the package that brings the maps, so it is
// set once, before the first system.
//
//nolint:gochecknoglobals // what a process sets once cannot belong to any single system
var smallRegistry = sync.OnceFunc(func() { cmap.SHARD_COUNT = 1 })

// Props describes an actor that is inspected.
func (s *System) Props(producer actor.Producer) *actor.Props {
	return actor.PropsFromProducer(producer, s.options...)
}

// runProps describes a run: it may block, so it always has a goroutine of its own.
func (s *System) runProps(producer actor.Producer) *actor.Props {
	dispatcher := actor.WithDispatcher(concurrent{s.dispatcher})
	return actor.PropsFromProducer(producer, actor.WithMailbox(s.Inspector.mailbox), dispatcher)
}

// concurrent runs the blocking part of runs in goroutines, but does not start them in the middle of
// an actor's turn: then it would be left to chance which of two messages arrives first.
type concurrent struct{ actor.Dispatcher }

// Schedule implements actor.Dispatcher.
func (b concurrent) Schedule(turn func()) { b.Dispatcher.Schedule(func() { go turn() }) }

// PID is the address of the actor with the given path, for example "operator/queue/main".
// The actor must have been spawned: a message to an actor that is just being spawned
// would be a nil dereference in the sender.
func (s *System) PID(path string) *actor.PID { return s.Actors.NewLocalPID(path) }

// Send delivers a message from outside the actors.
func (s *System) Send(to *actor.PID, message any) { s.Actors.Root.Send(to, message) }

// Spawn starts a top-level actor.
func (s *System) Spawn(name string, producer actor.Producer) (*actor.PID, error) {
	pid, err := s.Actors.Root.SpawnNamed(s.Props(producer), name)
	if err != nil {
		return nil, fmt.Errorf("spawn actor %s: %w", name, err)
	}
	return pid, nil
}

// Ask sends message to an actor and waits for its answer, or until ctx is done.
// An answer that comes too late is dropped.
//
// The library's futures know only a timeout, and a second answer to one is a data
// race; a process with a channel is simpler than a future that is guarded.
func (s *System) Ask(ctx context.Context, to *actor.PID, message any) (any, error) {
	if err := context.Cause(ctx); err != nil { // a question may have effects, too
		return nil, err
	}
	answer := &answers{got: make(chan any, 1), dispatcher: s.dispatcher}
	registry := s.Actors.ProcessRegistry
	pid, _ := registry.Add(answer, registry.NextId())
	defer registry.Remove(pid)
	s.Actors.Root.RequestWithCustomSender(to, message, pid)
	select {
	case got := <-answer.got:
		if _, dead := got.(*actor.DeadLetterResponse); dead {
			return nil, fmt.Errorf("actor %s does not exist (any more)", to.Id)
		}
		return got, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// answers is the process behind Ask. It takes one message and drops the rest.
type answers struct {
	got        chan any
	first      sync.Once
	dispatcher actor.Dispatcher
}

// SendUserMessage implements actor.Process. The answer is a turn of the dispatcher, so
// that a test decides which of two askers continues first.
func (a *answers) SendUserMessage(_ *actor.PID, message any) {
	a.first.Do(func() {
		a.dispatcher.Schedule(func() { a.got <- actor.UnwrapEnvelopeMessage(message) })
	})
}

func (a *answers) SendSystemMessage(*actor.PID, any) {}
func (a *answers) Stop(*actor.PID)                   {}

// Wait blocks until the actor has terminated, or until ctx is done. The library answers a Watch with Terminated as
// soon as the actor has begun to stop, while its children may go on for minutes.
func (s *System) Wait(ctx context.Context, pid *actor.PID) error {
	p := s.Inspector.probe(pid.Id)
	if p == nil {
		return nil
	}
	select {
	case <-p.gone:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("wait for actor %s to stop: %w", pid.Id, ctx.Err())
	}
}

// Close ends the system after its actors have stopped.
func (s *System) Close() { s.Actors.Shutdown() }

// warnings raises the level of a handler: what the library logs at level Info is no news for people.
type warnings struct{ slog.Handler }

func (h warnings) Enabled(ctx context.Context, level slog.Level) bool {
	return level >= slog.LevelWarn && h.Handler.Enabled(ctx, level)
}

// Ask sends a message of a run to the actor with the given path and waits for its answer. It fails
// when the run is cancelled.
func Ask[Answer any](r *Run, path string, question any) (Answer, error) {
	return AskFor[Answer](r.ctx, r.system, path, question)
}

// AskFor is Ask for callers outside of the actors. It ends with ctx; an actor that does not exist is an error, and an
// answer of another type a bug of the program.
func AskFor[Answer any](ctx context.Context, s *System, path string, question any) (Answer, error) {
	var none Answer
	got, err := s.Ask(ctx, s.PID(path), question)
	if err != nil {
		return none, err
	}
	answer, ok := got.(Answer)
	if !ok {
		return none, fmt.Errorf("bug: actor %s answered %T with %T", path, question, got)
	}
	return answer, nil
}

// Stages are the children of an actor, by path, with the stage of its stop in which each of them ends: the last stage
// first, and each stage when nothing is left of the one after it.
type Stages map[string]int

// Stop stops the children of the last stage; without children the actor itself.
func (s Stages) Stop(ctx actor.Context) {
	if len(s) == 0 {
		ctx.Stop(ctx.Self())
		return
	}
	last := slices.Max(slices.Collect(maps.Values(s)))
	for _, path := range slices.Sorted(maps.Keys(s)) {
		if s[path] == last {
			ctx.Stop(actor.NewPID(ctx.Self().Address, path))
		}
	}
}

// Terminated forgets a child that is gone during the stop, and stops the next stage when it was the last of its stage.
func (s Stages) Terminated(ctx actor.Context, who *actor.PID) {
	stage := s[who.Id]
	delete(s, who.Id)
	if !slices.Contains(slices.Collect(maps.Values(s)), stage) {
		s.Stop(ctx)
	}
}
