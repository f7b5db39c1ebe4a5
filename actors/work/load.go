package work

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"path/filepath"
	"slices"

	"addon-operator/addons"
	"addon-operator/hooks"
	"addon-operator/messages"
)

// GetHooks asks a module for its hooks; they are loaded when they are not yet, and handed over.
type GetHooks struct{}

// LoadGlobalHooks finds the global hooks.
func (s *Shared) LoadGlobalHooks(ctx context.Context, g addons.Global) ([]hooks.Hook, error) {
	return s.loadHooks(ctx, messages.GlobalHooks, hookDirectory{g.HooksDir, "", g.Dir, hooks.Global}, s.Log)
}

// LoadModuleHooks finds the hooks of a module. A module may have none, but not because its
// directory is missing: it would be without hooks when the directory is back.
func (s *Shared) LoadModuleHooks(ctx context.Context, m addons.Module) ([]hooks.Hook, error) {
	found, err := s.loadHooks(ctx, m.Name, hookDirectory{m.HooksDir(), filepath.Join(m.Base, "hooks"), m.Root, hooks.Module}, s.Log.With("module", m.Name))
	if err == nil {
		err = stillThere(m)
	}
	return found, err
}

// hookDirectory is where hooks are searched, and how they are called and started.
type hookDirectory struct {
	dir, prefix, workingDir string
	scope                   hooks.Scope
}

// loadHooks finds the hooks of a directory and asks each for its configuration (C1, C3). A hook
// that fails does not end the search, so that its error names all that are wrong; with an error,
// the hooks that are returned are not complete and must not be used.
func (s *Shared) loadHooks(ctx context.Context, owner string, d hookDirectory, log *slog.Logger) ([]hooks.Hook, error) {
	files, unused, err := hooks.Find(d.dir, d.prefix, d.scope)
	if about, ok := errors.AsType[*fs.PathError](err); ok && d.prefix != "" {
		about.Path = d.prefix // as the hooks in it are named
	}
	if err != nil {
		return nil, err
	}
	var warnings []hookWarning
	for _, file := range unused {
		warnings = append(warnings, hookWarning{text: describeUnused(file, d.dir, d.prefix)})
	}
	found := make([]hooks.Hook, 0, len(files))
	var errs []error
	for _, file := range files {
		inFile, err := s.Hooks.Configure(ctx, file, d.workingDir, d.scope)
		errs = append(errs, err)
		for _, hook := range inFile {
			for _, text := range hook.Config.Warnings {
				warnings = append(warnings, hookWarning{text, hook.Name})
			}
		}
		found = append(found, inFile...)
	}
	if ctx.Err() == nil { // else not all hooks were asked, and those that were are asked again
		s.warn(owner, warnings, log)
	}
	return found, errors.Join(errs...)
}

// hookWarning is about a file in a directory of hooks, or about the configuration of a hook, which it then names.
type hookWarning struct{ text, hook string }

// warn logs the warnings that the load of the same hooks before did not have (J12): hooks that fail
// are loaded again and again, and their warnings stay.
func (s *Shared) warn(owner string, now []hookWarning, log *slog.Logger) {
	var before []hookWarning
	s.warned.Change(func(all map[string][]hookWarning) map[string][]hookWarning {
		before = all[owner]
		next := maps.Clone(all)
		if next == nil {
			next = map[string][]hookWarning{}
		}
		if next[owner] = now; len(now) == 0 {
			delete(next, owner)
		}
		return next
	})
	for _, w := range now {
		switch {
		case slices.Contains(before, w):
		case w.hook != "":
			log.Warn(w.text, "hook", w.hook)
		default:
			log.Warn(w.text)
		}
	}
}

// stillThere distinguishes a module without hooks or chart from one whose directory was removed.
func stillThere(m addons.Module) error {
	if m.Gone() {
		return fmt.Errorf("directory %s of the module: %w", m.Shown(m.Dir), fs.ErrNotExist)
	}
	return nil
}

// UnusedFiles says which files in a directory of hooks look like hooks and are none (J12). What
// cannot be read is reported by loadHooks.
func UnusedFiles(dir, prefix string, scope hooks.Scope) (texts []string) {
	_, unused, err := hooks.Find(dir, prefix, scope)
	if err != nil {
		return nil
	}
	for _, file := range unused {
		texts = append(texts, describeUnused(file, dir, prefix))
	}
	return texts
}

// describeUnused names the file like a hook, but in the directory of global hooks with that directory: global hooks have
// no prefix, and the name of a file alone does not show where it is.
func describeUnused(file hooks.Unused, dir, prefix string) string {
	if prefix == "" {
		return filepath.Join(filepath.Base(dir), file.Name) + " " + file.Reason
	}
	return file.String()
}
