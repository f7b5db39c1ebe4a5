package actors

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"strconv"

	"github.com/asynkron/protoactor-go/actor"

	"addon-operator/actors/configmap"
	"addon-operator/actors/decide"
	"addon-operator/actors/shared"
	"addon-operator/actors/work"
	"addon-operator/addons"
	"addon-operator/hooks"
	"addon-operator/messages"
	"addon-operator/messages/view"
	"addon-operator/supervisor"
)

// standby keeps a follower warm: it asks the hooks of the modules that the values switch on for
// their configuration, and has monitors fill the watches of their bindings, so that at a takeover
// only hooks and Helm remain. It runs no binding and writes nothing.
//
//	idle -FlagsMoved-> loading -done-> idle     (and once at the start)
//
// What only a hook or an enabled script decides is unknown here: a module that only a hook switches
// on stays cold, and one that its script switches off is warm without need. Both cost time and no
// correctness.
type standby struct {
	runs    *supervisor.Runs
	program *shared.Program
	log     *slog.Logger

	tree        *addons.Tree
	globalHooks []hooks.Hook
	flags       map[string]bool // in the ConfigMap
	hooks       map[string][]hooks.Hook
	cold        map[string]string // why hooks of a module could not be loaded
	count       int               // of the runs that have begun; makes their names
	warm        bool              // hooks have been loaded once
}

// getWarm asks standby for the hooks that it has loaded, by module. It answers warmth.
type (
	getWarm struct{}
	warmth  struct{ hooks map[string][]hooks.Hook }
)

// loadedHooks is the result of a run of standby.
type loadedHooks struct {
	hooks map[string][]hooks.Hook
	cold  map[string]string
}

func newStandby(p *shared.Program, b *boot) *standby {
	return &standby{
		runs: supervisor.NewRuns(p.System, p.Log), program: p, log: p.Log,
		tree: b.tree, globalHooks: b.globalHooks, flags: b.config.Flags, hooks: map[string][]hooks.Hook{}, cold: map[string]string{},
	}
}

// HandleFailure implements actor.SupervisorStrategy.
func (s *standby) HandleFailure(system *actor.ActorSystem, sup actor.Supervisor, child *actor.PID, stats *actor.RestartStatistics, reason, message any) {
	s.runs.HandleFailure(system, sup, child, stats, reason, message)
}

// Receive implements actor.Actor.
func (s *standby) Receive(ctx actor.Context) {
	if s.runs.Receive(ctx) {
		s.publish(ctx)
		return
	}
	switch msg := ctx.Message().(type) {
	case *actor.Started:
		ctx.Send(s.program.PID(work.MonitorsPath), messages.WarmUp{Owner: messages.GlobalHooks, Hooks: s.globalHooks})
		s.warmUp(ctx)
	case messages.FlagsMoved:
		s.flags = msg.Flags
		clear(s.cold) // perhaps it was the values
		s.warmUp(ctx)
	case getWarm:
		ctx.Respond(warmth{maps.Clone(s.hooks)}) // it goes on until it is stopped
		return
	default:
		shared.Unhandled(ctx, s.log)
	}
	s.publish(ctx)
}

// wanted are the modules to be warm.
func (s *standby) wanted() []addons.Module {
	return slices.DeleteFunc(slices.Clone(s.tree.Modules), func(m addons.Module) bool {
		return !decide.SwitchedOn(m, nil, s.flags).Enabled
	})
}

// warmUp loads the hooks that are missing and drops those of modules that are switched off. What
// changes while it loads is handled when the run ends.
func (s *standby) warmUp(ctx actor.Context) {
	if s.runs.Len() > 0 || s.runs.Ending() {
		return
	}
	wanted := s.wanted()
	for name := range s.hooks {
		if !slices.ContainsFunc(wanted, func(m addons.Module) bool { return m.Name == name }) {
			ctx.Send(s.program.PID(work.MonitorsPath), messages.Unwatch{Owner: name})
			delete(s.hooks, name)
		}
	}
	missing := slices.DeleteFunc(wanted, func(m addons.Module) bool { return s.known(m.Name) })
	first := s.count == 0
	if len(missing) == 0 && !first {
		return
	}
	s.count++
	s.runs.Start(ctx, supervisor.Task{
		ID: "warm-up-" + strconv.Itoa(s.count), AllowFailure: true,
		Work:      func(run *supervisor.Run) (any, error) { return s.load(run, missing, first), nil },
		Succeeded: func(ctx actor.Context, result any) { s.loaded(ctx, result) },
		Failed:    func(a supervisor.Attempt) { s.log.Warn("the standby could not be prepared", "err", a.Err) },
		Ended: func(ctx actor.Context, outcome supervisor.Outcome) {
			if outcome == supervisor.Done {
				s.warmUp(ctx) // flags may have moved
			}
		},
	})
}

func (s *standby) known(module string) bool {
	_, warm := s.hooks[module]
	_, cold := s.cold[module]
	return warm || cold
}

// load is the work of a run; it touches nothing of the actor.
func (s *standby) load(run *supervisor.Run, modules []addons.Module, first bool) loadedHooks {
	result := loadedHooks{hooks: map[string][]hooks.Hook{}, cold: map[string]string{}}
	if first && s.program.WarmUp != nil {
		run.Step("kinds of the API server")
		if err := s.program.WarmUp(run.Context()); err != nil {
			s.log.Warn("the kinds of the API server could not be read in advance; they are read when this replica leads", "err", err)
		}
	}
	for _, m := range modules {
		run.Step("load hooks of %s", m.Name)
		found, err := s.program.Runs.LoadModuleHooks(run.Context(), m)
		if run.Context().Err() != nil {
			return result // this replica leads, or stops
		}
		if err != nil {
			s.log.Warn("hooks could not be loaded in advance; they are loaded when this replica leads", "module", m.Name, "err", err)
			result.cold[m.Name] = "hooks of " + m.Name + " are not loaded: " + err.Error()
			continue
		}
		result.hooks[m.Name] = found
	}
	return result
}

func (s *standby) loaded(ctx actor.Context, result any) {
	loaded, _ := result.(loadedHooks)
	for name, found := range loaded.hooks {
		s.hooks[name] = found
		ctx.Send(s.program.PID(work.MonitorsPath), messages.WarmUp{Owner: name, Hooks: found})
	}
	maps.Copy(s.cold, loaded.cold)
	s.warm = true
	s.log.Info("standby is warm", "modules", len(s.hooks), "cold", len(s.cold))
}

func (s *standby) publish(ctx actor.Context) {
	status := view.StandbyStatus{Warm: s.warm, Modules: len(s.hooks), Wanted: len(s.wanted())}
	for _, why := range s.cold {
		status.Cold = append(status.Cold, why)
	}
	slices.Sort(status.Cold)
	s.program.Inspector.Publish(ctx.Self(), status)
}

// StandBy gets ready to lead while another replica leads: it loads what Start loads, with the same
// errors, follows the ConfigMap, loads hooks and fills watches. Nothing is written and no binding
// runs until Lead.
func (o *Operator) StandBy(ctx context.Context) error {
	if err := o.Load(ctx); err != nil {
		return err
	}
	return o.spawn(ctx, o.boot, true)
}

// Lead begins the first converge with what StandBy has prepared. The values are those of the
// ConfigMap as it is now, or the last valid ones that this replica has seen (D16). An error leaves
// the follower as it was; the caller decides (the program ends).
func (o *Operator) Lead(ctx context.Context) error {
	current, err := askFor[configmap.Current](ctx, o, "config", configmap.GetCurrent{})
	if err != nil {
		return err
	}
	warm, err := askFor[warmth](ctx, o, "standby", getWarm{})
	if err != nil {
		return err
	}
	b, err := o.boot.with(o.program.World, current)
	if err != nil {
		return err
	}
	if b.suspended, err = readSuspended(ctx, o.program.World, o.boot.suspended, o.waitsFor); err != nil {
		return err
	}
	if _, err := o.program.Ask(ctx, o.root, takeOver{boot: b, warm: warm.hooks}); err != nil {
		return err
	}
	o.program.Send(o.program.PID(work.ConvergePath), messages.StartUp{})
	return nil
}

// takeOver makes the root of a follower spawn the acting actors.
type takeOver struct {
	boot *boot
	warm map[string][]hooks.Hook
}

// takeOver spawns the acting actors. They must exist before monitors and config are notified that
// this replica leads, because these two send to them from then on.
func (o *operator) takeOver(ctx actor.Context, msg takeOver) {
	o.boot = msg.boot
	o.standby = false
	o.retire(ctx, work.StandbyPath)
	o.spawnActing(ctx, msg.warm)
	ctx.Send(o.program.PID(work.MonitorsPath), messages.Lead{})
	ctx.Send(o.program.PID(work.ConfigPath), messages.LeadFrom{Known: msg.boot.config.Data, Secret: msg.boot.secret.Data})
	o.publish(ctx)
}

// retire stops a child that is not needed any more.
func (o *operator) retire(ctx actor.Context, path string) {
	if !o.children[path] {
		return
	}
	delete(o.children, path)
	ctx.Stop(o.program.PID(path))
}
