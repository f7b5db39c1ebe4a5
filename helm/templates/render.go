// Package templates renders charts as Helm's engine does, and ends a render that prints, keeps or repeats too much. Helm's
// own has no bounds and offers no place for them: {{ repeat 2000000000 "x" }} ends the process, and values decide about the
// number as often as the chart's author does.
package templates

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"sync"
	"text/template"

	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
)

// Renderer renders charts. The zero Renderer is ready; several goroutines may use it.
type Renderer struct {
	pool sync.Pool // of *rendering: to make its functions takes longer than to render a small chart
}

// Render returns what each template of a chart prints, by the name of the template, as engine.RenderWithClientProvider does.
// values are those of chartutil.ToRenderValues. A render that exceeds a limit ends with a *LimitError; all other errors are
// Helm's, in Helm's words. D39.
func (r *Renderer) Render(ctx context.Context, c *chart.Chart, values chartutil.Values, lookup engine.ClientProvider) (map[string]string, error) {
	ctx, cancel := context.WithTimeout(ctx, maxTime)
	defer cancel()
	one, ok := r.pool.Get().(*rendering)
	if !ok {
		one = newRendering()
	}
	files, err := one.render(&budget{ctx: ctx, most: usual()}, sources(c, values), lookup)
	r.pool.Put(one)
	var limit *LimitError
	if err == nil || errors.As(err, &limit) {
		return files, err
	}
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	// What fails here fails there, too, before it can do more than it did here, and with the words that people know.
	return engine.RenderWithClientProvider(c, values, lookup)
}

// source is one template with what it is given.
type source struct {
	name, text, base string
	data             map[string]any
}

// sources lists the templates of a chart and its subcharts with their data, in Helm's order: those of a chart after those of
// its subcharts, whose definitions they replace.
func sources(c *chart.Chart, values chartutil.Values) []source {
	var all []source
	addSources(&all, c, values)
	slices.SortFunc(all, func(a, b source) int {
		return cmp.Or(cmp.Compare(strings.Count(b.name, "/"), strings.Count(a.name, "/")), strings.Compare(b.name, a.name))
	})
	return all
}

func addSources(all *[]source, c *chart.Chart, values chartutil.Values) (data map[string]any) {
	about := struct {
		chart.Metadata
		IsRoot bool
	}{*c.Metadata, c.IsRoot()}
	subcharts := map[string]any{}
	data = map[string]any{
		"Chart": about, "Files": filesOf(c.Files), "Release": values["Release"], "Capabilities": values["Capabilities"],
		"Values": chartutil.Values{}, "Subcharts": subcharts,
	}
	if c.IsRoot() {
		data["Values"] = values["Values"]
	} else if own, err := values.Table("Values." + c.Name()); err == nil {
		data["Values"] = own
	}
	for _, sub := range c.Dependencies() {
		subcharts[sub.Name()] = addSources(all, sub, data)
	}
	library := strings.EqualFold(c.Metadata.Type, "library")
	base := path.Join(c.ChartFullPath(), "templates")
	for _, t := range c.Templates {
		if t != nil && (!library || partial(t.Name)) {
			*all = append(*all, source{path.Join(c.ChartFullPath(), t.Name), string(t.Data), base, data})
		}
	}
	return data
}

// partial tells whether a template is only included by others.
func partial(name string) bool { return strings.HasPrefix(path.Base(name), "_") }

// rendering is one render, and the next.
type rendering struct {
	*budget
	lookup   engine.ClientProvider
	included map[string]int // includes that are running
	measured marked
	base     *template.Template // with the functions, and nothing else
}

func newRendering() *rendering {
	r := &rendering{budget: &budget{}}
	r.base = template.New("gotpl").Option("missingkey=zero").Funcs(r.functions())
	return r
}

func (r *rendering) render(b *budget, sources []source, lookup engine.ClientProvider) (files map[string]string, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("rendering template failed: %v", p)
		}
		r.lookup, r.measured, *r.budget = nil, nil, budget{}
	}()
	*r.budget = *b
	r.lookup, r.included, r.measured = lookup, map[string]int{}, marked{}
	all, err := r.base.Clone()
	if err != nil {
		return nil, err
	}
	all.Option("missingkey=zero").Funcs(r.rooted(all))
	for _, s := range sources {
		if _, err := all.New(s.name).Parse(s.text); err != nil {
			return nil, err
		}
	}
	r.measured.all(all)
	files = make(map[string]string, len(sources))
	for _, s := range sources {
		if partial(s.name) {
			continue
		}
		s.data["Template"] = chartutil.Values{"Name": s.name, "BasePath": s.base}
		out := &output{budget: r.budget, printed: true}
		if err := all.ExecuteTemplate(out, s.name, s.data); err != nil {
			return nil, located(s.name, err)
		}
		files[s.name] = out.text()
	}
	return files, nil
}

// rooted are the functions that know the templates they call.
func (r *rendering) rooted(all *template.Template) template.FuncMap {
	return template.FuncMap{
		"include": func(name string, data any) (string, error) {
			r.included[name]++
			defer func() { r.included[name]-- }()
			if r.included[name] > maxDepth {
				return "", r.budget.exceeded("templates include each other more than %d deep", maxDepth)
			}
			out := &output{budget: r.budget}
			err := all.ExecuteTemplate(out, name, data)
			return out.String(), err
		},
		"tpl": func(text string, data any) (string, error) {
			t, err := all.Clone()
			if err != nil {
				return "", err
			}
			t.Option("missingkey=zero").Funcs(r.rooted(t))
			if t, err = t.New(all.Name()).Parse(text); err != nil {
				return "", err
			}
			r.measured.all(t)
			out := &output{budget: r.budget}
			err = t.Execute(out, data)
			return out.text(), err
		},
	}
}

// located says in which template and line a limit was exceeded, as far as the error tells.
func located(name string, err error) error {
	var limit *LimitError
	if !errors.As(err, &limit) {
		return err
	}
	const before = 2 // "template: NAME:LINE:COLUMN: …"
	if parts := strings.SplitN(err.Error(), ": ", before+1); len(parts) > before && errors.As(err, &template.ExecError{}) {
		name = parts[1]
	}
	return &LimitError{Template: name, Problem: limit.Problem}
}
