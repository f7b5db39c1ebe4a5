package helm

import (
	"crypto/sha256"
	"debug/elf"
	"encoding/hex"
	"encoding/json"
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
// that it asks about, the operator itself, and what lookup finds.
const InputsLabel = "moduleInputs"

// inputsOf is the checksum of all that determines the manifest of a module, except randomness, the
// time and lookup. A kind that no template asks about is no input: a new CRD must not give each
// chart with a random password another one. lists: templates list
// the kinds instead of asking for single ones, so all kinds are inputs.
func (r *renderer) inputsOf(op *operation, ch *charts.Chart, values [sha256.Size]byte, answers map[string]bool, lists bool) string {
	sum := sha256.New()
	fmt.Fprintf(sum, "%s\x00%x\x00%x\x00%s\x00", r.build, ch.Digest(), values, op.capabilities.KubeVersion.Version)
	for _, label := range sortedKeys(r.labels) {
		fmt.Fprintf(sum, "%s=%s\x00", label, r.labels[label])
	}
	if lists {
		fmt.Fprint(sum, op.capabilities.APIVersions) // sorted
	} else {
		fmt.Fprint(sum, answers) // fmt sorts the keys
	}
	return hex.EncodeToString(sum.Sum(nil)[:checksumBytes])
}

// labels are put on the record of the new revision; the next decision needs them.
func (t *target) labels() map[string]string {
	all := map[string]string{ChecksumLabel: t.manifest.checksum, InputsLabel: t.manifest.inputs}
	if t.manifest.volatile {
		all[LookupsLabel] = t.manifest.lookups
	}
	if t.store.operator != "" {
		all[OperatorLabel] = t.store.operator
	}
	return all
}

// recorded is the checksum of what Helm has rendered for a record, which Helm does after us: a
// chart that makes a password, and looks it up later, has made another one for the record than for
// our checksum. The manifest of the record is taken apart where Helm has joined it.
func (r *renderer) recorded(rel *release.Release) string {
	const begin = "---\n# Source: "
	var manifests []releaseutil.Manifest
	for text := range strings.SplitSeq(strings.TrimPrefix(strings.TrimSuffix(rel.Manifest, "\n"), begin), "\n"+begin) {
		if name, content, ok := strings.Cut(text, "\n"); ok {
			manifests = append(manifests, releaseutil.Manifest{Name: name, Content: content})
		}
	}
	return r.sum(manifests, slices.DeleteFunc(slices.Clone(rel.Hooks), isTest))
}

// buildOf identifies a build of the operator: another build may render differently, for example
// with another version of Helm. It is computed once for a Client.
func buildOf() string {
	text := ""
	if info, ok := debug.ReadBuildInfo(); ok {
		text = info.String()
	}
	self, err := os.Executable()
	if err != nil {
		return text
	}
	return text + contentOf(self)
}

// contentOf identifies the content of a program, by the build ID that the linker writes; else by its size.
func contentOf(file string) string {
	if program, err := elf.Open(file); err == nil {
		defer program.Close()
		if note := program.Section(".note.go.buildid"); note != nil {
			if id, err := note.Data(); err == nil && len(id) > noteHead {
				return string(id)
			}
		}
	}
	info, err := os.Stat(file)
	if err != nil {
		return ""
	}
	return fmt.Sprint(info.Size())
}

// noteHead is the length of the head of an ELF note, in bytes: a longer one has content.
const noteHead = 16

// unequal reports an upgrade whose only reason is that the same inputs gave another manifest. A
// revision that has failed, or was interrupted, is another reason.
func (a *apply) unequal() bool {
	last, ok := a.store.state.Last()
	return ok && last.Status == release.StatusDeployed && last.Checksum != "" && last.Checksum != a.manifest.checksum && last.labels[InputsLabel] == a.manifest.inputs &&
		len(a.absent) == 0 && len(a.module.Drifted) == 0
}

// hold decides about an upgrade whose only reason is chance (unequal): held leaves the release as
// it is, unless what lookup finds has changed.
func (a *apply) hold() (outcome Outcome, held bool) {
	last, _ := a.store.state.Last()
	if a.manifest.volatile && last.labels[LookupsLabel] != a.manifest.lookups {
		return Outcome{}, false
	}
	const reason = "the chart renders differently each time, and none of its inputs has changed"
	return Outcome{Action: Skipped, Revision: last.Version, Reason: reason, Unstable: true}, true
}

// valuesSum is the checksum of values as a chart gets them.
func valuesSum(values map[string]any) ([sha256.Size]byte, error) {
	data, err := json.Marshal(values)
	if err != nil {
		return [sha256.Size]byte{}, fmt.Errorf("values: %w", err)
	}
	return sha256.Sum256(data), nil
}
