package work

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"addon-operator/actors/decide"
	"addon-operator/addons"
	"addon-operator/helm"
	"addon-operator/helm/charts"
	"addon-operator/messages"
	"addon-operator/supervisor"
)

// GetReleased asks the healer for the objects of all releases. The answer is [Released].
type GetReleased struct{}

// Released are the objects of the modules that have run, as [helm.News] reports them. They are not changed.
type Released struct{ Objects map[string][]helm.Object }

// neededJob is the part of a job that finds out who provides what it lacks.
//
// A module may fail because the cluster lacks what another module brings: the order of the
// directories is wrong, or someone has deleted it. That module then runs first, before all that
// waits in the main queue, once for each failed attempt. The healer knows which objects the
// releases have; the charts of modules that have not run are rendered. The same holds for object
// patches of hooks.
type neededJob struct {
	job Job
	run *supervisor.Run
}

// needed returns a neededJob: its methods are called only after an attempt has failed.
func (j Job) needed(run *supervisor.Run) neededJob { return neededJob{j, run} }

// runProviders queues runs of the modules that provide what a run lacks, and returns their names
// for its error; empty when there are none. A module under maintenance is named but does not run.
// It does not wait for them: the failed attempt ends, and its next one waits for its turn behind
// them (AwaitTurn).
func (n neededJob) runProviders(err error) string {
	providers := n.providers(err)
	if len(providers) == 0 {
		return ""
	}
	var names, needs []string
	for _, p := range providers {
		if p.maintained {
			names = append(names, p.Module+" (left alone: under maintenance)")
			continue
		}
		t := n.job.Tasks.New(p.Module, messages.RunModule{}, messages.By(messages.ByNeed, n.job.Owner+" needs "+p.Need.String(), n.job.Task.Cause))
		t.Urgent = true
		n.run.Tell(QueuePath+messages.MainQueue, messages.Enqueue{Queue: messages.MainQueue, Tasks: []messages.Task{t}, Head: true})
		names, needs = append(names, p.Module+" (runs first)"), append(needs, p.Need.String())
	}
	if len(needs) > 0 {
		n.job.Log.Info("the module needs what other modules provide; those run first", "needs", needs, "providers", names)
	}
	return "provided by: " + strings.Join(names, ", ")
}

// provider is a module whose run may provide what is lacking.
type provider struct {
	decide.Provider
	maintained bool // it must not run
}

// providers are in the order in which they must be queued. Only modules that the last discovery has
// enabled count, and only those with a chart: definitions in crds/ are restored in another way
// (M4).
func (n neededJob) providers(err error) (list []provider) {
	needs := append(needsOf(helm.NeedsOf(err)), needsOfPatches(err)...)
	if len(needs) == 0 {
		return nil
	}
	d, err := supervisor.Ask[Discovery](n.run, ConvergePath, GetDiscovery{})
	if err != nil {
		return nil // it is cancelled
	}
	released, err := supervisor.Ask[Released](n.run, HealerPath, GetReleased{})
	if err != nil {
		return nil
	}
	provides, maintained := map[string][]decide.Object{}, map[string]bool{}
	for _, m := range d.Tree.Modules {
		if m.Name == n.job.Owner || !slices.Contains(d.Before, m.Name) || !charts.Exists(m.Dir) {
			continue
		}
		maintained[m.Name] = decide.Maintained(m, d.Maintenance) != ""
		objects, ran := released.Objects[m.Name]
		if !ran {
			objects = n.rendered(m)
		}
		for _, o := range objects {
			provides[m.Name] = append(provides[m.Name], ObjectOf(o))
		}
	}
	for _, p := range decide.Providers(n.job.Owner, needs, d.Before, provides) {
		list = append(list, provider{p, maintained[p.Module]})
	}
	slices.Reverse(list) // each is queued before those that are queued already
	return list
}

// rendered are the objects of a module that has not run; none when its chart cannot be rendered yet.
func (n neededJob) rendered(m addons.Module) []helm.Object {
	chart, err := chartOf(n.run, m, n.job.Known.Global)
	if err != nil {
		return nil
	}
	objects, err := n.job.Releases.Objects(n.run.Context(), chart)
	if err != nil {
		n.job.Log.Debug("the chart of a module cannot be rendered, so it is unknown what the module provides", "provider", m.Name, "err", err)
	}
	return objects
}

// ObjectOf is an object of a release as decisions know it.
func ObjectOf(o helm.Object) decide.Object {
	return decide.Object{Group: o.GVK.Group, Kind: o.GVK.Kind, Namespace: o.Namespace, Name: o.Name}
}

// objectsFailed does what may cure an error of object patches, and says so in it. Without Helm
// there is nothing that could.
func (n neededJob) objectsFailed(err error) error {
	if n.job.Releases == nil {
		return err
	}
	if hint := n.runProviders(err); hint != "" {
		err = fmt.Errorf("%w; %s", err, hint)
	}
	return err
}

// needsOfPatches reads what object patches lack from the text of their error. The text is that of
// package kube: an error of a list of operations has no type that could carry it.
func needsOfPatches(err error) (needs []decide.Need) {
	for _, found := range regexp.MustCompile(`find ([^/ ]+)/[^/ ]+/([^/ ]+): the API server has no such kind`).FindAllStringSubmatch(err.Error(), -1) {
		needs = append(needs, decide.Need{Group: found[1], Kind: found[2]})
	}
	return needs
}

// needsOf translates what package helm has read from its errors; package decide knows no Helm
// types.
func needsOf(lacks helm.Needs) (needs []decide.Need) {
	for _, k := range lacks.Kinds {
		needs = append(needs, decide.Need{Group: k.Group, Kind: k.Kind})
	}
	for _, r := range lacks.Resources {
		needs = append(needs, decide.Need{Resource: r.String()})
	}
	for _, name := range lacks.Namespaces {
		needs = append(needs, decide.Need{Namespace: name})
	}
	for _, s := range lacks.Services {
		needs = append(needs, decide.Need{Service: s.String()})
	}
	for _, a := range lacks.APIs {
		needs = append(needs, decide.Need{API: a.Group})
	}
	return needs
}
