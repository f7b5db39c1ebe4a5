package lint

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"addon-operator/actors/plan"
	"addon-operator/addons"
	"addon-operator/helm"
	"addon-operator/helm/charts"
	"addon-operator/hooks"
	"addon-operator/kube"
	"addon-operator/values"
)

// renderLimit is how long the templates of one module may take.
const renderLimit = 30 * time.Second

// maxUnset is how many values of one chart that nothing sets are named.
const maxUnset = 20

// chartCheck is the look at the chart of one module, with its values on disk.
type chartCheck struct {
	*pass
	m   addons.Module
	own *values.Section
}

// definitions finds the kinds that modules bring in crds/.
func (c *checks) definitions() {
	for _, m := range c.tree.Modules {
		files, err := kube.CRDFiles(charts.Root(m.Dir), kube.CRDOptions{SkipPrefixes: c.CRDSkip, Ignored: charts.Ignored})
		loaded{c.tree, c.found}.fail(err)
		for _, file := range files {
			found, err := c.Memory.read(file)
			if err != nil {
				c.found.say(Error, file+": "+err.Error())
			}
			for _, crd := range found {
				if err := c.kinds.know(crd); err != nil {
					c.found.add(Error, file, place{}, err.Error())
				}
			}
		}
	}
}

// renderAll renders the charts of all modules: their templates may bring kinds, too.
func (c *checks) renderAll(ctx context.Context) {
	for _, m := range c.tree.Modules {
		own := c.section(m)
		if own == nil || c.global == nil || !charts.Exists(m.Dir) || ctx.Err() != nil {
			continue
		}
		chart := chartCheck{c.pass, m, own}
		documents, err := chart.renderOnce(ctx)
		if err != nil {
			chart.refused(err)
			continue
		}
		c.documents[m.Dir] = documents
		for _, d := range documents {
			for _, o := range d.Objects {
				if o["kind"] == "CustomResourceDefinition" {
					_ = c.kinds.know(o) // the check of its fields says what is wrong
					c.client = nil
				}
			}
		}
	}
}

// render renders a chart with the values on disk and those that were given. Where hooks find out more, and it does not render
// without, it takes what the tests of the module say that they find.
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
	return nil, fmt.Errorf("%w; values that hooks find out can be given with --values, and are taken from what tests of the module expect", err)
}

// incomplete reports whether hooks may add values to those on disk.
func (c chartCheck) incomplete() bool {
	return hasHooks(c.m.HooksDir(), c.m.Base, hooks.Module) || hasHooks(c.tree.Global.HooksDir, "", hooks.Global)
}

// show renders once.
func (c chartCheck) show(ctx context.Context, merged any) (_ []helm.Document, err error) {
	type result struct {
		documents []helm.Document
		err       error
	}
	if c.client == nil { // it knows the kinds that were there when it was made
		if c.client, err = helm.New(helm.Options{Config: c.kinds.server.RESTConfig(), Namespace: "addon-operator"}); err != nil {
			return nil, err
		}
	}
	client := c.client
	module, _ := merged.(map[string]any)
	done := make(chan result, 1)
	go func() { // templates cannot be stopped: the end of the program does
		documents, err := client.Show(ctx, plan.HelmModule(c.m, module))
		done <- result{documents, err}
	}()
	limited, cancel := context.WithTimeoutCause(ctx, renderLimit, fmt.Errorf("the templates took more than %s; look for a range over a large number", renderLimit))
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

// documentError says that what a template printed is no object.
type documentError struct {
	document helm.Document
	err      error
}

// Error implements error.
func (e *documentError) Error() string { return e.err.Error() }

// Unwrap returns the cause.
func (e *documentError) Unwrap() error { return e.err }

// refused places an error of rendering in its template.
func (c chartCheck) refused(err error) {
	if document, ok := errors.AsType[*documentError](err); ok {
		file := templateOf(c.m, document.document.Source)
		text, at := err.Error(), place{}
		if found := regexp.MustCompile(`line (\d+)`).FindStringSubmatch(text); found != nil {
			n, _ := strconv.Atoi(found[1])
			at = c.found.back(file, newSource([]byte(document.document.Text)), place{line: n})
		}
		c.found.add(Error, file, at, "it prints no object: "+text)
		return
	}
	text := err.Error()
	text = strings.TrimPrefix(text, "release "+c.m.Name+": ")
	text = strings.TrimPrefix(text, "chart in "+c.m.Dir+": ")
	if _, ok := errors.AsType[*values.ValidationError](err); ok {
		return // the check of values says so
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
	if called := regexp.MustCompile(`^executing .*? at <(.*?)>: (?s:(.*))`).FindStringSubmatch(message); called != nil {
		at, message = src.word(line, strings.TrimSuffix(called[1], "...")), called[1]+": "+called[2]
	}
	if name := regexp.MustCompile(`^function "(\w+)" not defined`).FindStringSubmatch(message); name != nil {
		at = src.word(line, name[1])
		fix := "docs of Helm list the functions of templates"
		if meant := values.Nearest(name[1], charts.Functions()); meant != "" {
			fix = "did you mean " + meant + "?"
		}
		message = fmt.Sprintf("there is no function %s; %s", name[1], fix)
	}
	c.found.add(Error, file, at, message)
}

// templateOf is the file of a template with the name that the engine gives it: web/charts/db/templates/a.yaml.
func templateOf(m addons.Module, name string) string {
	_, below, _ := strings.Cut(name, "/")
	file := filepath.Join(charts.Root(m.Dir), filepath.FromSlash(below))
	if _, err := os.Stat(file); err != nil {
		return m.Dir // in an archive
	}
	return file
}

// look looks at what the templates printed.
func (c chartCheck) look(ctx context.Context) {
	documents := c.documents[c.m.Dir]
	if documents == nil {
		return
	}
	for _, d := range documents {
		c.objects(d)
	}
	c.unset()
	again, err := c.render(ctx)
	if err == nil {
		c.unstable(documents, again)
	}
}

// unset warns of values that templates print and that nothing sets, unless a schema has them, or programs may set them: those of the module
// its section, global hooks global.
func (c chartCheck) unset() {
	loaded, err := c.Memory.charts.Load(charts.Module{Name: c.m.Name, Key: c.m.Key, Dir: c.m.Dir})
	if err != nil {
		return
	}
	all := any(map[string]any{values.GlobalKey: c.global.Merged(), c.m.Key: c.own.Merged()})
	for _, given := range c.Values {
		all = values.Merge(all, given)
	}
	merged, _ := all.(map[string]any)
	found := slices.DeleteFunc(loaded.Unset(merged), func(u charts.Unset) bool { return c.inSchema(u.Path) || c.maySet(u.Path) })
	for _, u := range found[:min(len(found), maxUnset)] {
		fix := "set it in values.yaml, or write | default after it"
		if meant := values.Nearest(u.Path[len(u.Path)-1], u.Known); meant != "" {
			fix = "did you mean " + meant + "?"
		}
		c.found.add(Warning, filepath.Join(charts.Root(c.m.Dir), filepath.FromSlash(u.File)), place{u.Line, u.Column}, fmt.Sprintf("nothing sets .Values.%s, so nothing is printed; %s", strings.Join(u.Path, "."), fix))
	}
	if more := len(found) - maxUnset; more > 0 {
		c.found.add(Warning, c.m.Dir, place{}, fmt.Sprintf("and %d more values are printed that nothing sets", more))
	}
}

// maySet reports whether a hook may set a value.
func (c chartCheck) maySet(path []string) bool {
	dir, hooked := c.m.Dir, hasHooks(c.m.HooksDir(), c.m.Base, hooks.Module)
	switch path[0] {
	case values.GlobalKey:
		dir, hooked = c.tree.Global.Dir, hasHooks(c.tree.Global.HooksDir, "", hooks.Global)
	case c.m.Key:
	default:
		return false // of the chart's values.yaml
	}
	return hooked && hooks.ReadsOf(dir, func(name string) bool {
		return slices.Contains([]string{"templates", "charts", "chart", "crds", "openapi", "tests", "docs", "Chart.yaml", "values.yaml", "module.yaml"}, name)
	}).MaySet(path)
}

// inSchema reports whether a schema describes a value, which people may set then.
func (c chartCheck) inSchema(path []string) bool {
	dir := c.m.Dir
	if path[0] == values.GlobalKey {
		dir = c.tree.Global.Dir
	}
	var steps []string
	for _, step := range path[1:] {
		steps = append(steps, "properties", step)
	}
	for _, file := range []string{"config-values.yaml", "values.yaml"} {
		if _, depth := c.found.src.of(filepath.Join(dir, "openapi", file)).at(steps, true); len(steps) > 0 && depth == len(steps) {
			return true
		}
	}
	return false
}

// unstable warns of templates that print something else each time.
func (c chartCheck) unstable(once, again []helm.Document) {
	for i, d := range once {
		if i >= len(again) || again[i].Source != d.Source || again[i].Text == d.Text {
			continue
		}
		file := templateOf(c.m, d.Source)
		if _, looksUp := c.found.src.of(file).find("lookup "); looksUp {
			continue // it may keep what it finds in a cluster
		}
		first, second := newSource([]byte(d.Text)), newSource([]byte(again[i].Text))
		n := 1
		for n < len(first.lines) && first.line(n) == second.line(n) {
			n++
		}
		c.found.add(Warning, file, c.found.back(file, first, place{line: n}), "it prints something else at each render, so each run would upgrade the release; make the value once in a hook, as docs/modules.md shows")
	}
}

// objects compares the objects of a document with the kinds and fields of Kubernetes.
func (c chartCheck) objects(d helm.Document) {
	file := templateOf(c.m, d.Source)
	output := newSource([]byte(d.Text))
	for _, o := range d.Objects {
		apiVersion, _ := o["apiVersion"].(string)
		kind, _ := o["kind"].(string)
		u := unstructured.Unstructured{Object: o}
		name := strings.TrimSpace(kind + " " + u.GetName())
		if problem, severity := c.kinds.unknown(apiVersion, kind); severity == Error {
			at, _ := output.at([]string{"apiVersion"}, true)
			if strings.Contains(problem, "did you mean") {
				at, _ = output.at([]string{"kind"}, true)
			}
			c.found.add(Error, file, c.found.back(file, output, at), name+": "+problem)
			continue
		}
		for _, misfit := range c.kinds.builtin.Misfits(o) {
			at, _ := output.at(misfit.Path, misfit.Known != nil)
			problem := misfit.Problem
			if misfit.Known != nil {
				problem += "; " + known(misfit.Path, misfit.Known)
			}
			c.found.add(Error, file, c.found.back(file, output, at), fmt.Sprintf("%s: %s %s", name, strings.Join(misfit.Path, "."), problem))
		}
	}
}

// known proposes a field in the place of one that the kind does not have.
func known(path, names []string) string {
	if meant := values.Nearest(path[len(path)-1], names); meant != "" {
		return "did you mean " + meant + "?"
	}
	return "there are " + cut(strings.Join(names, ", "), 300)
}
