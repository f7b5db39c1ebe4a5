package testkit

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"addon-operator/actors"
	"addon-operator/actors/scenario"
	"addon-operator/helm"
	"addon-operator/hooks"
	"addon-operator/kube"
	"addon-operator/messages/view"
	"addon-operator/values"
)

// outside is what the actors of a script call in place of hooks, Helm, definitions and objects: each action leaves
// lines in the trace, takes its time, and fails, as the script says.
type outside struct {
	*scenario.Engine
	sched    *scheduler // nil: each goroutine goes on when it wakes
	observer *observer
}

// The kinds of actions that only scripts of testkit disturb, and the ways to fail that only they have: a panic, and an
// API whose server does not answer.
const (
	faultOfCRDs    = "crds "
	faultOfJobs    = "job "     // of Helm hooks
	faultOfObjects = "objects " // all object patches; there is no name
	faultOfModules = "modules "
	panics         = "panic "
	away           = "away "
)

// errDead ends the actions of an operator that was killed.
var errDead = errors.New("the operator is dead")

var errScripted = errors.New("the script makes it fail")

// act begins an action with a line of the trace, lets it take its time, and returns the error with which it fails, if
// it must: it has changed nothing by then. The action of a dead operator ends here.
func (o *outside) act(ctx context.Context, kind, name, line string) error {
	o.sched.await(kind + name) // other goroutines may begin, or wake, at the same instant
	if line != "" {
		o.Trace.AddLine(line)
	}
	if d := o.Faults.Lasts(kind + name); d > 0 {
		select {
		case <-time.After(d):
		case <-ctx.Done():
		}
		o.sched.await(kind + name)
	}
	switch {
	case o.Trace.Dead.Load():
		return errDead
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case o.Faults.Take(panics+kind+name, 1) > 0:
		panic("the script makes it panic")
	case o.Faults.Take(away+kind+name, 1) > 0:
		return &helm.Error{Kind: helm.Away, Release: name, Err: errors.New("APIService v1.things is not available")}
	case o.Faults.Take(kind+name, 1) > 0:
		return errScripted
	}
	return nil
}

// askConfig ends the name of the call of a hook for its configuration, so that it fails and lasts independently of the
// hook's runs.
const askConfig = " --config"

// CheckObjectPatches implements actors.Objects.
func (o *outside) CheckObjectPatches(ctx context.Context, patches []actors.ObjectPatch) error {
	return o.Cluster.Client.CheckObjectPatches(ctx, patches)
}

// ApplyObjectPatches implements actors.Objects. When it fails, all are left to repeat.
func (o *outside) ApplyObjectPatches(ctx context.Context, patches []actors.ObjectPatch) (left []actors.ObjectPatch, err error) {
	if err := o.act(ctx, faultOfObjects, "", ""); err != nil {
		return patches, err
	}
	left, err = o.Cluster.Client.ApplyObjectPatches(ctx, patches)
	o.sched.await("patches " + fmt.Sprint(patches))
	return left, err
}

// crds are the definitions of modules.
type crds struct {
	actors.CRDs
	*outside
}

// EnsureCRDs implements actors.CRDs.
func (c crds) EnsureCRDs(ctx context.Context, modules []helm.Module) (err error) {
	for _, m := range modules {
		if _, absent := os.Stat(filepath.Join(m.Dir, "crds")); absent == nil {
			c.Trace.Add("CRDs of %s", filepath.Base(m.Dir))
			err = errors.Join(err, c.act(ctx, faultOfCRDs, "", ""))
		}
	}
	if err != nil {
		return err
	}
	return c.CRDs.EnsureCRDs(ctx, modules)
}

// Record implements actors.Notices: the Events that people see are lines of the trace.
func (o *outside) Record(n kube.Notice) {
	where := "event"
	if n.OnConfigMap {
		where = "event on the ConfigMap"
	}
	o.Trace.Add("%s: %s: %s", where, n.Reason, firstLine(n.Message))
}

// lastValid keeps the last valid content of the ConfigMap in a Secret of the cluster, and notes in the trace when it
// changes.
type lastValid struct {
	kube.LastValidStore
	trace *scenario.Trace
	said  string
}

// Write implements actors.LastValid.
func (v *lastValid) Write(ctx context.Context, kept kube.LastValid) error {
	err := v.LastValidStore.Write(ctx, kept)
	line := fmt.Sprintf("last valid values: operator keeps %q and of the Secret %q", kept.Config, kept.Secret)
	if err == nil && line != v.said {
		v.said = line
		v.trace.AddLine(line)
	}
	return err
}

// lateNews delivers the events of watches, or keeps them while news are late: then the
// cluster has changed and lists show it, but no watch was notified. So is a real watch whose
// connection is slow.
type lateNews struct {
	mu      sync.Mutex // never held while an event is delivered: its receiver may write to the cluster
	holding bool
	held    []func() // in the order of their changes
}

// deliver is the Deliver of scenario.Cluster.
func (l *lateNews) deliver(event func()) {
	l.mu.Lock()
	holding := l.holding
	if holding {
		l.held = append(l.held, event)
	}
	l.mu.Unlock()
	if !holding {
		event()
	}
}

// hold keeps all events from now on, or delivers what was kept, in order, and keeps nothing any more.
func (l *lateNews) hold(holding bool) {
	l.mu.Lock()
	held := l.held
	l.holding, l.held = holding, nil
	l.mu.Unlock()
	for _, event := range held {
		event()
	}
}

// moduleObjects are the objects of kind Module: those of package kube, in the API server in memory, with a trace. They
// outlive the operator.
type moduleObjects struct {
	*kube.ModuleObjects
	*outside
	news *lateNews
}

// Watch implements actors.ModuleObjects. Its news wait for their turn.
func (m *moduleObjects) Watch(ctx context.Context, notify func(kube.ModuleNews)) {
	m.ModuleObjects.Watch(ctx, func(news kube.ModuleNews) {
		m.sched.later("module news", func() { m.news.deliver(func() { notify(news) }) })
	})
}

// Create implements actors.ModuleObjects.
func (m *moduleObjects) Create(ctx context.Context, name string, suspend bool) (kube.ModuleObject, error) {
	r := reference(name)
	there := m.Cluster.Server.Object(r.APIVersion, r.Kind, r.Namespace, r.Name) != nil
	made, err := m.ModuleObjects.Create(ctx, name, suspend)
	if err == nil && !there {
		m.Trace.Add("object %s: created", name)
	}
	return made, err
}

// Apply implements actors.ModuleObjects.
func (m *moduleObjects) Apply(ctx context.Context, name string, status kube.ModuleStatus) (kube.ModuleObject, error) {
	if err := m.act(ctx, faultOfModules, "", ""); err != nil {
		return kube.ModuleObject{}, err
	}
	written, err := m.ModuleObjects.Apply(ctx, name, status)
	if err == nil {
		m.Trace.Add("object %s: %s", name, shown(status))
	}
	return written, err
}

// Delete implements actors.ModuleObjects.
func (m *moduleObjects) Delete(ctx context.Context, read kube.ModuleObject) error {
	err := m.ModuleObjects.Delete(ctx, read)
	if err == nil {
		m.Trace.Add("object %s: deleted", read.Name)
	}
	return err
}

// shown is what a trace shows of a status: the phase, the conditions that hold, and of Ready also
// why it does not.
func shown(s kube.ModuleStatus) string {
	text := s.Phase
	for _, c := range s.Conditions {
		if c.Type == "Ready" || c.Status == "True" {
			text += fmt.Sprintf(", %s %s", c.Type, c.Status)
		}
		if c.Type == "Ready" {
			text += fmt.Sprintf(" %s: %s", c.Reason, c.Message)
		}
	}
	if handled := strings.Trim(s.LastHandledRequestedAt+" "+s.LastHandledRetryRequestedAt, " "); handled != "" {
		text += ", handled " + handled
	}
	return text
}

// reference names an object.
func reference(name string) scenario.Reference {
	return scenario.ParseReference("Module " + scenario.Namespace + "/" + name)
}

// annotateModule annotates an object as a person does: NAME TEXT. One that does not exist is created, and belongs to
// the person: it is not marked as the operator's.
func annotateModule(annotation string) step {
	return func(p *player, rest string) error {
		name, text, _ := strings.Cut(rest, " ")
		return p.Cluster.Set(reference(name), text, "metadata", "annotations", annotation)
	}
}

// suspendModule does the same with spec.suspend: NAME [false].
func suspendModule(p *player, rest string) error {
	name, text, _ := strings.Cut(rest, " ")
	return p.Cluster.Set(reference(name), text != "false", "spec", "suspend")
}

// helmTimeout is HELM_TIMEOUT in scripts.
const helmTimeout = 5 * time.Minute

// controllers are those of the cluster of a script: the Jobs of Helm hooks succeed when their time is over, and
// Deployments of releases are as healthy as the script says. They continue whatever happens to the operator.
type controllers struct {
	*outside
	stop   context.CancelFunc
	health sync.Map // by Deployment, in the words of kstatus
}

func newControllers(o *outside) (*controllers, error) {
	ctx, stop := context.WithCancel(context.Background())
	c := &controllers{outside: o, stop: stop}
	watch := func(apiVersion, kind string, created func(kube.Change)) error {
		_, err := o.Cluster.Server.WatchObjects(ctx, kube.Spec{APIVersion: apiVersion, Kind: kind}, func(change kube.Change) {
			if change.Type == kube.Added {
				created(change)
			}
		}, func() {})
		return err
	}
	return c, errors.Join(watch("batch/v1", "Job", c.job), watch("apps/v1", "Deployment", func(change kube.Change) {
		c.sched.later("health of "+change.Object.Name, func() { _ = c.assess(change.Object.Name) })
	}))
}

// job is called with the lock of the server held. When its time is over, the Job that was created goes on, and the
// server has it succeed at once.
func (c *controllers) job(created kube.Change) {
	name := strings.TrimSuffix(created.Object.Name, "-job")
	c.Trace.Add("helm runs the hook of %s", name)
	finish := func() {
		job := &unstructured.Unstructured{Object: c.Cluster.Server.Object("batch/v1", "Job", "default", created.Object.Name)}
		if job.Object != nil && job.GetResourceVersion() == created.Version {
			// They fail only after a mistake in testdata/usual.yaml.
			_ = unstructured.SetNestedField(job.Object, false, "spec", "suspend")
			_ = c.Cluster.Server.Apply(job.Object)
		}
	}
	time.AfterFunc(c.Faults.Lasts(faultOfJobs+name), func() { c.sched.later("job "+name, finish) })
}

// assess writes the status by which kstatus judges a Deployment, as the script says: InProgress, Failed or, when it
// says nothing, Current.
func (c *controllers) assess(name string) error {
	state, _ := c.health.Load(name)
	object := c.Cluster.Server.Object("apps/v1", "Deployment", "default", name)
	if object == nil {
		return nil
	}
	metadata, _ := object["metadata"].(map[string]any)
	status := map[string]any{"observedGeneration": metadata["generation"], "replicas": int64(1), "updatedReplicas": int64(1), "readyReplicas": int64(1), "availableReplicas": int64(1)}
	progress := map[string]any{"type": "Progressing", "status": "True", "reason": "NewReplicaSetAvailable"}
	switch state {
	case view.ObjectInProgress:
		status["availableReplicas"] = int64(0)
	case view.ObjectFailed:
		progress["status"], progress["reason"] = "False", "ProgressDeadlineExceeded"
	}
	status["conditions"] = []any{progress, map[string]any{"type": "Available", "status": "True"}}
	object["status"] = status
	return c.Cluster.Server.Apply(object)
}

// stepHealth says how the Deployment of a release is from now on: RELEASE-b STATE.
func stepHealth(p *player, rest string) error {
	name, state, _ := strings.Cut(rest, " ")
	p.controllers.health.Store(name, state)
	return p.controllers.assess(name)
}

// Hooks runs hooks for a script: real executables through the real runner, and scripted ones itself. Its counts go on
// when the operator is started again. Runs of several queues call it in parallel.
type Hooks struct {
	*outside
	real *hooks.Runner // nil when all hooks are scripted

	mu   sync.Mutex
	runs map[string]int // of scripted hooks by name and binding
}

// NewHooks makes a runner of scripted hooks, for an operator that plays no script.
func NewHooks(trace *scenario.Trace) *Hooks {
	o := &outside{Engine: scenario.NewEngine(nil, trace), observer: newObserver()}
	return &Hooks{outside: o, runs: map[string]int{}}
}

// begin is act for a hook. A run that is cut is killed, as a process would be.
func (h *Hooks) begin(ctx context.Context, name, line string) error {
	err := h.act(ctx, scenario.FaultOfHook, name, line)
	switch {
	case err == nil, errors.Is(err, errDead):
		return err
	case errors.Is(err, errScripted):
		return &hooks.ExitError{Hook: name, Code: 1, Stderr: err.Error()}
	}
	h.Trace.Add("hook %s is killed", name)
	return fmt.Errorf("hook %s: %w", name, err)
}

// Configure implements actors.HookRunner.
func (h *Hooks) Configure(ctx context.Context, file hooks.File, workingDir string, scope hooks.Scope) ([]hooks.Hook, error) {
	if err := h.begin(ctx, file.Name+askConfig, ""); err != nil {
		return nil, err
	}
	s, err := readScript(file.Path)
	if err != nil {
		return nil, err
	}
	if s == nil {
		return h.real.Configure(ctx, file, workingDir, scope)
	}
	config, err := hooks.ParseConfig(scope, s.Config)
	if err != nil {
		return nil, fmt.Errorf("hook %s: %w", file.Name, err)
	}
	return []hooks.Hook{{File: file, Config: config}}, nil
}

// Run implements actors.HookRunner.
func (h *Hooks) Run(ctx context.Context, run hooks.Run) (hooks.Result, error) {
	var contexts []string
	for _, c := range run.Contexts {
		contexts = append(contexts, scenario.Describe(c))
	}
	defer h.observer.hookRun(run)()
	failed := h.begin(ctx, run.Hook.Name, "hook "+run.Hook.Name+": "+strings.Join(contexts, " + "))
	s, err := readScript(run.Hook.Path)
	switch {
	case err != nil:
		return hooks.Result{}, err
	case s != nil:
		return h.play(run, s, failed)
	case failed != nil:
		return hooks.Result{}, failed
	}
	return h.real.Run(ctx, run)
}

// play does what the script says for each binding of a run; combined contexts may have
// several. A run that fails returns results all the same: the operator must not apply them.
func (h *Hooks) play(run hooks.Run, s *script, failed error) (result hooks.Result, _ error) {
	var all scriptedRun
	// Of several contexts of one binding, the last one shows the latest snapshots.
	for i, c := range run.Contexts {
		again := slices.ContainsFunc(run.Contexts[i+1:], func(later hooks.Context) bool { return later.Binding == c.Binding })
		step, ok := s.Runs[c.Binding]
		if again || !ok || !h.due(run.Hook.Name+" "+c.Binding, step.Times, failed != nil) {
			continue
		}
		all.Values = append(all.Values, step.Values...)
		all.Values = append(all.Values, step.seen(c))
		all.Config = append(all.Config, step.Config...)
		all.Objects = append(all.Objects, step.Objects...)
	}
	// By way of the text that a hook would write, so that it is checked as such a text is.
	read := func(operations []json.RawMessage) values.Patch {
		patch, _, err := values.ParsePatch(slices.Concat(operations...))
		failed = cmp.Or(failed, err)
		return patch
	}
	result.ValuesPatch, result.ConfigPatch = read(all.Values), read(all.Config)
	result.ObjectPatches = slices.Concat(all.Objects...)
	return result, failed
}

// due counts the runs of a hook for a binding, but for those that fail, and reports whether this one does something.
func (h *Hooks) due(key string, times int, fails bool) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !fails {
		h.runs[key]++
	}
	return times <= 0 || h.runs[key] <= times
}

// Enabled implements actors.HookRunner.
func (h *Hooks) Enabled(ctx context.Context, e hooks.EnabledScript) (answer hooks.Answer, err error) {
	defer h.observer.enter("the enabled script of "+e.Module, "discovery")()
	if err := h.begin(ctx, e.Module+"/enabled", ""); err != nil {
		h.Trace.Add("enabled script of %s fails", e.Module)
		return answer, err
	}
	s, err := readScript(e.Path)
	switch {
	case err != nil:
	case s != nil:
		answer = hooks.Answer{Enabled: s.enabled(e.Values), Reason: s.Reason}
	default:
		answer, err = h.real.Enabled(ctx, e)
	}
	if err == nil {
		h.Trace.Add("enabled script of %s: %t", e.Module, answer.Enabled)
	}
	return answer, err
}

// scripted marks a hook that is no program but says in YAML what it does:
//
//	#!testkit
//	config: {configVersion: v1, beforeHelm: 1, afterHelm: 2}
//	runs:
//	  beforeHelm:                 # a binding, by its name in the context
//	    values: [{op: add, path: /dns/zone, value: cluster.local}]
//	    config: []                # the patch for the ConfigMap
//	    times: 1                  # only at its first run; always when it is absent
//	    count: /dns/pods          # write how many objects the snapshots show, too
//	enabled: "true"               # for enabled scripts
//	enabledBy: b.wanted             # or the value of this path, as the script sees it; absent is true
//	reason: no nodes              # what they write to MODULE_ENABLED_REASON
const scripted = "#!testkit"

// script is the YAML of a scripted hook.
type script struct {
	Config  json.RawMessage        `json:"config"`
	Runs    map[string]scriptedRun `json:"runs"`
	Enabled string                 `json:"enabled"`
	// EnabledBy is a path of values that decides instead of Enabled.
	EnabledBy string `json:"enabledBy"`
	Reason    string `json:"reason"`
}

// scriptedRun is what a hook does for one binding. A path is a JSON pointer into the values; "" for
// none.
type scriptedRun struct {
	Values []json.RawMessage `json:"values"`
	Config []json.RawMessage `json:"config"`
	// Objects are what the hook writes to KUBERNETES_PATCH_PATH.
	Objects []json.RawMessage `json:"objects"`
	Times   int               `json:"times"` // in how many of its first runs; 0: in all
	// Count is a path: the number of objects in all snapshots is written there.
	Count string `json:"count"`
}

// seen is the operation on values that depends on the snapshots in the context of the run.
func (s scriptedRun) seen(c hooks.Context) json.RawMessage {
	if s.Count == "" {
		return nil
	}
	n := 0
	for _, objects := range c.Snapshots {
		n += len(objects)
	}
	return fmt.Appendf(nil, `{"op": "add", "path": %q, "value": %d}`, s.Count, n)
}

// readScript returns nil for a file that is no scripted hook.
func readScript(path string) (*script, error) {
	data, err := os.ReadFile(path)
	if err != nil || !bytes.HasPrefix(data, []byte(scripted)) {
		return nil, err
	}
	var s script
	if err := readYAML(data[len(scripted):], &s); err != nil {
		return nil, fmt.Errorf("scripted hook %s: %w", path, err)
	}
	if s.Config == nil && s.Enabled == "" && s.EnabledBy == "" {
		return nil, errors.New("scripted hook " + path + ": it has neither config nor enabled")
	}
	return &s, nil
}

// enabled is the answer of an enabled script that sees these values. With enabledBy, only a false
// at the path disables the module; what is absent does not.
func (s *script) enabled(seen any) bool {
	if s.EnabledBy == "" {
		return s.Enabled == "true"
	}
	values, _ := seen.(map[string]any)
	wanted, there, _ := unstructured.NestedBool(values, strings.Split(s.EnabledBy, ".")...)
	return wanted || !there
}

// Releases are those of a script: package helm renders charts and writes to the API server in
// memory. Releases adds faults, a trace, and what must never be. It outlives the operator; the client is that of the
// latest start.
type Releases struct {
	*helm.Client
	*outside
}

// NewReleases are those of a cluster, for an operator that plays no script.
func NewReleases(cluster *scenario.Cluster, trace *scenario.Trace) (*Releases, error) {
	r := &Releases{outside: &outside{Engine: scenario.NewEngine(cluster, trace), observer: newObserver()}}
	return r, r.connect(slog.New(slog.DiscardHandler))
}

// connect makes the client of an operator that starts.
func (r *Releases) connect(log *slog.Logger) (err error) {
	client := r.Cluster.Client
	r.Client, err = helm.New(helm.Options{
		Config: client.RESTConfig(), Namespace: scenario.Namespace, HistoryMax: 3, Timeout: helmTimeout,
		Labels: helm.UsualLabels(), Log: log, Watcher: client, Presence: kube.NewPresence(client, time.Minute),
	})
	return err
}

// action does something with a release, which only one may have at a time, and shows that it has failed.
func action[T any](ctx context.Context, r *Releases, what, name string, do func() (T, error)) (done T, err error) {
	defer r.observer.enter("helm "+what+" of "+name, "release "+name, "module "+name)()
	if err := r.act(ctx, scenario.FaultOfHelm, name, ""); err != nil {
		r.Trace.Add("helm fails for %s", name)
		return done, err
	}
	done, err = do()
	r.sched.await("helm " + name) // several may end at the same instant
	if r.Trace.Dead.Load() {
		return done, errDead
	}
	if err != nil {
		r.Trace.Add("helm fails for %s: %s", name, firstLine(err.Error()))
	}
	return done, err
}

// Apply implements actors.Releases.
func (r *Releases) Apply(ctx context.Context, m helm.Module) (helm.Outcome, error) {
	outcome, err := action(ctx, r, "upgrade", m.Name, func() (helm.Outcome, error) { return r.Client.Apply(ctx, m) })
	switch {
	case err != nil, outcome.Action == helm.Skipped:
	case outcome.Action == helm.Held:
		r.Trace.Add("helm holds the upgrade of %s", m.Name)
	case len(outcome.Healed) > 0:
		r.Trace.Add("helm heals %s: %s", m.Name, namesOf(outcome.Healed))
	case len(m.Drifted) > 0:
		r.Trace.Add("helm corrects %s: %s", m.Name, namesOf(m.Drifted))
	default:
		text, _ := values.JSON(m.Values) // Helm has read them
		r.Trace.Add("helm %s %s %s", outcome.Action, m.Name, text)
	}
	return outcome, err
}

// Uninstall implements actors.Releases.
func (r *Releases) Uninstall(ctx context.Context, m helm.Module) (existed bool, err error) {
	existed, err = action(ctx, r, "uninstall", m.Name, func() (bool, error) { return r.Client.Uninstall(ctx, m) })
	if err == nil {
		r.Trace.Add("helm uninstall %s", m.Name)
	}
	return existed, err
}

// Purge implements actors.Releases.
func (r *Releases) Purge(ctx context.Context, name string, how helm.Purging) (existed bool, err error) {
	existed, err = action(ctx, r, "purge", name, func() (bool, error) { return r.Client.Purge(ctx, name, how) })
	switch {
	case err != nil:
	case existed:
		r.Trace.Add("helm uninstall %s", name)
	default:
		r.Trace.Add("helm has nothing to purge of %s", name)
	}
	return existed, err
}

// Drift implements plan.Helm.
func (r *Releases) Drift(ctx context.Context, m helm.Module) ([]helm.Change, bool, error) {
	r.Trace.Add("look for drift of %s", m.Name)
	return r.Client.Drift(ctx, m)
}

// Watch implements actors.ReleaseWatch. What the watches report waits for its turn, so that it comes
// in the same order each time.
func (r *Releases) Watch(ctx context.Context, news helm.News) (assess func([]helm.Object)) {
	return r.Client.Watch(ctx, helm.News{
		Gone: func(o helm.Object) { r.sched.later("news gone "+o.String(), func() { news.Gone(o) }) },
		Health: func(o helm.Object, h helm.Health) {
			r.sched.later("news health "+o.String(), func() { news.Health(o, h) })
		},
	})
}

// revisions are the newest ones of all releases.
type revisions map[string]int

// describe lists the releases, but for some.
func (r revisions) describe(without ...string) (list []string) {
	for _, name := range slices.Sorted(maps.Keys(r)) {
		if text := fmt.Sprintf("%s.v%d", name, r[name]); !slices.Contains(without, text) {
			list = append(list, text)
		}
	}
	return list
}

func (r *Releases) revisions() revisions {
	all := revisions{}
	for _, object := range r.Cluster.Server.Objects() {
		if labels := (&unstructured.Unstructured{Object: object}).GetLabels(); labels["owner"] == "helm" {
			n, _ := strconv.Atoi(labels["version"]) // Helm has written it
			all[labels["name"]] = max(all[labels["name"]], n)
		}
	}
	return all
}

// deployed are the values of each release as its chart has printed them into the cluster.
func (r *Releases) deployedValues() map[string]string {
	all := map[string]string{}
	for name := range r.revisions() {
		object := r.Cluster.Server.Object("v1", "ConfigMap", "default", name+"-a")
		all[name], _, _ = unstructured.NestedString(object, "data", "values")
	}
	return all
}

func namesOf(objects []helm.Object) string {
	var names []string
	for _, o := range objects {
		names = append(names, o.Name)
	}
	slices.Sort(names)
	return strings.Join(names, " ")
}
