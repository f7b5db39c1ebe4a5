package actors

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"addon-operator/actors/plan"
	"addon-operator/addons"
	"addon-operator/helm/charts"
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
	return &Shared{Services: Services{Hooks: runner, Log: slog.New(slog.DiscardHandler)}}
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
	found, err := loader(runner).loadHooks(t.Context(), dir, "010-dns/hooks", dir, hooks.Module, slog.New(slog.DiscardHandler))
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

// versions writes so many versions of a tree. All files have the same time and the same size, as those of
// reproducible archives have.
func versions(t *testing.T, dir string, n int) {
	t.Helper()
	at := time.Now().Add(-time.Hour)
	for i := range n {
		for name, text := range map[string]string{
			"modules/values.yaml": "aEnabled: true\nglobal: {v: @}\na: {common: @}", "modules/010-a/values.yaml": "a: {v: @}", "modules/010-a/Chart.yaml": "name: a\nversion: 1.0.0\napiVersion: v2\nappVersion: \"@\"",
			"modules/010-a/templates/t.yaml": "@", "modules/010-a/templates/u.yaml": "@", "global/openapi/values.yaml": "properties: {d: {default: @}}",
		} {
			path := filepath.Join(dir, fmt.Sprint(i), name)
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(strings.ReplaceAll(text, "@", fmt.Sprintf("v%03d", i))), 0o644); err != nil {
				t.Fatal(err)
			}
			if err := os.Chtimes(path, at, at); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// used are the versions of all that a manifest would be made of.
func used(t *testing.T, tree *addons.Tree, chart *charts.Chart) map[string]bool {
	t.Helper()
	found := map[string]bool{chart.Metadata().AppVersion: true}
	note := func(v any) { found[v.(string)] = true }
	for _, f := range chart.Copy().Templates {
		note(string(f.Data))
	}
	static := tree.Module("a").Static
	note(static[0].Value.(map[string]any)["common"])
	note(static[1].Value.(map[string]any)["v"])
	note(tree.Global.Static[0].Value.(map[string]any)["v"])
	return found
}

// P8: while a root is switched again and again, what goes to Helm together is of one version.
func TestNoMixtureOfVersions(t *testing.T) {
	const switches = 60
	dir := t.TempDir()
	versions(t, dir, switches)
	link := filepath.Join(dir, "current")
	switchTo := func(version int) error {
		if err := os.Symlink(fmt.Sprint(version), link+".next"); err != nil {
			return err
		}
		return os.Rename(link+".next", link)
	}
	if err := switchTo(0); err != nil {
		t.Fatal(err)
	}
	dirs := addons.Dirs{Modules: []string{filepath.Join(link, "modules")}, Global: filepath.Join(link, "global")}
	tree, err := addons.Load(dirs)
	if err != nil {
		t.Fatal(err)
	}
	step, ended := make(chan struct{}, 1), make(chan error, 1)
	go func() {
		for i := 1; i < switches; i++ {
			<-step // at once, so during the next one
			if err := switchTo(i); err != nil {
				ended <- err
				return
			}
		}
		ended <- nil
	}()
	took := func() {
		select {
		case step <- struct{}{}:
		default:
		}
	}
	cache, shared, refused := &charts.Cache{}, loader(&asked{}), 0
	for over := false; !over; {
		select {
		case err := <-ended:
			if err != nil {
				t.Fatal(err)
			}
			over = true
		default:
		}
		took()
		if tree, err = tree.Refresh(dirs); err != nil {
			t.Fatal(err)
		}
		shared.Tree.Store(tree)
		job := Job{Shared: shared, Owner: "a", Known: &known{Module: *tree.Module("a"), GlobalFiles: tree.Global}}
		m := plan.ChartModule(*tree.Module("a"))
		m.Current = job.current
		took()
		chart, err := cache.Load(m)
		if _, changed := errors.AsType[*filesChanged](err); changed {
			refused++
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if found := used(t, tree, chart); len(found) != 1 {
			t.Fatalf("a mixture of %v", found)
		}
	}
	chart, err := cache.Load(plan.ChartModule(*tree.Module("a")))
	if err != nil {
		t.Fatal(err)
	}
	if last := used(t, tree, chart); !last[fmt.Sprintf("v%03d", switches-1)] || len(last) != 1 {
		t.Errorf("at the end there is %v", last)
	}
	t.Logf("%d of the loads were refused", refused)
}

// P8: values that were handed over before other files came into force are of the old files, whatever is on disk.
func TestValuesOfEarlierFiles(t *testing.T) {
	dir := t.TempDir()
	versions(t, dir, 2)
	link := filepath.Join(dir, "current")
	if err := os.Symlink("0", link); err != nil {
		t.Fatal(err)
	}
	dirs := addons.Dirs{Modules: []string{filepath.Join(link, "modules")}, Global: filepath.Join(link, "global")}
	before, err := addons.Load(dirs)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(link); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("1", link); err != nil {
		t.Fatal(err)
	}
	now, err := before.Refresh(dirs)
	if err != nil {
		t.Fatal(err)
	}
	shared := loader(&asked{})
	for what, c := range map[string]struct {
		module, global *addons.Tree // of what the run has
		force          *addons.Tree
		refused        bool
	}{
		"all of it is in force":   {now, now, now, false},
		"an old module":           {before, now, now, true},
		"old global values":       {now, before, now, true},
		"the disk is another one": {before, before, before, true},
	} {
		shared.Tree.Store(c.force)
		job := Job{Shared: shared, Owner: "a", Known: &known{Module: *c.module.Module("a"), GlobalFiles: c.global.Global}}
		err := job.current()
		if _, changed := errors.AsType[*filesChanged](err); changed != c.refused {
			t.Errorf("%s: %v", what, err)
		}
	}
}
