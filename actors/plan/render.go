package plan

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"addon-operator/helm"
	"addon-operator/helm/charts"
	"addon-operator/helm/dryrun"
	"addon-operator/helm/manifest"
	"addon-operator/values"
)

// Renderer renders charts, and reads records of releases. It changes nothing. Package helm implements it.
type Renderer interface {
	// Show returns the documents in the order in which Helm applies them, Helm hooks last. One that
	// cannot be read has its own error; the error of Show means that there is no text.
	Show(ctx context.Context, m helm.Module) ([]helm.Document, error)
	// Deployed returns the objects of a revision; 0 stands for the deployed one. The revision 0
	// comes back when it is not recorded.
	Deployed(ctx context.Context, release string, earlier int) (objects []map[string]any, revision int, err error)
}

// Render renders the chart of a module with the values in m, and compares it with the deployed
// release, or with the revision request.Since, if that is asked. Helm hooks are rendered but not
// compared: they are no part of the release (H14). With an error the result has what was rendered
// until then, hidden as far as the request asks.
func Render(ctx context.Context, renderer Renderer, m helm.Module, hider *values.Hider, request RenderRequest) (Rendered, error) {
	if !charts.Exists(m.Dir) {
		return Rendered{}, fmt.Errorf("module %s has no chart, so there is nothing to render", m.Name)
	}
	documents, err := renderer.Show(ctx, m)
	if err != nil {
		return Rendered{}, fmt.Errorf("render: %w", err)
	}
	mask := hider.Object
	rendered := Rendered{Module: m.Name, Objects: []any{}}
	var text strings.Builder
	var errs []error
	for _, d := range documents {
		shown, err := showDocument(d, request, mask)
		fmt.Fprintf(&text, "---\n# Source: %s\n%s", d.Source, shown.text)
		rendered.Objects = append(rendered.Objects, shown.objects...)
		errs = append(errs, err)
	}
	rendered.Text = text.String()
	// A document that cannot be read has no objects; a difference without them would show them as
	// removed.
	if err := errors.Join(errs...); err != nil || !request.Diff {
		return rendered, err
	}
	deployed, revision, err := renderer.Deployed(ctx, m.Name, request.Since)
	if err != nil {
		return rendered, fmt.Errorf("the deployed release: %w", err)
	}
	var now []map[string]any
	for _, d := range documents {
		if !d.Hook {
			now = append(now, d.Objects...)
		}
	}
	rendered.Revision = revision
	if request.Secrets {
		mask = nil
	}
	rendered.Changes = (&differ{from: "deployed", to: "now", mask: mask}).objects(deployed, now)
	return rendered, nil
}

// shownDocument is a document as the person who asked may see it: as text, and the same as objects
// for JSON.
type shownDocument struct {
	text    string
	objects []any
}

// showDocument hides secrets in a document by writing its objects again after masking; comments and
// the order of keys are lost thereby. With request.Secrets the text is that of the chart. A
// document that cannot be read cannot be masked, so its text is shown only with request.Broken and
// request.Secrets together.
func showDocument(d helm.Document, request RenderRequest, mask func(map[string]any) map[string]any) (shownDocument, error) {
	switch {
	case d.Err != nil && request.Broken && request.Secrets:
		return shownDocument{text: d.Text}, nil
	case d.Err != nil && request.Broken:
		return shownDocument{text: "# cannot be parsed, so secrets in it cannot be masked; use show-secrets to show it\n# " + d.Err.Error() + "\n"}, nil
	case d.Err != nil:
		return shownDocument{}, fmt.Errorf("%s: %w; use debug to show its output", d.Source, d.Err)
	}
	var shown shownDocument
	if request.Secrets {
		shown.text = d.Text
	}
	for i, object := range d.Objects {
		if request.Secrets {
			shown.objects = append(shown.objects, object)
			continue
		}
		masked := mask(object)
		shown.objects = append(shown.objects, masked)
		text, err := yaml.Marshal(masked)
		if err != nil {
			return shown, fmt.Errorf("%s: %w", d.Source, err)
		}
		if i > 0 {
			shown.text += "---\n"
		}
		shown.text += string(text)
	}
	return shown, nil
}

// differ makes the difference of objects of two renders.
type differ struct {
	from, to string // names of the two
	// mask hides secrets in an object; nil shows them.
	mask func(map[string]any) map[string]any
}

// objects returns what differs between the objects of two renders, sorted by name. Objects are
// compared as they are and masked afterwards, so that a changed secret is a difference. The result
// is never nil: nil in Rendered.Changes means that no difference was asked for.
func (d *differ) objects(before, after []map[string]any) []ObjectDiff {
	old, now := byIdentity(before), byIdentity(after)
	names := maps.Clone(old)
	maps.Copy(names, now)
	changes := []ObjectDiff{}
	sorted := slices.SortedFunc(maps.Keys(names), func(a, b manifest.Object) int {
		return cmp.Or(cmp.Compare(a.String(), b.String()), cmp.Compare(a.GVK.Group, b.GVK.Group))
	})
	for _, name := range sorted {
		if reflect.DeepEqual(old[name], now[name]) {
			continue
		}
		action := "changed"
		switch {
		case old[name] == nil:
			action = "added"
		case now[name] == nil:
			action = "removed"
		}
		changes = append(changes, ObjectDiff{Object: name.String(), Action: action, Diff: d.object(old[name], now[name])})
	}
	return changes
}

// byIdentity has the objects by group, kind, namespace and name. The version of the API is left
// out: an object whose version was raised has changed, and was not replaced by another one.
func byIdentity(objects []map[string]any) map[manifest.Object]map[string]any {
	out := make(map[manifest.Object]map[string]any, len(objects))
	for _, object := range objects {
		of := manifest.Of(&unstructured.Unstructured{Object: object})
		of.GVK.Version = ""
		out[of] = object
	}
	return out
}

// object is the difference of two objects as YAML. A secret that differs is hidden on both
// sides, also where only one of them looks like one, and it is said that it differs.
func (d *differ) object(before, after map[string]any) string {
	if d.mask != nil {
		before, after = dryrun.HideBoth(before, after, d.mask)
	}
	// An empty text means that only masked values differ: equal objects do not get here.
	return cmp.Or(dryrun.Unified(before, after, d.from, d.to), "only masked values differ; use show-secrets to show them\n")
}
