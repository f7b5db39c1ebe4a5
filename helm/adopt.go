package helm

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"

	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/release"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"addon-operator/helm/manifest"
)

// adoption takes a release over that a person made with Helm. If its newest record is what the module would render, it
// is enough to put our labels on that record. Another revision would restart workloads that depend on the revision, run
// the hooks of the chart again, and replace passwords and certificates that the chart generates.
type adoption struct {
	*target
	adopts bool // the newest revision is not ours, and equal to what the module renders
}

// read understands the newest revision if another program has made it: an older operator, which kept the checksum in
// the values of the release (H6), or Helm. It is called before each decision, and changes only the state in memory.
func (n *adoption) read() error {
	n.adopts = false
	last, ok := n.store.state.Last()
	if !ok || last.Status != release.StatusDeployed || last.Checksum != "" {
		return nil
	}
	rel, err := n.store.body(last)
	if _, corrupted := errors.AsType[*corruptedError](err); corrupted {
		return nil // the upgrade that follows drops it
	}
	if err != nil {
		return err
	}
	sum, _ := rel.Config[legacyChecksumKey].(string)
	if sum == "" || last.labels[ChecksumLabel] != "" {
		if n.adopts, err = n.equals(rel); !n.adopts {
			return err
		}
		sum = n.manifest.checksum // so that Decide skips it
	}
	revisions := slices.Clone(n.store.state.Revisions)
	revisions[len(revisions)-1].Checksum = sum
	n.store.state.Revisions = revisions
	return nil
}

// equals reports whether a record is what its revision would be if the module had made it. In a release that never was
// ours, values that the chart renders differently each time may differ: two renders show which those are. In one that
// was ours, and in a chart that uses lookup, they may not.
func (n *adoption) equals(rel *release.Release) (bool, error) {
	recorded, err := leavesOf(rel.Hooks, rel.Manifest)
	if err != nil {
		return false, nil //nolint:nilerr // an upgrade is the way out
	}
	one, err := n.leavesAs(rel)
	if err != nil {
		return false, err
	}
	two := one
	if !n.manifest.volatile && !n.store.marked() {
		if two, err = n.leavesAs(rel); err != nil {
			return false, err
		}
	}
	return sameBut(recorded, one, two), nil
}

// sameBut compares leaves with those of one of two renders. Where the renders differ, a leaf may be anything of its
// type.
func sameBut(have, one, two map[string]any) bool {
	for path, value := range one {
		own, there := have[path]
		chance := two[path] != value && reflect.TypeOf(two[path]) == reflect.TypeOf(value)
		if !there || own != value && (!chance || reflect.TypeOf(own) != reflect.TypeOf(value)) {
			return false
		}
	}
	return len(have) == len(one)
}

// leavesAs renders the module for the revision of a record: a chart may use the number of the
// revision, and whether it is an install.
func (n *adoption) leavesAs(rel *release.Release) (map[string]any, error) {
	const installed = "Install complete" // as Helm describes it, also after an uninstall that kept the history
	install := rel.Version == 1 || rel.Info.Description == installed
	hooks, manifests, err := n.op.home.renderer.documents(n.op, n.module, n.chart, chartutil.ReleaseOptions{Revision: rel.Version, IsInstall: install, IsUpgrade: !install})
	if err != nil {
		return nil, err
	}
	texts := make([]string, len(manifests))
	for i, m := range manifests {
		texts[i] = m.Content
	}
	return leavesOf(hooks, texts...)
}

// leavesOf are the values in the objects of manifests and hooks by their paths, without those of tests. Hooks may have
// the same name, so their order counts.
func leavesOf(hooks []*release.Hook, texts ...string) (map[string]any, error) {
	for _, h := range hooks {
		if !isTest(h) {
			texts = append(texts, h.Manifest)
		}
	}
	all, seen := map[string]any{}, map[string]int{}
	for _, text := range texts {
		found, err := manifest.Parse(text)
		if err != nil {
			return nil, err
		}
		for _, u := range found {
			name := manifest.Of(u).String()
			seen[name]++
			addLeaves(all, fmt.Sprint(name, "\x00", seen[name]), u.Object)
		}
	}
	return all, nil
}

// addLeaves adds the values below a path. Of a map and a list it adds the length, so that an empty one is there, too.
func addLeaves(all map[string]any, path string, tree any) {
	switch tree := tree.(type) {
	case map[string]any:
		all[path] = fmt.Sprint("map ", len(tree))
		for key, value := range tree {
			addLeaves(all, path+"\x00"+key, value)
		}
	case []any:
		all[path] = fmt.Sprint("list ", len(tree))
		for i, value := range tree {
			addLeaves(all, fmt.Sprint(path, "\x00", i), value)
		}
	default:
		all[path] = tree
	}
}

// adopt puts our labels on the newest record. Its body stays, because it has the files of the
// chart. The write carries the resourceVersion that was read, so a change by another client is not
// overwritten.
func (n *adoption) adopt() (outcome Outcome, err error) {
	ended := n.module.observed(Upgrade)
	defer func() { ended(err) }()
	last, _ := n.store.state.Last()
	err = n.store.change(last, func(record *metav1.ObjectMeta) {
		maps.Copy(record.Labels, n.labels())
		record.Labels[revisionLabel] = record.Labels["version"]
	})
	if err != nil {
		n.op.home.records.doubt(n.op.release)
		return Outcome{}, err
	}
	return Outcome{
		Action: Adopted, Revision: last.Version,
		Reason: fmt.Sprintf("revision %d, which Helm created without an operator, matches what the module renders: it is adopted unchanged", last.Version),
	}, nil
}
