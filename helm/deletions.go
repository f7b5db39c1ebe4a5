package helm

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"regexp"
	"slices"
	"strings"

	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/kube"
	"helm.sh/helm/v3/pkg/release"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/util/retry"

	"addon-operator/helm/charts"
	"addon-operator/helm/manifest"
)

// past is what older manifests of a release have in the cluster, compared with what the chart has now.
type past struct {
	stays []Object // also in the chart; whether they exist was not looked up
	gone  []Object // left the chart, exist, and would be deleted
	data  []Object // of gone, those whose data is deleted with them
}

// without are the objects of gone that hold no data.
func (p past) without() []Object {
	return slices.DeleteFunc(slices.Clone(p.gone), func(o Object) bool { return slices.Contains(p.data, o) })
}

// compare finds out which objects of older manifests are not wanted any more. Objects whose kinds the API server has
// in no version cannot be deleted: they are noted in op.unserved.
func (op *operation) compare(older []string, wanted []Object) (p past, _ error) {
	l := op.home
	var kept []Object
	wants, seen := map[Object]bool{}, map[Object]bool{}
	for _, o := range wanted {
		r, _, err := l.resolve(o)
		if err != nil && !meta.IsNoMatchError(err) { // one that there is not stays as it is
			return past{}, err
		}
		wants[r] = true
	}
	for _, text := range older {
		objects, err := manifest.Parse(text)
		if err != nil {
			return past{}, fmt.Errorf("manifest of an older revision: %w", err)
		}
		for _, u := range objects {
			o := manifest.Of(u)
			if u.GetAnnotations()[kube.ResourcePolicyAnno] == kube.KeepPolicy {
				kept = append(kept, o)
				continue
			}
			served, err := l.kinds.Served(o.GVK)
			if meta.IsNoMatchError(err) {
				op.unserve(o)
				continue
			}
			if err != nil {
				return past{}, err
			}
			o.GVK = served.GroupVersionKind
			r, _, err := l.resolve(o)
			if err != nil {
				return past{}, err
			}
			if seen[r] {
				continue
			}
			if seen[r] = true; wants[r] {
				p.stays = append(p.stays, o)
				continue
			}
			o.Namespace = r.Namespace
			fate, err := op.fateOf(o)
			if err != nil {
				return past{}, err
			}
			switch fate {
			case stays:
				kept = append(kept, o)
			case goesWithData:
				p.data = append(p.data, o)
				fallthrough
			case goes:
				p.gone = append(p.gone, o)
			}
		}
	}
	op.report(slog.LevelWarn, whyStays, kept)
	return p, nil
}

// fate is what happens to an object that a record lists and the chart does not have.
type fate int

const (
	isGone       fate = iota // it does not exist, or is being deleted
	stays                    // its annotations do not name this release, or it has the policy keep (P2)
	goes                     // it is deleted
	goesWithData             // and data with it
)

// fateOf reads an object to find out whether it would be deleted. One that may not be read is an error: once no record
// lists it, no later attempt would delete it.
func (op *operation) fateOf(o Object) (fate, error) {
	live, exists, err := op.home.look(op.ctx, o)
	switch {
	case err != nil:
		return 0, err
	case !exists:
		return isGone, nil
	case live == nil:
		return 0, fmt.Errorf("the operator may not read %s, so its owner is unknown", o)
	case ownerIn(live) != op.us() || live.Annotations[kube.ResourcePolicyAnno] == kube.KeepPolicy:
		return stays, nil
	case live.DeletionTimestamp != nil:
		return isGone, nil
	case holdsData(o):
		return goesWithData, nil
	}
	claims, err := deletesClaims(op, o)
	if claims {
		return goesWithData, err
	}
	return goes, err
}

// holdsData reports whether objects of a kind hold data.
func holdsData(o Object) bool {
	return slices.Contains([]string{"PersistentVolumeClaim", "PersistentVolume", "Namespace", "CustomResourceDefinition"}, o.GVK.Kind)
}

// deletesClaims reports whether the claims of a StatefulSet are deleted together with it. By default they stay, and a
// StatefulSet of the same name finds them again.
func deletesClaims(op *operation, o Object) (bool, error) {
	if o.GVK.Kind != "StatefulSet" || o.GVK.Group != "apps" {
		return false, nil
	}
	m, err := op.home.kinds.Mapping(o.GVK)
	if err != nil {
		return false, err
	}
	live, err := op.home.dynamic.Resource(m.Resource).Namespace(o.Namespace).Get(op.ctx, o.Name, metav1.GetOptions{})
	if err != nil {
		return false, unlooked(o, err)
	}
	policy, _, _ := unstructured.NestedString(live.Object, "spec", "persistentVolumeClaimRetentionPolicy", "whenDeleted")
	claims, _, _ := unstructured.NestedSlice(live.Object, "spec", "volumeClaimTemplates")
	return policy == "Delete" && len(claims) > 0, nil
}

// remove deletes objects that are not wanted any more. Unlike Helm it returns an error if one cannot be deleted: the
// revision has failed then, and the next one finds the object in its record.
func (op *operation) remove(objects []Object) error {
	var errs []error
	var gone []Object
	for _, o := range objects {
		deleted, err := op.removeOne(o)
		if err != nil {
			errs = append(errs, fmt.Errorf("delete %s: %w", o, err))
		}
		if deleted && op.uninstalls == "" {
			gone = append(gone, o)
		}
	}
	op.report(slog.LevelInfo, "objects that have left the chart are deleted", gone)
	return errors.Join(errs...)
}

// removeOne deletes one object, if it is still ours, and in the version whose owner was read: no other release has
// taken it over since.
func (op *operation) removeOne(o Object) (deleted bool, err error) {
	err = retry.RetryOnConflict(retry.DefaultRetry, func() error {
		live, exists, err := op.home.look(op.ctx, o)
		if err != nil || !exists || ownerIn(live) != op.us() || live.Annotations[kube.ResourcePolicyAnno] == kube.KeepPolicy {
			return err
		}
		resource, err := op.home.resourceOf(o)
		if err != nil {
			return err
		}
		background := metav1.DeletePropagationBackground
		seen := &metav1.Preconditions{UID: &live.UID, ResourceVersion: &live.ResourceVersion}
		err = resource.Delete(op.ctx, o.Name, metav1.DeleteOptions{PropagationPolicy: &background, Preconditions: seen})
		if deleted = err == nil; apierrors.IsNotFound(err) {
			return nil
		}
		return err
	})
	return deleted, err
}

// maxNamedObjects is how many objects of one operation the log names: a release may have thousands.
const maxNamedObjects = 20

const (
	whyStays = "objects do not name this release as their owner, or are annotated to be kept; they stay"
	whyData  = "objects with data stay, because no person has allowed the purge; delete them if they are not needed"
)

// report logs what happens to objects; nothing for none.
func (op *operation) report(level slog.Level, what string, objects []Object) {
	if len(objects) == 0 {
		return
	}
	var names []string
	for _, o := range objects[:min(len(objects), maxNamedObjects)] {
		names = append(names, o.String())
	}
	op.log.Log(op.ctx, level, what, "objects", names, "count", len(objects))
}

// unserve notes an object that is not deleted, because the API server has its kind in no version. Nothing lists it any
// more, and it may exist: another version of Kubernetes, or a definition, may serve it again.
func (op *operation) unserve(o Object) {
	if !slices.Contains(op.unserved, o) {
		op.unserved = append(op.unserved, o)
	}
}

// reportUnserved reports what unserve has noted.
func (op *operation) reportUnserved() {
	const text = "objects cannot be deleted, because the API server does not serve their kinds in any version; " +
		"delete them when it does"
	op.report(slog.LevelWarn, text, op.unserved)
	if notify := op.home.options.Notify; len(op.unserved) > 0 && notify != nil && op.home.dry == nil {
		notify(fmt.Sprintf("release %s: %s: %s, %d in all", op.release, text, op.unserved[0], len(op.unserved)))
	}
}

// emptied refuses a chart whose files have lost their content since a revision was made, or one of whose directories
// is gone: a disk that is full, or a copy that is not finished, leaves such files, and an upgrade would delete
// objects or reset values (P8). After a restart the records alone show what was there: templates that have printed
// something, and that there were values.
func (t *target) emptied() error {
	has := t.chart.Content()
	for _, r := range t.store.state.effective() {
		rel, err := t.store.body(r)
		if err != nil {
			return err
		}
		lost := charts.Lost(contentIn(rel), has, func(string) bool { return false })
		if lost == "" {
			continue
		}
		why := "is empty, but revision %d was made with its content; restore it, or remove the file"
		if strings.HasSuffix(lost, "/") {
			why = "has no files, but revision %d was made with some; restore them, or write a file with a comment there"
		}
		return problem(Render, t.op.release, "%s of the chart in %s "+why, lost, t.module.chart().Where(), r.Version)
	}
	return nil
}

// fromTemplate is the line by which a manifest names the template of an object; the name of the chart is first.
var fromTemplate = regexp.MustCompile(`(?m)^# Source: [^/\n]+/(.+)$`)

// contentIn are the files of a chart that had content when a record was made, as far as the record shows. A record of
// Helm itself has the files, and an older one of an operator their names.
func contentIn(rel *release.Release) map[string]bool {
	had := map[string]bool{}
	for _, f := range slices.Concat(rel.Chart.Templates, rel.Chart.Files) {
		if f != nil && (f.Data == nil || charts.HasContent(f.Data)) {
			had[f.Name] = true
		}
	}
	for _, found := range fromTemplate.FindAllStringSubmatch(rel.Manifest, -1) {
		had[found[1]] = true
	}
	for _, h := range rel.Hooks {
		_, name, _ := strings.Cut(h.Path, "/")
		had[name] = true
	}
	if hadValues(rel.Chart) {
		had["values.yaml"] = true
	}
	return had
}

// hadValues reports whether the values of a chart in a record are of its own file: global may be from the file next to
// chart/, and Helm adds those of subcharts.
func hadValues(ch *chart.Chart) bool {
	others := map[string]bool{"global": true}
	if ch.Metadata != nil {
		for _, d := range ch.Metadata.Dependencies {
			if len(d.ImportValues) > 0 {
				return false
			}
			others[cmp.Or(d.Alias, d.Name)] = true
		}
	}
	return slices.ContainsFunc(slices.Collect(maps.Keys(ch.Values)), func(key string) bool { return !others[key] })
}

// Hold is an upgrade that must not happen until a person allows it (P1): it would delete all that the release has, or
// objects whose data goes with them. A truncated template, a renamed value and half a copy look like that.
type Hold struct {
	Objects []Object // that would be deleted, sorted by name
	Why     string   // a phrase that follows "because"
	// Confirm is the text that allows it, as Module.Allowed: for exactly these objects.
	Confirm string

	has      []Object // what the release has, whatever of it the chart still contains
	metadata *chart.Metadata
}

// outcome is that of an Apply that is held.
func (h *Hold) outcome(state State) Outcome {
	last, _ := state.Last()
	return Outcome{Action: Held, Reason: h.Why, Revision: last.Version, Held: h}
}

// guard finds out whether a step would delete too much, and sets held if no person has allowed it. Objects that do not
// exist any more, lack our annotations or are to be kept do not count, because they are not deleted.
func (a *apply) guard(step Step) error {
	a.held, a.gone = nil, nil
	if step != StepUpgrade && step != StepReinstall {
		return nil
	}
	last, _ := a.store.state.Last()
	newest, err := a.store.body(last)
	if err != nil {
		return err
	}
	manifests, err := a.store.manifests()
	if err != nil {
		return err
	}
	p, err := a.op.compare(manifests, a.manifest.objects)
	if err != nil {
		return err
	}
	if step == StepReinstall { // what holds data is not deleted
		a.op.report(slog.LevelWarn, "objects of a failed revision are no longer in the chart and stay, because their data would be deleted with them", p.data)
		p.gone, p.data = p.without(), nil
	}
	a.gone = p.gone
	h := p.hold(len(a.manifest.objects))
	if h == nil {
		return nil
	}
	if h.Confirm = confirmation(a.module.Name, h.Objects); h.Confirm == a.module.Allowed {
		a.op.log.Warn("objects are deleted, as a person has allowed", "confirmation", h.Confirm)
		return nil
	}
	h.metadata = newest.Chart.Metadata
	a.held = h
	return nil
}

// hold decides, by the number of objects that the chart has now; nil: the step may go on.
func (p past) hold(objects int) *Hold {
	h := &Hold{Objects: p.gone, has: append(p.stays, p.gone...)}
	switch empties := len(p.stays) == 0; {
	case empties && len(p.gone) > 0 && objects == 0:
		h.Why = "the chart renders no objects, so all objects of the release would be deleted"
	case empties && len(p.gone) > 1: // a single one may have another name: that of a checksum, for example
		h.Why = "all objects of the release would be deleted: none of them is in the chart any more"
	case len(p.data) > 0:
		h.Objects, h.Why = p.data, "their data would be deleted with them: they are not in the chart any more"
	default:
		return nil
	}
	slices.SortFunc(h.Objects, func(x, y Object) int { return strings.Compare(nameOf(x), nameOf(y)) })
	return h
}

// nameOf names an object with the group of its kind, and without spaces.
func nameOf(o Object) string {
	name := o.GVK.GroupKind().String()
	if o.Namespace != "" {
		name += "/" + o.Namespace
	}
	return name + "/" + o.Name
}

// maxConfirmation is the length in bytes up to which a confirmation names the objects.
const maxConfirmation = 200

// confirmation is the text that allows to delete exactly these objects, which are sorted. It names them; where that is
// long, or a shell would not take the names as they are, it has their number and a checksum instead.
func confirmation(module string, objects []Object) string {
	names := make([]string, len(objects))
	for i, o := range objects {
		names[i] = nameOf(o)
	}
	text, plain := module+":"+strings.Join(names, ","), regexp.MustCompile(`^[A-Za-z0-9:/.,_-]+$`)
	if len(text) <= maxConfirmation && plain.MatchString(text) {
		return text
	}
	sum := sha256.Sum256([]byte(strings.Join(names, "\n")))
	return fmt.Sprintf("%s:%d-objects-%s", module, len(objects), hex.EncodeToString(sum[:])[:12])
}
