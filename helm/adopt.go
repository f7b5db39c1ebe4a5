package helm

import (
	"errors"
	"fmt"
	"maps"
	"reflect"

	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/release"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"addon-operator/helm/manifest"
)

// adoptedLabel holds the revision that was taken over. Objects of it have the labels that Helm gave
// them: ours come with the next revision, and are no drift until then.
const adoptedLabel = "moduleAdopted"

// adopted reports whether the objects of a revision lack our labels.
func (r Revision) adopted() bool { return r.labels[adoptedLabel] == r.labels["version"] }

// adoption takes a release over that a person made with Helm. If its newest record is what the module would render, it
// is enough to put our labels on that record. Another revision would restart workloads that depend on the revision, run
// the hooks of the chart again, and replace passwords and certificates that the chart generates.
type adoption struct {
	*target
	adopts bool // the newest revision is not ours, and equal to what the module renders
}

// read understands the newest revision if another program has made it: an older operator, which counted the tests of
// the chart, or kept the checksum in the values of the release (H6), or Helm. It is called before each decision, and
// changes only the state in memory.
func (n *adoption) read() error {
	n.adopts = false
	last, ok := n.store.state.Last()
	if ok && last.Checksum == n.manifest.former {
		n.count(n.manifest.checksum)
	}
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
	if sum, _ := rel.Config[legacyChecksumKey].(string); sum != "" && last.labels[ChecksumLabel] == "" {
		n.count(sum)
		return nil
	}
	if n.adopts, err = n.equals(rel); n.adopts {
		n.count(n.manifest.checksum) // so that Decide skips it
	}
	return err
}

func (n *adoption) count(checksum string) {
	n.store.state.Revisions = replaceLast(n.store.state.Revisions, func(r *Revision) { r.Checksum = checksum })
}

// equals reports whether a record is what its revision would be if the module had made it. In a release that never was
// ours, fields that the chart renders differently each time may differ: two renders show which those are. In one that
// was ours, and in a chart that uses lookup, they may not.
func (n *adoption) equals(rel *release.Release) (bool, error) {
	if n.op.home.renderer.recorded(rel) == n.manifest.checksum {
		return true, nil
	}
	recorded, err := objectsIn(rel.Hooks, rel.Manifest)
	if err != nil {
		return false, nil //nolint:nilerr // an upgrade is the way out
	}
	one, err := n.objectsAs(rel)
	if err != nil || n.manifest.volatile || n.store.marked() {
		return sameBut(recorded, one, one), err
	}
	two, err := n.objectsAs(rel)
	return sameBut(recorded, one, two), err
}

// objectsAs renders the module for the revision of a record: a chart may use the number of the
// revision, and whether it is an install.
func (n *adoption) objectsAs(rel *release.Release) (map[string]any, error) {
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
	return objectsIn(hooks, texts...)
}

// objectsIn are the objects of manifests and hooks by name, without those of tests. Hooks may have the same name, so
// each name has a list.
func objectsIn(hooks []*release.Hook, texts ...string) (map[string]any, error) {
	for _, h := range hooks {
		if !isTest(h) {
			texts = append(texts, h.Manifest)
		}
	}
	all := map[string]any{}
	for _, text := range texts {
		found, err := manifest.Parse(text)
		if err != nil {
			return nil, err
		}
		for _, u := range found {
			name := manifest.Of(u).String()
			same, _ := all[name].([]any)
			all[name] = append(same, u.Object)
		}
	}
	return all, nil
}

// sameBut compares a value with one of two renders. Where the renders differ from each other in a scalar, the value may
// be anything of its type.
func sameBut(have, one, two any) bool {
	switch one := one.(type) {
	case map[string]any:
		have, ok := have.(map[string]any)
		two, _ := two.(map[string]any)
		if !ok || len(have) != len(one) {
			return false
		}
		for key, value := range one {
			if own, there := have[key]; !there || !sameBut(own, value, two[key]) {
				return false
			}
		}
		return true
	case []any:
		have, ok := have.([]any)
		two, _ := two.([]any)
		if !ok || len(have) != len(one) || len(two) != len(one) {
			return reflect.DeepEqual(have, one)
		}
		for i := range one {
			if !sameBut(have[i], one[i], two[i]) {
				return false
			}
		}
		return true
	}
	chance := !reflect.DeepEqual(one, two) && reflect.TypeOf(one) == reflect.TypeOf(two)
	return reflect.DeepEqual(have, one) || chance && reflect.TypeOf(have) == reflect.TypeOf(one)
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
		record.Labels[revisionLabel], record.Labels[adoptedLabel] = record.Labels["version"], record.Labels["version"]
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
