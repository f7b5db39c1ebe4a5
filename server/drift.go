package server

import (
	"net/http"
	"slices"

	"addon-operator/messages"
)

// drift shows which fields of a module's objects others have changed.
func (s modulePages) drift(r *http.Request) (any, error) {
	name := r.PathValue("name")
	if modules := s.modules(); !slices.Contains(modules, name) {
		return nil, s.noModule(name, modules)
	}
	return question[messages.Drift](r.Context(), s.Source, ownerPath(name), messages.GetDrift{Secrets: showSecrets(r)})
}
