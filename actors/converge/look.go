package converge

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"strconv"

	"github.com/asynkron/protoactor-go/actor"

	"addon-operator/actors/shared"
	"addon-operator/actors/work"
	"addon-operator/addons"
	"addon-operator/messages"
	"addon-operator/supervisor"
)

// diskChanged comes when files below the modules directories, or of global hooks, may have changed (P8).
type diskChanged struct{}

// looks is the part of converge that compares the disk with the tree in force.
//
// That happens at each reload, by its discovery, and where the disk is watched also at once (P8):
// by a run of converge outside of the main queue, where a failing module may wait for this very
// edit. What concerns one module is put in force by that run, and the module runs. What may change
// which modules there are, or concerns all of them, leads to a reload. A discovery and such a run
// never read the disk at the same time.
type looks struct {
	program   *shared.Program
	runs      *supervisor.Runs // of converge
	log       *slog.Logger
	catalog   *catalog
	reloads   *reloads
	discovery func() work.Discovery // of converge

	due     bool // something may have changed since the last look
	looking bool
	count   int                 // of all that have begun, for their names
	then    func(actor.Context) // begins the discovery that waits for its end; nil for none
	failed  string              // why the last look has failed; logged once
}

func (l *looks) id() string { return "look-" + strconv.Itoa(l.count) }

// diskChanged notes that there is something to look at. A discovery that failed may succeed now.
func (l *looks) diskChanged(ctx actor.Context) {
	l.due = true
	l.runs.RetryNow()
	l.look(ctx)
}

// watch begins to watch the disk, if it is to be watched. That reads all directories, so it is a run, for which the
// first discovery waits: what changes after that one has read the disk is noticed.
func (l *looks) watch(watching context.Context, ctx actor.Context) {
	l.program.Runs.Tree.Store(l.catalog.tree)
	if l.program.Disk == nil {
		return
	}
	self := ctx.Self()
	l.start(ctx, func(*supervisor.Run, work.Discovery) (any, error) {
		l.program.Disk(watching, func() { l.program.Send(self, diskChanged{}) })
		return nil, nil
	}, nil)
}

// look compares the tree with the disk, unless a run does so already, or a discovery does or is
// about to. It is called after every message of converge, so what is due now is done at the first
// opportunity. The run has no retry: files change again, or the next reload compares them.
func (l *looks) look(ctx actor.Context) {
	if !l.due || l.looking || l.reloads.discovers() || l.runs.Ending() {
		return
	}
	l.due = false
	t := l.program.NewTask(messages.Converge, messages.DiscoverModules{}, messages.Cause{Activation: messages.ByFiles})
	t.Queue = "" // it is in none
	j := reloadJob(l.program, t)
	l.start(ctx, func(run *supervisor.Run, from work.Discovery) (any, error) { return j.Look(run, from) }, l.looked)
}

// start begins a run for whose end the discovery of a reload waits.
func (l *looks) start(ctx actor.Context, do func(*supervisor.Run, work.Discovery) (any, error), succeeded func(actor.Context, any)) {
	l.looking = true
	l.count++
	from := l.discovery()
	l.runs.Start(ctx, supervisor.Task{
		ID: l.id(), AllowFailure: true, Work: func(run *supervisor.Run) (any, error) { return do(run, from) }, Succeeded: succeeded,
		Failed: func(a supervisor.Attempt) { l.lookFails(a.Err) },
		Ended: func(ctx actor.Context, _ supervisor.Outcome) {
			l.looking = false
			if then := l.then; then != nil {
				l.then = nil
				then(ctx)
			}
			l.look(ctx)
		},
	})
}

// lookFails logs that the directories cannot be read at all. The next change, or reload, looks
// again.
func (l *looks) lookFails(err error) {
	if l.failed != err.Error() {
		l.log.Error("the files of modules cannot be compared with the loaded ones, which stay in force", "err", err)
	}
	l.failed = err.Error()
}

// looked puts the result of a look in force.
func (l *looks) looked(ctx actor.Context, result any) {
	found, _ := result.(work.Looked)
	l.failed = ""
	if found.Reload != "" {
		l.log.Info("files have changed: all modules are discovered again", "what", found.Reload)
		l.reloads.request(ctx, messages.Cause{Activation: messages.ByFiles, Detail: found.Reload})
		return
	}
	l.catalog.use(found.Tree)
	maps.Copy(l.catalog.unused, found.Unused)
	l.catalog.listProblems()
	// The code of hooks is read from disk at each run, so it is in force even where the new version
	// of a module is refused, and may be the fix of what fails.
	l.catalog.tell(ctx, slices.DeleteFunc(slices.Clone(l.catalog.tree.Modules), func(m addons.Module) bool { return m.Stale() == "" }), messages.RetryNow{})
	if len(found.Changed) == 0 {
		return
	}
	names := slices.Sorted(maps.Keys(found.Changed))
	for _, name := range names {
		l.log.Info("files of a module have changed and are in force", "module", name, "what", found.Changed[name])
	}
	for _, name := range names {
		m := l.catalog.tree.Module(name)
		if m == nil || !l.catalog.wanted(*m) { // its reload is on the way
			continue
		}
		if slices.Contains(l.catalog.enabled, name) {
			l.catalog.enable(ctx, name, false)
		}
		l.catalog.run(ctx, []string{name}, messages.Cause{Activation: messages.ByFiles, Detail: found.Changed[name] + " of " + name})
	}
}
