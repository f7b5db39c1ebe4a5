package helm

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"

	"helm.sh/helm/v3/pkg/action"
	"helm.sh/helm/v3/pkg/release"
	"helm.sh/helm/v3/pkg/storage/driver"

	"addon-operator/helm/charts"
)

// Module is what is installed as a release.
type Module struct {
	Name string // name of the module, and of its release (H1)
	Key  string // key of its section in Values (A6); see H2
	// Namespace of the release, and of its objects that name none; empty is the operator's (H20).
	Namespace string
	Dir       string         // of the module; package charts finds the chart in it (A20)
	Files     string         // checksum of the files in Dir that are in force
	Shown     string         // Dir as messages name it; empty for Dir itself
	Values    map[string]any // its section and global, merged and validated; not changed
	// Began is called at the beginning of each operation of an Apply, and what it returns at its
	// end. Optional.
	Began func(Operation) (ended func(error))
	// Drifted are objects that Drift reported: Apply sets all fields again that the chart sets,
	// also in custom resources, for which Helm compares only manifests (operation.merge3).
	Drifted []Object
	// Allowed is what a person has allowed, as Hold.Confirm; empty for nothing.
	Allowed string
	// GiveUp is closed when a wait for a Helm hook must end: its Job goes on, and the next attempt begins the hook again.
	// Optional.
	GiveUp <-chan struct{}
	// Orphaned reports whether a release has no module any more, so that this one may take over the
	// objects that it renders, as after a rename (H7). Optional; nil: none is.
	Orphaned func(release string) (bool, error)
	// Current returns why a chart that was read now must not be used with Values; nil if it may. Optional.
	Current func() error
}

// Shows names a path in Dir in a message.
func (m Module) Shows(path string) string { return m.chart().Shows(path) }

func (m Module) chart() charts.Module {
	return charts.Module{Name: m.Name, Key: m.Key, Dir: m.Dir, Shown: m.Shown, Files: m.Files, Current: m.Current}
}

// Action is what an Apply did.
type Action string

// Actions.
const (
	Installed Action = "installed"
	Upgraded  Action = "upgraded"
	Skipped   Action = "skipped"
	// Adopted is a release of Helm that is as the module wants it: its newest record got our
	// labels, and nothing else was written.
	Adopted Action = "adopted"
	// Held is an upgrade that waits for a person: nothing was written (Outcome.Held).
	Held Action = "held"
)

// Outcome is what Apply did and why.
type Outcome struct {
	Action   Action
	Reason   string   // a sentence for people
	Revision int      // the newest one
	Objects  []Object // of the release, without hooks (H14); as News reports them
	// Ends are those of the objects that end by themselves (H13).
	Ends map[Object]bool
	// Healed are absent objects that were the only reason to act.
	Healed []Object
	// ChartVersion is the version in Chart.yaml.
	ChartVersion string
	// AppVersion is that in Chart.yaml, too.
	AppVersion string
	// Unstable: the chart renders differently from the same inputs, so the release was left as it is.
	Unstable bool
	// Held is why a person must allow the upgrade; nil otherwise. Objects are what the release has then.
	Held *Hold
}

// maxSteps is far above what any state needs: unlock, then some corrupted
// records, then one install or upgrade.
const maxSteps = 100

// Apply brings the chart of a module to the cluster: it reads the state of the
// release, renders, decides, and acts, with the repairs that the state needs
// (H5–H9). Errors are of type *Error; a later Apply continues from whatever this
// one left. A cancelled context stops all writes but the record of the failure.
//
// A first install that failed is neither uninstalled nor upgraded (H9): its
// record is removed and the chart installed over what exists. So install hooks
// run again and no stuck release is left, but nothing that may already serve or
// store data is deleted, only what the chart no longer contains.
func (c *Client) Apply(ctx context.Context, m Module) (Outcome, error) {
	home, err := c.homes.wantedBy(ctx, m)
	if err != nil {
		return Outcome{}, err
	}
	_, outcome, err := home.applyModule(ctx, m)
	return outcome, err
}

// applyModule is Apply in the home that the module wants; a plan runs it in a home where nothing is
// changed. The kinds of the objects are watched before anything is written, so that no deletion is
// missed. Which objects the release should have (want) changes only when it has succeeded. The
// apply is nil if the chart could not be rendered.
func (h *home) applyModule(ctx context.Context, m Module) (*apply, Outcome, error) {
	defer h.locks.lock(m.Name)()
	a, err := h.prepare(ctx, m)
	if err != nil {
		return nil, Outcome{}, err
	}
	h.follow(a.manifest.objects)
	outcome, err := a.run()
	switch {
	case err != nil:
	case outcome.Held != nil:
		h.follow(outcome.Held.has)
		outcome.Objects = h.want(m.Name, outcome.Held.has)
		if has := outcome.Held.metadata; has != nil {
			outcome.ChartVersion, outcome.AppVersion = has.Version, has.AppVersion
		}
	default:
		outcome.Objects, outcome.Ends = h.want(m.Name, a.manifest.objects), a.ending()
		outcome.ChartVersion, outcome.AppVersion = a.chart.Metadata().Version, a.chart.Metadata().AppVersion
	}
	return a, outcome, classify(ctx, m.Name, a.op, err)
}

// prepare loads and renders the chart of a module, for an apply that has read no state yet. The
// caller holds the lock of the release, unless nothing is changed in the home.
func (h *home) prepare(ctx context.Context, m Module) (*apply, error) {
	op, err := h.begin(ctx, m.Name)
	if err != nil {
		return nil, err
	}
	loaded, manifest, err := h.template(ctx, op, &m)
	if err != nil {
		return nil, err
	}
	op.merge3, op.giveUp, op.orphaned = len(m.Drifted) > 0, m.GiveUp, m.Orphaned
	t := &target{op: op, module: m, chart: loaded, manifest: manifest}
	return &apply{target: t}, nil
}

// template loads the chart of a module and renders it.
func (h *home) template(ctx context.Context, op *operation, m *Module) (chart *charts.Chart, manifest *rendered, err error) {
	ended := m.observed(Template)
	defer func() { ended(err) }()
	if chart, err = h.renderer.load(m); err != nil {
		return nil, nil, renderProblem(ctx, nil, *m, err)
	}
	if manifest, err = h.renderer.render(op, *m, chart, false); err != nil {
		return nil, nil, renderProblem(ctx, op, *m, err)
	}
	return chart, manifest, nil
}

// target is what one operation brings to the cluster: a module as it is rendered, and the records
// of its release.
type target struct {
	op       *operation
	module   Module
	chart    *charts.Chart
	manifest *rendered
	store    *store // over the state; the state is store.state
}

// apply is one run of Apply after its manifest is known.
type apply struct {
	*target
	adopts   bool     // the newest revision is Helm's, and equal to what the module renders
	presumed bool     // the objects were not looked up, and are taken for absent
	exists   bool     // one of them was not
	heals    bool     // only objects are put back: the hooks of the chart do not run
	gone     []Object // left the chart, and are deleted
	absent   []Object // rendered objects that do not exist
	surveyed bool     // the owners of all objects were checked, which holds for later steps, too
	assumed  bool     // the state is from memory: see assume
	held     *Hold    // what a person would have to allow, in a plan
}

// run takes steps until the release is as it should be. A corrupted record is
// dropped on the way: the revision before it is taken, or without any the chart
// is installed over what exists.
func (a *apply) run() (Outcome, error) {
	if err := a.check(); err != nil {
		return Outcome{}, err
	}
	if err := a.op.point(a.store.state); err != nil {
		return Outcome{}, err
	}
	for range maxSteps {
		step, reason, err := a.next()
		if err != nil {
			return Outcome{}, err
		}
		if step == StepSkip {
			return a.skip(reason)
		}
		if a.unequal() {
			if outcome, held, err := a.hold(); held || err != nil {
				return outcome, err
			}
		}
		level := slog.LevelDebug // the outcome has these
		if step == StepUnlock || step == StepReinstall {
			level = slog.LevelInfo
		}
		a.op.log.Log(a.op.ctx, level, "release step", "step", string(step), "reason", reason)
		outcome, err := a.take(step, reason)
		if err == nil && outcome.Action != "" {
			return outcome, nil
		}
		if err = a.continued(err); err != nil {
			a.op.home.records.doubt(a.op.release)
			a.op.home.renderer.renders.Delete(a.op.release)
			return Outcome{}, err
		}
	}
	return Outcome{}, fmt.Errorf("the release has no final state after %d steps; delete its %s with the labels owner=helm,name=%s and retry", maxSteps, a.op.home.options.Driver.Resource().Resource, a.op.release)
}

// continued is nil if another step is the way out of an error.
func (a *apply) continued(err error) error {
	var corrupted *corruptedError
	switch {
	case a.presumed && a.op.cluster != nil && a.op.cluster.existing.Load():
		a.presumed, a.exists = false, true
		err := a.checkOwners()
		if known, ok := errors.AsType[*Error](err); ok && known.Kind == Foreign {
			return errors.Join(err, a.withdraw())
		}
		if err == nil {
			err = a.check() // and install over what exists
		}
		return err
	case a.assumed && (errors.Is(err, errTaken) || errors.Is(err, driver.ErrReleaseExists)):
		return a.check() // nothing was written
	case errors.As(err, &corrupted):
		return a.drop(corrupted)
	}
	return err
}

// withdraw takes an install back, the last object first: some of what was presumed absent belongs to another release.
func (a *apply) withdraw() error {
	var errs []error
	for _, info := range slices.Backward(a.op.cluster.made) {
		_, err := a.op.removeOne(objectOfInfo(info))
		errs = append(errs, err)
	}
	last, _ := a.store.state.Last()
	_, err := a.store.Delete(last.secret)
	return errors.Join(append(errs, err)...)
}

// next decides what to do. A manifest that was recalled has only the names of objects, so before
// anything is done the chart is rendered, and the decision is made again with that render.
func (a *apply) next() (Step, string, error) {
	if err := a.understand(); err != nil {
		return "", "", err
	}
	step, reason := Decide(a.store.state, a.manifest.checksum, a.absent)
	if n := len(a.module.Drifted); step == StepSkip && n > 0 { // any other step puts them back, too
		if step, reason = StepUpgrade, a.module.Drifted[0].String()+" was changed by others"; n > 1 {
			reason += fmt.Sprintf(", and %d more", n-1)
		}
	}
	if step != StepSkip && a.manifest.record != "" {
		if err := a.forReal(); err != nil {
			return "", "", err
		}
		return a.next()
	}
	return step, reason, nil
}

// skip ends an operation that has nothing to do, but for the labels of what is taken over.
func (a *apply) skip(reason string) (Outcome, error) {
	if a.adopts {
		return a.adopt()
	}
	a.remember()
	last, _ := a.store.state.Last()
	return Outcome{Action: Skipped, Reason: reason, Revision: last.Version}, nil
}

// check reads the state of the release. A manifest that was recalled for another record than the
// newest one does not describe the newest, so it is rendered.
func (a *apply) check() (err error) {
	ended := a.module.observed(CheckUpgrade)
	defer func() { ended(err) }()
	state, err := a.assume()
	if err != nil {
		return err
	}
	a.store = a.op.store(state)
	a.store.describe = a.describe
	if last, _ := state.Last(); a.manifest.record != "" && a.manifest.record != last.id() {
		if err := a.forReal(); err != nil {
			return err
		}
	}
	return a.findAbsent()
}

// assume reads the state of the release, or takes it from memory if that demands an upgrade: before the first write,
// an upgrade reads the newest record in the version that was assumed, and its own record must not exist. If either is
// not so, run reads the state.
func (a *apply) assume() (State, error) {
	records := a.op.home.records
	state := records.remembered(a.op.release)
	last, known := state.Last()
	a.assumed = !a.assumed && known && a.manifest.record == "" && last.Status == release.StatusDeployed && last.Checksum != "" &&
		last.Checksum != a.manifest.checksum && last.labels[InputsLabel] != a.manifest.inputs
	if a.assumed {
		return state, nil
	}
	return records.read(a.op.ctx, a.op.release)
}

// findAbsent looks for what the release lacks. If its newest revision is not deployed, the chart is
// applied in any case, so nothing is read.
func (a *apply) findAbsent() error {
	if last, ok := a.store.state.Last(); !ok || last.Status != release.StatusDeployed {
		return nil
	}
	objects := a.manifest.lasting()
	absent, err := a.op.home.absent(a.op.ctx, objects)
	if err != nil {
		return err
	}
	a.absent = absent
	return nil
}

// prepare reads who owns the objects. A first install only presumes that they
// do not exist, which is nearly always true and halves its requests; hooks of the
// chart and lookup would see the presumption.
func (a *apply) prepare(step Step) error {
	if step != StepInstall || a.exists || len(a.store.state.Revisions) > 0 || a.manifest.hooks || a.manifest.volatile {
		return a.checkOwners()
	}
	var paths []string
	for _, o := range a.manifest.objects {
		if request, err := a.op.read(o); err == nil { // else Helm reports the mistake
			paths = append(paths, request.URL().Path)
		}
	}
	a.op.transport.presumeAbsent(paths)
	a.presumed = true
	return nil
}

// complete returns why the objects of the release are not all known: the API of an object does not answer, of one in
// the chart, or of one that has left the chart, because the new record would not list it any more (P13); or a template
// has lost its content.
func (a *apply) complete(Step) error {
	if a.op.home.kinds.Away() {
		manifests, err := a.store.manifests()
		if err == nil {
			err = a.op.home.reach(a.manifest.objects)
		}
		if err == nil {
			err = a.op.home.reachManifests(manifests...)
		}
		if err != nil {
			return err
		}
	}
	return a.emptied()
}

// take takes one step. Only the last one has an outcome: its Action is empty for the others, after
// which the state is another one and run decides again.
func (a *apply) take(step Step, reason string) (outcome Outcome, err error) {
	ended := a.module.observed(operationOf(step))
	defer func() { ended(err) }()
	if step == StepUnlock {
		return Outcome{}, a.store.unlock()
	}
	for _, may := range []func(Step) error{a.complete, a.prepare, a.guard} {
		if err := may(step); err != nil {
			return Outcome{}, err
		}
	}
	if a.held != nil && a.op.home.dry == nil { // a plan shows what would follow
		return a.held.outcome(a.store.state), nil
	}
	if a.manifest.volatile { // Helm's render may find something else in the cluster than ours did
		a.store.checksum = a.op.home.renderer.recorded
	}
	last, _ := a.store.state.Last()
	unchanged := last.Status == release.StatusDeployed && last.Checksum == a.manifest.checksum
	var rel *release.Release
	did := Installed
	var healed []Object
	switch step {
	case StepInstall:
		if err := a.op.createNamespace(); err != nil {
			return Outcome{}, err
		}
		rel, err = a.install("")
	case StepReinstall:
		rel, err = a.reinstall()
	default:
		did = Upgraded
		if a.heals = unchanged; unchanged {
			healed = a.absent
		}
		rel, err = a.upgrade()
	}
	if err := a.op.orRefused(err); err != nil {
		return Outcome{}, err
	}
	// Helm only logs that it could not write the last record of an action.
	if last, _ := a.store.state.Last(); last.Status != release.StatusDeployed {
		return Outcome{}, fmt.Errorf("everything is applied, but revision %d could not be recorded as deployed", rel.Version)
	}
	a.remember()
	return Outcome{Action: did, Reason: reason, Revision: rel.Version, Healed: healed}, nil
}

// drop removes a corrupted record.
func (a *apply) drop(c *corruptedError) (err error) {
	ended := a.module.observed(Fallback)
	defer func() { ended(err) }()
	return a.store.drop(c, "the revision before it is used")
}

// install runs Helm's install. earlier is the manifest of a failed first revision, whose objects may
// exist.
func (a *apply) install(earlier string) (*release.Release, error) {
	if last, ok := a.store.state.Last(); ok {
		if _, err := a.store.body(last); err != nil {
			return nil, err // Helm would take a corrupted history for none
		}
	}
	cfg, k := a.op.configuration(a.store)
	k.applying, k.earlier, k.presumed = true, earlier, a.presumed
	i := action.NewInstall(cfg)
	i.ReleaseName = a.op.release
	i.Namespace = a.op.home.options.Namespace
	i.Timeout = a.op.home.options.Timeout
	i.Replace = true // a kept history of an uninstalled release is no obstacle
	i.SkipCRDs = true
	i.TakeOwnership = true
	i.DisableOpenAPIValidation = true
	i.DisableHooks = a.op.home.dry != nil
	i.Labels = a.labels()
	return i.Run(a.chart.Copy(), a.module.Values)
}

// reinstall forgets a failed first revision and installs over what it left (H9). Its objects that
// left the chart are deleted first, except for kinds that hold data: the next record does not list
// them.
func (a *apply) reinstall() (*release.Release, error) {
	last, _ := a.store.state.Last()
	failed, err := a.store.body(last)
	if err != nil {
		return nil, err
	}
	if err := a.op.remove(a.gone); err != nil {
		return nil, err
	}
	a.op.reportUnserved()
	if _, err := a.store.Delete(last.secret); err != nil && !errors.Is(err, driver.ErrReleaseNotFound) {
		return nil, err
	}
	return a.install(failed.Manifest)
}

// upgrade runs Helm's upgrade. Its base is the last deployed revision. It would forget what failed
// revisions have created since, so the cluster deletes what has left the chart (gone). Helm's hooks
// are for another version of the release: when only objects are put back, none runs (H14).
func (a *apply) upgrade() (*release.Release, error) {
	cfg, k := a.op.configuration(a.store)
	k.applying, k.gone, k.heals = true, a.gone, a.heals
	u := action.NewUpgrade(cfg)
	u.Namespace = a.op.home.options.Namespace
	u.Timeout = a.op.home.options.Timeout
	u.MaxHistory = a.op.home.options.HistoryMax
	u.ResetValues = true // without it, empty values silently mean the old ones
	u.SkipCRDs = true
	u.TakeOwnership = true
	u.DisableOpenAPIValidation = true
	a.store.prunes = true
	u.DisableHooks = a.heals || a.op.home.dry != nil
	u.Labels = a.labels()
	return u.Run(a.op.release, a.chart.Copy(), a.module.Values)
}

// Operation is a part of an Apply that takes time, as metrics and traces name it (I2).
type Operation string

// Operations.
const (
	Template     Operation = "template"      // load the chart and render it
	CheckUpgrade Operation = "check-upgrade" // read the state of the release and look for absent objects
	Upgrade      Operation = "upgrade"       // write: install or upgrade, Helm's hooks included
	// Fallback is what a plain upgrade cannot do: to mark an interrupted revision as failed,
	// to drop a corrupted record, to forget a failed first revision and install over it.
	Fallback Operation = "fallback"
)

// observed calls m.Began when an operation begins; the caller reports how it ended.
func (m Module) observed(o Operation) (ended func(error)) {
	if m.Began == nil {
		return func(error) {}
	}
	return m.Began(o)
}

// operationOf is what a step counts as.
func operationOf(s Step) Operation {
	if s == StepUnlock || s == StepReinstall {
		return Fallback
	}
	return Upgrade
}
