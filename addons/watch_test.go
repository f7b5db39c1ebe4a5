package addons_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"addon-operator/addons"
)

// P8: what changes below the directories is noticed: files, new directories and what comes in them, and links that are
// pointed at another tree, whether the root lies behind one, as with git-sync, or its files do, as in projected volumes.
func TestWatch(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		path := filepath.Join(root, name)
		err := os.MkdirAll(filepath.Dir(path), 0o700)
		if err == nil {
			err = os.WriteFile(path, []byte(text), 0o600)
		}
		must(t, err)
	}
	for _, name := range []string{"one/modules/010-a/values.yaml", "two/modules/010-a/values.yaml", "volume/..1/values.yaml", "volume/..2/values.yaml", "global/h.sh"} {
		write(name, "a: {}")
	}
	at := func(parts ...string) string { return filepath.Join(append([]string{root}, parts...)...) }
	link := func(target, path string) {
		t.Helper()
		must(t, os.Symlink(target, path+"-new"))
		must(t, os.Rename(path+"-new", path))
	}
	link("one", at("current"))
	link("..1", at("volume", "..data"))
	link("..data/values.yaml", at("volume", "values.yaml"))

	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	noticed := make(chan struct{}, 100)
	dirs := addons.Dirs{Modules: []string{at("current", "modules"), at("volume")}, Global: at("global")}
	addons.Watch(ctx, dirs, addons.Often, func() { noticed <- struct{}{} })
	notices := func(what string) {
		t.Helper()
		select {
		case <-noticed:
		case <-time.After(time.Minute):
			t.Fatalf("%s is not noticed", what)
		}
	}
	write("one/modules/020-b/templates/x.yaml", "a")
	notices("a new directory")
	write("global/h.sh", "#!/bin/sh")
	notices("a global hook")
	link("..2", at("volume", "..data"))
	notices("a link of a projected volume")
	link("two", at("current"))
	notices("a link above the root")
	write("two/modules/010-a/hooks/h.sh", "x")
	notices("a file behind the new link")
}
