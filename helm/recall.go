package helm

import (
	"context"
	"encoding/json"
	"log/slog"
	"regexp"
	"sync"
	"time"

	"helm.sh/helm/v3/pkg/release"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"addon-operator/helm/charts"
)

// RenderedAnnotation is on the newest record of a release, and has the names of its objects. Charts that use lookup,
// or that render differently each time, have none (H6).
//
// It makes restarts fast, together with what the record was rendered from (inputs): most releases are up to date, and
// while the inputs are the same, nothing is rendered or parsed until there is something to do (target.forReal).
const RenderedAnnotation = "addon-operator/rendered"

// maxNote bounds RenderedAnnotation, in bytes: all annotations of an object together may have 256
// KiB.
const maxNote = 64 << 10

// note is RenderedAnnotation in JSON. An operator that does not understand one ignores it.
type note struct {
	// Objects are apiVersion, kind, namespace and name of each.
	Objects [][4]string `json:"objects"`
	// Ends are the indexes of those that end by themselves.
	Ends []int `json:"ends,omitempty"`
}

// recall returns what was rendered for the newest record of a release, from these inputs; nil
// when that is not known, so that the chart is rendered. A dry run needs the manifest itself.
func (h *home) recall(op *operation, in input) *rendered {
	last, ok := h.records.remembered(op.release).Last()
	if !ok || h.dry != nil || last.Status != release.StatusDeployed || last.Checksum == "" || in.Record != last.id() {
		return nil
	}
	result := &rendered{checksum: last.Checksum, record: last.id(), inputs: in.Inputs, asked: in.Asked, ends: map[Object]bool{}}
	var n note
	if json.Unmarshal([]byte(last.note), &n) != nil {
		return nil
	}
	for _, row := range n.Objects {
		result.objects = append(result.objects, Object{GVK: schema.FromAPIVersionAndKind(row[0], row[1]), Namespace: row[2], Name: row[3]})
	}
	for _, i := range n.Ends {
		if i >= 0 && i < len(result.objects) { // another client may have written the note
			result.ends[result.objects[i]] = true
		}
	}
	return result
}

// forReal renders what was only recalled, for an operation that has something to do.
func (t *target) forReal() (err error) {
	ended := t.module.observed(Template)
	defer func() { ended(err) }()
	t.op.home.renderer.renders.Delete(t.op.release)
	if t.manifest, err = t.op.home.renderer.render(t.op, t.module, t.chart, true); err != nil {
		return renderProblem(t.op.ctx, t.op, t.module, err)
	}
	return nil
}

// describe is RenderedAnnotation for a record that is written: empty unless it is the new one, as
// deployed, and Helm's render was equal to ours. Two equal renders are the proof that the chart
// does not render differently each time. It is empty, too, for charts that must be rendered each
// time, and for too many objects.
func (t *target) describe(rel *release.Release) string {
	m := t.manifest
	if rel.Version != t.store.writing || rel.Info.Status != release.StatusDeployed || m.volatile ||
		mentions(t.module, t.chart, clock) || t.op.home.renderer.recorded(rel) != m.checksum {
		return ""
	}
	n := note{Objects: make([][4]string, len(m.objects))}
	for i, o := range m.objects {
		version, kind := o.GVK.ToAPIVersionAndKind()
		n.Objects[i] = [4]string{version, kind, o.Namespace, o.Name}
		if m.ends[o] {
			n.Ends = append(n.Ends, i)
		}
	}
	text, err := json.Marshal(n)
	if err != nil || len(text) > maxNote {
		return ""
	}
	return string(text)
}

// clock finds templates that may print the time: two renders in a row may print the same one, and later ones not.
const clock = `\{\{[^}]*\b(now|ago)\b`

// mentions looks for an expression in all that may be a template: files of the chart and, because
// of tpl, the values.
func mentions(m Module, ch *charts.Chart, expression string) bool {
	matches := regexp.MustCompile(expression).Match
	values, err := json.Marshal(m.Values)
	return err != nil || matches(values) || ch.Any(matches)
}

// remember notes what the newest record, which is up to date, was rendered from.
func (t *target) remember() {
	last, _ := t.store.state.Last()
	m := t.manifest
	if t.op.home.dry == nil && m.record == "" && last.note != "" && last.labels[ChecksumLabel] == m.checksum {
		t.op.home.homes.inputs.put(t.op.release, &input{last.id(), m.inputs, m.asked})
	}
}

// inputsName is the object of all releases with their inputs, in an annotation, so that the list of records has them.
// It is of the kind of the records.
const inputsName = "addon-operator.inputs"

// inputsAnnotation has a map of input in JSON, by release.
const inputsAnnotation = "addon-operator/inputs"

// inputsPause is how long an operator collects changes before it writes the object.
const inputsPause = 30 * time.Second

// maxInputs bounds the annotation, in bytes: all of an object together may have 256 KiB. Of more releases none is
// remembered.
const maxInputs = 250 << 10

// inputs are what the newest records were rendered from. They are in one object, so that a change that no template
// prints, of a value of global, a file or the build of the operator, costs no write for each release. What is missing
// here, or was lost, costs a render at the next start, and nothing else: it is never a reason to write or to delete.
type inputs struct {
	objects recordObjects
	log     *slog.Logger

	mu    sync.Mutex
	known map[string]input // by release; nil: not read yet
	due   *time.Timer      // nil: nothing is to be written
}

// input is what one record was rendered from.
type input struct {
	Record string `json:"record"` // its id
	Inputs string `json:"inputs"` // renderer.inputsOf
	Asked  string `json:"asked,omitempty"`
}

// of returns what a release was rendered from; the zero value when that is not known.
func (i *inputs) of(release string) input {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.known[release]
}

// listed takes the object from a list of records, if it was not read yet; nil: there is none.
func (i *inputs) listed(object *metav1.ObjectMeta) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.known != nil {
		return
	}
	i.known = map[string]input{}
	if object != nil {
		_ = json.Unmarshal([]byte(object.Annotations[inputsAnnotation]), &i.known) // of a broken one nothing is known
	}
}

// put notes what a record was rendered from, nil for a release that is gone, and has it written.
func (i *inputs) put(release string, in *input) {
	i.mu.Lock()
	defer i.mu.Unlock()
	known, is := i.known[release]
	if i.known == nil || in == nil && !is || in != nil && known == *in {
		return
	}
	if delete(i.known, release); in != nil {
		i.known[release] = *in
	}
	if i.due == nil {
		i.due = time.AfterFunc(inputsPause, i.write)
	}
}

// write writes the object. After a failure the next list of records has it.
func (i *inputs) write() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.due = nil
	data, err := json.Marshal(i.known)
	if err != nil || len(data) > maxInputs {
		return
	}
	// Requests have limits of their own.
	err = put(context.Background(), i.objects, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{
		Name: inputsName, Labels: map[string]string{"owner": pointerOwner},
		Annotations: map[string]string{inputsAnnotation: string(data)},
	}})
	if err != nil {
		i.known = nil
		i.log.Debug("the inputs of releases cannot be written; their charts are rendered at the next start",
			"object", inputsName, "err", err)
	}
}

// put writes an object that holds no record, whatever it was before.
func put(ctx context.Context, objects recordObjects, o *corev1.Secret) error {
	_, err := objects.Update(ctx, o, metav1.UpdateOptions{})
	if apierrors.IsNotFound(err) {
		_, err = objects.Create(ctx, o, metav1.CreateOptions{})
	}
	return err
}
