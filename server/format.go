package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

// The formats of debug pages (J4).
const (
	asJSON = "json"
	asYAML = "yaml"
	asText = "text"
)

func formats() []string { return []string{asJSON, asYAML, asText} }

// page looks something up. What it finds is written as JSON, YAML or text: by the
// extension of the path, by ?output=, or in the format that is its default.
type page struct {
	look  func(*http.Request) (any, error)
	usual string // "" is JSON
}

// display is something that has a form of its own for people. Without one, text is YAML.
type display struct {
	data any
	text func(io.Writer)
}

// MarshalJSON implements json.Marshaler.
func (d display) MarshalJSON() ([]byte, error) { return json.Marshal(d.data) }

// ServeHTTP implements http.Handler.
func (p page) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	format, err := p.format(r)
	var found any
	if err == nil {
		found, err = p.look(r)
	}
	answer(w, format, found, err)
}

type formatKey struct{}

// withoutExtension takes json, yaml or text off the path, so that routes need not know of
// formats.
func withoutExtension(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		extension := path.Ext(r.URL.Path)
		if !slices.Contains(formats(), strings.TrimPrefix(extension, ".")) {
			next.ServeHTTP(w, r)
			return
		}
		r = r.Clone(context.WithValue(r.Context(), formatKey{}, extension[1:]))
		r.URL.Path, r.URL.RawPath = strings.TrimSuffix(r.URL.Path, extension), strings.TrimSuffix(r.URL.RawPath, extension)
		next.ServeHTTP(w, r)
	})
}

func (p page) format(r *http.Request) (string, error) {
	if format, ok := r.Context().Value(formatKey{}).(string); ok {
		return format, nil
	}
	for _, parameter := range []string{"output", "format"} {
		format := r.URL.Query().Get(parameter)
		if format != "" && !slices.Contains(formats(), format) {
			return asText, badRequest("the format %q is none of %s", format, strings.Join(formats(), ", "))
		}
		if format != "" {
			return format, nil
		}
	}
	if p.usual != "" {
		return p.usual, nil
	}
	return asJSON, nil
}

// pageError is an answer that is no page.
type pageError struct {
	status int
	err    error
}

func (e *pageError) Error() string { return e.err.Error() }

func notFound(format string, args ...any) error {
	return &pageError{http.StatusNotFound, fmt.Errorf(format, args...)}
}

func badRequest(format string, args ...any) error {
	return &pageError{http.StatusBadRequest, fmt.Errorf(format, args...)}
}

// answer writes what a page has found out.
func answer(w http.ResponseWriter, format string, found any, err error) {
	var wrong *pageError
	switch {
	case errors.As(err, &wrong):
		http.Error(w, err.Error(), wrong.status)
	case err != nil:
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
	case format == asYAML:
		writeYAML(w, "application/yaml", found)
	case format == asText:
		writeText(w, found)
	default:
		writeJSON(w, found)
	}
}

func writeText(w http.ResponseWriter, found any) {
	const plain = "text/plain; charset=utf-8"
	v, ok := found.(display)
	if !ok || v.text == nil {
		writeYAML(w, plain, found)
		return
	}
	w.Header().Set("Content-Type", plain)
	v.text(w)
}

func writeYAML(w http.ResponseWriter, contentType string, v any) {
	body, err := json.Marshal(v)
	if page, ok := w.(*written); ok && err == nil {
		body = page.hidden(body)
	}
	if err == nil {
		body, err = yaml.JSONToYAML(body)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", contentType)
	_, _ = w.Write(body) // the client has gone
}

func writeJSON(w http.ResponseWriter, v any) {
	body, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(append(body, '\n')) // the client has gone
}
