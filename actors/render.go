package actors

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"sigs.k8s.io/yaml"

	"addon-operator/addons"
	"addon-operator/helm"
	"addon-operator/helm/charts"
	"addon-operator/messages"
	"addon-operator/values"
)

// Renderer renders charts, and changes nothing. Package helm implements it.
type Renderer interface {
	Show(ctx context.Context, m helm.Module) ([]helm.Document, error)
	Deployed(ctx context.Context, release string) (objects []map[string]any, revision int, err error)
}

// whichModule asks a module for what lies on disk; the answer is an addons.Module.
type whichModule struct{}

// RenderOptions are what can be asked for about a render.
type RenderOptions struct {
	// Diff compares with the deployed release. Broken shows text that is no YAML. Secrets
	// shows those; without it they are hidden, and so is text that cannot be read.
	Diff, Broken, Secrets bool
}

// Render renders the chart of a module with its values now. It renders in the
// goroutine of who asks; no actor waits for it.
func (o *Operator) Render(ctx context.Context, module string, options RenderOptions) (messages.Rendered, error) {
	m, err := o.helmModule(ctx, module)
	if err != nil {
		return messages.Rendered{}, err
	}
	documents, err := o.program.Renderer.Show(ctx, m)
	if err != nil {
		return messages.Rendered{}, fmt.Errorf("render: %w", err)
	}
	mask := masker(o.program.Secrets.Hider())
	rendered := messages.Rendered{Module: module, Objects: []any{}}
	var text strings.Builder
	var errs []error
	for _, d := range documents {
		shown, err := showDocument(d, options, mask)
		fmt.Fprintf(&text, "---\n# Source: %s\n%s", d.Source, shown.text)
		rendered.Objects = append(rendered.Objects, shown.objects...)
		errs = append(errs, err)
	}
	rendered.Text = text.String()
	if err := errors.Join(errs...); err != nil || !options.Diff {
		return rendered, err
	}
	deployed, revision, err := o.program.Renderer.Deployed(ctx, m.Name)
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
	if options.Secrets {
		mask = nil
	}
	rendered.Changes, err = diffObjects(deployed, now, mask)
	return rendered, err
}

// helmModule is a module as Helm would get it now (D9).
func (o *Operator) helmModule(ctx context.Context, name string) (helm.Module, error) {
	if o.program.Renderer == nil {
		return helm.Module{}, errors.New("nothing can be rendered here")
	}
	m, err := askFor[addons.Module](ctx, o, "module/"+name, whichModule{})
	if err != nil {
		return helm.Module{}, err
	}
	if !charts.Exists(m.Dir) {
		return helm.Module{}, fmt.Errorf("module %s has no chart, so there is nothing to render", name)
	}
	global, err := askFor[messages.Values](ctx, o, messages.GlobalHooks, messages.GetValues{})
	if err != nil {
		return helm.Module{}, err
	}
	own, err := askFor[messages.Values](ctx, o, "module/"+name, messages.GetValues{})
	if err != nil {
		return helm.Module{}, err
	}
	merged := map[string]any{values.GlobalKey: global.Section.Merged(), own.Section.Key(): own.Section.Merged()}
	return helm.Module{Name: m.Name, Key: m.Key, Dir: m.Dir, Values: merged}, nil
}

func askFor[Answer any](ctx context.Context, o *Operator, path string, question any) (Answer, error) {
	var none Answer
	got, err := o.Ask(ctx, path, question)
	if err != nil {
		return none, err
	}
	answer, ok := got.(Answer)
	if !ok {
		return none, fmt.Errorf("bug: %s answered %T with %T", path, question, got)
	}
	return answer, nil
}

// shownDocument is a document without secrets.
type shownDocument struct {
	text    string
	objects []any
}

func showDocument(d helm.Document, options RenderOptions, mask func(map[string]any) map[string]any) (shownDocument, error) {
	switch {
	case d.Err != nil && options.Broken && options.Secrets:
		return shownDocument{text: d.Text}, nil
	case d.Err != nil && options.Broken:
		return shownDocument{text: "# cannot be read, so secrets in it cannot be hidden; ask for it with show-secrets\n# " + d.Err.Error() + "\n"}, nil
	case d.Err != nil:
		return shownDocument{}, fmt.Errorf("%s: %w; ask with debug for what it printed", d.Source, d.Err)
	}
	var shown shownDocument
	if options.Secrets {
		shown.text = d.Text
	}
	for i, object := range d.Objects {
		if options.Secrets {
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
