package lint

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"addon-operator/actors/plan"
	"addon-operator/addons"
	"addon-operator/helm"
	"addon-operator/helm/charts"
	"addon-operator/helm/manifest"
	"addon-operator/hooks"
	"addon-operator/kube"
	"addon-operator/kube/apiserver"

	"addon-operator/kube/fields"
	"addon-operator/values"
)

// renderLimit is how long the templates of one module may take: a range over a large number, which
// a misplaced value makes, would hang the check.
const renderLimit = 30 * time.Second

// rendered is what a chart has printed, or why it has not.
type rendered struct {
	documents []helm.Document
	err       error
}

// definitions learns the kinds that modules bring in crds/, before any chart is rendered: templates
// may ask for them by .Capabilities. Definitions of a module that cannot be loaded are not read.
func (c *checks) definitions() {
	for _, m := range c.tree.Modules {
		files, err := charts.Definitions(m.Dir)
		if err != nil {
			c.fail(fmt.Errorf("%s: %w", charts.Root(m.Dir), err))
		}
		for _, f := range files {
			if (kube.CRDOptions{SkipPrefixes: c.CRDSkip}).Skips(f.Name) {
				continue
			}
			file := filepath.Join(charts.Root(m.Dir), f.Name)
			objects, err := manifest.Parse(string(f.Data))
			if err != nil {
				c.found.addMessage(Error, file+": "+err.Error())
			}
			for _, object := range objects {
				if err := kube.CheckCRDs([]kube.CRD{{File: file, Object: object}}); err != nil {
					c.found.addMessage(Error, err.Error())
				} else if err := c.kinds.know(object.Object); err != nil {
					c.found.add(Error, file, place{}, err.Error())
				}
			}
		}
	}
}

// renderAll renders the charts of all modules, and learns the kinds that their templates bring.
// Modules are rendered in their order, so templates see the kinds of the modules before theirs, as
// in a cluster on the first run.
func (c *checks) renderAll(ctx context.Context) {
	for _, m := range c.tree.Modules {
		own := c.section(m)
		if own == nil || c.global == nil || !charts.Exists(m.Dir) || ctx.Err() != nil {
			continue
		}
		documents, err := c.render(ctx, m, own)
		c.rendered[m.Dir] = rendered{documents, err}
		for _, d := range documents {
			for _, o := range d.Objects {
				if o["kind"] == "CustomResourceDefinition" {
					_ = c.kinds.know(o) // the check of its fields reports the mistake
					c.client = nil
				}
			}
		}
	}
}

// render renders the chart with the values on disk and those of --values. Values that hooks set at
// run time are missing then, and many charts do not render without. So if there are hooks, and the
// chart fails, it is rendered with the values that each test of the module gives or expects, until
// one works. The error is always the one of the values on disk.
func (c *checks) render(ctx context.Context, m addons.Module, own *values.Section) ([]helm.Document, error) {
	merged := any(map[string]any{values.GlobalKey: c.global.Merged(), m.Key: own.Merged()})
	for _, given := range c.Values {
		merged = values.Merge(merged, given)
	}
	documents, err := c.show(ctx, m, merged)
	if err == nil || !hasHooks(m.HooksDir(), m.Base, hooks.Module) && !hasHooks(c.tree.Global.HooksDir, "", hooks.Global) {
		return documents, err
	}
	for _, more := range valuesOfTests(m) {
		if documents, err := c.show(ctx, m, values.Merge(merged, more)); err == nil {
			return documents, nil
		}
	}
	return documents, fmt.Errorf("%w; pass values that hooks set with --values; those that tests of the module expect are also used", err)
}

// show renders once. An object that a template prints and that cannot be read fails it. The end of ctx and
// renderLimit end the waiting, not the templates.
func (c *checks) show(ctx context.Context, m addons.Module, merged any) (_ []helm.Document, err error) {
	// The client caches the kinds of the API server in memory, so renderAll drops it when a kind is
	// added.
	if c.client == nil {
		if c.client, err = helm.New(helm.Options{Config: c.kinds.server.RESTConfig(), Namespace: "addon-operator"}); err != nil {
			return nil, err
		}
	}
	client := c.client
	module, _ := merged.(map[string]any)
	// One place, so that the goroutine ends although no one receives after the limit.
	done := make(chan rendered, 1)
	go func() { // templates cannot be stopped: the end of the program does
		documents, err := client.Show(ctx, plan.HelmModule(m, module))
		done <- rendered{documents, err}
	}()
	limited, cancel := context.WithTimeoutCause(ctx, renderLimit, fmt.Errorf("rendering took more than %s; look for a range over a large number", renderLimit))
	defer cancel()
	select {
	case r := <-done:
		for _, d := range r.documents {
			if r.err == nil && d.Err != nil {
				r.err = fmt.Errorf("the output is not an object: %w", d.Err)
			}
		}
		return r.documents, r.err
	case <-limited.Done():
		return nil, context.Cause(limited)
	}
}

// unrendered reports why a chart does not render, in its template. Errors of the template engine are
// texts such as "template: web/templates/a.yaml:3:8: executing … at <.Values.x>: …", so the file and
// the line are parsed from them.
func (c *checks) unrendered(m addons.Module, r rendered) {
	text := strings.TrimPrefix(r.err.Error(), "release "+m.Name+": ")
	if i := slices.IndexFunc(r.documents, func(d helm.Document) bool { return d.Err != nil }); i >= 0 {
		file, at := templateOf(m, r.documents[i].Source), place{}
		if found := regexp.MustCompile(`line (\d+)`).FindStringSubmatch(text); found != nil {
			at = c.found.yamlOf(file).origin(parsed([]byte(r.documents[i].Text)), numbered(found[1], ""))
		}
		c.found.add(Error, file, at, text)
		return
	}
	// The last place is where it happens; those before have included that template.
	places := regexp.MustCompile(`(?:template: |parse error at \()([^\s:()]+):(\d+)(?::(\d+))?(?:\): |: )`).FindAllStringSubmatchIndex(text, -1)
	if len(places) == 0 {
		c.found.add(Error, m.Dir, place{}, "the chart does not render: "+strings.TrimPrefix(text, "chart in "+m.Dir+": "))
		return
	}
	last := places[len(places)-1]
	at, message := numbered(text[last[4]:last[5]], ""), text[last[1]:]
	if called := regexp.MustCompile(`^executing .*? at <(.*?)>: (?s:(.*))`).FindStringSubmatch(message); called != nil {
		message = called[1] + ": " + called[2]
	}
	c.found.add(Error, templateOf(m, text[last[2]:last[3]]), at, message)
}

// templateOf is the file of a template, from the name that the engine gives it, such as
// web/charts/db/templates/a.yaml, where web is the chart. A template that is packed in an archive
// in charts/ has no file: the directory of the module is returned.
func templateOf(m addons.Module, name string) string {
	_, below, _ := strings.Cut(name, "/")
	file := filepath.Join(charts.Root(m.Dir), filepath.FromSlash(below))
	if _, err := os.Stat(file); err != nil {
		return m.Dir // in an archive
	}
	return file
}

// look checks what the templates have printed in renderAll.
func (c *checks) look(ctx context.Context, m addons.Module) {
	r, ok := c.rendered[m.Dir]
	if !ok {
		return
	}
	if r.err != nil {
		c.unrendered(m, r)
		return
	}
	checker, before := fields.New(c.kinds.crds...), len(c.found.list)
	for _, d := range r.documents {
		file, output := templateOf(m, d.Source), parsed([]byte(d.Text))
		add := func(severity string, at place, text string) {
			c.found.add(severity, file, c.found.yamlOf(file).origin(output, at), text)
		}
		for _, o := range d.Objects {
			c.object(ctx, checker, o, func(path []string, text string) { add(Error, output.atSteps(path), text) })
		}
		if line, mistake := manifest.Misprint(d.Text); line > 0 {
			add(Warning, place{line: line}, fmt.Sprintf("it prints %q: printf got a value that does not fit its verb; "+
				"if the value is set, numbers in values are float64: for %%d write (int .Values.number), for %%s (toString .Values.number)", mistake))
		}
	}
	// Documents are in the order in which Helm installs them.
	slices.SortStableFunc(c.found.list[before:], func(a, b Finding) int {
		return cmp.Or(strings.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line))
	})
}

// object compares an object with the kinds and fields of Kubernetes, and of the definitions in the
// tree. Kinds that only might be missing are no finding here, unlike in bindings: a chart may need
// what its users install.
func (c *checks) object(ctx context.Context, checker *fields.Checker, o map[string]any, add func(path []string, text string)) {
	u := unstructured.Unstructured{Object: o}
	name := strings.TrimSpace(u.GetKind() + " " + u.GetName())
	if problem, severity := c.kinds.unknown(ctx, u.GetAPIVersion(), u.GetKind()); severity == Error {
		add([]string{"kind"}, name+": "+problem)
		return
	}
	for _, wrong := range checker.Check(o) {
		add(wrong.Path, name+": "+wrong.String())
	}
}

// kinds are the kinds that exist where the modules will run: those of an API server in memory, to
// which the definitions of the modules are added in definitions and renderAll.
type kinds struct {
	server *apiserver.Server
	crds   []map[string]any
	// What the server serves, until there is one more definition; client is nil when it must be asked
	// again.
	client *kube.Client
	served map[string][]string // apiVersions by kind, the preferred ones first
}

func newKinds() *kinds { return &kinds{server: apiserver.New(fields.Newest)} }

// know adds the kinds of a CustomResourceDefinition. The error is that of the API server, for a
// definition that it does not accept.
func (k *kinds) know(crd map[string]any) error {
	k.crds, k.client = append(k.crds, crd), nil
	return k.server.Apply(crd)
}

// ask learns what the server serves.
func (k *kinds) ask(ctx context.Context) (err error) {
	if k.client != nil {
		return nil
	}
	client, err := kube.Connect(kube.Options{Config: k.server.RESTConfig(), QPS: -1}) // nothing limits requests in memory
	if err != nil {
		return err
	}
	all, err := client.Discover(ctx)
	k.client, k.served = client, map[string][]string{}
	for _, list := range all.Kinds {
		for _, r := range list.APIResources {
			if !strings.Contains(r.Name, "/") {
				k.served[r.Kind] = append(k.served[r.Kind], list.GroupVersion)
			}
		}
	}
	return err
}

// unknown returns the problem of a kind; "" when it exists, or when a hook may use this name, such
// as a plural. It is an error when nothing outside of the tree can bring the kind: its group is one
// of Kubernetes or of a definition in the tree. Otherwise it is a warning, for bindings. apiVersion
// is "" when a binding leaves it out.
func (k *kinds) unknown(ctx context.Context, apiVersion, kind string) (problem, severity string) {
	if err := k.ask(ctx); err != nil {
		return "the kinds of the API server in memory are unknown: " + err.Error(), Error
	}
	gv, err := schema.ParseGroupVersion(apiVersion)
	_, _, missing := k.client.FindKind(ctx, apiVersion, kind)
	if missing == nil || err == nil && fields.Has(gv.WithKind(kind)) {
		return "", ""
	}
	var names []string
	group := fields.Owns(gv.Group) // or it is one of the tree
	for name, versions := range k.served {
		names = append(names, name)
		group = group || slices.ContainsFunc(versions, func(v string) bool { return strings.HasPrefix(v, gv.Group+"/") })
	}
	slices.Sort(names)
	problem = fmt.Sprintf("neither Kubernetes %s nor a CRD of the modules has %s", fields.Newest, strings.TrimSpace(apiVersion+" "+kind))
	switch meant := values.Nearest(kind, names); {
	case group && len(k.served[kind]) > 0:
		return problem + "; it is served as " + strings.Join(k.served[kind], ", "), Error
	case group && meant != "":
		return problem + "; did you mean " + meant + "?", Error
	case group && apiVersion != "":
		return problem + "; correct the kind or the apiVersion", Error
	}
	return problem + ", so the hook receives nothing until something else installs it; add the CRD to crds/ of a module, or correct the name", Warning
}
