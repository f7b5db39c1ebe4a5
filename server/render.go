package server

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"addon-operator/actors/plan"
)

// renderTimeout limits the rendering of a chart; those that read much from the cluster (lookup)
// take longest.
const renderTimeout = time.Minute

// renderPage answers /module/NAME/render. It renders in the goroutine of the request, since the
// chart may read the cluster; the gate limits how many do. A chart that cannot be rendered is
// answered with 422: the request was right, and the module is not.
func (s owners) renderPage(r *http.Request) (any, error) {
	name, err := s.known(r.PathValue("name"))
	switch {
	case err != nil:
		return nil, err
	case name == globalOwner:
		return nil, notFound("there is nothing to render")
	}
	asked := func(name string) bool { return r.URL.Query().Get(name) == "true" }
	o := plan.RenderRequest{Diff: asked("diff"), Broken: asked("debug"), Secrets: showSecrets(r)}
	ctx, cancel := context.WithTimeout(r.Context(), renderTimeout)
	defer cancel()
	rendered, err := s.Render(ctx, name, o)
	if err != nil {
		return nil, &pageError{http.StatusUnprocessableEntity, err}
	}
	return display{data: rendered, text: func(w io.Writer, _ bool) { writeRendered(w, rendered, o) }}, nil
}

// writeRendered writes the objects as kubectl apply reads them or, with Diff, what differs.
func writeRendered(w io.Writer, rendered plan.Rendered, o plan.RenderRequest) {
	if !o.Diff {
		fmt.Fprint(w, rendered.Text)
		return
	}
	if len(rendered.Changes) == 0 {
		fmt.Fprintf(w, "No differences from the deployed release, revision %d.\n", rendered.Revision)
	}
	for _, c := range rendered.Changes {
		fmt.Fprintf(w, "%s is %s\n%s\n", c.Object, c.Action, strings.TrimRight(c.Diff, "\n"))
	}
}
