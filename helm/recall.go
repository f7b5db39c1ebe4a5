package helm

import (
	"crypto/sha256"
	"encoding/json"
	"regexp"

	"helm.sh/helm/v3/pkg/release"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"addon-operator/helm/charts"
	"addon-operator/helm/kinds"
)

// An operator that starts again finds releases that are as they should be. What a record says of itself is enough to
// know that: the inputs of its manifest, and the objects of it. While the inputs are the same, nothing is rendered and
// parsed until there is something to do.

// RenderedAnnotation is on the newest record of a release, and says what its manifest was rendered from, and which
// objects it has. Charts that use lookup, or that render differently each time, have none (H6).
const RenderedAnnotation = "addon-operator/rendered"

// maxNote is the most that RenderedAnnotation takes, in bytes: the annotations of an object have 256 KiB.
const maxNote = 64 << 10

// note is RenderedAnnotation.
type note struct {
	// Checksum is that of the manifest.
	Checksum string `json:"checksum"`
	// Inputs is the checksum of all that the manifest was rendered from, but for the kinds of the API server.
	Inputs string `json:"inputs"`
	// Has is what templates have asked about these kinds (.Capabilities.APIVersions.Has), with the answers.
	Has map[string]bool `json:"has,omitempty"`
	// All is the checksum of Inputs and all kinds; empty when the templates only ask Has.
	All string `json:"all,omitempty"`
	// Objects are apiVersion, kind, namespace and name of each.
	Objects [][4]string `json:"objects"`
}

// recall returns what was rendered for the newest record of a release, from the same inputs; nil when that is not
// known. A question about an API that is away is one without an answer.
func (h *home) recall(op *operation, ch *charts.Chart, values [sha256.Size]byte) *rendered {
	last, ok := h.records.remembered(op.release)
	if !ok || h.dry != nil || last.Status != release.StatusDeployed || last.Checksum == "" || last.note == "" {
		return nil
	}
	var n note
	if err := json.Unmarshal([]byte(last.note), &n); err != nil || n.Checksum != last.Checksum || n.Inputs != h.renderer.sumOf(op, ch, values) {
		return nil
	}
	lists := n.All != ""
	if lists && (n.All != h.renderer.inputsOf(op, ch, values, n.Has, lists) || len(h.kinds.Unknown()) > 0) || !kinds.NewAsked(op.capabilities, h.kinds.Unknown()).Same(n.Has) {
		return nil
	}
	objects := make([]Object, len(n.Objects))
	for i, row := range n.Objects {
		objects[i] = Object{GVK: schema.FromAPIVersionAndKind(row[0], row[1]), Namespace: row[2], Name: row[3]}
	}
	return &rendered{checksum: last.Checksum, objects: objects, record: last.id(), answers: n.Has, lists: lists}
}

// id is that of a record as it was read.
func (r Revision) id() string { return r.secret + "@" + r.resourceVersion }

// remembered is the newest revision of a release as far as it is known without a request.
func (r *records) remembered(name string) (Revision, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.listed || r.doubted[name] {
		return Revision{}, false
	}
	return r.stateOf(name).Last()
}

// forReal renders what was only recalled, for an operation that has something to do.
func (a *apply) forReal() (err error) {
	ended := a.module.observed(Template)
	defer func() { ended(err) }()
	a.home.renderer.renders.forget(a.release)
	nothing := func(*operation, *charts.Chart, [sha256.Size]byte) *rendered { return nil }
	if a.manifest, err = a.home.renderer.render(a.operation, a.module, a.chart, nothing); err != nil {
		return renderProblem(a.ctx, a.operation, a.module, err)
	}
	return nil
}

// describe is RenderedAnnotation for a record: empty unless a second render, that of Helm, was equal.
func (a *apply) describe(rel *release.Release) string {
	if rel.Version != a.store.writing || rel.Info.Status != release.StatusDeployed {
		return ""
	}
	if a.home.renderer.recorded(rel) != a.manifest.checksum {
		a.manifest.note = new(string)
	}
	return a.note()
}

// renew notes on the newest record, which is as the module wants it, what it would be rendered from today: files of the
// chart have changed that it does not print, or another build of the operator looks at it. It is no reason to fail.
func (a *apply) renew() {
	last, _ := a.store.state.Last()
	if a.home.dry != nil || last.labels[ChecksumLabel] != a.manifest.checksum {
		return
	}
	note := a.note()
	if note == "" || note == last.note {
		return
	}
	err := a.store.change(last, func(record *metav1.ObjectMeta) {
		metav1.SetMetaDataAnnotation(record, RenderedAnnotation, note)
	})
	if err != nil {
		a.home.records.doubt(a.release)
		a.debug("what the release is rendered from is not noted on its record: %v", err)
	}
}

// note is RenderedAnnotation for what was rendered: empty for what must be rendered each time, and for too many objects.
func (a *apply) note() string {
	if a.manifest.note == nil {
		text := a.makeNote()
		a.manifest.note = &text
	}
	return *a.manifest.note
}

func (a *apply) makeNote() string {
	const clock = `\{\{[^}]*\b(now|ago)\b` // two renders in a row agree about it
	m := a.manifest
	if m.volatile || m.record != "" || mentions(a.module, a.chart, clock) {
		return ""
	}
	sum, err := valuesSum(a.module.Values)
	if err != nil {
		return ""
	}
	n := note{Checksum: m.checksum, Inputs: a.home.renderer.sumOf(a.operation, a.chart, sum), Has: m.answers, Objects: make([][4]string, len(m.objects))}
	if m.lists {
		n.All = m.inputs
	}
	for i, o := range m.objects {
		version, kind := o.GVK.ToAPIVersionAndKind()
		n.Objects[i] = [4]string{version, kind, o.Namespace, o.Name}
	}
	text, err := json.Marshal(n)
	if err != nil || len(text) > maxNote {
		return ""
	}
	return string(text)
}

// mentions looks for an expression in what may be a template: files of the chart, and the values, for tpl.
func mentions(m Module, ch *charts.Chart, expression string) bool {
	matches := regexp.MustCompile(expression).Match
	values, err := json.Marshal(m.Values)
	return err != nil || matches(values) || ch.Any(matches)
}
