package actors

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/asynkron/protoactor-go/actor"

	"addon-operator/actors/work"
	"addon-operator/addons"
	"addon-operator/hooks"
	"addon-operator/messages"
	"addon-operator/supervisor"
)

// The disk is compared with the tree in force at each reload, by its discovery, and where it is watched also at once (P8):
// by a run of converge outside of the main queue, where a module that fails may wait for this very edit. What concerns one
// module is put in force by that run, and the module runs; what may change which modules there are, or all of them, leads to a
// reload. A discovery and such a run never read the disk at the same time.

// looks is what converge remembers of that.
type looks struct {
	due     bool // something may have changed since the last look
	looking bool
	count   int          // of all that have begun, for their names
	waiting []*actor.PID // discoveries that wait for its end
	failed  string       // why the last one has; told once
}

func (l looks) id() string { return "look-" + strconv.Itoa(l.count) }

// diskChanged notes that there is something to look at. A discovery that failed may succeed now.
func (c *converge) diskChanged(ctx actor.Context) {
	c.looks.due = true
	c.runs.RetryNow()
	c.look(ctx)
}

// watchDisk begins to watch the disk, if it is to be watched.
func (c *converge) watchDisk(self *actor.PID) {
	c.program.tree.Store(c.tree)
	if c.program.Disk != nil {
		c.program.Disk(c.ctx, func() { c.program.Send(self, messages.DiskChanged{}) })
	}
}

// look compares the tree with the disk, unless something reads it, or a discovery is about to.
func (c *converge) look(ctx actor.Context) {
	discovers := c.reload == 0 || c.phase == reloading && c.discoveredIn != c.reload
	if !c.looks.due || c.looks.looking || discovers || c.runs.Ending() {
		return
	}
	c.looks.due, c.looks.looking = false, true
	c.looks.count++
	t := c.program.task(messages.Converge, messages.DiscoverModules{}, messages.Cause{Activation: messages.ByFiles})
	t.Queue = "" // it is in none
	j := c.job(t)
	c.runs.Start(ctx, supervisor.Task{
		ID: c.looks.id(), AllowFailure: true,
		Work:      func(run *supervisor.Run) (any, error) { return j.Look(run) },
		Succeeded: func(ctx actor.Context, result any) { c.looked(ctx, result) },
		Failed:    func(a supervisor.Attempt) { c.lookFailed(a.Err) },
		Ended: func(ctx actor.Context, _ supervisor.Outcome) {
			c.looks.looking = false
			for _, pid := range c.looks.waiting {
				ctx.Send(pid, c.discovery())
			}
			c.looks.waiting = nil
			c.look(ctx)
		},
	})
}

// lookFailed is about directories that cannot be read at all; the next change, or reload, looks again.
func (c *converge) lookFailed(err error) {
	if c.looks.failed != err.Error() {
		c.log.Error("the files of modules cannot be compared with what is in force, which stays", "err", err)
	}
	c.looks.failed = err.Error()
}

// looked puts the result of a look in force.
func (c *converge) looked(ctx actor.Context, result any) {
	found, _ := result.(work.Looked)
	c.looks.failed = ""
	if found.Reload != "" {
		c.log.Info("files have changed: all modules are discovered again", "what", found.Reload)
		c.requestReload(ctx, messages.Cause{Activation: messages.ByFiles, Detail: found.Reload})
		return
	}
	c.useTree(found.Tree)
	maps.Copy(c.unused, found.Unused)
	c.listProblems()
	c.program.tell(ctx, slices.DeleteFunc(slices.Clone(c.tree.Modules), func(m addons.Module) bool { return m.Stale() == "" }), messages.RetryNow{}) // code of hooks is in force all the same
	if len(found.Changed) == 0 {
		return
	}
	names := slices.Sorted(maps.Keys(found.Changed))
	for _, name := range names {
		c.log.Info("files of a module have changed and are in force", "module", name, "what", found.Changed[name])
	}
	for _, name := range names {
		c.runModules(ctx, []string{name}, messages.Cause{Activation: messages.ByFiles, Detail: found.Changed[name] + " of " + name})
	}
}

// useTree puts a tree in force, and says what is new about it.
func (c *converge) useTree(next *addons.Tree) {
	c.logNewWarnings(next)
	c.tree = next
	c.globalProblems = slices.Concat(next.Global.Problems, work.UnusedFiles(next.Global.HooksDir, "", hooks.Global))
	c.program.tree.Store(next)
}

// exchangeGlobal queues the start-up of global hooks that are new, and another discovery: what comes before it, such as
// beforeAll, has not seen them, or the new global values.
func (c *converge) exchangeGlobal(ctx actor.Context, d work.Discovery) {
	cause := messages.Cause{Activation: messages.ByFiles, Detail: "global hooks or values"}
	var fresh []hooks.Hook
	began := map[string]bool{}
	if d.GlobalHooks != nil {
		for _, was := range c.globalHooks {
			_, began[was.Name] = was.Config.Order(hooks.OnStartup)
		}
		fresh = slices.DeleteFunc(slices.Clone(d.GlobalHooks), func(now hooks.Hook) bool {
			return slices.ContainsFunc(c.globalHooks, func(was hooks.Hook) bool { return was.File == now.File && was.Config.Equal(now.Config) })
		})
		c.globalHooks = d.GlobalHooks
	}
	if c.phase != overtaken {
		c.restart(ctx, cause)
	}
	if len(fresh) > 0 {
		c.log.Info("global hooks are exchanged", "start", names(fresh))
		tasks := c.startUpTasks(fresh, cause)
		c.enqueue(ctx, true, slices.DeleteFunc(tasks, func(t messages.Task) bool { // of an earlier version of the file it has run
			w, ok := t.Work.(messages.RunHook)
			return ok && w.Binding == hooks.OnStartup && began[w.Hook]
		}))
	}
}

func names(all []hooks.Hook) string {
	var list []string
	for _, hook := range all {
		list = append(list, hook.Name)
	}
	return strings.Join(list, ", ")
}

// NotInForce says of each module, or global-hooks, how the files on disk differ from what is in force: they were changed since
// they were compared last. What was refused is among the problems. It reads the disk.
func (o *Operator) NotInForce() map[string]string {
	return o.program.notInForce(o.program.tree.Load())
}

func (p *program) notInForce(tree *addons.Tree) map[string]string {
	if tree == nil {
		return nil
	}
	differs := map[string]string{}
	for name, what := range tree.Unloaded(p.Dirs) {
		if name == "" {
			name = messages.GlobalHooks
		}
		differs[name] = fmt.Sprintf("%s; it is in force with the next reload of all modules", what)
	}
	return differs
}
