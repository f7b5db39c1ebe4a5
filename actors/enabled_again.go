package actors

import (
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/asynkron/protoactor-go/actor"

	"addon-operator/actors/decide"
	"addon-operator/actors/work"
	"addon-operator/addons"
	"addon-operator/hooks"
	"addon-operator/messages"
	"addon-operator/supervisor"
)

// An enabled script sees the section of its module (E6), so a change of the section may change its
// answer. Converge asks the script of that module again, outside of the main queue: a run of the module
// that fails with the new values must not keep it from being switched off. Another answer leads to a
// reload, and so does a failure, because a discovery repeats what fails. With the same answer the
// module runs, when its section is a reason to.
//
// While a discovery is in progress no other run asks: it asks all scripts, and what changes too late
// for it is asked afterwards.

// sectionChanged says to converge that hooks have changed the section of a module with an enabled script.
type sectionChanged struct {
	module string
	cause  messages.Cause
	run    bool // the module is to run with it
}

// scriptAgreed says to a module whose section has changed that its script still says true.
type scriptAgreed struct{ cause messages.Cause }

// asks are the enabled scripts that are asked again, by the order of the changes.
type asks struct {
	due   []sectionChanged // one for each module
	asked *sectionChanged  // the one in progress
	count int              // of all that have begun, for their names
}

// id is the name of the run in progress.
func (a asks) id() string { return "enabled-script-" + strconv.Itoa(a.count) }

// add notes a change. What changes while the script runs is asked once more.
func (a *asks) add(c sectionChanged) {
	i := a.index(c.module)
	if i < 0 {
		a.due = append(a.due, c)
		return
	}
	c.run = c.run || a.due[i].run
	a.due[i] = c
}

// isDue reports whether the script of a module is to be asked after a change of its section.
func (a *asks) isDue(module string) bool { return a.index(module) >= 0 }

func (a *asks) index(module string) int {
	return slices.IndexFunc(a.due, func(d sectionChanged) bool { return d.module == module })
}

// askScripts begins to ask the next script that is due, unless one is being asked.
func (c *converge) askScripts(ctx actor.Context) {
	a := &c.asks
	for len(a.due) > 0 && a.asked == nil && c.discoveredIn == c.reload && !c.runs.Ending() {
		next := a.due[0]
		a.due = slices.Delete(a.due, 0, 1)
		m, before, ok := c.askable(next.module)
		if ok {
			a.count++
			a.asked = &next
			c.askScript(ctx, next, m, before)
		} else if next.run { // it is off by its flags, which it knows, or has lost its script
			ctx.Send(c.program.owner(next.module), scriptAgreed{next.cause})
		}
	}
}

func (c *converge) askScript(ctx actor.Context, changed sectionChanged, m addons.Module, before []string) {
	t := c.program.task(messages.Converge, messages.DiscoverModules{}, changed.cause)
	t.Queue = "" // it is in none
	j := c.job(t)
	c.runs.Start(ctx, supervisor.Task{
		ID: c.asks.id(), AllowFailure: true,
		Work: func(run *supervisor.Run) (any, error) {
			return j.EnabledScript(run, m, c.program.global.Load(), before)
		},
		Succeeded: func(ctx actor.Context, answer any) { c.scriptAnswered(ctx, changed, answer) },
		Failed: func(at supervisor.Attempt) {
			c.log.Error("enabled script failed after a change of values: all modules are discovered again", "module", m.Name, "err", at.Err)
		},
		Ended: func(ctx actor.Context, outcome supervisor.Outcome) {
			if outcome == supervisor.Allowed {
				c.reloadUnlooped(ctx, changed.cause)
				c.askLater(ctx, changed)
			}
			c.asks.asked = nil
			c.answerAsksEnded(ctx)
		},
	})
}

// askAgain is sent by a timer after a failure, for the reload may have to wait for a run that only the script can end.
type askAgain struct {
	changed sectionChanged
	reload  int // the last one that had begun
}

// askPause spaces the attempts at a script that fails.
const askPause = 5 * time.Second

func (c *converge) askLater(ctx actor.Context, changed sectionChanged) {
	self, again := ctx.Self(), askAgain{changed, c.reload}
	time.AfterFunc(askPause, func() { c.program.Send(self, again) })
}

// askable finds a module whose script has a say, and the modules that are enabled before it.
func (c *converge) askable(name string) (m addons.Module, before []string, ok bool) {
	for _, m := range c.tree.Modules {
		if m.Name == name {
			return m, before, m.EnabledScript != "" && decide.SwitchedOn(m, c.dynamic, c.config).Enabled
		}
		if slices.Contains(c.enabled, m.Name) {
			before = append(before, m.Name)
		}
	}
	return m, nil, false
}

// scriptAnswered compares an answer with the last discovery. A module that the script switches off is
// suspended at once, as by a flag.
func (c *converge) scriptAnswered(ctx actor.Context, changed sectionChanged, result any) {
	answer, _ := result.(hooks.Answer)
	if _, _, ok := c.askable(changed.module); !ok { // a flag has switched it off meanwhile
		return
	}
	owner := c.program.owner(changed.module)
	c.verdicts = maps.Clone(c.verdicts) // the old ones are in messages
	c.verdicts[changed.module] = decide.Verdict{Enabled: answer.Enabled, Source: decide.ByScript, Reason: answer.Reason}
	c.explainOff()
	switch was := slices.Contains(c.enabled, changed.module); {
	case answer.Enabled != was:
		c.log.Info("enabled script gives another answer after a change of values", "module", changed.module, "enabled", answer.Enabled, "cause", changed.cause)
		if !answer.Enabled {
			ctx.Send(owner, messages.SuspendModule{})
		}
		c.reloadUnlooped(ctx, messages.By(messages.ByScript, changed.module+" says "+strconv.FormatBool(answer.Enabled), changed.cause))
	case answer.Enabled:
		ctx.Send(owner, messages.ResumeModule{}) // it may have said false a moment ago
		if changed.run {
			ctx.Send(owner, scriptAgreed{changed.cause})
		}
	}
}

// saysNo reports whether the last answer of a module's enabled script was false.
func (c *converge) saysNo(m addons.Module) bool {
	v := c.verdicts[m.Name]
	return v.Source == decide.ByScript && !v.Enabled
}

// sectionsChanged sorts out the modules with a changed section whose scripts are to be asked first; the
// rest is returned.
func (c *converge) sectionsChanged(names []string, cause messages.Cause) (run []string) {
	for _, name := range names {
		if _, _, ok := c.askable(name); ok {
			c.asks.add(sectionChanged{name, cause, true})
		} else {
			run = append(run, name)
		}
	}
	return run
}

func (c *converge) endAsks(ctx actor.Context) {
	c.awaitAsks = append(c.awaitAsks, ctx.Sender())
	c.asks.due = nil
	if a := c.asks; a.asked != nil {
		c.runs.Cancel(ctx, a.id())
	}
	c.answerAsksEnded(ctx)
}

func (c *converge) answerAsksEnded(ctx actor.Context) {
	if c.asks.asked != nil {
		return
	}
	for _, pid := range c.awaitAsks {
		ctx.Send(pid, work.AsksEnded{})
	}
	c.awaitAsks = nil
}
