package fetch

import (
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/registry"
)

// maxDependencies bounds what one Chart.yaml makes the program download.
const maxDependencies = 100

// dependencies completes charts/ with what Chart.yaml declares and is missing, in the versions of
// Chart.lock if there is one, as 'helm dependency build' does. source is the directory to which
// file://… is relative; empty for a chart that was downloaded. Dependencies of dependencies are not
// fetched: a published chart has its own in charts/.
func (f *fetcher) dependencies(c *chart.Chart, dir, source string) (added []Origin, err error) {
	declared := c.Metadata.Dependencies
	if len(declared) > maxDependencies {
		return nil, fmt.Errorf("has more than %d dependencies", maxDependencies)
	}
	done := map[string]bool{} // one chart may be declared twice, with two aliases
	for i, d := range declared {
		if d == nil || slices.ContainsFunc(c.Dependencies(), func(sub *chart.Chart) bool { return sub.Name() == d.Name }) {
			continue
		}
		version, err := locked(c.Lock, declared, i)
		if err != nil {
			return added, err
		}
		if done[d.Name+" "+version] {
			continue
		}
		done[d.Name+" "+version] = true
		o, err := f.dependency(d, version, dir, source)
		if err != nil {
			return added, fmt.Errorf("dependency %s %s: %w", d.Name, d.Version, err)
		}
		added = append(added, o)
	}
	return added, nil
}

// locked is the version of a dependency that Chart.lock names, else that of Chart.yaml, which may
// be a range. The entries of both files correspond by their place, since one chart may be declared
// twice. A lock for other dependencies is an error, as in Helm.
func locked(lock *chart.Lock, declared []*chart.Dependency, i int) (string, error) {
	d := declared[i]
	if lock == nil {
		return d.Version, nil
	}
	if len(lock.Dependencies) != len(declared) || lock.Dependencies[i] == nil || lock.Dependencies[i].Name != d.Name || !matches(d.Version, lock.Dependencies[i].Version) {
		return "", fmt.Errorf("the dependency %s %s of Chart.yaml does not match Chart.lock; 'helm dependency update' writes a new one", d.Name, d.Version)
	}
	return lock.Dependencies[i].Version, nil
}

// matches reports whether a version is the wanted one, or within the wanted range. A leading v
// makes no difference: charts are published with and without it.
func matches(wanted, version string) bool {
	return wanted == "" || strings.TrimPrefix(wanted, "v") == strings.TrimPrefix(version, "v") || chartutil.IsCompatibleRange(wanted, version)
}

// dependency puts one dependency into charts/ as an archive. It is unpacked once, but only to check
// that it is a chart within the limits, and which one.
func (f *fetcher) dependency(d *chart.Dependency, version, dir, source string) (o Origin, err error) {
	below := filepath.Join(dir, "charts")
	if local, ok := strings.CutPrefix(d.Repository, "file://"); ok {
		return localDependency(d, local, below, source)
	}
	// The dependency is loaded from the repository in Chart.yaml, without the credentials of the request: they are for
	// the chart itself, and its author could name any host here.
	g := *f
	g.Request = Request{Ref: d.Name, Version: version, PlainHTTP: f.PlainHTTP, InsecureSkipTLS: f.InsecureSkipTLS, CAFile: f.CAFile}
	var archive string
	switch name, isAlias := repositoryAlias(d.Repository); {
	case d.Repository == "":
		return o, errors.New("it is not in charts/, and Chart.yaml names no repository for it")
	case registry.IsOCI(d.Repository):
		o.Repository = shown(d.Repository)
		archive, err = g.fromRegistry(strings.TrimSuffix(d.Repository, "/")+"/"+d.Name, version)
	case isAlias:
		entry, missing := g.named(name)
		if missing != nil {
			return o, missing
		}
		o.Repository = shown(entry.URL)
		archive, err = g.fromRepository(entry, d.Name, version)
	default:
		o.Repository = shown(d.Repository)
		archive, err = g.fromRepository(g.entryOf(d.Repository), d.Name, version)
	}
	if err != nil {
		return o, err
	}
	data, err := readArchive(archive)
	if err != nil {
		return o, err
	}
	trial, err := os.MkdirTemp(f.tmp, "dependency-")
	if err != nil {
		return o, err
	}
	// The archive stays packed in charts/, as Helm leaves it.
	if err := unpack(data, trial); err != nil {
		return o, err
	}
	loaded, err := load(trial)
	if err != nil {
		return o, err
	}
	o.Name, o.Version, o.Digest = loaded.Metadata.Name, loaded.Metadata.Version, digest(data)
	if o.Name != d.Name {
		return o, fmt.Errorf("the archive contains the chart %s", o.Name)
	}
	return o, writeFile(below, path.Base(o.Name)+"-"+o.Version+".tgz", data)
}

// repositoryAlias is the name of a repository in @name and alias:name, the two ways in which
// Chart.yaml refers to one of 'helm repo add'.
func repositoryAlias(repository string) (string, bool) {
	if name, ok := strings.CutPrefix(repository, "@"); ok {
		return name, true
	}
	return strings.CutPrefix(repository, "alias:")
}

// localDependency packs a chart from a directory, usually next to the one that needs it. That is
// permitted only for a chart that is on this machine, too: a downloaded one could name any path.
func localDependency(d *chart.Dependency, local, below, source string) (o Origin, err error) {
	if source == "" {
		return o, fmt.Errorf("%s is next to the source of the chart, and is missing from the download", d.Repository)
	}
	if !filepath.IsAbs(local) {
		local = filepath.Join(source, local)
	}
	loaded, err := load(local)
	if err != nil {
		return o, fmt.Errorf("%s: %w", d.Repository, err)
	}
	o.Name, o.Version = loaded.Metadata.Name, loaded.Metadata.Version
	if o.Name != d.Name || !matches(d.Version, o.Version) {
		return o, fmt.Errorf("%s contains the chart %s", d.Repository, o)
	}
	_, err = chartutil.Save(loaded, below)
	return o, err
}
