package testkit

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"addon-operator/actors/scenario"
	"addon-operator/helm"

	"addon-operator/kube"
	"addon-operator/values"
)

// Releases are those of a script: package helm renders charts and writes to the API server in
// memory. Releases adds faults, a trace, and what must never be. It outlives the operator; the client is that of the
// latest start.
type Releases struct {
	*helm.Client
	*outside
	presence *kube.Presence
}

// NewReleases are those of a cluster, for an operator that plays no script.
func NewReleases(cluster *scenario.Cluster, trace *scenario.Trace) (*Releases, error) {
	r := &Releases{outside: &outside{Engine: scenario.NewEngine(cluster, trace), observer: newObserver()}}
	return r, r.connect(slog.New(slog.DiscardHandler))
}

// connect makes the client of an operator that starts.
func (r *Releases) connect(log *slog.Logger) (err error) {
	client := r.Cluster.Client
	r.presence = kube.NewPresence(client, time.Minute)
	r.Client, err = helm.New(helm.Options{
		Config: client.RESTConfig(), Namespace: scenario.Namespace, HistoryMax: 3, Timeout: helmTimeout,
		Labels: helm.UsualLabels(), Log: log, Watcher: client, Presence: r.presence,
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

// WatchedKinds implements actors.ReleaseWatch.
func (r *Releases) WatchedKinds() []kube.WatchedKind { return r.presence.WatchedKinds() }

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
