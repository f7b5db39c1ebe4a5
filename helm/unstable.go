package helm

import (
	"crypto/sha256"
	"debug/elf"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"hash/crc32"
	"io"
	"os"
	"regexp"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/release"
	"helm.sh/helm/v3/pkg/releaseutil"

	"addon-operator/helm/charts"
)

// InputsLabel holds the checksum of what a manifest was rendered from (inputsOf).
//
// A chart whose templates use random values, keys or the time renders another manifest each time.
// An upgrade for each would restart its workloads at each start of the operator, and begin loops
// (H6). So such a chart is upgraded only when its inputs change: files, values, labels, the kinds
// that it asks about, the operator itself, and what lookup finds. The last may change all the time,
// so for that there is a backoff.
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

// contentOf identifies the content of a program. The linker writes it as the build ID, unless its
// flags disable that, or the program is no ELF file: then the whole file is summed.
func contentOf(file string) string {
	if program, err := elf.Open(file); err == nil {
		defer program.Close()
		if note := program.Section(".note.go.buildid"); note != nil {
			if id, err := note.Data(); err == nil && len(id) > noteHead {
				return string(id)
			}
		}
	}
	program, err := os.Open(file)
	if err != nil {
		return ""
	}
	defer program.Close()
	sum := crc32.New(crc32.MakeTable(crc32.Castagnoli)) // a quarter of the time of SHA-256: the file is large
	size, err := io.Copy(sum, program)
	if err != nil {
		return ""
	}
	return fmt.Sprintf("%d %x", size, sum.Sum(nil))
}

// noteHead is the length of the head of an ELF note, in bytes: a longer one has content.
const noteHead = 16

// unequal reports an upgrade whose only reason is that the same inputs gave another manifest. A
// revision that has failed, or whose Helm hook waits, is another reason.
func (a *apply) unequal() bool {
	last, ok := a.store.state.Last()
	return ok && last.Status == release.StatusDeployed && last.Checksum != "" && last.Checksum != a.manifest.checksum && last.labels[InputsLabel] == a.manifest.inputs &&
		len(a.absent) == 0 && len(a.module.Drifted) == 0
}

// hold decides about an upgrade whose only reason is chance (unequal): held leaves the release as
// it is. The upgrade is done, with growing pauses, when what lookup finds has changed: of a chart
// that also renders differently each time, it cannot be known which of the two changed the
// manifest.
func (a *apply) hold() (outcome Outcome, held bool) {
	last, _ := a.store.state.Last()
	outcome = Outcome{Action: Skipped, Revision: last.Version}
	if !a.manifest.volatile || last.labels[LookupsLabel] == a.manifest.lookups {
		outcome.Unstable = a.unstable()
		if outcome.Unstable == "" { // chance gave the same twice, or the clock did
			outcome.Unstable = a.fickle()
		}
		outcome.Reason = "the chart renders differently each time, and none of its inputs has changed"
		return outcome, true
	}
	if outcome.Unstable = a.unstable(); outcome.Unstable == "" {
		return outcome, false // what lookup finds has changed
	}
	outcome.Again = a.op.home.repeats.wait(a.op.release, a.manifest.inputs, time.Now(), a.op.home.dry == nil)
	outcome.Reason = "the chart renders differently each time, and what it looks up in the cluster has changed: such upgrades are made at growing intervals"
	return outcome, outcome.Again > 0
}

// unstable names the first template whose output differs although all its inputs are the same, with
// the line: random values, the time, lookup of changing objects. It is empty for other charts.
func (t *target) unstable() string {
	if t.manifest.unstable == nil {
		text := t.op.home.renderer.unstable(t.op, t.module, t.chart, t.manifest)
		t.manifest.unstable = &text
	}
	return *t.manifest.unstable
}

// fickle words the case in which two renders in a row are equal, and the one that was recorded was
// another: the template is not known, so a call that may be the cause is named.
func (t *target) fickle() string {
	text := "a manifest that differs from that of the last revision"
	if found := culprit(t.chart.Copy(), ""); found != "" {
		text += ": " + found
	}
	return text
}

// unstable renders twice more: the first time to see whether the checksum stays, the second time
// to find the template, because of the first render only the checksum is known.
func (r *renderer) unstable(op *operation, m Module, ch *charts.Chart, first *rendered) string {
	second, files, err := r.renderAgain(op, m, ch)
	if err != nil || second.checksum == first.checksum {
		return ""
	}
	third, err := r.renderFiles(op, m, ch, &lookupClients{op: op})
	if err != nil {
		return ""
	}
	var where []string
	for _, name := range sortedKeys(files) {
		if line := firstDifference(files[name], third[name]); line > 0 {
			text := fmt.Sprintf("%s, line %d of its output", name, line)
			if found := culprit(ch.Copy(), name); found != "" {
				text += " (" + found + ")"
			}
			where = append(where, text)
		}
	}
	switch len(where) {
	case 0:
		return "two of three renders differ"
	case 1:
		return where[0]
	}
	return fmt.Sprintf("%s; and %d more templates", where[0], len(where)-1)
}

// firstDifference is the number of the first line in which two texts differ; 0 when they are equal.
func firstDifference(a, b string) int {
	if a == b {
		return 0
	}
	left, right := strings.Split(a, "\n"), strings.Split(b, "\n")
	for i := range min(len(left), len(right)) {
		if left[i] != right[i] {
			return i + 1
		}
	}
	return min(len(left), len(right)) + 1
}

// culprit finds a call in the source of a template that gives something else each time, or, when it
// has none, in any template of the chart: it may include it. Without a name it looks into all.
func culprit(ch *chart.Chart, name string) string {
	calls := regexp.MustCompile(`\{\{(?:.*?[\s(|-])?(rand(?:AlphaNum|Alpha|Ascii|Numeric|Bytes|Int)|shuffle|uuidv4|now|ago|gen(?:CA|CAWithKey|PrivateKey|SelfSignedCert|SelfSignedCertWithKey|SignedCert|SignedCertWithKey)|htpasswd|bcrypt|encryptAES|lookup)\b`)
	templates := templatesOf(ch, "")
	own := func(t source) bool { return t.name == name }
	if slices.ContainsFunc(templates, own) {
		slices.SortStableFunc(templates, func(a, b source) int { return before(own(a), own(b)) })
	}
	for _, t := range templates {
		for i, line := range strings.Split(t.text, "\n") {
			if call := calls.FindStringSubmatch(line); call != nil {
				return fmt.Sprintf("%s in %s, line %d", call[1], t.name, i+1)
			}
		}
	}
	return ""
}

// before orders true before false, for sort functions.
func before(a, b bool) int {
	switch {
	case a == b:
		return 0
	case a:
		return -1
	}
	return 1
}

// source is a template as it is on disk.
type source struct{ name, text string }

// templatesOf lists the templates of a chart and its subcharts by the names that the engine gives
// them.
func templatesOf(ch *chart.Chart, above string) []source {
	path := above + ch.Name()
	var all []source
	for _, t := range ch.Templates {
		all = append(all, source{path + "/" + t.Name, string(t.Data)})
	}
	for _, sub := range ch.Dependencies() {
		all = append(all, templatesOf(sub, path+"/charts/")...)
	}
	return all
}

// valuesSum is the checksum of values as a chart gets them.
func valuesSum(values map[string]any) ([sha256.Size]byte, error) {
	data, err := json.Marshal(values)
	if err != nil {
		return [sha256.Size]byte{}, fmt.Errorf("values: %w", err)
	}
	return sha256.Sum256(data), nil
}
