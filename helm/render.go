package helm

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"runtime/debug"
	"slices"
	"strings"
	"sync"

	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	"helm.sh/helm/v3/pkg/release"
	"helm.sh/helm/v3/pkg/releaseutil"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"addon-operator/helm/charts"
	"addon-operator/helm/kinds"
	"addon-operator/helm/manifest"
)

// Object names one object of a manifest.
type Object = manifest.Object

// checksumBytes is the length of a checksum; a label value holds at most 63
// characters, so the 64 of a whole SHA-256 would not fit.
const checksumBytes = 20

// rendered is what a chart makes of its values. Only operations on its release use it, one after
// the other (locks), so the fields that are computed late need no lock.
type rendered struct {
	checksum string
	objects  []Object        // without the objects of hooks (H14)
	ends     map[Object]bool // those of them that end by themselves (H13)
	hooks    bool            // the chart has Helm hooks, apart from tests
	volatile bool            // lookup was used: the cluster is an input too
	asked    string          // the kinds and versions that templates have asked about, separated by spaces; allKinds for all
	inputs   string          // checksum of all that it was made from
	text     string          // checksum of what the templates have printed; empty: it was recalled
	record   string          // the record that it was recalled from (Revision.id), without hooks; empty: it was rendered
}

// renderer makes manifests of charts. It remembers the last render of each release (renders, *rendered by name), so
// that it is not made again; not one that used lookup, because what it finds may change.
type renderer struct {
	home    *home
	renders sync.Map
}

// render returns the render of a module: what is remembered, or what its record has (home.recall) unless again is
// set, when the inputs are the same. While an API does not answer, what templates ask about kinds may have no answer,
// so nothing of a chart that asks is the same.
func (r *renderer) render(op *operation, m Module, ch *charts.Chart, again bool) (*rendered, error) {
	data, err := json.Marshal(m.Values)
	if err != nil {
		return nil, fmt.Errorf("values: %w", err)
	}
	sum := sha256.Sum256(data)
	same := func(inputs, asked string) bool {
		return (asked == "" || len(op.away) == 0) && inputs == r.inputsOf(op, ch, sum, asked)
	}
	last, _ := r.renders.Load(m.Name)
	known, _ := last.(*rendered)
	if known != nil && same(known.inputs, known.asked) {
		return known, nil
	}
	var result *rendered
	if in := r.home.homes.inputs.of(op.release); !again && same(in.Inputs, in.Asked) {
		result = r.home.recall(op, in)
	}
	if result == nil {
		if result, err = r.renderAgain(op, m, ch, known); err != nil {
			return nil, err
		}
		result.inputs = r.inputsOf(op, ch, sum, result.asked)
	}
	if r.renders.Delete(m.Name); !result.volatile {
		r.renders.Store(m.Name, result)
	}
	return result, nil
}

// renderAgain renders whatever is remembered. If the templates have printed what they did for known, which may be nil,
// that is not parsed again.
func (r *renderer) renderAgain(op *operation, m Module, ch *charts.Chart, known *rendered) (*rendered, error) {
	lookup := &lookupClients{op: op}
	files, err := r.renderFiles(op, m, ch, lookup)
	if err != nil {
		return nil, err
	}
	sum := sha256.New()
	for _, name := range sortedKeys(files) {
		fmt.Fprintf(sum, "%s\x00%d\x00%s", name, len(files[name]), files[name])
	}
	text := hex.EncodeToString(sum.Sum(nil))
	var result *rendered
	if known != nil && known.text == text {
		result = &rendered{checksum: known.checksum, objects: known.objects, ends: known.ends, hooks: known.hooks}
	} else if result, err = r.digest(files); err != nil {
		return nil, err
	}
	result.volatile, result.text = lookup.used, text
	answers, lists := lookup.asked.Answers()
	result.asked = strings.Join(sortedKeys(answers), " ")
	if lists || len(answers) > 0 && mentions(m, ch, `\.APIVersions\b([^.]|\.[^H])`) {
		result.asked = allKinds
	}
	return result, nil
}

// renderFiles renders with fixed values of .Release: with the real revision the checksum would
// change at each upgrade. What each template printed is in the result, by name. While no revision
// is or was deployed, a chart may refuse an upgrade, as one does that makes a password at the
// installation and wants it back at each upgrade: then it is rendered as for that installation (H8,
// H9).
func (r *renderer) renderFiles(op *operation, m Module, ch *charts.Chart, lookup *lookupClients) (map[string]string, error) {
	files, err := r.renderAs(op, m, ch, lookup, chartutil.ReleaseOptions{Revision: 1, IsUpgrade: true})
	if err == nil {
		return files, nil
	}
	first, errFirst := r.renderAs(op, m, ch, lookup, chartutil.ReleaseOptions{Revision: 1, IsInstall: true})
	if errFirst != nil {
		return nil, err
	}
	state, errState := op.home.records.look(op.ctx, op.release)
	switch {
	case errState != nil:
		return nil, classify(op.ctx, op.release, op, errState)
	case state.wasDeployed():
		return nil, err
	}
	return first, nil
}

// renderAs renders for a revision, whose number the caller gives, and whether it is an install or
// an upgrade. lookup notes what templates ask. Questions about an API that has never listed its
// kinds have no answer, so such a render is an AwayError (P13).
func (r *renderer) renderAs(op *operation, m Module, ch *charts.Chart, lookup *lookupClients, release chartutil.ReleaseOptions) (map[string]string, error) {
	use := ch.Copy()
	if v := use.Metadata.KubeVersion; v != "" && !chartutil.IsCompatibleRange(v, op.capabilities.KubeVersion.String()) {
		return nil, fmt.Errorf("the chart requires Kubernetes %s (kubeVersion in Chart.yaml), the cluster has %s", v, op.capabilities.KubeVersion.String())
	}
	if err := chartutil.ProcessDependenciesWithMerge(use, m.Values); err != nil {
		return nil, fmt.Errorf("dependencies of the chart: %w", err)
	}
	release.Name, release.Namespace = m.Name, r.home.options.Namespace
	values, err := chartutil.ToRenderValues(use, m.Values, release, op.capabilities)
	if err != nil {
		return nil, err
	}
	lookup.asked = kinds.NewAsked(op.capabilities)
	values["Capabilities"] = lookup.asked
	files, err := engine.RenderWithClientProvider(use, values, lookup)
	maps.DeleteFunc(files, func(name, _ string) bool { return strings.HasSuffix(name, "NOTES.txt") })
	for _, away := range op.away {
		if lookup.asked.About(away.Version) {
			return nil, fmt.Errorf("the chart uses .Capabilities.APIVersions: %w", away)
		}
	}
	return files, err
}

// documents renders a chart for a revision, in Helm's order.
func (r *renderer) documents(op *operation, m Module, ch *charts.Chart, of chartutil.ReleaseOptions) ([]*release.Hook, []releaseutil.Manifest, error) {
	files, err := r.renderAs(op, m, ch, &lookupClients{op: op}, of)
	if err != nil {
		return nil, nil, err
	}
	return sortFiles(files)
}

// digest sorts rendered files as Helm does, checks them, and sums them up with
// the labels that will be set on their objects (H6, H10).
func (r *renderer) digest(files map[string]string) (*rendered, error) {
	all, manifests, err := sortFiles(files)
	if err != nil {
		return nil, err
	}
	result := &rendered{ends: map[Object]bool{}}
	hooks := slices.DeleteFunc(all, isTest)
	result.hooks, result.checksum = len(hooks) > 0, r.sum(manifests, hooks)
	return result, r.checkObjects(manifests, result)
}

// sortFiles puts what templates have printed into Helm's order, if it is within the limits.
func sortFiles(files map[string]string) ([]*release.Hook, []releaseutil.Manifest, error) {
	for _, name := range sortedKeys(files) {
		if err := manifest.Check(files[name]); err != nil {
			return nil, nil, fmt.Errorf("%s: %w", name, err)
		}
	}
	return releaseutil.SortManifests(files, nil, releaseutil.InstallOrder)
}

// sum is the checksum of a manifest (H6). Its format must not change: another sum for the same
// manifest would upgrade all releases at the first start of a new version.
func (r *renderer) sum(manifests []releaseutil.Manifest, hooks []*release.Hook) string {
	sum := sha256.New()
	add := func(source, text string) { fmt.Fprint(sum, source, "\x00", text, "\x00") }
	for _, m := range manifests {
		add(m.Name, m.Content)
	}
	for _, h := range hooks {
		add(h.Path, h.Manifest)
	}
	for _, label := range sortedKeys(r.home.options.Labels) {
		fmt.Fprintf(sum, "%s=%s\x00", label, r.home.options.Labels[label])
	}
	return hex.EncodeToString(sum.Sum(nil)[:checksumBytes])
}

// checkObjects lists the objects of a manifest. Its error names all documents that cannot become
// objects, and objects that are defined twice.
func (r *renderer) checkObjects(manifests []releaseutil.Manifest, result *rendered) error {
	var errs []error
	sources := map[Object]string{}
	for _, m := range manifests {
		found, err := manifest.Parse(m.Content)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", m.Name, err))
		}
		for _, u := range found {
			if err := checkObject(u); err != nil {
				errs = append(errs, fmt.Errorf("%s: %w", m.Name, err))
				continue
			}
			o := manifest.Of(u)
			id := r.home.identity(o)
			if first, ok := sources[id]; ok {
				errs = append(errs, fmt.Errorf("%s: %s is already defined in %s; remove one of them", m.Name, o, first))
				continue
			}
			sources[id] = m.Name
			result.objects = append(result.objects, o)
			if ends(u) {
				result.ends[o] = true
			}
		}
	}
	return errors.Join(errs...)
}

// checkObject refuses an object before anything is stored or sent.
func checkObject(u *unstructured.Unstructured) error {
	o := manifest.Of(u)
	var errs []error
	if o.GVK.Version == "" {
		errs = append(errs, fmt.Errorf("%s has no apiVersion", o))
	}
	if o.Name == "" {
		errs = append(errs, fmt.Errorf("%s has no metadata.name; Helm cannot manage objects with a generateName", o.GVK.Kind))
	}
	for _, field := range []string{"labels", "annotations"} {
		if _, _, err := unstructured.NestedStringMap(u.Object, "metadata", field); err != nil {
			errs = append(errs, fmt.Errorf("%s: metadata.%s must be a map of strings; quote numbers and booleans", o, field))
		}
	}
	return errors.Join(errs...)
}

// renderProblem turns an error of loading or rendering into an Error. Helm's texts name the
// template and often the line. Its kind is Render only if the chart or the values must change:
// templates also ask the cluster, which may not answer. op is nil before there is one.
func renderProblem(ctx context.Context, op *operation, m Module, err error) error {
	if op != nil && (ctx.Err() != nil || op.transport.failed().unavailable) {
		return classify(ctx, m.Name, op, err)
	}
	var away *kinds.AwayError
	var known *Error
	if errors.As(err, &away) || errors.As(err, &known) {
		return classify(ctx, m.Name, op, err)
	}
	text := strings.ReplaceAll(strings.TrimSpace(err.Error()), "\n", "; ")
	shown := publicText(Render, nil, text)
	where := "chart in " + m.chart().Where() + ": "
	return &Error{Kind: Render, Release: m.Name, Err: &opaque{text: where + shorten(text), public: where + shown, cause: err}}
}

func sortedKeys[V any](m map[string]V) []string {
	return slices.Sorted(maps.Keys(m))
}

// lookupClients serves the lookup function of templates from the shared connections, and notes what
// templates asked the cluster. One is for one render, or for the attempts to make one; templates
// run in one goroutine.
type lookupClients struct {
	op    *operation
	used  bool         // also by a lookup that has failed
	asked *kinds.Asked // .Capabilities
}

var _ engine.ClientProvider = (*lookupClients)(nil)

// GetClientFor implements engine.ClientProvider.
func (l *lookupClients) GetClientFor(apiVersion, kind string) (dynamic.NamespaceableResourceInterface, bool, error) {
	l.used = true
	m, err := l.op.home.kinds.Mapping(schema.FromAPIVersionAndKind(apiVersion, kind))
	if err != nil {
		return nil, false, fmt.Errorf("lookup %s %s: %w", apiVersion, kind, err)
	}
	client, err := dynamic.NewForConfig(l.op.config())
	if err != nil {
		return nil, false, err
	}
	return client.Resource(m.Resource), kinds.Namespaced(m), nil
}

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

// load loads the chart of a module, and replaces the module's values by those that Helm gets, which
// differ for a chart of others in chart/ (A20).
func (r *renderer) load(m *Module) (*charts.Chart, error) {
	loaded, err := r.home.homes.charts.Load(m.chart())
	if err != nil {
		return nil, err
	}
	if m.Values, err = loaded.Values(m.Values); m.Values == nil {
		m.Values = map[string]any{} // Helm writes into it
	}
	return loaded, err
}

// MarkLabel is on every object of every release, with the name of the module (H10). It is no part
// of the checksum: objects that an older operator has installed get it with their next revision,
// and not all at once.
const MarkLabel = "addon-operator/module"

// isTest reports whether a hook is one for "helm test" only: it never runs here, and often has a
// random name.
func isTest(h *release.Hook) bool {
	return !slices.ContainsFunc(h.Events, func(e release.HookEvent) bool { return e != release.HookTest })
}
