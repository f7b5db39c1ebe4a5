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
		shown, objects, err := showDocument(d, request, mask)
		fmt.Fprintf(&text, "---\n# Source: %s\n%s", d.Source, shown)
		rendered.Objects = append(rendered.Objects, objects...)
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
	rendered.Changes = differences(deployed, now, mask)
	return rendered, nil
}

// showDocument returns a document as the person who asked may see it: as text, and the same as objects
// for JSON. It hides secrets by writing its objects again after masking; comments and
// the order of keys are lost thereby. With request.Secrets the text is that of the chart. A
// document that cannot be read cannot be masked, so its text is shown only with request.Broken and
// request.Secrets together.
func showDocument(d helm.Document, request RenderRequest, mask func(map[string]any) map[string]any) (text string, objects []any, err error) {
	switch {
	case d.Err != nil && request.Broken && request.Secrets:
		return d.Text, nil, nil
	case d.Err != nil && request.Broken:
		return "# cannot be parsed, so secrets in it cannot be masked; use show-secrets to show it\n# " + d.Err.Error() + "\n", nil, nil
	case d.Err != nil:
		return "", nil, fmt.Errorf("%s: %w; use debug to show its output", d.Source, d.Err)
	}
	for i, object := range d.Objects {
		if !request.Secrets {
			object = mask(object)
		}
		objects = append(objects, object)
		written, err := yaml.Marshal(object)
		if err != nil {
			return text, objects, fmt.Errorf("%s: %w", d.Source, err)
		}
		if i > 0 {
			text += "---\n"
		}
		text += string(written)
	}
	if request.Secrets {
		text = d.Text
	}
	return text, objects, nil
}

// differences returns what differs between the objects of two renders, sorted by name. Objects are
// compared as they are and masked afterwards, so that a changed secret is a difference: it is hidden on both
// sides, also where only one of them looks like one, and it is said that it differs. A nil mask shows secrets. The result
// is never nil: nil in Rendered.Changes means that no difference was asked for.
func differences(before, after []map[string]any, mask func(map[string]any) map[string]any) []ObjectDiff {
	old, now := byIdentity(before), byIdentity(after)
	names := maps.Clone(old)
	maps.Copy(names, now)
	changes := []ObjectDiff{}
	sorted := slices.SortedFunc(maps.Keys(names), func(a, b manifest.Object) int {
		return cmp.Or(cmp.Compare(a.String(), b.String()), cmp.Compare(a.GVK.Group, b.GVK.Group))
	})
	for _, name := range sorted {
		was, is := old[name], now[name]
		if reflect.DeepEqual(was, is) {
			continue
		}
		action := "changed"
		switch {
		case was == nil:
			action = "added"
		case is == nil:
			action = "removed"
		}
		if mask != nil {
			was, is = helm.HideBoth(was, is, mask)
		}
		// An empty text means that only masked values differ: equal objects do not get here.
		diff := cmp.Or(manifest.Unified(was, is, "deployed", "now"), "only masked values differ; use show-secrets to show them\n")
		changes = append(changes, ObjectDiff{Object: name.String(), Action: action, Diff: diff})
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
