package helm

import (
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

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

// adoption is what recognise has found out.
//
// A release that a person made with Helm has no checksum of ours. If its newest record is what the
// module would render, it is enough to put our labels on that record. Another revision would
// restart workloads that depend on the revision, run the hooks of the chart again, and replace
// passwords and certificates that the chart generates.
type adoption struct {
	*target
	adopts  bool   // the newest revision is not ours, and equal to what the module renders
	differs string // the end of a sentence: where it differs from that; or empty
}

// read understands the newest revision if another program has made it: an older operator, or Helm.
// It is called before each decision, and changes only the state in memory.
func (n *adoption) read() error {
	if err := n.readLegacyChecksum(); err != nil {
		return err
	}
	return n.recognise()
}

// skip ends an operation that has nothing to do, but for the labels of what is taken over.
func (a *apply) skip(reason string) (Outcome, error) {
	if a.others.adopts {
		return a.others.adopt()
	}
	a.remember()
	a.tidy()
	last, _ := a.store.state.Last()
	return Outcome{Action: Skipped, Reason: reason, Revision: last.Version}, nil
}

// recognise checks whether the newest revision, which is deployed and not ours, is what the module
// renders. If it is, the revision gets the checksum of the render, in memory, so that Decide skips
// it.
func (n *adoption) recognise() error {
	n.adopts, n.differs = false, ""
	last, ok := n.store.state.Last()
	if !ok || last.Status != release.StatusDeployed || last.Checksum != "" {
		return nil
	}
	rel, err := n.store.body(last)
	if _, ok := errors.AsType[*corruptedError](err); ok {
		return nil // the upgrade that follows drops it
	}
	if err != nil {
		return err
	}
	where, err := n.differsFrom(rel)
	if err != nil {
		return err
	}
	if where != "" {
		n.differs = ", and its manifest is not what the module renders: " + where
		return nil
	}
	n.adopts = true
	n.store.state.Revisions = replaceLast(n.store.state.Revisions, func(r *Revision) { r.Checksum = n.manifest.checksum })
	return nil
}

// differsFrom names the first object in which a record differs from what its revision would be if
// the module had made it; empty for none. In a release that never was ours, fields that the chart
// renders differently each time may differ: two renders show which those are. In one that was ours,
// and in a chart that uses lookup, they may not.
func (n *adoption) differsFrom(rel *release.Release) (string, error) {
	if n.op.home.renderer.recorded(rel) == n.manifest.checksum {
		return "", nil
	}
	recorded, err := objectsIn(append(textsOf(rel.Hooks), rel.Manifest)...)
	if err != nil {
		return "its record cannot be read: " + err.Error(), nil //nolint:nilerr // an upgrade is the way out
	}
	first, err := n.objectsAs(rel)
	if err != nil {
		return "", err
	}
	differs := recorded.difference(first, first)
	if differs == "" || n.manifest.volatile || n.store.marked() {
		return differs, nil
	}
	second, err := n.objectsAs(rel)
	if err != nil {
		return "", err
	}
	return recorded.difference(first, second), nil
}

// objectsAs renders the module for the revision of a record: a chart may use the number of the
// revision, and whether it is an install.
func (n *adoption) objectsAs(rel *release.Release) (objectSet, error) {
	const installed = "Install complete" // as Helm describes it, also after an uninstall that kept the history
	install := rel.Version == 1 || rel.Info.Description == installed
	options := chartutil.ReleaseOptions{Revision: rel.Version, IsInstall: install, IsUpgrade: !install}
	files, err := n.op.home.renderer.renderAs(n.op, n.module, n.chart, &lookupClients{op: n.op}, options)
	if err != nil {
		return nil, err
	}
	hooks, manifests, err := sortFiles(files)
	if err != nil {
		return nil, err
	}
	texts := textsOf(hooks)
	for _, m := range manifests {
		texts = append(texts, m.Content)
	}
	return objectsIn(texts...)
}

// textsOf are the manifests of hooks, without those of tests.
func textsOf(hooks []*release.Hook) (texts []string) {
	for _, h := range hooks {
		if !isTest(h) {
			texts = append(texts, h.Manifest)
		}
	}
	return texts
}

// objectSet is the objects of manifests by name. Hooks may have the same name, so each name has a
// list.
type objectSet map[Object][]any

func objectsIn(texts ...string) (objectSet, error) {
	all := objectSet{}
	for _, text := range texts {
		found, err := manifest.Parse(text)
		if err != nil {
			return nil, err
		}
		for _, u := range found {
			o := manifest.Of(u)
			all[o] = append(all[o], u.Object)
		}
	}
	return all, nil
}

// difference names the first object, by name, in which d differs from two renders of the same
// chart, one and other; empty for none. Where other has another number of objects of one name than
// one, it does not count.
func (d objectSet) difference(one, other objectSet) string {
	names := slices.Collect(maps.Keys(d))
	for o := range one {
		if _, ok := d[o]; !ok {
			names = append(names, o)
		}
	}
	slices.SortFunc(names, func(a, b Object) int { return strings.Compare(a.String(), b.String()) })
	for _, o := range slices.Compact(names) {
		switch have, want := d[o], one[o]; {
		case len(want) == 0:
			return o.String() + " is only in the record"
		case len(have) == 0:
			return o.String() + " is not in the record"
		case len(have) != len(want):
			return fmt.Sprintf("%s appears %d times in the record and %d times in the module", o, len(have), len(want))
		default:
			var again any
			if len(other[o]) == len(want) {
				again = other[o]
			}
			if path, same := sameBut(have, want, again); !same {
				return o.String() + path
			}
		}
	}
	return ""
}

// sameBut compares a value with one of two renders. Where the renders differ from each other in a
// scalar, the value may be anything of their type. path is that of the first difference, without
// values, because they may be secrets.
func sameBut(have, one, other any) (path string, same bool) {
	switch want := one.(type) {
	case map[string]any:
		have, ok1 := have.(map[string]any)
		again, ok2 := other.(map[string]any)
		if ok1 && ok2 {
			return sameMaps(have, want, again)
		}
	case []any:
		have, ok1 := have.([]any)
		again, ok2 := other.([]any)
		if ok1 && ok2 && len(have) == len(want) && len(again) == len(want) {
			for i := range want {
				if path, same := sameBut(have[i], want[i], again[i]); !same {
					return path, false // a count of list items explains nothing
				}
			}
			return "", true
		}
	}
	if reflect.DeepEqual(have, one) {
		return "", true
	}
	return "", reflect.TypeOf(have) == reflect.TypeOf(one) && reflect.TypeOf(one) == reflect.TypeOf(other) && !reflect.DeepEqual(one, other) && isScalar(one)
}

// sameMaps is sameBut for maps. A key that only one side has is always a difference.
func sameMaps(have, one, other map[string]any) (path string, same bool) {
	keys := sortedKeys(one)
	for _, key := range sortedKeys(have) {
		if _, ok := one[key]; !ok {
			return ", " + key, false
		}
	}
	for _, key := range keys {
		value, ok := have[key]
		if !ok {
			return ", " + key, false
		}
		if path, same := sameBut(value, one[key], other[key]); !same {
			return ", " + key + strings.Replace(path, ", ", ".", 1), false
		}
	}
	return "", true
}

func isScalar(value any) bool {
	switch value.(type) {
	case string, bool, int64, float64:
		return true
	}
	return false
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

// change changes labels or annotations of the newest record and leaves the rest as it is. A record
// that was written since it was read is errTaken.
func (s *store) change(r Revision, change func(*metav1.ObjectMeta)) error {
	record, err := s.fetch(r)
	if err != nil {
		return err
	}
	change(&record.ObjectMeta)
	updated, err := s.update(record)
	if err != nil {
		return err
	}
	_, revision, err := revisionOf(&updated.ObjectMeta)
	if err != nil {
		return err
	}
	s.state.Revisions = replaceLast(s.state.Revisions, func(last *Revision) { *last = revision })
	s.records.wrote(s.state.Release, s.state.Revisions)
	return nil
}

// readLegacyChecksum understands the checksum of older operators, which counted the tests
// of the chart, or kept it in the values of the release (H6).
func (n *adoption) readLegacyChecksum() error {
	last, ok := n.store.state.Last()
	if ok && last.Checksum == n.manifest.former { // the same manifest, counted with its tests
		n.store.state.Revisions = replaceLast(n.store.state.Revisions, func(r *Revision) { r.Checksum = n.manifest.checksum })
	}
	if !ok || last.Status != release.StatusDeployed || last.labels[ChecksumLabel] != "" {
		return nil
	}
	rel, err := n.store.body(last)
	if _, ok := errors.AsType[*corruptedError](err); ok {
		return nil // the upgrade that follows drops it
	}
	if err != nil {
		return err
	}
	sum, _ := rel.Config[legacyChecksumKey].(string)
	n.store.state.Revisions = replaceLast(n.store.state.Revisions, func(r *Revision) { r.Checksum = sum })
	return nil
}
