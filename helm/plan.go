package helm

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"

	"helm.sh/helm/v3/pkg/release"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/metadata"

	"addon-operator/helm/manifest"
)

// Plan is what Apply or Uninstall would do.
type Plan struct {
	// Action that would be taken; empty when there is nothing to uninstall.
	Action  Action
	Reason  string
	Changes []Change // of objects, sorted by their names
	Hooks   []Hook   // Helm hooks that would run; a plan runs none
	Held    *Hold    // what a person must allow before Action is taken; nil for nothing
}

// Hook is a Helm hook of a chart.
type Hook struct {
	Object string // Kind name
	Events []string
}

// Uninstalled is the action of a plan of Uninstall.
const Uninstalled Action = "uninstalled"

// Plan returns what Apply would do now. It writes nothing: see dryRun. An error is the one that
// Apply would return, as far as it can be known before; the changes up to it are returned as well.
func (c *Client) Plan(ctx context.Context, m Module) (Plan, error) {
	trial, err := dry(c.homes.wantedBy(ctx, m))
	if err != nil {
		return Plan{}, err
	}
	a, outcome, err := trial.applyModule(ctx, m)
	p := Plan{Action: outcome.Action, Reason: outcome.Reason, Changes: trial.dry.Changes()}
	if a != nil {
		p.Held = a.held
	}
	if err != nil {
		return p, err
	}
	if a.store != nil && outcome.Action != Skipped && !a.heals {
		last, _ := a.store.state.Last()
		if rel, err := a.store.body(last); err == nil {
			p.Hooks = hooksOf(rel, outcome.Action)
		}
	}
	return p, nil
}

// PlanRemoval returns what Uninstall would do now, or, with purge, what Purge would do, which needs
// only the name of m. Action is empty for a release that does not exist or, in a purge, is not ours.
func (c *Client) PlanRemoval(ctx context.Context, m Module, purge *Purging) (Plan, error) {
	trial, err := dry(c.homes.holdingOf(ctx, m))
	if err != nil {
		return Plan{}, err
	}
	existed, err := trial.remove(ctx, removal{m, purge})
	p := Plan{Changes: trial.dry.Changes(), Hooks: trial.dry.hooks}
	if existed {
		p.Action, p.Reason = Uninstalled, "the release is removed"
	}
	return p, err
}

// Drift returns which objects of a module others changed since its last Apply: the fields that an
// Apply with these objects as Module.Drifted sets again. It compares what the chart sets, and
// ignores defaults of the API server and fields of other writers. known is false when an Apply is
// due anyway, whose changes would not be drift. Objects that are missing are no drift (H13).
func (c *Client) Drift(ctx context.Context, m Module) (drifted []Change, known bool, err error) {
	trial, err := dry(c.homes.wantedBy(ctx, m))
	if err != nil {
		return nil, false, err
	}
	a, err := trial.prepare(ctx, m)
	if err != nil {
		return nil, false, err
	}
	a.op.merge3, a.op.unmarked = true, true
	if known, err = a.dryRunUpgrade(); err != nil || !known {
		return nil, false, classify(ctx, m.Name, a.op, err)
	}
	return slices.DeleteFunc(trial.dry.Changes(), func(ch Change) bool { return ch.Verb != Changed }), true, nil
}

// dryRunUpgrade upgrades a release for which there is nothing to do, so that all changes are drift;
// settled is false for another one.
func (a *apply) dryRunUpgrade() (settled bool, err error) {
	state, err := a.op.home.records.read(a.op.ctx, a.op.release)
	if err != nil {
		return false, err
	}
	a.store = a.op.store(state)
	if err := a.understand(); err != nil {
		return false, err
	}
	if step, _ := Decide(a.store.state, a.manifest.checksum, nil); step != StepSkip || a.adopts {
		return false, nil
	}
	_, err = a.take(StepUpgrade, "")
	return true, err
}

// hooksOf lists the hooks of a release that an action runs, with the events of that action only.
func hooksOf(rel *release.Release, action Action) []Hook {
	wanted := map[Action][]release.HookEvent{
		Installed:   {release.HookPreInstall, release.HookPostInstall},
		Upgraded:    {release.HookPreUpgrade, release.HookPostUpgrade},
		Uninstalled: {release.HookPreDelete, release.HookPostDelete},
	}[action]
	var hooks []Hook
	for _, h := range rel.Hooks {
		var events []string
		for _, e := range h.Events {
			if slices.Contains(wanted, e) {
				events = append(events, string(e))
			}
		}
		if len(events) > 0 {
			hooks = append(hooks, Hook{h.Kind + " " + h.Name, events})
		}
	}
	slices.SortFunc(hooks, func(a, b Hook) int { return cmp.Compare(a.Object, b.Object) })
	return hooks
}

// Document is what one template makes of the values: a part of a manifest.
type Document struct {
	Source string // name of the template
	Text   string
	// Objects of the text; nil when it cannot be read, with the reason in Err.
	Objects []map[string]any
	Err     error
	Hook    bool // it is a hook of the chart, and no part of the release (H14)
}

// Show renders the chart of a module and returns the result, in the order in which Helm applies it,
// with the hooks of the chart at the end (H14). It changes nothing, takes no lock and does not use
// the memory of renders, so it shows what an Apply would render now. A document that cannot be read
// is among them with its error; an error of Show means that there is no text at all.
func (c *Client) Show(ctx context.Context, m Module) ([]Document, error) {
	home, op, err := c.look(ctx, m)
	if err != nil {
		return nil, err
	}
	loaded, err := home.renderer.load(&m)
	if err != nil {
		return nil, renderProblem(ctx, nil, m, err)
	}
	files, err := home.renderer.renderFiles(op, m, loaded, &lookupClients{op: op})
	if err != nil {
		return nil, renderProblem(ctx, op, m, err)
	}
	maps.DeleteFunc(files, func(_, text string) bool { return strings.TrimSpace(text) == "" })
	hooks, manifests, err := sortFiles(files)
	if err != nil { // one of them is broken, and no order is known
		var all []Document
		for _, name := range sortedKeys(files) {
			all = append(all, document(name, files[name]))
		}
		return all, nil
	}
	var all []Document
	for _, m := range manifests {
		all = append(all, document(m.Name, m.Content))
	}
	for _, h := range hooks {
		d := document(h.Path, h.Manifest)
		d.Hook = true
		all = append(all, d)
	}
	return all, nil
}

// look begins an operation that changes nothing.
func (c *Client) look(ctx context.Context, m Module) (*home, *operation, error) {
	home, err := c.homes.in(m.Namespace)
	if err != nil {
		return nil, nil, err
	}
	op, err := home.begin(ctx, m.Name)
	return home, op, err
}

// document parses what a template has printed. Of a text that cannot be parsed as a whole, it has
// no objects.
func document(source, text string) Document {
	d := Document{Source: source, Text: strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(text), "---")) + "\n"}
	found, err := manifest.Parse(text)
	for _, u := range found {
		d.Objects = append(d.Objects, u.Object)
	}
	d.Err = err
	return d
}

// Deployed returns what the deployed revision of a release was rendered to, without the hooks of
// its chart; or, when earlier is not 0, that revision, if it is still recorded. There is none while
// the first install has not succeeded.
func (c *Client) Deployed(ctx context.Context, name string, earlier int) (objects []map[string]any, revision int, err error) {
	home, err := c.homes.holding(ctx, name)
	if err != nil {
		return nil, 0, err
	}
	defer func() { err = classify(ctx, name, nil, err) }()
	op := &operation{ctx: ctx, home: home, release: name, log: home.options.Log}
	state, err := home.records.look(ctx, name)
	if err != nil {
		return nil, 0, err
	}
	for _, r := range slices.Backward(state.Revisions) {
		if earlier != 0 && r.Version != earlier || earlier == 0 && r.Status != release.StatusDeployed {
			continue
		}
		rel, err := op.store(state).body(r)
		if err != nil {
			return nil, 0, err
		}
		d := document(name, rel.Manifest)
		return d.Objects, rel.Version, d.Err
	}
	return nil, 0, nil
}

// dryRun collects what a home would change in which nothing is changed. What Apply would do is
// learned by running Apply over transports that let no write through (dryrun.go). So the
// result is what Apply does, repairs included, and there is no second implementation to keep equal.
type dryRun struct {
	*dryTransport
	hooks []Hook // of the chart that an Uninstall runs
}

// dryRun makes a home where nothing is changed, neither in the cluster nor in the memory of this
// one. It shares what is expensive: connections, discovery, charts. What would be remembered of the
// operation, renders and records, is its own, so it is used for one operation.
func (h *home) dryRun() (*home, error) {
	r := &dryRun{dryTransport: newDryTransport(h.transport)}
	c := *h.connection
	c.transport = r
	var err error
	if c.metadata, err = metadata.NewForConfig(metadata.ConfigFor(c.over(r))); err != nil { // repairs delete through it
		return nil, fmt.Errorf("helm: metadata client: %w", err)
	}
	o := h.options
	o.Log, o.Watcher = slog.New(slog.DiscardHandler), nil
	s, err := newHome(o, &c, h.homes)
	if err != nil {
		return nil, err
	}
	s.locks, s.dry, s.objects = &locks{}, r, pretended{h.objects}
	return s, nil
}

// dry makes such a home of the one that was found.
func dry(h *home, err error) (*home, error) {
	if err != nil {
		return nil, err
	}
	return h.dryRun()
}

// pretended answers writes of release records as if they were stored. Reads are passed on, so a plan begins with the
// real history.
type pretended struct{ recordObjects }

// Create implements recordObjects.
func (pretended) Create(_ context.Context, record *corev1.Secret, _ metav1.CreateOptions) (*corev1.Secret, error) {
	return record, nil
}

// Update implements recordObjects.
func (pretended) Update(_ context.Context, record *corev1.Secret, _ metav1.UpdateOptions) (*corev1.Secret, error) {
	return record, nil
}

// Delete implements recordObjects.
func (pretended) Delete(context.Context, string, metav1.DeleteOptions) error { return nil }
