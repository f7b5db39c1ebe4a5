package helm

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/release"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"addon-operator/helm/charts"
	"addon-operator/helm/manifest"
)

// Record is the content of the newest record of a release. The command bring makes a module of it.
type Record struct {
	Release, Namespace string
	Revision           int
	Status             string // as Helm names it: deployed, failed, pending-install, …
	// Ours: an operator has installed the release, or taken it over.
	Ours bool
	// Chart and Version are those of Chart.yaml.
	Chart, Version string
	// Values are those that the user gave to Helm, in JSON: a map.
	Values []byte
	// Absent are the subcharts of the chart, "name version". Helm puts no subchart into a record.
	Absent []string

	files []*chart.File
	empty bool // it has no templates
}

// Record reads the newest record of a release in the namespace of the Client. Errors are of type
// *Error.
func (c *Client) Record(ctx context.Context, name string) (r Record, err error) {
	h := c.root
	op := &operation{ctx: ctx, home: h, release: name, log: h.options.Log}
	defer func() { err = classify(ctx, name, nil, err) }()
	state, err := h.records.reread(ctx, name)
	if err != nil {
		return r, err
	}
	last, ok := state.Last()
	if !ok {
		return r, problem(Invalid, name, "there is no such release in namespace %s, in %s", h.options.Namespace, h.options.Driver.Resource().Resource)
	}
	s := op.store(state)
	r = Record{Release: name, Namespace: h.options.Namespace, Revision: last.Version, Status: string(last.Status)}
	if r.Ours, err = s.ours(); err != nil {
		return r, err
	}
	rel, err := s.body(last)
	if err == nil && rel.Chart.Metadata == nil {
		err = &corruptedError{secret: last.secret, err: errors.New("the metadata of the chart is missing")}
	}
	if err != nil {
		return r, err
	}
	r.Chart, r.Version = rel.Chart.Metadata.Name, rel.Chart.Metadata.Version
	for _, d := range rel.Chart.Metadata.Dependencies {
		if d != nil {
			r.Absent = append(r.Absent, strings.TrimSpace(d.Name+" "+d.Version))
		}
	}
	for _, found := range fromSubchart.FindAllStringSubmatch(rel.Manifest, -1) {
		if !slices.ContainsFunc(r.Absent, func(known string) bool { return strings.HasPrefix(known+" ", found[1]+" ") }) {
			r.Absent = append(r.Absent, found[1])
		}
	}
	r.empty = len(rel.Chart.Templates) == 0
	var wrong error
	r.Values, err = json.Marshal(orEmpty(rel.Config))
	r.files, wrong = filesOf(rel.Chart)
	return r, errors.Join(err, wrong)
}

// fromSubchart is the line by which a manifest names a template of a subchart, declared in Chart.yaml or not.
var fromSubchart = regexp.MustCompile(`(?m)^# Source: [^/\n]+/charts/([^/\n]+)/`)

// orEmpty is a map, also where there is none.
func orEmpty(values map[string]any) map[string]any {
	if values == nil {
		return map[string]any{}
	}
	return values
}

// filesOf are the files of a chart as a record has it: those that were installed, without comments
// in Chart.yaml and values.yaml, without subcharts, and without what .helmignore names. Chart.lock
// is left out, because it is only about subcharts.
func filesOf(c *chart.Chart) (files []*chart.File, err error) {
	metadata, err := yaml.Marshal(c.Metadata)
	if err != nil {
		return nil, err
	}
	defaults, err := yaml.Marshal(orEmpty(c.Values))
	if err != nil {
		return nil, err
	}
	files = []*chart.File{{Name: "Chart.yaml", Data: metadata}, {Name: "values.yaml", Data: defaults}}
	if len(c.Schema) > 0 {
		files = append(files, &chart.File{Name: "values.schema.json", Data: c.Schema})
	}
	for _, f := range slices.Concat(c.Templates, c.Files) {
		if f != nil && f.Data != nil && f.Name != "requirements.lock" { // without data it is a name (emptied)
			files = append(files, f)
		}
	}
	return files, nil
}

// WriteChart writes the chart of the record into a directory, which it creates.
func (r Record) WriteChart(dir string) error {
	if r.empty {
		return fmt.Errorf("the record of release %s contains no templates of its chart", r.Release)
	}
	return charts.Write(dir, r.files)
}

// wasDeployed reports whether a revision was deployed at any time since the release was last
// uninstalled. If not, only failed or interrupted installations are there, and the release may be
// installed from the beginning (H9).
func (s State) wasDeployed() bool {
	for _, r := range slices.Backward(s.Revisions) {
		switch r.Status {
		case release.StatusUninstalled:
			return false
		case release.StatusFailed, release.StatusPendingInstall:
		default:
			return true
		}
	}
	return false
}

// What a record may unpack to. A secret holds 1 MiB, so an honest record is far
// below; a crafted one must not fill the memory. What is written keeps to it, too.
const (
	maxRecord = 32 << 20 // bytes of JSON
	maxValues = 500_000  // values in it: a short one takes twenty times its text
)

// encoder writes records. It keeps its compressors: a new one takes a megabyte, and longer than all
// the rest of a small record. It is safe for concurrent use.
type encoder struct{ packers sync.Pool }

// encode writes Helm's form of a record: base64 of gzip of JSON. The fastest
// level of gzip needs a tenth of the time Helm's own driver spends and makes
// records a fifth larger; templates and files, which would make up most of them,
// are not stored.
func (e *encoder) encode(rel *release.Release) ([]byte, error) {
	packer, ok := e.packers.Get().(*gzip.Writer)
	if !ok {
		var err error
		if packer, err = gzip.NewWriterLevel(io.Discard, gzip.BestSpeed); err != nil {
			return nil, err
		}
	}
	defer e.packers.Put(packer)
	raw, err := json.Marshal(rel)
	if err == nil {
		err = errors.Join(checkRecord(raw), checkManifests(rel))
	}
	if err != nil {
		return nil, err
	}
	var buf bytes.Buffer
	text := base64.NewEncoder(base64.StdEncoding, &buf)
	packer.Reset(text)
	_, err = packer.Write(append(raw, '\n'))
	err = errors.Join(err, packer.Close(), text.Close())
	return buf.Bytes(), err
}

// checkRecord refuses JSON that takes too much memory, before it is decoded (D39). It counts what
// begins or separates values outside of strings, in one pass and without a parser.
func checkRecord(raw []byte) error {
	if len(raw) > maxRecord {
		return fmt.Errorf("larger than %d MiB", maxRecord>>20)
	}
	values, quoted := 0, false
	for i := 0; i < len(raw); i++ {
		switch char := raw[i]; {
		case char == '"':
			quoted = !quoted
		case char == '\\':
			i++ // the next one is no end of a text
		case !quoted && (char == ',' || char == '[' || char == '{'):
			values++
		}
	}
	if values > maxValues {
		return fmt.Errorf("more than %d values", maxValues)
	}
	return nil
}

// checkManifests refuses manifests that would take too much memory when they are parsed. A null
// among the hooks, which Helm never writes, would be a nil pointer in everything that follows.
func checkManifests(rel *release.Release) error {
	if err := manifest.Check(rel.Manifest); err != nil {
		return err
	}
	for _, h := range rel.Hooks {
		if h == nil {
			return errors.New("one of its hooks is empty")
		}
		if err := manifest.Check(h.Manifest); err != nil {
			return fmt.Errorf("hook %s: %w", h.Path, err)
		}
	}
	return nil
}

// decodeRelease reads a record; older ones may not be compressed.
func decodeRelease(data []byte) (*release.Release, error) {
	raw, err := base64.StdEncoding.AppendDecode(nil, data)
	if err != nil {
		return nil, fmt.Errorf("decode base64: %w", err)
	}
	if bytes.HasPrefix(raw, []byte{0x1f, 0x8b, 0x08}) {
		packed, err := gzip.NewReader(bytes.NewReader(raw))
		if err == nil { // one byte more than checkRecord accepts shows that it is too large
			raw, err = io.ReadAll(io.LimitReader(packed, maxRecord+1))
		}
		if err != nil {
			return nil, fmt.Errorf("unpack: %w", err)
		}
	}
	if err := checkRecord(raw); err != nil {
		return nil, err
	}
	rel := &release.Release{}
	numbers := json.NewDecoder(bytes.NewReader(raw))
	numbers.UseNumber() // values keep their digits; Helm itself would read floats
	if err := numbers.Decode(rel); err != nil {
		return nil, fmt.Errorf("decode JSON: %w", err)
	}
	if rel.Info == nil || rel.Chart == nil {
		return nil, errors.New("info or chart is missing")
	}
	return rel, checkManifests(rel)
}

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
		i.due = time.AfterFunc(inputsPause, func() { i.write(context.Background()) }) // requests have limits of their own
	}
}

// write writes the object. After a failure the next list of records has it.
func (i *inputs) write(ctx context.Context) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.due == nil { // it is written
		return
	}
	i.due.Stop()
	i.due = nil
	data, err := json.Marshal(i.known)
	if err != nil || len(data) > maxInputs {
		return
	}
	err = put(ctx, i.objects, &corev1.Secret{ObjectMeta: metav1.ObjectMeta{
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
