package server

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"text/tabwriter"
	"time"

	"addon-operator/messages/view"
)

// Parameters are what people may change while the operator runs (J4). They are safe for concurrent
// use.
type Parameters interface {
	List() []view.Parameter
	// Set refuses a value that the parameter cannot have. After back its default returns; 0 means
	// never. Another Set before that replaces both.
	Set(name, value string, back time.Duration) error
}

// parameterPages show parameters, and change them. A nil Parameters is answered with 404.
type parameterPages struct{ Parameters }

// list answers /config/list.
func (s parameterPages) list(*http.Request) (any, error) {
	if s.Parameters == nil {
		return nil, notFound("this operator has no parameters")
	}
	return parameterView(s.List()), nil
}

// parameterView shows parameters, and when one goes back to its default by itself.
func parameterView(list []view.Parameter) display {
	return display{map[string]any{"parameters": list}, func(w io.Writer) {
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

// set answers POST /config/set. Name, value and duration are in the query or in a form; the answer
// is the parameter as it is then.
func (s parameterPages) set(r *http.Request) (any, error) {
	if s.Parameters == nil {
		return nil, notFound("this operator has no parameters")
	}
	name, value := r.FormValue("name"), r.FormValue("value")
	if name == "" || value == "" {
		return nil, badRequest("name=NAME and value=VALUE are required, and duration=10m is optional")
	}
	var back time.Duration
	if text := r.FormValue("duration"); text != "" {
		d, err := time.ParseDuration(text)
		if err != nil || d <= 0 {
			return nil, badRequest("the duration must be above 0 and have units, such as 90s or 10m, not %q", text)
		}
		back = d
	}
	var known []string
	for _, p := range s.List() {
		known = append(known, p.Name)
	}
	if !slices.Contains(known, name) {
		return nil, unknown("parameter", name, known)
	}
	if err := s.Set(name, value, back); err != nil {
		return nil, badRequest("%w", err)
	}
	return parameterView(slices.DeleteFunc(s.List(), func(p view.Parameter) bool { return p.Name != name })), nil
}
