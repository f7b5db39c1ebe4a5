package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"sigs.k8s.io/yaml"

	"addon-operator/messages"
	"addon-operator/supervisor"
)

// askTimeout is how long a page waits for an actor; an answer takes microseconds.
const askTimeout = 5 * time.Second

// valuePages are the pages that show values of users: on the debug address only (J4, J7).
// What looks like a secret is hidden unless the request says show-secrets=true.
func (s Source) valuePages(mux *http.ServeMux) {
	mux.HandleFunc("GET /module/{page}", s.moduleList)
	mux.HandleFunc("GET /module/{name}/{page}", func(w http.ResponseWriter, r *http.Request) { s.section(w, r, r.PathValue("name")) })
	mux.HandleFunc("GET /global/{page}", func(w http.ResponseWriter, r *http.Request) { s.section(w, r, globalOwner) })
	mux.HandleFunc("GET /values/explain", s.explain)
	mux.HandleFunc("GET /values/diff", s.diff)
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

// answer writes what a page has found out, in the format that the extension asks for (J4).
func answer(w http.ResponseWriter, format string, v any, err error) {
	var page *pageError
	switch {
	case errors.As(err, &page):
		http.Error(w, err.Error(), page.status)
	case err != nil:
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
	case format == "yaml":
		writeYAML(w, v)
	default:
		writeJSON(w, v)
	}
}

func writeYAML(w http.ResponseWriter, v any) {
	body, err := json.Marshal(v)
	if err == nil {
		body, err = yaml.JSONToYAML(body)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/yaml")
	_, _ = w.Write(body) // the client has gone
}

// splitPage takes the extension off the last element of a path; JSON without one.
func splitPage(page string) (name, format string, err error) {
	name, format, found := strings.Cut(page, ".")
	if !found {
		format = "json"
	}
	if format != "json" && format != "yaml" {
		return "", "", notFound("the format %q is none of json, yaml", format)
	}
	return name, format, nil
}

func showSecrets(r *http.Request) bool { return r.URL.Query().Get("show-secrets") == "true" }

// values asks an owner for its values.
func (s Source) values(ctx context.Context, owner string) (messages.Values, error) {
	path := owner
	if owner != messages.GlobalHooks {
		path = "module/" + owner
	}
	ctx, cancel := context.WithTimeoutCause(ctx, askTimeout, fmt.Errorf("%s has not answered for %s; see /actors", path, askTimeout))
	defer cancel()
	got, err := s.Ask(ctx, path, messages.GetValues{})
	if err != nil {
		return messages.Values{}, err
	}
	values, ok := got.(messages.Values)
	if !ok || values.Section == nil {
		return messages.Values{}, fmt.Errorf("bug: %s answered %T", path, got)
	}
	return values, nil
}

// globalOwner is what the global values are called in requests; no module can have the name.
const globalOwner = "global"

// owner finds the values of a module by its name, or by the key of its values, and the global ones.
func (s Source) owner(ctx context.Context, name string) (messages.Values, error) {
	if name == globalOwner {
		return s.values(ctx, messages.GlobalHooks)
	}
	modules := s.modules()
	if slices.Contains(modules, name) {
		return s.values(ctx, name)
	}
	for _, module := range modules {
		if strings.EqualFold(strings.ReplaceAll(module, "-", ""), name) {
			values, err := s.values(ctx, module)
			if err != nil || values.Section.Key() == name {
				return values, err
			}
		}
	}
	return messages.Values{}, notFound("there is no module %q; there are: %s", name, strings.Join(modules, ", "))
}

// modules are the names of all modules, also of those that are disabled.
func (s Source) modules() []string {
	var names []string
	walk(s.Inspector.Tree(), func(n *supervisor.Node) {
		if _, ok := n.Status.(messages.ModuleStatus); ok {
			_, name, _ := strings.Cut(n.Path, "/module/")
			names = append(names, name)
		}
	})
	slices.Sort(names)
	return names
}

func (s Source) moduleList(w http.ResponseWriter, r *http.Request) {
	name, format, err := splitPage(r.PathValue("page"))
	if err == nil && name != "list" {
		err = notFound("there is no page %s", r.URL.Path)
	}
	enabled := slices.Sorted(slices.Values(s.Converge().Enabled))
	if enabled == nil {
		enabled = []string{}
	}
	answer(w, format, map[string]any{"enabledModules": enabled}, err)
}

// section shows one part of the values of an owner (J4).
func (s Source) section(w http.ResponseWriter, r *http.Request, owner string) {
	page, format, err := splitPage(r.PathValue("page"))
	if err != nil {
		answer(w, format, nil, err)
		return
	}
	v, err := s.sectionPage(r, owner, page)
	answer(w, format, v, err)
}

func (s Source) sectionPage(r *http.Request, owner, page string) (any, error) {
	own, err := s.owner(r.Context(), owner)
	if err != nil {
		return nil, err
	}
	part, err := partOf(own, page, showSecrets(r))
	if err != nil || owner == globalOwner || page == "patches" || r.URL.Query().Get("global") != "true" {
		return part, err
	}
	global, err := s.owner(r.Context(), globalOwner)
	if err != nil {
		return nil, err
	}
	shared, err := partOf(global, page, showSecrets(r))
	return map[string]any{global.Section.Key(): shared, own.Section.Key(): part}, err
}

func partOf(v messages.Values, page string, secrets bool) (any, error) {
	view := v.Section.View(secrets)
	switch page {
	case "values":
		return view.Merged, nil
	case "config":
		return view.Config, nil
	case "patches":
		return view.Patches, nil
	}
	return nil, notFound("there is no page %q; there are values, config, patches", page)
}

// explain tells where values come from: ?module=NAME&path=PATH, or a path that begins with
// global or with a module.
func (s Source) explain(w http.ResponseWriter, r *http.Request) {
	v, err := s.explainPage(r)
	answer(w, r.URL.Query().Get("output"), v, err)
}

func (s Source) explainPage(r *http.Request) (any, error) {
	module, path := r.URL.Query().Get("module"), r.URL.Query().Get("path")
	if module == "" {
		if module, path = firstElement(path); module == "" {
			return nil, badRequest("say what to explain: ?path=global.a.b or ?module=NAME&path=a.b")
		}
	}
	values, err := s.owner(r.Context(), module)
	if err != nil {
		return nil, err
	}
	leaves, err := values.Section.Explain(path)
	if err != nil {
		return nil, notFound("%w", err)
	}
	if !showSecrets(r) {
		for i := range leaves {
			leaves[i] = leaves[i].Masked()
		}
	}
	return leaves, nil
}

// firstElement takes the element off a path that names the section.
func firstElement(path string) (first, rest string) {
	path = strings.TrimPrefix(path, "/")
	end := strings.IndexAny(path, "./[")
	if end < 0 {
		return path, ""
	}
	return path[:end], strings.TrimPrefix(path[end:], ".")
}

// OwnerDiff is what changed in the values of one owner since the last converge.
type OwnerDiff struct {
	// Owner is global or the name of a module.
	Owner string `json:"owner"`
	// Since is the end of the last converge; zero before the first.
	Since   time.Time `json:"since,omitzero"`
	Changes any       `json:"changes"`
}

// diff tells what changed since the last converge: of all owners, or of ?module=NAME.
func (s Source) diff(w http.ResponseWriter, r *http.Request) {
	v, err := s.diffPage(r)
	answer(w, r.URL.Query().Get("output"), v, err)
}

func (s Source) diffPage(r *http.Request) (any, error) {
	names := append([]string{globalOwner}, s.modules()...)
	if only := r.URL.Query().Get("module"); only != "" {
		names = []string{only}
	}
	diffs := []OwnerDiff{}
	for _, name := range names {
		values, err := s.owner(r.Context(), name)
		if err != nil {
			return nil, err
		}
		if d := ownerDiff(name, values, showSecrets(r)); d.Changes != nil {
			diffs = append(diffs, d)
		}
	}
	return diffs, nil
}

func ownerDiff(owner string, v messages.Values, secrets bool) OwnerDiff {
	d := OwnerDiff{Owner: owner, Since: v.ConvergedAt}
	if v.Converged == nil {
		return d // nothing to compare with yet
	}
	changes := v.Section.Diff(v.Converged)
	if len(changes) == 0 {
		return d
	}
	if !secrets {
		for i := range changes {
			changes[i] = changes[i].Masked()
		}
	}
	d.Changes = changes
	return d
}
