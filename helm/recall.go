package helm

import (
	"crypto/sha256"
	"encoding/json"
	"reflect"
	"regexp"

	"helm.sh/helm/v3/pkg/release"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"addon-operator/helm/charts"
	"addon-operator/helm/kinds"
)

// RenderedAnnotation is on the newest record of a release. It contains a checksum of the inputs of its
// manifest, and the names of its objects. Charts that use lookup, or that render differently each time,
// have none (H6).
//
// It makes restarts fast: most releases are up to date, and while the inputs are the same,
// nothing is rendered or parsed until there is something to do (target.forReal).
const RenderedAnnotation = "addon-operator/rendered"

// maxNote bounds RenderedAnnotation, in bytes: all annotations of an object together may have 256
// KiB.
const maxNote = 64 << 10

// note is RenderedAnnotation in JSON. An operator that does not understand one ignores it.
type note struct {
	// Checksum is that of the manifest.
	Checksum string `json:"checksum"`
	// Inputs is the checksum of all that the manifest was rendered from, but for the kinds of the
	// API server.
	Inputs string `json:"inputs"`
	// Has is what templates have asked about these kinds (.Capabilities.APIVersions.Has), with the
	// answers.
	Has map[string]bool `json:"has,omitempty"`
	// All is the checksum of Inputs and all kinds; empty when the templates only ask Has.
	All string `json:"all,omitempty"`
	// Objects are apiVersion, kind, namespace and name of each.
	Objects [][4]string `json:"objects"`
	// Ends are the indexes of those that end by themselves.
	Ends []int `json:"ends,omitempty"`
}

// recall returns what was rendered for the newest record of a release from the same inputs; nil
// when that is not known, so that the chart is rendered. If an API does not answer, a question of
// the templates about it has no answer, so nothing is recalled. A dry run needs the manifest
// itself.
func (h *home) recall(op *operation, ch *charts.Chart, values [sha256.Size]byte) *rendered {
	last, ok := h.records.remembered(op.release)
	if !ok || h.dry != nil || last.Status != release.StatusDeployed || last.Checksum == "" || last.note == "" {
		return nil
	}
	var n note
	// The checksum of a note that cannot be read is empty, and so another one.
	if _ = json.Unmarshal([]byte(last.note), &n); n.Checksum != last.Checksum {
		return nil
	}
	if sum := h.renderer.sumOf(op, ch, values); n.Inputs != sum {
		in, ok := h.homes.inputs.of(op.ctx, op.release, last.id())
		if !ok || in.Inputs != sum {
			return nil
		}
		n.All = in.All
	}
	lists := n.All != ""
	if !kinds.NewAsked(op.capabilities, h.kinds.Unknown()).Same(n.Has) || lists && !h.sameInputs(op, ch, values, n) {
		return nil
	}
	objects := make([]Object, len(n.Objects))
	for i, row := range n.Objects {
		objects[i] = Object{GVK: schema.FromAPIVersionAndKind(row[0], row[1]), Namespace: row[2], Name: row[3]}
	}
	ends := map[Object]bool{}
	for _, i := range n.Ends {
		if i >= 0 && i < len(objects) { // another client may have written the note
			ends[objects[i]] = true
		}
	}
	return &rendered{checksum: last.Checksum, objects: objects, ends: ends, record: last.id(), answers: n.Has, lists: lists}
}

// sameInputs reports whether a chart whose templates list APIs renders as when the note was written.
func (h *home) sameInputs(op *operation, ch *charts.Chart, values [sha256.Size]byte, n note) bool {
	return n.All == h.renderer.inputsOf(op, ch, values, n.Has, true) && len(h.kinds.Unknown()) == 0
}

// id names a record in the version that was read.
func (r Revision) id() string { return r.secret + "@" + r.resourceVersion }

// remembered is the newest revision of a release as far as it is known without a request. It may be
// out of date: check compares its id with that of the state that it reads.
func (r *records) remembered(name string) (Revision, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.memory.listed || r.memory.doubted[name] {
		return Revision{}, false
	}
	return r.memory.stateOf(name).Last()
}

// forReal renders what was only recalled, for an operation that has something to do.
func (t *target) forReal() (err error) {
	ended := t.module.observed(Template)
	defer func() { ended(err) }()
	t.op.home.renderer.renders.forget(t.op.release)
	nothing := func(*operation, *charts.Chart, [sha256.Size]byte) *rendered { return nil }
	if t.manifest, err = t.op.home.renderer.render(t.op, t.module, t.chart, nothing); err != nil {
		return renderProblem(t.op.ctx, t.op, t.module, err)
	}
	return nil
}

// describe is RenderedAnnotation for a record that is written: empty unless it is the new one, as
// deployed, and Helm's render was equal to ours. Two equal renders are the proof that the chart
// does not render differently each time.
func (t *target) describe(rel *release.Release) string {
	if rel.Version != t.store.writing || rel.Info.Status != release.StatusDeployed {
		return ""
	}
	if t.op.home.renderer.recorded(rel) != t.manifest.checksum {
		t.manifest.note = new(string)
	}
	return t.note()
}

// renew notes the inputs of a record that is up to date but was rendered from others: values or
// files of the chart have changed that no template prints, or the operator is of another build.
// They are in one object for all releases. If anything else in the annotation has changed, as when a
// template asks other questions now, the annotation is written. A failure is only logged, because
// the release itself is right.
func (t *target) renew() {
	last, _ := t.store.state.Last()
	if t.op.home.dry != nil || last.labels[ChecksumLabel] != t.manifest.checksum {
		return
	}
	note := t.note()
	if note == "" || note == last.note {
		return
	}
	if in, ok := otherInputs(last, note); ok {
		t.op.home.homes.inputs.put(t.op.ctx, t.op.release, in)
		return
	}
	err := t.store.change(last, func(record *metav1.ObjectMeta) {
		metav1.SetMetaDataAnnotation(record, RenderedAnnotation, note)
	})
	if err != nil {
		t.op.home.records.doubt(t.op.release)
		t.op.debug("the inputs of the release could not be recorded in its record: %v", err)
	}
}

// otherInputs returns the inputs of a note that differs in nothing else from that of a record.
func otherInputs(last Revision, text string) (in input, ok bool) {
	var old, now note
	if json.Unmarshal([]byte(last.note), &old) != nil || json.Unmarshal([]byte(text), &now) != nil ||
		(old.All == "") != (now.All == "") {
		return in, false
	}
	in = input{last.id(), now.Inputs, now.All}
	now.Inputs, now.All = old.Inputs, old.All
	return in, reflect.DeepEqual(old, now)
}

// note is RenderedAnnotation for what was rendered: empty for charts that must be rendered each
// time, also to show their misprints, and for too many objects.
func (t *target) note() string {
	if t.manifest.note == nil {
		text := t.makeNote()
		t.manifest.note = &text
	}
	return *t.manifest.note
}

func (t *target) makeNote() string {
	const clock = `\{\{[^}]*\b(now|ago)\b` // two renders in a row may print the same time, and later ones not
	m := t.manifest
	if m.volatile || m.record != "" || m.misprint != "" || mentions(t.module, t.chart, clock) {
		return ""
	}
	sum, err := valuesSum(t.module.Values)
	if err != nil {
		return ""
	}
	n := note{Checksum: m.checksum, Inputs: t.op.home.renderer.sumOf(t.op, t.chart, sum), Has: m.answers, Objects: make([][4]string, len(m.objects))}
	if m.lists {
		n.All = m.inputs
	}
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

// mentions looks for an expression in all that may be a template: files of the chart and, because
// of tpl, the values.
func mentions(m Module, ch *charts.Chart, expression string) bool {
	matches := regexp.MustCompile(expression).Match
	values, err := json.Marshal(m.Values)
	return err != nil || matches(values) || ch.Any(matches)
}
