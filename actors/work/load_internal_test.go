package work

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"addon-operator/addons"
	"addon-operator/hooks"
)

// asked remembers which hooks were asked for their configuration.
type asked struct {
	HookRunner
	names []string
}

func (a *asked) Configure(_ context.Context, file hooks.File, _ string, _ hooks.Scope) ([]hooks.Hook, error) {
	a.names = append(a.names, file.Name)
	if strings.HasSuffix(file.Name, "wrong.sh") {
		return nil, errors.New(file.Name)
	}
	return []hooks.Hook{{File: file, Config: &hooks.Config{}}}, nil
}

// loader asks a runner for the configuration of hooks, and logs nothing.
func loader(runner HookRunner) *Shared {
	return NewShared(Services{Hooks: runner, Log: slog.New(slog.DiscardHandler)}, nil)
}

// C3, C7: hooks are asked in alphabetical order, all of them, also after one that is wrong.
func TestHooksAreAskedInAlphabeticalOrder(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"b.sh", "a-wrong.sh", "sub/0.sh", "c-wrong.sh"} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, nil, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	runner := &asked{}
	found, err := loader(runner).loadHooks(t.Context(), "dns", hookDirectory{dir, "010-dns/hooks", dir, hooks.Module}, slog.New(slog.DiscardHandler))
	want := []string{"010-dns/hooks/a-wrong.sh", "010-dns/hooks/b.sh", "010-dns/hooks/c-wrong.sh", "010-dns/hooks/sub/0.sh"}
	if !slices.Equal(runner.names, want) {
		t.Errorf("asked %q, want %q", runner.names, want)
	}
	if err == nil || !strings.Contains(err.Error(), want[0]) || !strings.Contains(err.Error(), want[2]) || len(found) != 2 {
		t.Errorf("found %d hooks, err %v; want two, and both mistakes", len(found), err)
	}
}

// E9, E10: a module whose directory vanishes before its hooks are found is none without hooks.
func TestHooksOfAMissingModuleCannotBeLoaded(t *testing.T) {
	root := t.TempDir()
	m := addons.Module{Name: "dns", Dir: filepath.Join(root, "010-dns"), Base: "010-dns", Root: root}
	_, err := loader(&asked{}).LoadModuleHooks(t.Context(), m)
	if !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the error is %v; want that the directory does not exist", err)
	}
}
