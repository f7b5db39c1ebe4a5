package actors

import (
	"slices"

	"github.com/asynkron/protoactor-go/actor"
	"golang.org/x/sync/errgroup"

	"addon-operator/actors/decide"
	"addon-operator/addons"
	"addon-operator/helm"
	"addon-operator/helm/charts"
	"addon-operator/hooks"
	"addon-operator/messages"
	"addon-operator/supervisor"
	"addon-operator/values"
)

// getDiscovery asks converge for what a discovery begins with; a retry asks again,
// because flags may have changed since. It answers discovery.
type getDiscovery struct{}

// discovery is the input of a DiscoverModules task and, completed, its result.
type discovery struct {
	tree    *addons.Tree
	config  map[string]bool
	dynamic map[string]bool
	// maintenance are the modes in the ConfigMap (H15).
	maintenance map[string]string
	// list asks for the releases in the cluster: once at the start, and when the set of
	// module directories has changed (E10).
	list bool
	// before are the modules that were enabled by the last discovery.
	before []string
	// deployed are the modules and releases that have something in the cluster (E9).
	deployed map[string]bool
	// global are the values that enabled scripts see.
	global *values.Section
	// purges is what is known of those that are held back.
	purges decide.Purges

	enabled  []string
	verdicts map[string]decide.Verdict
	releases []string            // of modules and of operators
	others   []string            // releases that are left alone
	unused   map[string][]string // files of modules that look like hooks and are none
}

// spawnModules asks the operator for the actors of modules. modulesSpawned, of the operator
// or of config, answers when they have their values. The path of a module is known to all,
// so nothing may be sent to it before that.
type (
	spawnModules   struct{ modules []addons.Module }
	modulesSpawned struct{ err error }
)

// reloadJob is a job of converge: a step of a reload that concerns several modules, or a
// release without one.
type reloadJob struct{ job }

// discover is the work of a DiscoverModules task (G4).
func (j reloadJob) discover(run *supervisor.Run) (d discovery, err error) {
	run, s := j.span(run, "discovery", about{})
	defer func() { s.end(err) }()
	run.Step("find modules")
	d, err = supervisor.Ask[discovery](run, convergePath, getDiscovery{})
	if err != nil {
		return d, err
	}
	tree, err := d.tree.Refresh(j.program.Dirs)
	if err != nil {
		return d, err
	}
	if !sameModules(tree, d.tree) {
		d.list = true
	}
	d.tree = tree
	// Also without scripts: converge knows of an edit of global values before global-hooks may have
	// it, and the modules that run next must see it.
	global, err := supervisor.Ask[messages.Values](run, globalPath, messages.GetValues{})
	if err != nil {
		return d, err
	}
	d.global = global.Section
	run.Step("wait until nothing purges a module that is back")
	if _, err := supervisor.Ask[purgesEnded](run, convergePath, endPurges{tree.Modules}); err != nil {
		return d, err
	}
	run.Step("wait until no enabled script runs")
	if _, err := supervisor.Ask[asksEnded](run, convergePath, endAsks{}); err != nil {
		return d, err
	}
	spawned, err := supervisor.Ask[modulesSpawned](run, operatorPath, spawnModules{tree.Modules})
	if err != nil {
		return d, err
	}
	if spawned.err != nil {
		return d, spawned.err
	}
	if d.list {
		run.Step("list releases")
		if d.releases, d.others, err = j.program.concerned(run.Context(), tree.Modules); err != nil {
			return d, err
		}
	}
	script := func(m addons.Module, before []string) (hooks.Answer, error) {
		return j.enabledScript(run, m, d.global, before)
	}
	if d.enabled, d.verdicts, err = decide.Enabled(d.tree.Modules, d.dynamic, d.config, script); err != nil {
		return d, err
	}
	d.unused = unusedFilesOf(d)
	return d, j.ensureCRDs(run, d)
}

// ensureCRDs installs the CRDs of modules that became enabled, before any module runs
// or is deleted (M2). They stay when it is disabled (M5). Those of a module under
// maintenance wait for its first run after it (H15).
func (j job) ensureCRDs(run *supervisor.Run, d discovery) error {
	return j.installCRDs(run, d, func(name string) bool { return slices.Contains(d.enabled, name) && !slices.Contains(d.before, name) })
}

// installCRDs installs those of some modules, unless they are under maintenance.
func (j job) installCRDs(run *supervisor.Run, d discovery, of func(name string) bool) error {
	if j.program.CRDs == nil {
		return nil
	}
	var modules []helm.Module
	for _, m := range d.tree.Modules {
		if !of(m.Name) || decide.Maintained(m, d.maintenance) != "" {
			continue
		}
		chart := helm.Module{Name: m.Name, Key: m.Key, Dir: m.Dir}
		if charts.HasSubcharts(m.Dir) { // which of them are enabled is a matter of values
			own, err := supervisor.Ask[messages.Values](run, ownerPath(m.Name), messages.GetValues{})
			if err != nil {
				return err
			}
			chart.Values, _ = (&known{global: j.program.global.Load(), own: own.Section}).values()
		}
		modules = append(modules, chart)
	}
	if len(modules) == 0 {
		return nil
	}
	run.Step("CRDs of %d modules", len(modules))
	if err := j.program.CRDs.EnsureCRDs(run.Context(), modules); err != nil {
		return &crdError{err}
	}
	return nil
}

func (j reloadJob) enabledScript(run *supervisor.Run, m addons.Module, global *values.Section, before []string) (answer hooks.Answer, err error) {
	run, s := j.span(run, "enabled script", about{module: m.Name})
	defer func() { s.end(err) }()
	run.Step("enabled script of %s", m.Name)
	of := j.job
	of.owner = m.Name
	own, err := supervisor.Ask[messages.Values](run, ownerPath(m.Name), messages.GetValues{})
	if err != nil {
		return answer, err
	}
	defer of.hookBegins(hooks.Hook{File: hooks.File{Name: m.Name + "/enabled"}}, "")()
	script := decide.Script(m, global, own.Section, before)
	script.Labels, script.Env = of.labels("enabled", ""), traceEnvironment(run)
	return j.program.Hooks.Enabled(run.Context(), script)
}

func sameModules(a, b *addons.Tree) bool {
	if len(a.Modules) != len(b.Modules) {
		return false
	}
	for i := range a.Modules {
		if a.Modules[i].Dir != b.Modules[i].Dir {
			return false
		}
	}
	return true
}

// reloadTasks are the tasks that the steps of a reload become, in order (E8, X21).
func (p *program) reloadTasks(steps decide.Steps, modules []addons.Module, reload int, afterAll []hooks.Hook, cause messages.Cause) []messages.Task {
	var tasks []messages.Task
	add := func(owner string, work messages.Work) {
		t := p.task(owner, work, cause)
		t.Reload = reload
		tasks = append(tasks, t)
	}
	for _, group := range steps.Groups(modules, p.Width) {
		if len(group) == 1 {
			add(group[0], messages.RunModule{})
		} else {
			add(messages.Converge, messages.RunModules{Names: group})
		}
	}
	for _, name := range steps.Delete {
		add(name, messages.DeleteModule{})
	}
	for _, name := range steps.Purge {
		add(messages.Converge, messages.PurgeRelease{Release: name})
		tasks[len(tasks)-1].AllowFailure = true // retried outside of the main queue (E10)
	}
	for _, hook := range afterAll {
		add(messages.GlobalHooks, orderWork(hook, hooks.AfterAll))
	}
	add(messages.GlobalHooks, messages.FinishReload{})
	return tasks
}

// runModules is the work of a RunModules task: to each module it is what a queue is.
// It ends when all of them have ended.
func (j reloadJob) runModules(run *supervisor.Run, names []string) (err error) {
	run, s := j.span(run, "modules side by side", about{})
	defer func() { s.end(err) }()
	run.Step("%d modules, %d side by side", len(names), j.program.Width)
	var group errgroup.Group
	group.SetLimit(j.program.Width)
	for _, name := range names {
		begin := run.Turn()
		group.Go(func() error {
			begin()
			return j.runOne(run, name)
		})
	}
	return group.Wait()
}

func (j reloadJob) runOne(run *supervisor.Run, name string) error {
	t := j.program.task(name, messages.RunModule{}, j.task.Cause)
	t.Reload, t.QueuedAt, t.Trace = j.task.Reload, j.task.QueuedAt, traceOf(run)
	_, err := supervisor.Ask[messages.TaskDone](run, ownerPath(name), messages.ExecuteTask{Task: t})
	return err
}

// tell sends the same message to the actors of all modules.
func (p *program) tell(ctx actor.Context, modules []addons.Module, message any) {
	for _, m := range modules {
		ctx.Send(p.owner(m.Name), message)
	}
}
