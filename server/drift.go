package server

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"addon-operator/messages"
)

// drift shows which fields of a module's objects somebody changed.
func (s Source) drift(r *http.Request) (any, error) {
	name := r.PathValue("name")
	if modules := s.modules(); !slices.Contains(modules, name) {
		return nil, notFound("there is no module %q; there are: %s", name, strings.Join(modules, ", "))
	}
	path := "module/" + name
	ctx, cancel := context.WithTimeoutCause(r.Context(), askTimeout, fmt.Errorf("%s has not answered for %s; see /actors", path, askTimeout))
	defer cancel()
	got, err := s.Ask(ctx, path, messages.GetDrift{Secrets: showSecrets(r)})
	if err != nil {
		return nil, err
	}
	drift, ok := got.(messages.Drift)
	if !ok {
		return nil, fmt.Errorf("bug: %s answered %T", path, got)
	}
	return drift, nil
}
