package actors

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"go.opentelemetry.io/otel/attribute"

	"addon-operator/actors/plan"
	"addon-operator/addons"
	"addon-operator/helm"
	"addon-operator/helm/charts"
	"addon-operator/messages"
	"addon-operator/supervisor"
	"addon-operator/values"
)

// Concerned lists the releases that are the operator's business: those named like a module, which
// may adopt them (H7), the ignored one, which is never purged, and those that an operator has
// installed. others are all the rest, which are left alone (P2).
func (s Services) Concerned(ctx context.Context, modules []addons.Module) (releases, others []string, err error) {
	all, err := s.Releases.Releases(ctx)
	if err != nil {
		return nil, nil, fmt.Errorf("list releases: %w", err)
	}
	for _, name := range all {
		if name == s.IgnoredRelease || slices.ContainsFunc(modules, func(m addons.Module) bool { return m.Name == name }) {
			releases = append(releases, name)
		} else {
			others = append(others, name)
		}
	}
	ours, err := s.Releases.Ours(ctx, others)
	if err != nil {
		return nil, nil, fmt.Errorf("determine who installed releases: %w", err)
	}
	others = slices.DeleteFunc(others, func(name string) bool { return slices.Contains(ours, name) })
	return append(releases, ours...), others, nil
}

// mayPurge asks converge whether a release is still one to purge; it answers Purgeable.
type (
	mayPurge struct{ Release string }
	// purgeable is the answer.
	purgeable struct {
		May bool
		// Data: objects that hold data may be deleted, too.
		Data bool
		// Removed: it is of a module that was removed from under the operator.
		Removed bool
		// Orphaned: it has no module any more, so that others may take its objects over.
		Orphaned bool
	}
)

// Purge uninstalls a release. Of a module that was removed, something may still run, maybe Helm:
// that ends first, and then converge is asked once more, because the directory may be back by then.
func (j ReloadJob) Purge(run *supervisor.Run, release string) (purged bool, err error) {
	run, s := j.span(run, "purge", attribute.String("module", release))
	defer func() { s.End(err) }()
	due, err := supervisor.Ask[purgeable](run, convergePath, mayPurge{release})
	if err == nil && due.May && due.Removed {
		run.Step("wait until no task of %s runs", release)
		if _, err = supervisor.Ask[moduleQuiet](run, ownerPath(release), awaitQuiet{}); err == nil {
			due, err = supervisor.Ask[purgeable](run, convergePath, mayPurge{release})
		}
	}
	if err != nil || !due.May {
		return false, err
	}
	run.Step("helm uninstall %s", release)
	how := helm.Purging{Data: due.Data, Claimed: func(_ context.Context, objects []helm.Object) (map[helm.Object]string, error) {
		return j.claimed(run, objects)
	}}
	existed, err := j.Releases.Purge(j.WriteContext, release, how)
	if err != nil {
		return false, fmt.Errorf("purge release %s: %w", release, err)
	}
	if existed {
		j.Log.Info("release without a module directory is purged", "release", release)
	}
	return true, nil
}

// claimed returns which of these objects enabled modules have in their charts, and which module has
// each: a module that was renamed, or merged into another one, has had another release. It is not
// known for a module that does not load, or that has hooks, which set values, and has not run.
func (j ReloadJob) claimed(run *supervisor.Run, objects []helm.Object) (by map[helm.Object]string, err error) {
	d, err := supervisor.Ask[discovery](run, convergePath, getDiscovery{})
	if err != nil {
		return nil, err
	}
	global, err := sectionOf(run, messages.GlobalHooks)
	if err != nil {
		return nil, err
	}
	if broken := d.Tree.Broken; len(broken) > 0 {
		return nil, fmt.Errorf("it is held back: module directory %s does not load, so it is unknown "+
			"whether the module has objects of this release", broken[0].Base)
	}
	if lost := d.Tree.Unreachable; len(lost) > 0 {
		return nil, fmt.Errorf("it is held back: the link of module %s leads to nothing, so it is unknown "+
			"whether the module has objects of this release", lost[0])
	}
	by = map[helm.Object]string{}
	for _, m := range d.Tree.Modules {
		if !slices.Contains(d.Before, m.Name) {
			continue
		}
		module, err := supervisor.Ask[handed](run, ownerPath(m.Name), handOver{})
		if err != nil {
			return nil, err
		}
		if !module.Known.Applied && charts.Exists(m.Dir) && plan.Maintained(m, d.Maintenance) == "" &&
			!plan.Hookless(d.Tree.Global, d.Tree.Modules, m.Key) {
			return nil, fmt.Errorf("it is held back: module %s has not run yet, so it is unknown "+
				"whether it has objects of this release", m.Name)
		}
		rendered, err := j.objectsOf(run, d.Tree, m, global)
		if err != nil {
			return nil, fmt.Errorf("it is held back: it is unknown whether module %s has objects of this release: %w", m.Name, err)
		}
		for _, o := range rendered {
			if slices.Contains(objects, o) {
				by[o] = m.Name
			}
		}
	}
	return by, nil
}

// objectsOf returns the objects in the chart of a module; none without a chart.
func (j ReloadJob) objectsOf(
	run *supervisor.Run, tree *addons.Tree, m addons.Module, global *values.Section,
) ([]helm.Object, error) {
	if m.Stale() == "" && !charts.Exists(m.Dir) {
		return nil, inForce(tree, m.Name) // its directory may have another name now
	}
	chart, err := chartOf(run, m, global)
	if err != nil {
		return nil, err
	}
	chart.Current = func() error { return inForce(tree, m.Name) }
	return j.Releases.Objects(run.Context(), chart)
}

// inForce returns an error if the files of a module on disk are not those in force (P8): what is there says nothing about
// the objects of the module.
func inForce(tree *addons.Tree, module string) error {
	if what := tree.UnloadedModules(func(name string) bool { return name == module })[module]; what != "" {
		return errors.New(what)
	}
	if what := tree.Outdated(module); what != "" {
		return &filesChanged{what}
	}
	return nil
}

// awaitQuiet asks a module to answer ModuleQuiet as soon as nothing of it runs: two Helm
// actions on its release at the same time would break it.
type (
	awaitQuiet struct{}
	// moduleQuiet is the answer.
	moduleQuiet struct{}
)
