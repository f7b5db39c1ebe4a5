package work

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"path/filepath"

	"addon-operator/addons"
	"addon-operator/hooks"
)

// GetHooks asks a module for its hooks; they are loaded when they are not yet, and handed over.
type GetHooks struct{}

// LoadHooks finds the hooks of a directory and asks each for its configuration (C1, C3). A hook
// that fails does not end the search, so that its error names all that are wrong; with an error,
// the hooks that are returned are not complete and must not be used.
func LoadHooks(ctx context.Context, runner HookRunner, dir, prefix, workingDir string, scope hooks.Scope, log *slog.Logger) ([]hooks.Hook, error) {
	files, warnings, err := hooks.Find(dir, prefix, scope)
	if err != nil {
		return nil, err
	}
	for _, warning := range warnings {
		log.Warn(warning)
	}
	found := make([]hooks.Hook, 0, len(files))
	var errs []error
	for _, file := range files {
		inFile, err := runner.Configure(ctx, file, workingDir, scope)
		errs = append(errs, err)
		for _, hook := range inFile {
			for _, warning := range hook.Config.Warnings {
				log.Warn(warning, "hook", hook.Name)
			}
		}
		found = append(found, inFile...)
	}
	return found, errors.Join(errs...)
}

// LoadModuleHooks finds the hooks of a module. A module may have none, but not because its
// directory is missing: it would be without hooks when the directory is back.
func LoadModuleHooks(ctx context.Context, runner HookRunner, m addons.Module, log *slog.Logger) ([]hooks.Hook, error) {
	found, err := LoadHooks(ctx, runner, m.HooksDir(), filepath.Join(m.Base, "hooks"), m.Root, hooks.Module, log)
	if err == nil {
		err = stillThere(m)
	}
	return found, err
}

// stillThere distinguishes a module without hooks or chart from one whose directory was removed.
func stillThere(m addons.Module) error {
	if m.Gone() {
		return fmt.Errorf("directory %s of the module: %w", m.Dir, fs.ErrNotExist)
	}
	return nil
}

// UnusedFiles says which files in a directory of hooks look like hooks and are none (J12). What
// cannot be read is reported by LoadHooks.
func UnusedFiles(dir, prefix string, scope hooks.Scope) []string {
	_, unused, err := hooks.Find(dir, prefix, scope)
	if err != nil {
		return nil
	}
	return unused
}

// unusedFiles has the files of some modules, by module, also where there are none: converge
// replaces what it has shown before.
func unusedFiles(tree *addons.Tree, of func(name string) bool) map[string][]string {
	unused := map[string][]string{}
	for _, m := range tree.Modules {
		if of(m.Name) {
			unused[m.Name] = UnusedFiles(m.HooksDir(), filepath.Join(m.Base, "hooks"), hooks.Module)
		}
	}
	return unused
}
