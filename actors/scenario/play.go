package scenario

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v4"
	"golang.org/x/sync/errgroup"

	"addon-operator/actors"
	"addon-operator/actors/plan"
	"addon-operator/addons"
	"addon-operator/helm"
	"addon-operator/helm/charts"
	"addon-operator/helm/manifest"
	"addon-operator/hooks"
	"addon-operator/kube"
	"addon-operator/kube/apiserver"
	"addon-operator/messages"
	"addon-operator/supervisor"
	"addon-operator/values"
)

// defaultStepLimit is far more than any step takes; it ends a test whose hook never returns.
const defaultStepLimit = time.Minute

// play is one play of a scenario. The operator in it is the real
// one, except for its clock, its watches and the recorder in front of hooks and Helm. One goroutine
// does the steps; the parts that hooks, actors and servers call in others (recorder, clock, http,
// fields, the trace) share values that are guarded.
type play struct {
	scenario *Scenario
	options  Options
	files    files

	*Engine
	log        *slog.Logger // of the operator; its lines are the trace
	recorder   *recorder
	clock      *clock
	commands   *commands
	dispatcher *dispatcher

	problems []string  // of all expects so far
	seen     []hookRun // runs that an expect has compared
	// fields are those of objects that an API server would drop, and the values that it would refuse, each once: an
	// object is written again by each upgrade and dry run.
	fields sync.Map
}

func newPlay(s *Scenario, o Options) *play {
	trace := &Trace{}
	p := &play{
		scenario: s, options: o, files: files{scenario: s},
		log: trace.Logger(logLine), dispatcher: &dispatcher{}, clock: newClock(s.Given.Clock),
	}
	p.Engine = NewEngine(NewCluster(cmp.Or(s.Given.KubernetesVersion, DefaultVersion), p.log), trace)
	p.World, p.recorder = p.world, &recorder{faults: p.Faults, env: p.clock.environment, crontabs: map[string]crontab{}}
	return p
}

// run plays the scenario in a directory of its own. Differences are in p.problems; the error is for
// what keeps the play from going on, such as a step that cannot be done.
func (p *play) run(ctx context.Context) (err error) {
	if p.files.dir, err = os.MkdirTemp("", "scenario-"); err != nil {
		return err
	}
	if err := p.files.write(); err != nil {
		return err
	}
	if err := p.prepare(); err != nil {
		return err
	}
	// Deferred before the stop, so done after it: an operator that stops still needs its API
	// server.
	defer func() { err = errors.Join(err, p.Cluster.Server.Close()) }()
	if err := p.start(ctx); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.stop()) }()
	for i, step := range p.scenario.Steps {
		place := fmt.Sprintf("steps[%d]", i)
		err := p.step(ctx, place, step)
		if err == nil {
			err = p.settle(ctx)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", place, err)
		}
	}
	p.check("expect", p.scenario.Expect)
	if strict := p.scenario.Given.StrictFields; strict == nil || *strict {
		var noted []string
		for text := range p.fields.Range {
			noted = append(noted, fmt.Sprint(text))
		}
		p.problems = append(p.problems, slices.Sorted(slices.Values(noted))...)
	}
	return nil
}

// prepare makes the cluster, what is given in it, and the stand-ins. The API server listens last,
// when all of that is there, and only for the programs that hooks call: the operator calls it in
// memory.
func (p *play) prepare() error {
	g := p.scenario.Given
	if len(g.Objects) > 0 { // they may be of kinds of the modules, as in a cluster where these have run before
		for _, definition := range p.files.definitions() {
			_ = p.Cluster.Server.Apply(definition) // the operator says what is wrong with it
		}
	}
	for i, object := range g.Objects {
		if err := p.Cluster.Server.Apply(object); err != nil {
			return fmt.Errorf("given.objects[%d]: %w", i, err)
		}
	}
	if g.ConfigMap != nil {
		if err := editConfigMap(p.Cluster, g.ConfigMap); err != nil {
			return fmt.Errorf("given.configMap: %w", err)
		}
	}
	p.commands = &commands{dir: filepath.Join(p.files.dir, "commands"), answers: g.Commands}
	if err := p.commands.write(); err != nil {
		return err
	}
	p.Cluster.Server.OnUnknownField(p.noteField)
	p.Cluster.Server.OnRequest(func(apiserver.Request) error { p.recorder.done.Add(1); return nil }) // something happens
	if err := p.Cluster.Server.Start(); err != nil {
		return err
	}
	return p.Cluster.Server.WriteKubeconfig(p.files.kubeconfig(), Namespace)
}

// environment is what hooks find in their environment, in addition to that of the test's process.
// Of a name that is there twice the last one counts: so the author may override all but the API server and the
// namespace of the play.
func (p *play) environment() (env []string) {
	for _, name := range slices.Sorted(maps.Keys(p.scenario.Given.Env)) {
		env = append(env, name+"="+p.scenario.Given.Env[name])
	}
	if _, err := os.Stat(p.commands.bin()); err == nil {
		others := cmp.Or(p.scenario.Given.Env["PATH"], os.Getenv("PATH"))
		env = append(env, "PATH="+p.commands.bin()+string(os.PathListSeparator)+others)
	}
	// kubectl caches the kinds of a server by its address, and a later play with other kinds may
	// get the port of an earlier one.
	return append(env,
		"KUBECONFIG="+p.files.kubeconfig(), "KUBECACHEDIR="+filepath.Join(p.files.dir, "kube-cache"),
		"ADDON_OPERATOR_NAMESPACE="+Namespace, "ADDON_OPERATOR_CONFIG_MAP="+ConfigMapName)
}

// start starts the operator and waits until it has converged. That the operator refuses to start is
// no error: expect.refused may want it. But files that it would only warn of, and then start
// without the hook or module that was meant, are: the test would prove nothing about them.
func (p *play) start(ctx context.Context) error {
	if tree, err := addons.Load(p.files.addonDirs()); err == nil { // the operator reports the error: it refuses to start
		if err := plan.CheckTree(tree); err != nil {
			return err
		}
	}
	if err := p.Start(func(o *actors.Operator, _ context.Context) error { return o.Start(ctx) }); err != nil || p.Refused != nil {
		return err
	}
	return p.settle(ctx)
}

// stop stops the operator, also when the context of the play has ended: its hooks must not outlive
// it.
func (p *play) stop() error {
	ctx, cancel := context.WithTimeout(context.Background(), p.options.StepTimeout)
	defer cancel()
	return p.Stop(ctx)
}

func (p *play) restart(ctx context.Context) error {
	if err := p.stop(); err != nil {
		return err
	}
	return p.start(ctx)
}

// world is the one of the real operator, except for time and for watches, which
// are notified of changes without a connection. A restart gets a new one, with the same recorder,
// so that runs, faults and crontabs are counted across restarts.
func (p *play) world() (actors.World, error) {
	client := p.Cluster.Client
	releases, err := helm.New(helm.Options{
		Config: client.RESTConfig(), Namespace: Namespace, HistoryMax: 10, Timeout: p.options.StepTimeout,
		Labels: map[string]string{"heritage": "addon-operator"}, Log: p.log,
	})
	if err != nil {
		return actors.World{}, err
	}
	runner, err := hooks.NewRunner(hooks.Options{
		TmpDir: filepath.Join(p.files.dir, "tmp"), Log: p.log, Timeout: p.options.StepTimeout, JQLibrary: p.options.JQLibrary,
		Env: p.environment(), KeepFiles: p.options.Keep,
	})
	if err != nil {
		return actors.World{}, err
	}
	r := p.recorder
	r.hooks, r.helmReleases = runner, releases
	r.CRDs = actors.NewDefinitions(client, releases, kube.CRDOptions{SkipPrefixes: p.options.CRDSkip})
	return actors.World{
		Services: actors.Services{
			Log: p.log, Hooks: r, Releases: r, CRDs: r, JQLibrary: p.options.JQLibrary, Dirs: p.files.addonDirs(),
		},
		// Changes are reported in the goroutine that makes them.
		ReleaseWatch: releaseWatch{p.Cluster.Server}, HealDelay: time.Millisecond,
		Webhooks:   askedBySteps{},
		AllowPurge: true, // there is no person who could confirm one
		// No delay may end by the real clock: failed tasks are retried by the steps advance and
		// retry.
		Mailboxes: supervisor.Options{
			Dispatcher: p.dispatcher, Backoff: func() backoff.BackOff { return backoff.NewConstantBackOff(24 * time.Hour) },
		},
	}, nil
}

// Options say how scenarios are played. The zero value is what most callers need.
type Options struct {
	Update      bool          // rewrite golden files
	Keep        bool          // leave the work directory of a failure behind, with what hooks got and wrote
	Parallel    int           // scenarios at the same time; 0: one for each processor
	StepTimeout time.Duration // until the operator must be idle after a step; 0: a minute
	JQLibrary   []string      // directories of modules that jq expressions import
	CRDSkip     []string      // beginnings of names of files in crds/ that are no definitions
}

// Result is the outcome of one scenario.
type Result struct {
	Scenario *Scenario
	// Problems are empty when the scenario passed; each says where and what.
	Problems []string
	Took     time.Duration
	// Runs are the runs of hooks, Log the lines of the operator's log. Both name the files of the
	// author, not the copies that were played.
	Runs []string
	Log  string
	Kept string // the work directory; "" when it was removed
}

// Passed reports whether all is as expected.
func (r Result) Passed() bool { return len(r.Problems) == 0 }

// Play plays scenarios and returns their results in the same order. It has no error: what goes
// wrong is a problem of its scenario, and the others are played all the same. Steps wait no longer
// than ctx. done, which may be nil, is called with each result as soon as there is one, in any
// order, one at a time.
func Play(ctx context.Context, scenarios []*Scenario, o Options, done func(Result)) []Result {
	o.StepTimeout = cmp.Or(max(o.StepTimeout, 0), defaultStepLimit)
	results := make([]Result, len(scenarios))
	var one sync.Mutex
	var plays errgroup.Group
	plays.SetLimit(cmp.Or(max(o.Parallel, 0), runtime.GOMAXPROCS(0)))
	for i, s := range scenarios {
		plays.Go(func() error {
			results[i] = playOne(ctx, s, o)
			one.Lock()
			defer one.Unlock()
			if done != nil {
				done(results[i])
			}
			return nil
		})
	}
	_ = plays.Wait() // none is returned
	return results
}

// playOne plays a scenario from its first file to the removal of its directory.
func playOne(ctx context.Context, s *Scenario, o Options) Result {
	if s.broken != nil {
		return Result{Scenario: s, Problems: []string{s.broken.Error()}}
	}
	began := time.Now()
	p := newPlay(s, o)
	if err := p.run(ctx); err != nil {
		p.problems = append(p.problems, p.files.readable(err.Error()))
	}
	result := Result{Scenario: s, Problems: p.problems, Took: time.Since(began), Log: p.files.readable(p.Trace.String())}
	if o.Keep && !result.Passed() {
		result.Kept = p.files.dir
	} else if err := os.RemoveAll(p.files.dir); err != nil {
		result.Problems = append(result.Problems, err.Error())
	}
	// Those that an expect has compared, and those after the last one.
	for _, r := range append(p.seen, p.recorder.takeRuns()...) {
		result.Runs = append(result.Runs, r.String())
	}
	return result
}

// String is the outcome of the scenario for a terminal: a line, and below it the problems.
func (r Result) String() string {
	word := "ok  "
	if !r.Passed() {
		word = "FAIL"
	}
	text := fmt.Sprintf("%s  %s: %s (%s)\n", word, r.Scenario.Name(), r.Scenario.Description, r.Took.Round(time.Millisecond))
	for _, problem := range r.Problems {
		text += "      " + strings.ReplaceAll(strings.TrimRight(problem, "\n"), "\n", "\n      ") + "\n"
	}
	if r.Kept != "" {
		text += "      kept: " + r.Kept + "\n"
	}
	return text
}

// Schema is the JSON Schema of scenario files. The caller may change the copy.
func Schema() []byte { return bytes.Clone(schemaText) }

// step does one step. One such as "retry: false" does nothing. An expect never ends a play: what it finds are
// problems, so that a later expect shows what else is wrong.
func (p *play) step(ctx context.Context, place string, s step) (err error) {
	switch {
	case s.Expect != nil:
		p.check(place+".expect", *s.Expect)
	case s.Apply != nil:
		for _, object := range s.Apply {
			err = errors.Join(err, p.Cluster.Server.Apply(object))
		}
	case s.Delete != nil:
		err = p.Cluster.Delete(*s.Delete)
	case s.ConfigMap != nil:
		err = editConfigMap(p.Cluster, s.ConfigMap)
	case s.Tick != "":
		err = p.tick(s.Tick)
	case s.FailHook != nil:
		p.Faults.Fail(FaultOfHook+s.FailHook.Hook, max(s.FailHook.Times, 1))
	case s.FailHelm != nil:
		p.Faults.Fail(FaultOfHelm+cmp.Or(s.FailHelm.Module, nameOf(p.scenario.unit.module)), max(s.FailHelm.Times, 1))
	case s.Advance != "":
		err = p.advance(ctx, s.Advance)
	case s.Retry:
		for run := range waiting(p.Engine) {
			p.retry(run)
		}
	case s.Restart:
		err = p.restart(ctx)
	case s.Review != nil:
		err = p.review(ctx, place+".review", *s.Review)
	case s.Convert != nil:
		err = p.convert(ctx, place+".convert", *s.Convert)
	}
	return err
}

// editConfigMap changes keys as a person would; null removes one. A ConfigMap holds only texts, so
// a section that is written as a tree becomes YAML.
func editConfigMap(c *Cluster, keys map[string]any) error {
	texts := map[string]*string{}
	for key, value := range keys {
		switch v := value.(type) {
		case nil:
			texts[key] = nil
		case string:
			texts[key] = &v
		default:
			data, err := values.YAML(v)
			if err != nil {
				return err
			}
			text := string(data)
			texts[key] = &text
		}
	}
	return c.ConfigMap.Edit(texts)
}

// tick fires the crontabs of the schedule bindings with this name, or the crontab that is named
// itself. As in a cluster, all bindings that share such a crontab run. A name that no loaded hook
// has is an error: the step would do nothing, and the test could pass without the run that it is
// about.
func (p *play) tick(name string) error {
	if p.Operator == nil {
		return errNotRunning
	}
	var all []string
	found := false
	for crontab, c := range p.recorder.schedules() {
		for _, binding := range c.bindings {
			all = append(all, fmt.Sprintf("%s (%s)", binding, crontab))
		}
		if crontab == name || slices.Contains(c.bindings, name) {
			p.Operator.Send("schedule", messages.ScheduleFired{Crontab: crontab})
			found = true
		}
	}
	if !found {
		slices.Sort(all)
		return fmt.Errorf("tick: no hook has a schedule %q; there are %s", name, strings.Join(slices.Compact(all), ", "))
	}
	return nil
}

// files are the directories of one play, in a directory of its own:
//
//	modules/        the modules that play, and values.yaml with the given values and flags
//	global-hooks/   schemas, and hooks if the scenario wants them
//	kubeconfig      the API server of the play, for hooks that call kubectl
//	tmp/            the files of runs of hooks
//	commands/       stand-ins for programs (recorder.go)
type files struct {
	scenario *Scenario
	dir      string // "" before the play has begun
}

// write copies what the scenario needs, so that hooks cannot change their sources and plays at the
// same time cannot disturb each other: the module with the others it names, values.yaml with the
// given values, schemas and hooks of the global hooks directory.
func (f *files) write() error {
	for _, dir := range []string{f.modulesDir(), f.globalDir()} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
	}
	return errors.Join(f.writeModules(), f.writeGlobal())
}

// definitions are those in crds/ of the modules that play. The operator reports files that are wrong.
func (f *files) definitions() (all []map[string]any) {
	for _, base := range subdirectories(f.modulesDir()) {
		found, _ := charts.Definitions(filepath.Join(f.modulesDir(), base))
		for _, file := range found {
			objects, _ := manifest.Parse(string(file.Data))
			for _, object := range objects {
				all = append(all, object.Object)
			}
		}
	}
	return all
}

// testsDir holds the scenarios of a module, or of the global hooks.
const testsDir = "tests"

func (f *files) modulesDir() string { return filepath.Join(f.dir, "modules") }
func (f *files) globalDir() string  { return filepath.Join(f.dir, "global-hooks") }
func (f *files) kubeconfig() string { return filepath.Join(f.dir, "kubeconfig") }

func (f *files) addonDirs() addons.Dirs {
	return addons.Dirs{Modules: []string{f.modulesDir()}, Global: f.globalDir(), UnnumberedOrder: 1}
}

// readable replaces the paths of the copies by those of the sources, which are the files that an
// author can edit, and which are the same in each play.
func (f *files) readable(text string) string {
	text = strings.ReplaceAll(text, f.modulesDir(), f.scenario.unit.modules)
	return strings.ReplaceAll(text, f.globalDir(), f.scenario.unit.global)
}

// nameOf is the name of the module in a directory: dns of 010-dns.
func nameOf(base string) string {
	_, name := addons.SplitNumber(base, 0)
	return name
}

// writeModules copies the modules that play, and enables them. Of the others it writes nothing, so
// that a scenario does not depend on modules that it does not name.
func (f *files) writeModules() error {
	u, flags := f.scenario.unit, map[string]any{}
	var foreign []string                             // keys of modules that are not there
	wanted := slices.Clone(f.scenario.Given.Modules) // those that were not found yet
	if u.module != "" {
		wanted = append(wanted, nameOf(u.module))
	}
	var errs []error
	for _, base := range subdirectories(u.modules) {
		name := nameOf(base)
		key, err := values.Key(name)
		if err != nil {
			continue // the operator says so when it is the module in question
		}
		i := slices.Index(wanted, name)
		if i < 0 && base != u.module {
			foreign = append(foreign, key)
			continue
		}
		// The module of the scenario is copied also when another directory had its name before it:
		// the operator then refuses to start, and says why.
		if i >= 0 {
			wanted = slices.Delete(wanted, i, i+1)
			flags[values.FlagKey(key)] = true
		}
		errs = append(errs, copyTree(filepath.Join(u.modules, base), filepath.Join(f.modulesDir(), base)))
	}
	for _, name := range wanted {
		errs = append(errs, fmt.Errorf("given.modules: there is no module %s in %s", name, u.modules))
	}
	return errors.Join(append(errs, f.writeValues(flags, foreign))...)
}

// writeValues writes values.yaml: the real one, without what belongs to modules that are
// not there, then the flags of those that are, then the given values. About sections and flags of
// modules that are not there the operator would log warnings, which expect.log would see. Other
// unknown keys stay, because they are mistakes of the author.
func (f *files) writeValues(flags map[string]any, foreign []string) error {
	var common any
	if f.scenario.unit.modules != "" {
		file := filepath.Join(f.scenario.unit.modules, "values.yaml")
		data, err := os.ReadFile(file)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if common, err = values.ParseYAML(data); err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
	}
	kept := map[string]any{}
	if all, ok := common.(map[string]any); ok {
		for key, value := range all {
			if !slices.Contains(foreign, key) && !slices.Contains(foreign, strings.TrimSuffix(key, "Enabled")) {
				kept[key] = value
			}
		}
	}
	merged := values.Merge(kept, flags, f.scenario.Given.Values)
	text, err := values.YAML(merged)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(f.modulesDir(), "values.yaml"), text, 0o644)
}

// givenHook is the name of a global hook that patches what given.fromGlobalHooks says. So these values are checked and
// merged as those of a real hook. Its run is not recorded.
const givenHook = "given.fromGlobalHooks"

const givenHookText = `#!/bin/sh
if [ "$1" = --config ]; then
  echo '{"configVersion": "v1", "onStartup": 0}'
else
  printf %%s %s >"$VALUES_JSON_PATCH_PATH"
fi
`

// writeGlobal copies the directory of global hooks if the scenario is about them or wants them, and
// else only its schemas, with which the operator checks the section global.
func (f *files) writeGlobal() error {
	from, to := f.scenario.unit.global, f.globalDir()
	hooksDir := filepath.Join(to, "hooks")
	var err error
	switch whole := f.scenario.unit.module == "" || f.scenario.Given.GlobalHooks; {
	case from == "":
	case whole:
		// Hooks may be at the top of the directory. A new directory hooks would hide them.
		if err = copyTree(from, to); existing(filepath.Join(from, "hooks")) == "" {
			hooksDir = to
		}
	case existing(filepath.Join(from, "openapi")) != "":
		err = copyTree(filepath.Join(from, "openapi"), filepath.Join(to, "openapi"))
	}
	if err != nil {
		return err
	}
	if len(f.scenario.Given.FromGlobalHooks) == 0 {
		return nil
	}
	if err := os.MkdirAll(hooksDir, 0o755); err != nil {
		return err
	}
	var patch []any
	for key, value := range f.scenario.Given.FromGlobalHooks {
		patch = append(patch, map[string]any{"op": "add", "path": values.JSONPointer(values.GlobalKey, key), "value": value})
	}
	text, err := values.JSON(patch)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(hooksDir, givenHook), fmt.Appendf(nil, givenHookText, quoted(string(text))), 0o755)
}

// subdirectories are the names of the directories, and of links to some, in a directory, without
// hidden ones. A directory that cannot be read has none: given.modules then says what is missing.
func subdirectories(dir string) (names []string) {
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		if existing(filepath.Join(dir, e.Name())) != "" && !strings.HasPrefix(e.Name(), ".") {
			names = append(names, e.Name())
		}
	}
	return names
}

// copyTree copies a directory with the modes of its files, except for its tests. It
// follows symbolic links: in the copy, a relative one would lead nowhere.
func copyTree(from, to string) error { return os.CopyFS(to, followed{os.DirFS(from)}) }

// followed is a directory in which links are what they lead to.
type followed struct{ fs.FS }

// ReadDir implements fs.ReadDirFS.
func (f followed) ReadDir(name string) (entries []fs.DirEntry, err error) {
	all, err := fs.ReadDir(f.FS, name)
	for _, e := range all {
		if name == "." && e.Name() == testsDir {
			continue
		}
		info, wrong := fs.Stat(f.FS, path.Join(name, e.Name()))
		if wrong != nil {
			return nil, wrong
		}
		entries = append(entries, fs.FileInfoToDirEntry(info))
	}
	return entries, err
}
