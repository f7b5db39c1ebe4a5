package server

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"

	"addon-operator/actors/plan"
	"addon-operator/messages"
)

// Limits of a proposed ConfigMap, in bytes. maxData bounds its data, as the API server does;
// maxProposal bounds the JSON of it, in which texts are escaped, before it is decoded.
const (
	maxData     = 1 << 20
	maxProposal = 4 * maxData
)

// plan shows what the operator would do: with the ConfigMap in force or, with POST, with the data
// of a ConfigMap in the body. It changes nothing. It may take minutes, in the goroutine of the
// request.
func (s owners) plan(r *http.Request) (any, error) {
	request := plan.Request{Secrets: showSecrets(r)}
	if r.Method == http.MethodPost {
		var err error
		if request.Proposed, err = proposal(r); err != nil {
			return nil, err
		}
	}
	if err := s.notStarted(); err != nil {
		return nil, err
	}
	plan, err := s.Plan(r.Context(), request)
	return display{data: plan, text: func(w io.Writer, _ bool) { fmt.Fprint(w, plan.Text()) }, outcome: plan.Outcome()}, err
}

// proposal reads the data of a ConfigMap from the body. {} is an empty ConfigMap. Both limits are
// checked, because the size of JSON differs from that of its texts.
func proposal(r *http.Request) (map[string]string, error) {
	var data map[string]string
	err := json.NewDecoder(http.MaxBytesReader(nil, r.Body, maxProposal)).Decode(&data)
	if err == nil && data == nil { // which would mean the ConfigMap in force
		err = errors.New("it is null")
	}
	if err != nil {
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

// checkConfig reports whether the operator would accept a ConfigMap, and what is special about the
// value at a path. The last valid content, with which values set restores a deleted ConfigMap, is
// only for clients that may see secrets.
func (s owners) checkConfig(r *http.Request) (any, error) {
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
