package server

import (
	"encoding/json"
	"net/http"

	"addon-operator/messages"
	"addon-operator/messages/view"
)

// maxData bounds the data of a proposed ConfigMap, as the API server does; maxProposal the JSON of it, which has quotes.
const (
	maxData     = 1 << 20
	maxProposal = 4 * maxData
)

// plan shows what the operator would do: with the ConfigMap in force, or with POST, with
// the data of a ConfigMap in the body. It changes nothing.
func (s valuePages) plan(r *http.Request) (any, error) {
	request := view.PlanRequest{Secrets: showSecrets(r)}
	if r.Method == http.MethodPost {
		var err error
		if request.Proposed, err = proposal(r); err != nil {
			return nil, err
		}
	}
	if err := s.notStarted(); err != nil {
		return nil, err
	}
	return s.Plan(r.Context(), request)
}

// proposal reads the data of a ConfigMap from the body.
func proposal(r *http.Request) (map[string]string, error) {
	data := map[string]string{}
	if err := json.NewDecoder(http.MaxBytesReader(nil, r.Body, maxProposal)).Decode(&data); err != nil {
		return nil, badRequest("the body must be the data of a ConfigMap, a JSON object of strings: %w", err)
	}
	size := 0
	for key, text := range data {
		size += len(key) + len(text)
	}
	if size > maxData {
		return nil, badRequest("the data has %d bytes; a ConfigMap holds at most %d", size, maxData)
	}
	return data, nil
}

// checkConfig reports whether the operator would take a ConfigMap, and what is special about the
// value at a path. What is in force is shown to who may see secrets.
func (s valuePages) checkConfig(r *http.Request) (any, error) {
	data, err := proposal(r)
	if err != nil {
		return nil, err
	}
	checked, err := question[messages.ConfigChecked](r.Context(), s.Source, "config", messages.CheckConfig{Data: data, Path: r.URL.Query().Get("path")})
	if !showSecrets(r) {
		checked.LastValid = nil
	}
	return checked, err
}
