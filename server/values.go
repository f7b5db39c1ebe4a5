package server

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"addon-operator/messages"
	"addon-operator/messages/view"
	"addon-operator/values"
)

// askTimeout is how long a page waits for an actor; an answer takes microseconds.
const askTimeout = 5 * time.Second

// showSecrets reports whether a person asks for secrets. Only handlers of the debug address may
// obey it.
func showSecrets(r *http.Request) bool { return r.URL.Query().Get("show-secrets") == "true" }

// question sends a question to the actor with this path below the root, and returns its answer,
// whose type each question determines. Before the start, when there are no actors, it returns
// an error that explains this in place of the error of Ask.
func question[Answer any](ctx context.Context, s Source, path string, question any) (Answer, error) {
	var none Answer
	ctx, cancel := context.WithTimeoutCause(ctx, askTimeout, fmt.Errorf("%s has not answered for %s; see /actors", path, askTimeout))
	defer cancel()
	got, err := s.Ask(ctx, path, question)
	if err != nil {
		return none, cmp.Or(s.notStarted(), err) // the operator has not started
	}
	answer, ok := got.(Answer)
	if !ok {
		return none, fmt.Errorf("bug: %s answered %T", path, got)
	}
	return answer, nil
}

// notStarted is the error, with 503, of an operator that has no modules yet, with the reason why the
// start waits; nil when they exist. Converge has a Phase from the start of its actor on.
func (s Source) notStarted() error {
	c := s.Converge()
	if c.Phase != "" {
		return nil
	}
	return &pageError{http.StatusServiceUnavailable, fmt.Errorf("the operator has not started its modules yet: %s", cmp.Or(c.Waits, "it waits for the API server or for the leadership"))}
}

// owners are the pages about one owner, a module or global: its values, hooks, objects and what would happen to it.
// They find it by the names that people use.
type owners struct{ Source }

// globalOwner is the name of the global values in requests; no module can have it. Actors and
// messages call their owner messages.GlobalHooks.
const globalOwner = "global"

// module finds the module that people mean by its name or by the key of its values, with dashes and
// case or without; global is one that has only this name and its values.
func (s owners) module(asked string) (view.Module, error) {
	all := s.modules()
	plain := func(name string) string { return strings.ToLower(strings.ReplaceAll(name, "-", "")) }
	for _, same := range []func(view.Module) bool{
		func(m view.Module) bool { return m.Name == asked },
		func(m view.Module) bool { return plain(m.Name) == plain(asked) },
	} {
		if i := slices.IndexFunc(all, same); i >= 0 {
			return all[i], nil
		}
	}
	if asked == globalOwner {
		global := view.Module{Name: asked}
		global.Section = published[view.GlobalStatus](s.Inspector.Tree()).Section
		return global, nil
	}
	return view.Module{}, s.noModule(asked, all)
}

// known is the name of the module that people mean.
func (s owners) known(asked string) (string, error) {
	m, err := s.module(asked)
	return m.Name, err
}

// owner finds the values of a module, or the global ones.
func (s owners) owner(asked string) (*values.Section, error) {
	m, err := s.module(asked)
	if err == nil && m.Section == nil {
		err = cmp.Or(s.notStarted(), errors.New("its actor has not started yet; try again"))
	}
	return m.Section, err
}

// noModule is the error for a name that is no module: its release may be waiting for a confirmation
// of its purge, the operator may not have started, or the name is unknown.
func (s owners) noModule(name string, modules []view.Module) error {
	if held := s.Converge().HeldPurge; held != nil && slices.Contains(held.Releases, name) {
		return notFound("%s no longer has a directory; %s", name, held)
	}
	if err := s.notStarted(); err != nil && len(modules) == 0 {
		return err
	}
	var names []string
	for _, m := range modules {
		names = append(names, m.Name)
	}
	slices.Sort(names)
	return unknown("module", name, names)
}

// modules are all modules, also those that are disabled.
func (s Source) modules() []view.Module {
	return view.Modules(s.Inspector.Statuses(), nil, nil, time.Now())
}

// section answers the pages values, config and patches of a module or of global (J4). With
// ?global=true the global part comes, too, each below its key, as hooks and charts get them.
func (s owners) section(page string) func(*http.Request) (any, error) {
	return func(r *http.Request) (any, error) {
		name, secrets := ofOwner(r), showSecrets(r)
		own, err := s.owner(name)
		if err != nil {
			return nil, err
		}
		if page == "patches" {
			patches := own.Saved(secrets)
			return display{data: patches, table: patchTable(patches)}, nil
		}
		part := partOf(own, page, secrets)
		if name != globalOwner && r.URL.Query().Get("global") == "true" {
			global, err := s.owner(globalOwner)
			if err != nil {
				return nil, err
			}
			part = map[string]any{global.Key(): partOf(global, page, secrets), own.Key(): part}
		}
		return part, nil
	}
}

// partOf is the part of the values that a page shows, masked unless secrets are requested.
func partOf(v *values.Section, page string, secrets bool) any {
	tree := v.Merged()
	if page == "config" {
		tree = v.Config()
	}
	if !secrets {
		tree = v.Secrets().Hide(tree)
	}
	return tree
}

// explainPage shows where values come from: ?module=NAME&path=PATH, or a path that begins
// with global or with a module.
func (s owners) explainPage(r *http.Request) (any, error) {
	module, path := r.URL.Query().Get("module"), r.URL.Query().Get("path")
	if module == "" {
		if module, path = firstElement(path); module == "" {
			return nil, badRequest("a path is required: ?path=global.a.b or ?module=NAME&path=a.b")
		}
	}
	known, err := s.owner(module)
	if err != nil {
		return nil, err
	}
	leaves, err := known.Explain(path, showSecrets(r))
	if err != nil {
		return nil, notFound("%w", err)
	}
	note := s.filesOf(known.Key())
	for i := range leaves {
		leaves[i].Note = note
	}
	return display{data: leaves, table: explainTable(leaves)}, nil
}

// filesOf describes how the files of a section differ from those in force; empty when
// they do not. Files of global concern all sections.
func (s owners) filesOf(section string) string {
	differs := s.NotInForce()
	for _, m := range s.modules() {
		if key, err := values.Key(m.Name); err == nil && key == section && differs[m.Name] != "" {
			return differs[m.Name]
		}
	}
	return differs[messages.GlobalHooks]
}

// firstElement splits a path into its first element, which names the section, and the rest, in the
// forms a.b, a["b"] and /a/b.
func firstElement(path string) (first, rest string) {
	path = strings.TrimPrefix(path, "/")
	end := strings.IndexAny(path, "./[")
	if end < 0 {
		return path, ""
	}
	return path[:end], strings.TrimPrefix(path[end:], ".")
}
