package actors

import (
	"log/slog"
	"maps"
	"slices"

	"github.com/asynkron/protoactor-go/actor"

	"addon-operator/actors/plan"
	"addon-operator/addons"
	"addon-operator/hooks"
	"addon-operator/messages"
)

// catalog is what converge knows of modules: which there are, what switches them on and off, which
// of them the last discovery has enabled, and which have something in the cluster. All maps have
// names of modules as keys, except flags, which have those of the ConfigMap (camelEnabled). Maps
// that are handed over in a Discovery are replaced and never changed.
type catalog struct {
	program *program
	log     *slog.Logger

	// Reload is what decides on the steps of a reload, with what the last discovery has found.
	plan.Reload
	globalHooks []hooks.Hook
	config      map[string]bool   // flags in the ConfigMap, by flag key
	dynamic     map[string]bool   // flags of global hooks, by flag key (D25)
	dynamicBy   map[string]string // which hook has set each
	configured  map[string]string // maintenance modes in the ConfigMap (H15)
	suspended   map[string]bool   // by spec.suspend of objects of kind Module (H27)
	modes       map[string]string // by module, as the modules know them
	answers     map[string]bool   // of the enabled scripts, as config knows them; nil before the first discovery
	knows       map[string]bool   // modules that were told so, and have not forgotten it since
	// discoveryFails says why the discovery in progress has failed, "" when it has not. off has the
	// reason for each module that is off, on that for each that is on; told is what the log has of
	// off.
	discoveryFails string
	off, on        map[string]string
	told           []string
	// globalProblems, and unused files of the modules that are enabled; problems is what is shown of all.
	globalProblems   []string
	unused, problems map[string][]string

	// listed: the releases in the cluster were listed once. A restart finds there what an earlier
	// process has left (E9).
	listed  bool
	removed map[string]bool // modules whose directories are gone; their actors live on
	others  []string        // releases that are left alone, as the log has them
}

// Initial is what converge begins with.
type initialConverge struct {
	Tree        *addons.Tree
	GlobalHooks []hooks.Hook
	Problems    []string          // of the files in the global directory
	Flags       map[string]bool   // in the ConfigMap, by flag key
	Maintenance map[string]string // modes in the ConfigMap, by maintenance key (H15)
	Suspended   map[string]bool   // modules, by objects of kind Module (H27)
}

func newCatalog(p *program, b initialConverge) *catalog {
	return &catalog{
		program: p, log: p.Log,
		Reload: plan.Reload{
			Tree: b.Tree, Deployed: map[string]bool{}, Ran: map[string]bool{},
			Maintenance: plan.WithSuspended(b.Maintenance, b.Suspended), Ignored: p.IgnoredRelease, AllowPurge: p.AllowPurge,
		},
		globalHooks: b.GlobalHooks, globalProblems: b.Problems,
		config: b.Flags, configured: b.Maintenance, suspended: b.Suspended,
		removed: map[string]bool{}, modes: map[string]string{}, knows: map[string]bool{},
	}
}

// discovery is what one begins with. It shares nothing that converge changes later.
func (c *catalog) discovery() discovery {
	known := c.Reload
	known.Deployed, known.Ran, known.Purges = maps.Clone(c.Deployed), maps.Clone(c.Ran), c.Purges.Clone()
	return discovery{
		Reload: known, Config: c.config, Dynamic: c.dynamic, Suspended: c.suspended, List: !c.listed, Before: c.Enabled,
	}
}

// use puts a tree in force, and logs warnings that the one before did not have.
func (c *catalog) use(next *addons.Tree) {
	for _, warning := range next.Warnings {
		if !slices.Contains(c.Tree.Warnings, warning) {
			c.log.Warn(warning)
		}
	}
	for _, m := range next.Modules {
		if old := c.Tree.Module(m.Name); old == nil || !old.Same(m) { // it has started again (updateModule)
			delete(c.knows, m.Name)
		}
	}
	c.Tree = next
	c.globalProblems = slices.Concat(next.Global.Problems, unusedFiles(next.Global.HooksDir, "", hooks.Global))
	c.program.Runs.Tree.Store(next)
}

// discovered notes what a discovery has found, and returns the modules whose directories are gone since the last one.
func (c *catalog) discovered(d discovery) (gone []string) {
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
// they are never purged (P2), and logged when the list changes.
func (c *catalog) releasesListed(d discovery) {
	c.listed = true
	for _, name := range d.Releases {
		c.Deployed[name] = true
	}
	for _, name := range d.Others { // of a module that never adopted it, and is gone
		delete(c.Deployed, name)
	}
	if len(d.Others) > 0 && !slices.Equal(d.Others, c.others) {
		c.log.Info("releases that were not installed by an addon-operator are left alone", "releases", d.Others)
	}
	c.others = d.Others
}

// switchedOn reports whether the flags switch a module on.
func (c *catalog) switchedOn(m addons.Module) bool {
	return plan.SwitchedOn(m, c.dynamic, c.config).Enabled
}

// saysNo reports whether the last answer of a module's enabled script was false.
func (c *catalog) saysNo(m addons.Module) bool {
	v := c.Verdicts[m.Name]
	return v.Source == plan.ByScript && !v.Enabled
}

// wanted reports whether flags switch a module on, and its script has not said no.
func (c *catalog) wanted(m addons.Module) bool { return c.switchedOn(m) && !c.saysNo(m) }

// scripted splits the names of modules into those whose enabled scripts have a say, because their flags switch them on,
// and the others.
func (c *catalog) scripted(names []string) (scripted, others []string) {
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
func (c *catalog) run(ctx actor.Context, names []string, cause messages.Cause) {
	for _, name := range c.Enabled { // in the order of modules
		if slices.Contains(names, name) {
			c.program.Enqueue(ctx, false, c.program.NewTask(name, messages.RunModule{}, cause))
		}
	}
}

// enable tells a module that the discovery has enabled it, unless it knows. Once too often does no harm.
func (c *catalog) enable(ctx actor.Context, name string, crdsDue bool) {
	if c.knows[name] && !crdsDue {
		return
	}
	c.knows[name] = true
	ctx.Send(c.program.Owner(name), messages.EnableModule{CRDsDue: crdsDue})
}

// forget ends a module without a delete of its release.
func (c *catalog) forget(ctx actor.Context, name string) {
	delete(c.knows, name)
	ctx.Send(c.program.Owner(name), messages.ForgetModule{})
}
