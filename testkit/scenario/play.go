package scenario

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/cenkalti/backoff/v4"

	"addon-operator/actors"
	"addon-operator/actors/work"
	"addon-operator/addons"
	"addon-operator/helm"
	"addon-operator/hooks"
	"addon-operator/kube"
	"addon-operator/kube/apiserver"
)

// Where the operator of a scenario lives.
const (
	Namespace        = "addon-operator"
	configMapName    = "addon-operator"
	defaultVersion   = "v1.33.0"
	defaultStepLimit = time.Minute
)

// play is one play of a scenario.
type play struct {
	scenario *Scenario
	options  Options
	dir      string
	keys     []string // of the modules that are there
	names    []string

	server     *apiserver.Server
	client     *kube.Client
	recorder   *recorder
	clock      *clock
	dispatcher *dispatcher
	journal    *journal
	operator   *actors.Operator
	stopWrites context.CancelFunc
	refused    error // why the start was refused

	problems []string
	seen     []hookRun
}

// run plays the scenario in a directory of its own.
func (p *play) run(ctx context.Context) (err error) {
	if p.dir, err = os.MkdirTemp("", "scenario-"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(p.dir)) }()
	if err := p.writeDirs(); err != nil {
		return err
	}
	if err := p.prepare(); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.server.Close()) }()
	if err := p.start(ctx); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, p.stop()) }()
	for i, step := range p.scenario.Steps {
		if err := p.step(ctx, fmt.Sprintf("steps[%d]", i), step); err != nil {
			return fmt.Errorf("steps[%d]: %w", i, err)
		}
	}
	p.check(ctx, "expect", p.scenario.Expect)
	return nil
}

// prepare makes the cluster and what is given there.
func (p *play) prepare() error {
	g := p.scenario.Given
	version := defaultVersion
	if g.KubernetesVersion != "" {
		version = g.KubernetesVersion
	}
	p.server = apiserver.New(version)
	p.server.EnsureNamespace(Namespace)
	for i, object := range g.Objects {
		if err := p.server.Apply(object); err != nil {
			return fmt.Errorf("given.objects[%d]: %w", i, err)
		}
	}
	if g.ConfigMap != nil {
		if err := p.editConfigMap(g.ConfigMap); err != nil {
			return fmt.Errorf("given.configMap: %w", err)
		}
	}
	if err := p.server.Start(""); err != nil {
		return err
	}
	return p.server.WriteKubeconfig(p.kubeconfig(), Namespace)
}

func (p *play) kubeconfig() string { return filepath.Join(p.dir, "kubeconfig") }

// start starts the operator and waits until it has converged.
func (p *play) start(ctx context.Context) error {
	world, err := p.world()
	if err != nil {
		return err
	}
	if tree, err := addons.Load(world.Dirs); err == nil { // the operator reports the error: it refuses to start
		if err := actors.CheckTree(tree); err != nil {
			return err
		}
	}
	writes, stop := context.WithCancel(context.Background())
	world.Writes, p.stopWrites = writes, stop
	operator := actors.New(world)
	if p.refused = operator.Start(ctx); p.refused != nil {
		stop()
		return nil //nolint:nilerr // the scenario may expect the refusal
	}
	p.operator = operator
	return p.settle(ctx)
}

func (p *play) stop() error {
	if p.operator == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), p.options.StepTimeout)
	defer cancel()
	err := p.operator.Stop(ctx)
	p.operator = nil
	p.stopWrites()
	return err
}

// world is the one of the real operator, but for time and for watches, which are notified of
// changes without a connection.
func (p *play) world() (actors.World, error) {
	log := slog.New(handler{journal: p.journal})
	client, err := kube.Connect(kube.Options{Kubeconfig: p.kubeconfig(), QPS: -1, Log: log})
	if err != nil {
		return actors.World{}, err
	}
	releases, err := helm.New(helm.Options{
		Config: client.RESTConfig(), Namespace: Namespace, HistoryMax: 10, Timeout: p.options.StepTimeout,
		Labels: map[string]string{"heritage": "addon-operator"}, Log: log,
	})
	if err != nil {
		return actors.World{}, err
	}
	runner, err := hooks.NewRunner(hooks.Options{
		TmpDir: filepath.Join(p.dir, "tmp"), Log: log, Timeout: p.options.StepTimeout, JQLibrary: p.options.JQLibrary,
		Env: []string{
			"KUBECONFIG=" + p.kubeconfig(), "KUBECACHEDIR=" + filepath.Join(p.dir, "kube-cache"),
			"ADDON_OPERATOR_NAMESPACE=" + Namespace, "ADDON_OPERATOR_CONFIG_MAP=" + configMapName,
		},
	})
	if err != nil {
		return actors.World{}, err
	}
	p.client = client
	r := p.recorder
	r.hooks, r.releases, r.objects, r.given = runner, releases, client, p.scenario.Given.FromGlobalHooks
	r.crds = actors.NewDefinitions(client, releases, kube.CRDOptions{SkipPrefixes: p.options.CRDSkip})
	return actors.World{
		Services: work.Services{
			Log: log, Hooks: r, Releases: r, Objects: r, CRDs: r, JQLibrary: p.options.JQLibrary,
			Dirs: addons.Dirs{Modules: []string{p.modulesDir()}, Global: p.globalDir(), UnnumberedOrder: 1},
		},
		ConfigMap: configMap{p}, Secret: secret{p}, ReleaseWatch: releaseWatch{p.server}, HealDelay: time.Millisecond,
		Watch: func(ctx context.Context, spec kube.Spec, notify func(kube.Change), synced func()) (actors.Watch, error) {
			return p.server.WatchObjects(ctx, spec, notify, synced)
		},
		Dispatcher: p.dispatcher, AllowPurge: true,
		Backoff: func() backoff.BackOff { return backoff.NewConstantBackOff(24 * time.Hour) },
	}, nil
}
