package server

import (
	"net/http"
	"slices"
	"strings"
	"time"

	"addon-operator/messages/view"
)

// Parameters are what people may change while the operator runs (J4). They are safe for concurrent
// use.
type Parameters interface {
	List() []view.Parameter
	// Set gives a parameter that is listed one of its choices. After back its default returns; 0 means
	// never. Another Set before that replaces both.
	Set(name, value string, back time.Duration)
}

// parameterPages show parameters, and change them.
type parameterPages struct{ Parameters }

// parameterView shows parameters, and when one reverts to its default by itself.
func parameterView(list []view.Parameter) display {
	d := display{data: map[string]any{"parameters": list}, table: &table{columns: "NAME VALUE DEFAULT UNTIL CHOICES MEANING", nothing: "Nothing can be changed."}}
	for _, p := range list {
		d.names = append(d.names, p.Name)
		d.table.rows = append(d.table.rows, []string{p.Name, p.Value, p.Default, at(p.Until), strings.Join(p.Choices, "|"), p.Help})
	}
	return d
}

// page answers /config/list and POST /config/set. Name, value and duration are in the query or in a
// form; the answer is the parameter as it is then.
func (s parameterPages) page(r *http.Request) (any, error) {
	if r.Method != http.MethodPost {
		return parameterView(s.List()), nil
	}
	name, value := r.FormValue("name"), strings.ToLower(r.FormValue("value"))
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
	i := slices.IndexFunc(s.List(), func(p view.Parameter) bool { return p.Name == name })
	if i < 0 {
		return nil, unknown("parameter", name, parameterView(s.List()).names)
	}
	if choices := s.List()[i].Choices; !slices.Contains(choices, value) {
		return nil, badRequest("%s: %q is not one of %s", name, value, strings.Join(choices, ", "))
	}
	s.Set(name, value, back)
	return parameterView(s.List()[i : i+1]), nil
}
