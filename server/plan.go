package server

import (
	"encoding/json"
	"net/http"

	"addon-operator/messages"
)

// maxProposal bounds a proposed ConfigMap; the API server takes 1 MiB, and JSON quotes.
const maxProposal = 4 << 20

// plan tells what the operator would do: with the ConfigMap in force, or with POST, with
// the data of a ConfigMap in the body. It changes nothing.
func (s Source) plan(r *http.Request) (any, error) {
	request := messages.ForecastRequest{Secrets: showSecrets(r)}
	if r.Method == http.MethodPost {
		request.Proposed = map[string]string{}
		if err := json.NewDecoder(http.MaxBytesReader(nil, r.Body, maxProposal)).Decode(&request.Proposed); err != nil {
			return nil, badRequest("the body must be the data of a ConfigMap, a JSON object of texts: %w", err)
		}
	}
	if err := s.notStarted(); err != nil {
		return nil, err
	}
	return s.Forecast(r.Context(), request)
}
