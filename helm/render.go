package helm

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	"helm.sh/helm/v3/pkg/release"
	"helm.sh/helm/v3/pkg/releaseutil"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

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

// render returns the render of a module: what is remembered, or what its record has (home.recall) unless again is set,
// when the inputs are the same. While an API does not answer, what templates ask about kinds may have no answer, so nothing
// of a chart that asks is the same.
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
