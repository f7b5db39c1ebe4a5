package helm

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/release"
	"helm.sh/helm/v3/pkg/releaseutil"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// understand reads the newest revision if another program has made it: an older operator, which kept the checksum in
// the values of the release (H6), or Helm. It is called before each decision, and changes only the state in memory.
//
// If Helm's record is what the module would render, it is enough to put our labels on that record (adopt). Another
// revision would restart workloads that depend on the revision, run the hooks of the chart again, and replace
// passwords and certificates that the chart generates.
func (a *apply) understand() error {
	a.adopts = false
	last, ok := a.store.state.Last()
	if !ok || last.Status != release.StatusDeployed || last.Checksum != "" {
		return nil
	}
	rel, err := a.store.body(last)
	if err != nil {
		return unlessCorrupted(err) // the upgrade that follows drops it
	}
	sum, _ := rel.Config[legacyChecksumKey].(string)
	if sum == "" || last.labels[ChecksumLabel] != "" {
		if a.adopts, err = a.equals(rel); !a.adopts {
			return err
		}
		sum = a.manifest.checksum // so that Decide skips it
	}
	last.Checksum = sum
	before := a.store.state.Revisions[:len(a.store.state.Revisions)-1]
	a.store.state.Revisions = append(slices.Clone(before), last)
	return nil
}

// equals reports whether a record is what its revision would be if the module had made it: a chart may use the number
// of the revision, and whether it is an install. In a release that never was ours, lines that the chart renders
// differently each time may differ: two renders show which those are. In one that was ours, and in a chart that uses
// lookup, they may not.
func (a *apply) equals(rel *release.Release) (bool, error) {
	// Helm describes an install so, also one after an uninstall that kept the history.
	install := rel.Version == 1 || rel.Info.Description == "Install complete"
	var renders [2][]string
	for i := range renders {
		hooks, manifests, err := a.op.home.renderer.documents(a.op, a.module, a.chart,
			chartutil.ReleaseOptions{Revision: rel.Version, IsInstall: install, IsUpgrade: !install})
		if err != nil {
			return false, err
		}
		renders[i] = linesOf(manifests, hooks)
	}
	if a.manifest.volatile || a.store.marked() {
		renders[1] = renders[0]
	}
	return sameBut(linesOf(manifestsIn(rel), rel.Hooks), renders[0], renders[1]), nil
}

// sameBut compares lines with those of one of two renders. Where the renders differ, a line may be anything.
func sameBut(have, one, two []string) bool {
	for i, line := range one {
		chance := i < len(two) && two[i] != line
		if i >= len(have) || have[i] != line && !chance {
			return false
		}
	}
	return len(have) == len(one)
}

// linesOf are the lines of manifests and hooks, without those of tests.
func linesOf(manifests []releaseutil.Manifest, hooks []*release.Hook) (lines []string) {
	for _, h := range hooks {
		if !isTest(h) {
			manifests = append(manifests, releaseutil.Manifest{Content: h.Manifest})
		}
	}
	for _, m := range manifests {
		lines = append(lines, strings.Split(strings.TrimSpace(m.Content), "\n")...)
	}
	return lines
}

// adopt puts our labels on the newest record. Its body stays, because it has the files of the
// chart. The write carries the resourceVersion that was read, so a change by another client is not
// overwritten.
func (a *apply) adopt() (Outcome, error) {
	last, _ := a.store.state.Last()
	err := a.store.change(last, func(record *metav1.ObjectMeta) {
		maps.Copy(record.Labels, a.labels())
		record.Labels[revisionLabel] = record.Labels["version"]
	})
	reason := fmt.Sprintf("revision %d, which Helm created without an operator, "+
		"matches what the module renders: it is adopted unchanged", last.Version)
	return Outcome{Action: Adopted, Revision: last.Version, Reason: reason}, err
}
