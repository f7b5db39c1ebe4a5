package scenario

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/cenkalti/backoff/v4"

	"addon-operator/actors"
	"addon-operator/actors/plan"

	"addon-operator/addons"
	"addon-operator/helm"
	"addon-operator/hooks"
	"addon-operator/kube"
	"addon-operator/kube/apiserver"
	"addon-operator/supervisor"
)

// defaultStepLimit is far more than any step takes; it ends a test whose hook never returns.
const defaultStepLimit = time.Minute

// play is one play of a scenario. The operator in it is the real
// one, except for its clock, its watches and the recorder in front of hooks and Helm. One goroutine
// does the steps; the parts that hooks, actors and servers call in others (recorder, clock, http,
// fields, the trace) share values that are replaced as a whole (supervisor.Shared).
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
	fields supervisor.Shared[[]string]
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
		p.problems = append(p.problems, p.fields.Get()...)
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
		ReleaseWatch: releaseWatch{p.Cluster.Server}, PromptReleaseWatch: true,
		Dispatcher: p.dispatcher, AllowPurge: true, // there is no person who could confirm one
		// No delay may end by the real clock: failed tasks are retried by the steps advance and
		// retry.
		Backoff: func() backoff.BackOff { return backoff.NewConstantBackOff(24 * time.Hour) },
	}, nil
}
