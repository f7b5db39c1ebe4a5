package helm

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"os"
	"runtime/debug"
	"slices"
	"strings"

	"helm.sh/helm/v3/pkg/release"
	"helm.sh/helm/v3/pkg/releaseutil"

	"addon-operator/helm/charts"
)

// InputsLabel holds the checksum of what a manifest was rendered from (inputsOf).
//
// A chart whose templates use random values, keys or the time renders another manifest each time.
// An upgrade for each would restart its workloads at each start of the operator, and begin loops
// (H6). So such a chart is upgraded only when its inputs change: files, values, labels, the kinds
// that it asks about, and the operator itself.
const InputsLabel = "moduleInputs"

// allKinds is what templates have asked about if they have done more with the list of kinds than to ask for some.
const allKinds = "*"

// inputsOf is the checksum of all that determines the manifest of a module, except randomness, the
// time and lookup. Of the kinds of the API server it has those that were asked about: a new one must not give each
// chart with a random password another one.
func (r *renderer) inputsOf(op *operation, ch *charts.Chart, values [sha256.Size]byte, asked string) string {
	sum := sha256.New()
	fmt.Fprintf(sum, "%s\x00%x\x00%x\x00%s\x00", r.home.homes.build, ch.Digest(), values, op.capabilities.KubeVersion.Version)
	fmt.Fprint(sum, r.home.options.Labels) // sorted by their keys
	if asked == allKinds {
		fmt.Fprint(sum, op.capabilities.APIVersions) // sorted
	} else {
		answers := map[string]bool{}
		for _, version := range strings.Fields(asked) {
			answers[version] = op.capabilities.APIVersions.Has(version)
		}
		fmt.Fprint(sum, answers) // fmt sorts the keys
	}
	return hex.EncodeToString(sum.Sum(nil)[:checksumBytes])
}

// labels are put on the record of the new revision; the next decision needs them.
func (t *target) labels() map[string]string {
	all := map[string]string{ChecksumLabel: t.manifest.checksum, InputsLabel: t.manifest.inputs}
	if operator := t.op.operator(); operator != "" {
		all[OperatorLabel] = operator
	}
	return all
}

// recorded is the checksum of what Helm has rendered for a record, which Helm does after us: a
// chart that makes a password, and looks it up later, has made another one for the record than for
// our checksum.
func (r *renderer) recorded(rel *release.Release) string {
	return r.sum(manifestsIn(rel), slices.DeleteFunc(slices.Clone(rel.Hooks), isTest))
}

// manifestsIn takes the manifest of a record apart where Helm has joined it.
func manifestsIn(rel *release.Release) (manifests []releaseutil.Manifest) {
	const begin = "---\n# Source: "
	for text := range strings.SplitSeq(strings.TrimPrefix(strings.TrimSuffix(rel.Manifest, "\n"), begin), "\n"+begin) {
		if name, content, ok := strings.Cut(text, "\n"); ok {
			manifests = append(manifests, releaseutil.Manifest{Name: name, Content: content})
		}
	}
	return manifests
}

// buildOf identifies a build of the operator: another build may render differently, for example
// with another version of Helm. It is computed once for a Client.
func buildOf() string {
	info, _ := debug.ReadBuildInfo()
	var size int64 // without a version control the information is that of any build
	if path, err := os.Executable(); err == nil {
		if file, err := os.Stat(path); err == nil {
			size = file.Size()
		}
	}
	sum := sha256.Sum256(fmt.Append(nil, info, size))
	return hex.EncodeToString(sum[:])
}

// unequal reports an upgrade whose only reason is that the same inputs gave another manifest. A
// revision that has failed, or was interrupted, is another reason.
func (a *apply) unequal() bool {
	last, ok := a.store.state.Last()
	return ok && last.Status == release.StatusDeployed && last.Checksum != "" && last.Checksum != a.manifest.checksum && last.labels[InputsLabel] == a.manifest.inputs &&
		len(a.absent) == 0 && len(a.module.Drifted) == 0
}

// hold decides about an upgrade without another reason (unequal): held leaves the release as it is. If the chart uses
// lookup, the cluster may be the reason: then a second render is equal to the first.
func (a *apply) hold() (outcome Outcome, held bool, err error) {
	if a.manifest.volatile && !mentions(a.module, a.chart, clock) {
		again, err := a.op.home.renderer.renderAgain(a.op, a.module, a.chart, nil)
		if err != nil {
			return Outcome{}, false, renderProblem(a.op.ctx, a.op, a.module, err)
		}
		if again.checksum == a.manifest.checksum {
			return Outcome{}, false, nil
		}
	}
	last, _ := a.store.state.Last()
	const reason = "the chart renders differently each time, and none of its inputs has changed"
	return Outcome{Action: Skipped, Revision: last.Version, Reason: reason, Unstable: true}, true, nil
}
