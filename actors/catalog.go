package actors

import (
	"maps"
	"slices"

	"github.com/asynkron/protoactor-go/actor"

	"addon-operator/actors/plan"
	"addon-operator/addons"
	"addon-operator/hooks"
	"addon-operator/messages"
)

// discovery is what one begins with. It shares nothing that converge changes later.
func (c *converge) discovery() discovery {
	known := c.Reload
	known.Deployed, known.Ran, known.Purges.Allowed = maps.Clone(c.Deployed), maps.Clone(c.Ran), maps.Clone(c.Purges.Allowed)
	return discovery{
		Reload: known, Config: c.config, Dynamic: c.dynamic, Suspended: c.suspended, List: !c.listed, Before: c.Enabled,
	}
}

// use puts a tree in force, and logs warnings that the one before did not have.
func (c *converge) use(next *addons.Tree) {
	for _, warning := range next.Warnings {
		if !slices.Contains(c.Tree.Warnings, warning) {
			c.log.Warn(warning)
		}
	}
	for _, m := range next.Modules {
		if old := c.Tree.Module(m.Name); old == nil || !m.SameFiles(*old) { // it has started again (updateModule)
			c.told[m.Name] = messages.SetModule{Want: messages.Forgotten}
		}
	}
	c.Tree = next
	c.globalProblems = slices.Concat(next.Global.Problems, unusedFiles(next.Global.HooksDir, "", hooks.Global))
	c.program.Runs.Tree.Store(next)
}

// found notes what a discovery has found, and returns the modules whose directories are gone since the last one.
func (c *converge) found(d discovery) (gone []string) {
	for _, m := range c.Tree.Modules {
		if d.Tree.Module(m.Name) == nil {
			gone = append(gone, m.Name)
			c.removed[m.Name] = true
		}
	}
	for _, m := range d.Tree.Modules {
		delete(c.removed, m.Name)
	}
	c.use(d.Tree)
	c.discoveryFails = ""
	if d.List {
		c.releasesListed(d)
	}
	c.unused = d.Unused
	return gone
}

// releasesListed notes which releases there are. Others are those without a label of an operator:
// they are never purged (P2).
func (c *converge) releasesListed(d discovery) {
	c.listed = true
	for _, name := range d.Releases {
		c.Deployed[name] = true
	}
	for _, name := range d.Others { // of a module that never adopted it, and is gone
		delete(c.Deployed, name)
	}
	if len(d.Others) > 0 {
		c.log.Info("releases that were not installed by an addon-operator are left alone", "releases", d.Others)
	}
}

// switchedOn reports whether the flags switch a module on.
func (c *converge) switchedOn(m addons.Module) bool {
	return plan.SwitchedOn(m, c.dynamic, c.config).Enabled
}

// saysNo reports whether the last answer of a module's enabled script was false.
func (c *converge) saysNo(m addons.Module) bool {
	v := c.Verdicts[m.Name]
	return v.Source == plan.ByScript && !v.Enabled
}

// wanted reports whether flags switch a module on, and its script has not said no.
func (c *converge) wanted(m addons.Module) bool { return c.switchedOn(m) && !c.saysNo(m) }

// scripted splits the names of modules into those whose enabled scripts have a say, because their flags switch them on,
// and the others.
func (c *converge) scripted(names []string) (scripted, others []string) {
	for _, name := range names {
		if m := c.Tree.Module(name); m != nil && m.EnabledScript != "" && c.switchedOn(*m) {
			scripted = append(scripted, name)
		} else {
			others = append(others, name)
		}
	}
	return scripted, others
}

// run queues a run for those of the modules that are enabled (G16).
func (c *converge) run(ctx actor.Context, names []string, cause messages.Cause) {
	for _, name := range c.Enabled { // in the order of modules
		if slices.Contains(names, name) {
			c.program.Enqueue(ctx, false, c.program.NewTask(name, messages.RunModule{}, cause))
		}
	}
}

// forget ends a module without a delete of its release: its directory is gone, or it is disabled under maintenance.
func (c *converge) forget(ctx actor.Context, name string) {
	msg := messages.SetModule{Want: messages.Forgotten, Maintenance: c.told[name].Maintenance}
	c.told[name] = msg
	ctx.Send(c.program.Owner(name), msg)
}
