package server

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"addon-operator/messages"
)

// Parameters are what people may change while the operator runs (J4).
type Parameters interface {
	List() []messages.Parameter
	// Set refuses a value that the parameter cannot have. After back the old value returns;
	// 0 means never.
	Set(name, value string, back time.Duration) error
}

func (s Source) configList(*http.Request) (any, error) {
	if s.Parameters == nil {
		return nil, notFound("nothing can be changed while this operator runs")
	}
	return parameterView(s.Parameters.List()), nil
}

func parameterView(list []messages.Parameter) view {
	return view{map[string]any{"parameters": list}, func(w io.Writer) {
		table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
		for _, p := range list {
			until := ""
			if !p.Until.IsZero() {
				until = "back to " + p.Default + " at " + p.Until.Format(time.RFC3339)
			}
			fmt.Fprintf(table, "%s\t%s\t%s\n", p.Name, p.Value, until)
		}
		_ = table.Flush() // the client has gone
	}}
}

// configSet changes a parameter; its name, value and duration stand in the query or in a form.
func (s Source) configSet(r *http.Request) (any, error) {
	if s.Parameters == nil {
		return nil, notFound("nothing can be changed while this operator runs")
	}
	name, value := r.FormValue("name"), r.FormValue("value")
	if name == "" || value == "" {
		return nil, badRequest("say what to set: name=NAME&value=VALUE, and duration=10m for a time")
	}
	var back time.Duration
	if text := r.FormValue("duration"); text != "" {
		d, err := time.ParseDuration(text)
		if err != nil || d <= 0 {
			return nil, badRequest("the duration must be above 0 and have units, as 90s or 10m, not %q", text)
		}
		back = d
	}
	var known []string
	for _, p := range s.Parameters.List() {
		known = append(known, p.Name)
	}
	if !slices.Contains(known, name) {
		return nil, unknown("parameter", name, known)
	}
	if err := s.Parameters.Set(name, value, back); err != nil {
		return nil, badRequest("%w", err)
	}
	return parameterView(slices.DeleteFunc(s.Parameters.List(), func(p messages.Parameter) bool { return p.Name != name })), nil
}

// RenderOptions are what can be asked for about a render.
type RenderOptions struct {
	// Diff compares with the deployed release. Broken shows the text that templates made
	// even when it cannot be read. Secrets shows those.
	Diff, Broken, Secrets bool
}

// renderTimeout is long enough for a chart that asks the cluster a lot.
const renderTimeout = time.Minute

// renderPage answers /module/NAME/render.
func (s Source) renderPage(r *http.Request) (any, error) {
	own, err := s.owner(r.Context(), r.PathValue("name"))
	switch {
	case err != nil:
		return nil, err
	case s.Render == nil || r.PathValue("name") == globalOwner:
		return nil, notFound("there is nothing to render")
	}
	asked := func(name string) bool { return r.URL.Query().Get(name) == "true" }
	o := RenderOptions{Diff: asked("diff"), Broken: asked("debug"), Secrets: showSecrets(r)}
	ctx, cancel := context.WithTimeout(r.Context(), renderTimeout)
	defer cancel()
	rendered, err := s.Render(ctx, s.nameOf(r.PathValue("name"), own), o)
	if err != nil {
		return nil, &pageError{http.StatusUnprocessableEntity, err}
	}
	return view{rendered, func(w io.Writer) { writeRendered(w, rendered, o) }}, nil
}

// writeRendered writes objects as kubectl reads them, or what differs.
func writeRendered(w io.Writer, rendered messages.Rendered, o RenderOptions) {
	if !o.Diff {
		fmt.Fprint(w, rendered.Text)
		return
	}
	if len(rendered.Changes) == 0 {
		fmt.Fprintf(w, "Nothing differs from the deployed release, revision %d.\n", rendered.Revision)
	}
	for _, c := range rendered.Changes {
		fmt.Fprintf(w, "%s is %s\n%s\n", c.Object, c.Action, strings.TrimRight(c.Diff, "\n"))
	}
}
