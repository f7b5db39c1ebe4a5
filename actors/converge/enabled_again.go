package converge

import (
	"log/slog"
	"slices"
	"strconv"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"addon-operator/actors/shared"
	"addon-operator/actors/work"
	"addon-operator/addons"
	"addon-operator/hooks"
	"addon-operator/messages"
	"addon-operator/supervisor"
)

// asks is the part of converge that asks enabled scripts again, in the order of the changes.
//
// A script sees the section of its module (E6), so a change of the section may change its answer
// (E6). It is asked outside of the main queue: a run of the module that fails with the new values
// must not keep it from being switched off. Another answer leads to a reload, and so does a
// failure, because a discovery repeats what fails. With the same answer the module runs, if the
// change is a reason to.
//
// During a discovery nothing else asks: it asks all scripts, and what changes too late for it is
// asked afterwards.
type asks struct {
	program *shared.Program
	runs    *supervisor.Runs // of converge
	log     *slog.Logger
	catalog *catalog
	reloads *reloads

	due      []messages.SectionChanged // one for each module
	asked    *messages.SectionChanged  // the one in progress
	count    int                       // of all that have begun; makes the names of runs
	awaiting []*actor.PID              // discoveries that wait until no script is asked
}

// id is the name of the run in progress.
func (a *asks) id() string { return "enabled-script-" + strconv.Itoa(a.count) }

// add notes a change. What changes while the script runs is asked once more.
func (a *asks) add(c messages.SectionChanged) {
	i := a.index(c.Module)
	if i < 0 {
		a.due = append(a.due, c)
		return
	}
	c.Run = c.Run || a.due[i].Run
	a.due[i] = c
}

// isDue reports whether the script of a module is to be asked after a change of its section.
func (a *asks) isDue(module string) bool { return a.index(module) >= 0 }

func (a *asks) index(module string) int {
	return slices.IndexFunc(a.due, func(d messages.SectionChanged) bool { return d.Module == module })
}

// next asks the next script that is due, unless one is being asked or a discovery asks them all.
func (a *asks) next(ctx actor.Context) {
	for len(a.due) > 0 && a.asked == nil && a.reloads.discoveredIn == a.reloads.number && !a.runs.Ending() {
		next := a.due[0]
		a.due = slices.Delete(a.due, 0, 1)
		m, before, ok := a.catalog.askable(next.Module)
		if ok {
			a.count++
			a.asked = &next
			a.ask(ctx, next, m, before)
		} else if next.Run { // it is off by its flags, which it knows, or has lost its script
			ctx.Send(a.program.Owner(next.Module), messages.ScriptAgreed{Cause: next.Cause})
		}
	}
}

// ask runs a script in a run of converge. It belongs to no queue, so it waits for nothing.
func (a *asks) ask(ctx actor.Context, changed messages.SectionChanged, m addons.Module, before []string) {
	t := a.program.NewTask(messages.Converge, messages.DiscoverModules{}, changed.Cause)
	t.Queue = "" // it is in none
	j := reloadJob(a.program, t)
	a.runs.Start(ctx, supervisor.Task{
		ID: a.id(), AllowFailure: true,
		Work: func(run *supervisor.Run) (any, error) {
			return j.EnabledScript(run, m, a.program.Global.Load(), before)
		},
		Succeeded: func(ctx actor.Context, answer any) { a.answered(ctx, changed, answer) },
		Failed: func(at supervisor.Attempt) {
			a.log.Error("enabled script failed after a change of values: all modules are discovered again", "module", m.Name, "err", at.Err)
		},
		Ended: func(ctx actor.Context, outcome supervisor.Outcome) {
			if outcome == supervisor.Allowed {
				a.reloads.requestUnlooped(ctx, changed.Cause)
				a.later(ctx, changed)
			}
			a.asked = nil
			a.answerEnded(ctx)
		},
	})
}

// askAgain is sent by a timer after a failure. The reload that was requested may have to wait for a
// module run that only this script can end.
type askAgain struct {
	changed messages.SectionChanged
	reload  int // the last one that had begun
}

// askPause spaces the attempts at a script that fails.
const askPause = 5 * time.Second

func (a *asks) later(ctx actor.Context, changed messages.SectionChanged) {
	a.program.SendLater(ctx, askPause, askAgain{changed, a.reloads.number})
}

// answered compares an answer with the last discovery. A module that its script switches off is
// suspended at once, as by a flag.
func (a *asks) answered(ctx actor.Context, changed messages.SectionChanged, result any) {
	answer, _ := result.(hooks.Answer)
	if _, _, ok := a.catalog.askable(changed.Module); !ok { // a flag has switched it off meanwhile
		return
	}
	owner := a.program.Owner(changed.Module)
	switch same := a.catalog.scriptSays(changed.Module, answer); {
	case !same:
		a.log.Info("enabled script returned a different answer after a change of values", "module", changed.Module, "enabled", answer.Enabled, "cause", changed.Cause)
		if !answer.Enabled {
			ctx.Send(owner, messages.SuspendModule{})
		}
		a.reloads.requestUnlooped(ctx, messages.By(messages.ByScript, changed.Module+" returned "+strconv.FormatBool(answer.Enabled), changed.Cause))
	case answer.Enabled:
		ctx.Send(owner, messages.ResumeModule{}) // it may have said false a moment ago
		if changed.Run {
			ctx.Send(owner, messages.ScriptAgreed{Cause: changed.Cause})
		}
	}
}

// sectionsChanged notes the modules with a changed section whose scripts are asked first, and
// returns the others, which run at once.
func (a *asks) sectionsChanged(names []string, cause messages.Cause) (run []string) {
	for _, name := range names {
		if _, _, ok := a.catalog.askable(name); ok {
			a.add(messages.SectionChanged{Module: name, Cause: cause, Run: true})
		} else {
			run = append(run, name)
		}
	}
	return run
}

// end cancels all questions for a discovery that is about to ask the scripts itself, and answers it
// when the last run has ended.
func (a *asks) end(ctx actor.Context) {
	a.awaiting = append(a.awaiting, ctx.Sender())
	a.due = nil
	if a.asked != nil {
		a.runs.Cancel(ctx, a.id())
	}
	a.answerEnded(ctx)
}

func (a *asks) answerEnded(ctx actor.Context) {
	if a.asked != nil {
		return
	}
	for _, pid := range a.awaiting {
		ctx.Send(pid, work.AsksEnded{})
	}
	a.awaiting = nil
}
