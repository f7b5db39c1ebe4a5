package helm

import (
	"context"
	"maps"
	"slices"
	"strings"

	"helm.sh/helm/v3/pkg/release"

	"addon-operator/helm/manifest"
)

// Document is what one template makes of the values: a part of a manifest.
type Document struct {
	Source string // name of the template
	Text   string
	// Objects of the text; nil when it cannot be read, with the reason in Err.
	Objects []map[string]any
	Err     error
	Hook    bool // it is a hook of the chart, and no part of the release (H14)
}

// Show renders the chart of a module and returns the result, in the order in which Helm applies it,
// with the hooks of the chart at the end (H14). It changes nothing, takes no lock and does not use
// the memory of renders, so it shows what an Apply would render now. A document that cannot be read
// is among them with its error; an error of Show means that there is no text at all.
func (c *Client) Show(ctx context.Context, m Module) ([]Document, error) {
	home, op, err := c.look(ctx, m)
	if err != nil {
		return nil, err
	}
	loaded, err := home.renderer.load(&m)
	if err != nil {
		return nil, renderProblem(ctx, nil, m, err)
	}
	files, err := home.renderer.renderFiles(op, m, loaded, &lookupClients{op: op})
	if err != nil {
		return nil, renderProblem(ctx, op, m, err)
	}
	maps.DeleteFunc(files, func(_, text string) bool { return strings.TrimSpace(text) == "" })
	hooks, manifests, err := sortFiles(files)
	if err != nil { // one of them is broken, and no order is known
		var all []Document
		for _, name := range sortedKeys(files) {
			all = append(all, document(name, files[name]))
		}
		return all, nil
	}
	var all []Document
	for _, m := range manifests {
		all = append(all, document(m.Name, m.Content))
	}
	for _, h := range hooks {
		d := document(h.Path, h.Manifest)
		d.Hook = true
		all = append(all, d)
	}
	return all, nil
}

// look begins an operation that changes nothing.
func (c *Client) look(ctx context.Context, m Module) (*home, *operation, error) {
	home, err := c.homes.in(m.Namespace)
	if err != nil {
		return nil, nil, err
	}
	op, err := home.begin(ctx, m.Name)
	return home, op, err
}

// Objects are those of the chart of a module with its values, without hooks (H14), as News reports
// them. It changes nothing. Objects of a kind that the API server does not serve keep the namespace
// in the manifest.
func (c *Client) Objects(ctx context.Context, m Module) ([]Object, error) {
	home, op, err := c.look(ctx, m)
	if err != nil {
		return nil, err
	}
	_, manifest, err := home.template(ctx, op, &m)
	if err != nil {
		return nil, err
	}
	all := make([]Object, len(manifest.objects))
	for i, o := range manifest.objects {
		all[i], _, _ = home.resolve(o)
	}
	return all, nil
}

// document parses what a template has printed. Of a text that cannot be parsed as a whole, it has
// no objects.
func document(source, text string) Document {
	d := Document{Source: source, Text: strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(text), "---")) + "\n"}
	found, err := manifest.Parse(text)
	for _, u := range found {
		d.Objects = append(d.Objects, u.Object)
	}
	d.Err = err
	return d
}

// Deployed returns what the deployed revision of a release was rendered to, without the hooks of
// its chart; or, when earlier is not 0, that revision, if it is still recorded. There is none while
// the first install has not succeeded.
func (c *Client) Deployed(ctx context.Context, name string, earlier int) (objects []map[string]any, revision int, err error) {
	home, err := c.homes.holding(ctx, name)
	if err != nil {
		return nil, 0, err
	}
	defer func() { err = classify(ctx, name, nil, err) }()
	op := &operation{ctx: ctx, home: home, release: name, log: home.options.Log}
	state, err := home.records.look(ctx, name)
	if err != nil {
		return nil, 0, err
	}
	for _, r := range slices.Backward(state.Revisions) {
		if earlier != 0 && r.Version != earlier || earlier == 0 && r.Status != release.StatusDeployed {
			continue
		}
		rel, err := op.store(state).body(r)
		if err != nil {
			return nil, 0, err
		}
		d := document(name, rel.Manifest)
		return d.Objects, rel.Version, d.Err
	}
	return nil, 0, nil
}
