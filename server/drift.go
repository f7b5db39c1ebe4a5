package server

import (
	"net/http"
	"slices"

	"addon-operator/messages"
)

// drift answers /module/NAME/drift: which fields of its objects others have changed, by the last
// check, which the actor of the module remembers. Unlike on the pages of values, NAME cannot be the
// key of its values.
func (s modulePages) drift(r *http.Request) (any, error) {
	name := r.PathValue("name")
	if modules := s.modules(); !slices.Contains(modules, name) {
		return nil, s.noModule(name, modules)
	}
	drift, err := question[messages.Drift](r.Context(), s.Source, ownerPath(name), messages.GetDrift{Secrets: showSecrets(r)})
	return display{data: drift, table: driftTable(drift)}, err
}
