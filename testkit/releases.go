package testkit

import (
	"context"
	"errors"
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
	"addon-operator/helm/dryrun"
	"addon-operator/kube"
	"addon-operator/values"
)

// Releases are those of a script: package helm renders charts and writes to the API server in
// memory. Charted adds to it what scripts want to happen, and to see: faults, a trace, and what must
// never be. It outlives the operator; the client is that of the latest start.
type Releases struct {
	*helm.Client
	presence *kube.Presence
	cluster  *scenario.Cluster
	trace    *scenario.Trace
	sched    *scheduler
	faults   *scenario.Faults
	observer *observer
}

// NewReleases are those of a cluster, for an operator that plays no script.
func NewReleases(cluster *scenario.Cluster, trace *scenario.Trace) (*Releases, error) {
	r := newReleases(cluster, trace)
	return r, r.connect(slog.New(slog.DiscardHandler))
}

func newReleases(cluster *scenario.Cluster, trace *scenario.Trace) *Releases {
	return &Releases{cluster: cluster, trace: trace, observer: newObserver()}
}

// connect makes the client of an operator that starts.
func (r *Releases) connect(log *slog.Logger) (err error) {
	client := r.cluster.Client
	r.presence = kube.NewPresence(client, time.Minute)
	r.Client, err = helm.New(helm.Options{
		Config: client.RESTConfig(), Namespace: scenario.Namespace, HistoryMax: 3, Timeout: helmTimeout,
		Labels: helm.UsualLabels(), Log: log, Watcher: client, Presence: r.presence,
	})
	return err
}

// begin lets an action take its time, and returns the error with which it fails, if it must. The
// action has changed nothing by then. A dead operator's action ends here, however it was woken.
func (r *Releases) begin(ctx context.Context, name string) error {
	err := error(nil)
	select {
	case <-time.After(r.faults.Lasts(scenario.FaultOfHelm + name)):
	case <-ctx.Done():
		err = ctx.Err()
	}
	r.sched.await("helm " + name) // other goroutines may wake at the same instant
	if r.faults.Died() {
		err = scenario.ErrDead
	}
	if err != nil {
		return err
	}
	if r.faults.Take(scenario.FaultOfHelm+name, 1) > 0 {
		return errors.New("the script makes it fail")
	}
	if r.faults.Take(faultOfAway+name, 1) > 0 {
		return &helm.Error{Kind: helm.Away, Release: name, Err: errors.New("APIService v1.things is not available")}
	}
	return nil
}

// Apply implements work.Releases.
func (r *Releases) Apply(ctx context.Context, m helm.Module) (outcome helm.Outcome, err error) {
	defer r.observer.enter("helm upgrade of "+m.Name, "release "+m.Name, "module "+m.Name)()
	err = r.begin(ctx, m.Name)
	if err != nil {
		r.trace.Add("helm fails for %s", m.Name)
		return outcome, err
	}
	outcome, err = r.Client.Apply(ctx, m)
	if r.faults.Died() {
		return outcome, scenario.ErrDead
	}
	text, bad := values.JSON(m.Values)
	switch {
	case err != nil:
		r.trace.Add("helm fails for %s: %s", m.Name, firstLine(err.Error()))
	case bad != nil:
		return outcome, bad
	case outcome.Action == helm.Held:
		r.trace.Add("helm holds the upgrade of %s", m.Name)
	case outcome.Action == helm.Skipped:
	case len(outcome.Healed) > 0:
		r.trace.Add("helm heals %s: %s", m.Name, namesOf(outcome.Healed))
	case len(m.Drifted) > 0:
		r.trace.Add("helm corrects %s: %s", m.Name, namesOf(m.Drifted))
	default:
		r.trace.Add("helm %s %s %s", outcome.Action, m.Name, text)
		if strings.Contains(string(text), markOfFailed) {
			r.observer.problem("release %s has what a failed run of a hook has written: %s", m.Name, text)
		}
	}
	return outcome, err
}

// Uninstall implements work.Releases.
func (r *Releases) Uninstall(ctx context.Context, m helm.Module) (bool, error) {
	return r.remove(ctx, "uninstall", m.Name, func() (bool, error) { return r.Client.Uninstall(ctx, m) })
}

// Purge implements work.Releases.
func (r *Releases) Purge(ctx context.Context, name string, how helm.Purging) (existed bool, err error) {
	return r.remove(ctx, "purge", name, func() (bool, error) { return r.Client.Purge(ctx, name, how) })
}

func (r *Releases) remove(ctx context.Context, what, name string, do func() (bool, error)) (existed bool, err error) {
	defer r.observer.enter("helm "+what+" of "+name, "release "+name, "module "+name)()
	if err := r.begin(ctx, name); err != nil {
		r.trace.Add("helm fails for %s", name)
		return false, err
	}
	existed, err = do()
	switch {
	case r.faults.Died():
		return existed, scenario.ErrDead
	case err != nil:
		r.trace.Add("helm fails for %s: %s", name, firstLine(err.Error()))
	case existed || what == "uninstall":
		r.trace.Add("helm uninstall %s", name)
	default:
		r.trace.Add("helm has nothing to purge of %s", name)
	}
	return existed, err
}

// Drift implements plan.Helm.
func (r *Releases) Drift(ctx context.Context, m helm.Module) ([]dryrun.Change, bool, error) {
	r.trace.Add("look for drift of %s", m.Name)
	return r.Client.Drift(ctx, m)
}

// Watch implements shared.ReleaseWatch. What the watches report waits for its turn, so that it comes
// in the same order each time.
func (r *Releases) Watch(ctx context.Context, news helm.News) (assess func([]helm.Object)) {
	return r.Client.Watch(ctx, helm.News{
		Gone: func(o helm.Object) { r.sched.later("news gone "+o.String(), func() { news.Gone(o) }) },
		Health: func(o helm.Object, h helm.Health) {
			r.sched.later("news health "+o.String(), func() { news.Health(o, h) })
		},
	})
}

// WatchedKinds implements shared.ReleaseWatch.
func (r *Releases) WatchedKinds() []kube.WatchedKind { return r.presence.WatchedKinds() }

// records are the newest records of all releases, by release.
type records map[string]*unstructured.Unstructured

// revision is 0 for a release that does not exist.
func (r records) revision(release string) int {
	if r[release] == nil {
		return 0
	}
	return versionOf(r[release])
}

// describe lists the releases, but for some.
func (r records) describe(without ...string) (list []string) {
	for _, name := range slices.Sorted(maps.Keys(r)) {
		if text := fmt.Sprintf("%s.v%d", name, r.revision(name)); !slices.Contains(without, text) {
			list = append(list, text)
		}
	}
	return list
}

func (r *Releases) records() records {
	newest := records{}
	for _, object := range r.cluster.Server.Objects() {
		u := &unstructured.Unstructured{Object: object}
		name := u.GetLabels()["name"]
		if u.GetKind() != "Secret" || u.GetLabels()["owner"] != "helm" {
			continue
		}
		if before := newest[name]; before == nil || versionOf(before) < versionOf(u) {
			newest[name] = u
		}
	}
	return newest
}

func versionOf(record *unstructured.Unstructured) int {
	n, _ := strconv.Atoi(record.GetLabels()["version"]) // Helm has written it
	return n
}

// deployed are the values of each release as its chart has printed them into the cluster.
func (r *Releases) deployedValues() map[string]string {
	all := map[string]string{}
	for name := range r.records() {
		object := r.cluster.Server.Object("v1", "ConfigMap", "default", name+"-a")
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
