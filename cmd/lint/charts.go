package lint

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"addon-operator/actors/decide"
	"addon-operator/actors/plan"
	"addon-operator/addons"
	"addon-operator/helm"
	"addon-operator/helm/charts"
	"addon-operator/helm/manifest"
	"addon-operator/hooks"
	"addon-operator/kube"
	"addon-operator/kube/fields"
	"addon-operator/values"
)

// renderLimit is how long the templates of one module may take: a range over a large number, which
// a misplaced value makes, would hang the check.
const renderLimit = 30 * time.Second

// chartCheck is the check of the chart of one module, with its values on disk. own is never nil.
type chartCheck struct {
	*checks
	m   addons.Module
	own *values.Section
}

// definitions learns the kinds that modules bring in crds/, before any chart is rendered: templates
// may ask for them by .Capabilities. Definitions of a module that cannot be loaded are not read.
func (c *checks) definitions() {
	for _, m := range c.tree.Modules {
		files, err := kube.CRDFiles(charts.Root(m.Dir), kube.CRDOptions{SkipPrefixes: c.CRDSkip, Ignored: charts.Ignored})
		loaded{c.tree, c.found}.fail(err)
		for _, file := range files {
			found, err := c.Memory.read(file, charts.Published(charts.Root(m.Dir)))
			if err != nil {
				c.found.addMessage(Error, file+": "+err.Error())
			}
			for _, crd := range found {
				if err := c.kinds.know(crd); err != nil {
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
		chart := chartCheck{c, m, own}
		documents, err := chart.renderOnce(ctx)
		if err != nil {
			chart.refused(err)
			continue
		}
		c.documents[m.Dir] = documents
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
func (c chartCheck) render(ctx context.Context) ([]helm.Document, error) {
	merged := any(map[string]any{values.GlobalKey: c.global.Merged(), c.m.Key: c.own.Merged()})
	for _, given := range c.Values {
		merged = values.Merge(merged, given)
	}
	documents, err := c.show(ctx, merged)
	if err == nil || !c.incomplete() {
		return documents, err
	}
	for _, more := range valuesOfTests(c.m) {
		if documents, err := c.show(ctx, values.Merge(merged, more)); err == nil {
			return documents, nil
		}
	}
	return nil, fmt.Errorf("%w; pass values that hooks set with --values; those that tests of the module expect are also used", err)
}

// incomplete reports whether hooks may add values to those on disk.
func (c chartCheck) incomplete() bool {
	return hasHooks(c.m.HooksDir(), c.m.Base, hooks.Module) || hasHooks(c.tree.Global.HooksDir, "", hooks.Global)
}

// show renders once. An object that a template prints and that cannot be read fails it, as a
// *documentError. The end of ctx and renderLimit end the waiting, not the templates.
func (c chartCheck) show(ctx context.Context, merged any) (_ []helm.Document, err error) {
	type result struct {
		documents []helm.Document
		err       error
	}
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
	done := make(chan result, 1)
	go func() { // templates cannot be stopped: the end of the program does
		documents, err := client.Show(ctx, plan.HelmModule(c.m, module))
		done <- result{documents, err}
	}()
	limited, cancel := context.WithTimeoutCause(ctx, renderLimit, fmt.Errorf("rendering took more than %s; look for a range over a large number", renderLimit))
	defer cancel()
	select {
	case r := <-done:
		for _, d := range r.documents {
			if r.err == nil && d.Err != nil {
				r.err = &documentError{d, d.Err}
			}
		}
		return r.documents, r.err
	case <-limited.Done():
		return nil, context.Cause(limited)
	}
}

// documentError reports that a template printed text that is no object; the document has its file and
// text.
type documentError struct {
	document helm.Document
	err      error
}

// Error implements error.
func (e *documentError) Error() string { return e.err.Error() }

// Unwrap returns the cause.
func (e *documentError) Unwrap() error { return e.err }

// refused reports why a chart does not render, in its template. Errors of the template engine are
// texts such as "template: web/templates/a.yaml:3:8: executing … at <.Values.x>: …", so file, line
// and the expression are parsed from them. A violation of a schema is left out: load has reported
// it where the value is set.
func (c chartCheck) refused(err error) {
	if document, ok := errors.AsType[*documentError](err); ok {
		file := templateOf(c.m, document.document.Source)
		text, at := err.Error(), place{}
		if found := regexp.MustCompile(`line (\d+)`).FindStringSubmatch(text); found != nil {
			n, _ := strconv.Atoi(found[1])
			at = c.found.back(file, newSource([]byte(document.document.Text)), place{line: n})
		}
		c.found.add(Error, file, at, "the output is not an object: "+text)
		return
	}
	text := err.Error()
	text = strings.TrimPrefix(text, "release "+c.m.Name+": ")
	text = strings.TrimPrefix(text, "chart in "+c.m.Dir+": ")
	if _, ok := errors.AsType[*values.ValidationError](err); ok {
		return // the check of values reports it
	}
	// The last place is where it happens; those before have included that template.
	places := regexp.MustCompile(`(?:template: |parse error at \()([^\s:()]+):(\d+)(?::(\d+))?(?:\): |: )`).FindAllStringSubmatchIndex(text, -1)
	if len(places) == 0 {
		c.found.add(Error, c.m.Dir, place{}, "the chart does not render: "+text)
		return
	}
	last := places[len(places)-1]
	file := templateOf(c.m, text[last[2]:last[3]])
	line, _ := strconv.Atoi(text[last[4]:last[5]])
	message := text[last[1]:]
	src := c.found.src.of(file)
	at := src.start(line)
	// The engine shortens a long expression with dots, which the template does not have. Its column
	// is that of the action, and the expression is closer.
	if called := regexp.MustCompile(`^executing .*? at <(.*?)>: (?s:(.*))`).FindStringSubmatch(message); called != nil {
		at, message = src.word(line, strings.TrimSuffix(called[1], "...")), called[1]+": "+called[2]
	}
	if name := regexp.MustCompile(`^function "(\w+)" not defined`).FindStringSubmatch(message); name != nil {
		at = src.word(line, name[1])
		message = fmt.Sprintf("there is no function %s; Helm's documentation lists the template functions", name[1])
	}
	c.found.add(Error, file, at, message)
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

// look checks what the templates have printed in renderAll; a chart that did not render has its
// finding already. It renders once more, to find templates that print something else each time.
func (c chartCheck) look(ctx context.Context) {
	documents := c.documents[c.m.Dir]
	if documents == nil {
		return
	}
	for _, d := range documents {
		c.objects(d)
		c.misprint(d)
	}
	c.hookNames()
	again, err := c.render(ctx)
	if err == nil {
		c.unstable(documents, again)
	}
}

// unstable warns of templates whose second render differs, by random values or the time: each upgrade
// of the release would change that (H6). The place is the first line that differs.
func (c chartCheck) unstable(once, again []helm.Document) {
	// A template that looks up may keep what it finds in a cluster. The call may be in another file, or in a library.
	lookup := regexp.MustCompile(`\{\{[^}]*\blookup\b`)
	if loaded, err := c.Memory.charts.Load(decide.ChartModule(c.m)); err != nil || loaded.Any(lookup.Match) {
		return
	}
	for i, d := range once {
		if i >= len(again) || again[i].Source != d.Source || again[i].Text == d.Text {
			continue
		}
		file := templateOf(c.m, d.Source)
		first, second := newSource([]byte(d.Text)), newSource([]byte(again[i].Text))
		n := 1
		for n < len(first.lines) && first.line(n) == second.line(n) {
			n++
		}
		c.found.add(Warning, file, c.found.back(file, first, place{line: n}),
			"its output differs at each render, so each upgrade of the release changes it; "+
				"create the value once in a hook, as docs/modules.md shows")
	}
}

// hookNames warns of Helm hooks that Helm does not know: it leaves out the whole object, and says so only in its
// log. A name that a template computes is not checked.
func (c chartCheck) hookNames() {
	known := []string{
		"pre-install", "post-install", "pre-upgrade", "post-upgrade", "pre-delete", "post-delete", "pre-rollback",
		"post-rollback", "test", "test-success",
	}
	annotation := regexp.MustCompile(`^\s*["']?helm\.sh/hook["']?:\s*["']?(\w[\w, -]*)["']?\s*(?:#.*)?$`)
	templates := filepath.Join(charts.Root(c.m.Dir), "templates")
	_ = filepath.WalkDir(templates, func(file string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return nil //nolint:nilerr // what cannot be read does not load, either
		}
		src := c.found.src.of(file)
		for n := range src.lines {
			found := annotation.FindStringSubmatch(src.line(n + 1))
			if found == nil {
				continue
			}
			for name := range strings.SplitSeq(found[1], ",") {
				if name = strings.TrimSpace(name); !slices.Contains(known, strings.ToLower(name)) {
					fix := values.DidYouMean(strings.ToLower(name), known, "write one of "+strings.Join(known, ", "))
					c.found.add(Warning, file, src.word(n+1, name), fmt.Sprintf("Helm has no hook %q, and leaves out the object; %s", name, fix))
				}
			}
		}
		return nil
	})
}

// misprint warns of a mistake of printf in the output.
func (c chartCheck) misprint(d helm.Document) {
	line, mistake := manifest.Misprint(d.Text)
	if line == 0 {
		return
	}
	file := templateOf(c.m, d.Source)
	at := c.found.back(file, newSource([]byte(d.Text)), place{line: line})
	c.found.add(Warning, file, at, fmt.Sprintf("it prints %q: printf got a value that does not fit its verb; "+
		"if the value is set, numbers in values are float64: for %%d write (int .Values.number), for %%s (toString .Values.number)", mistake))
}

// objects compares the objects of a document with the kinds and fields of Kubernetes, and of the
// definitions in the tree. Kinds that only might be missing are no finding here, unlike in
// bindings: a chart may need what its users install.
func (c chartCheck) objects(d helm.Document) {
	file := templateOf(c.m, d.Source)
	output := newSource([]byte(d.Text))
	checker := fields.New(c.kinds.crds...)
	for _, o := range d.Objects {
		apiVersion, _ := o["apiVersion"].(string)
		kind, _ := o["kind"].(string)
		u := unstructured.Unstructured{Object: o}
		name := strings.TrimSpace(kind + " " + u.GetName())
		if problem, severity := c.kinds.unknown(apiVersion, kind); severity == Error {
			at, _ := output.at([]string{"apiVersion"}, true)
			// The kind is the wrong word then, otherwise the version.
			if strings.Contains(problem, "did you mean") {
				at, _ = output.at([]string{"kind"}, true)
			}
			c.found.add(Error, file, c.found.back(file, output, at), name+": "+problem)
			continue
		}
		for _, wrong := range checker.Check(o) {
			at, _ := output.at(wrong.Path, wrong.Unknown)
			text := name + ": " + wrong.String()
			if len(wrong.Known) > 0 {
				text += "; " + values.DidYouMean(wrong.Path[len(wrong.Path)-1], wrong.Known, "write one of "+cut(strings.Join(wrong.Known, ", "), 300))
			}
			c.found.add(Error, file, c.found.back(file, output, at), text)
		}
	}
}
