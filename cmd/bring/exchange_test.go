package bring

import (
	"maps"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// What is exchanged is exchanged as a whole: when the last file cannot be moved, all are what they were, and one that was
// not there is not there.
func TestExchange(t *testing.T) {
	fill := func(dir string, files map[string]string) {
		for name, text := range files {
			path := filepath.Join(dir, name)
			if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	before := map[string]string{"chart/Chart.yaml": "1", "chart/old.yaml": "1", "openapi/values.yaml": "1", "values.yaml": "mine"}
	fresh := map[string]string{"chart/Chart.yaml": "2", "chart/new.yaml": "2", "openapi/values.yaml": "2", "module.yaml": "2"}
	names := []string{"chart", "module.yaml", "openapi/values.yaml"}
	for name, c := range map[string]struct {
		names  []string
		want   map[string]string
		failed bool
	}{
		"all":              {names, map[string]string{"chart/Chart.yaml": "2", "chart/new.yaml": "2", "openapi/values.yaml": "2", "module.yaml": "2", "values.yaml": "mine"}, false},
		"the last is lost": {append(names, "none.yaml"), before, true},
		"no place for it":  {append(names, "values.yaml/deeper"), before, true},
	} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			s, err := newStage(root, root)
			if err != nil {
				t.Fatal(err)
			}
			to := filepath.Join(root, "a")
			fill(filepath.Join(s.modules, "a"), fresh)
			fill(to, before)
			if err := s.exchange("a", to, c.names...); (err != nil) != c.failed {
				t.Fatalf("got %v", err)
			}
			if s.close(); exists(s.root) {
				t.Error("the stage stays")
			}
			got := map[string]string{}
			for name := range maps.Collect(unions(c.want, before, fresh)) {
				if text, err := os.ReadFile(filepath.Join(to, name)); err == nil {
					got[name] = string(text)
				}
			}
			if !maps.Equal(got, c.want) {
				t.Errorf("got %v\nwant %v", got, c.want)
			}
		})
	}
}

// When what was there cannot be put back, the only copy of it stays, errors say where it is, and the next upgrade says so, too.
func TestExchangeKeepsTheOnlyCopy(t *testing.T) {
	root := t.TempDir()
	s, err := newStage(root, root)
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{filepath.Join(s.modules, "a", "chart"), filepath.Join(root, "a", "chart", "templates")} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	calls := 0
	s.rename = func(from, to string) error {
		if calls++; calls > 1 { // the first one moves the chart aside
			return &os.LinkError{Op: "rename", Old: from, New: to, Err: syscall.EIO}
		}
		return os.Rename(from, to)
	}
	if err := interrupted(root, "a"); err != nil {
		t.Errorf("before: %v", err)
	}
	err = s.exchange("a", filepath.Join(root, "a"), "chart")
	s.close()
	aside := filepath.Join(s.root, "before", "a")
	if !exists(filepath.Join(aside, "chart", "templates")) {
		t.Error("the only copy of the chart is removed")
	}
	if err == nil || !strings.Contains(err.Error(), "move what is in "+aside+" back to its place there, then remove "+s.root) {
		t.Errorf("got %v", err)
	}
	if err := interrupted(root, "a"); err == nil || !strings.Contains(err.Error(), aside+" has the previous files") {
		t.Errorf("the next upgrade: %v", err)
	}
	if err := interrupted(root, "b"); err != nil {
		t.Errorf("that of another module: %v", err)
	}
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// unions are the entries of several maps.
func unions(all ...map[string]string) func(func(string, string) bool) {
	return func(yield func(string, string) bool) {
		for _, m := range all {
			for key, value := range m {
				if !yield(key, value) {
					return
				}
			}
		}
	}
}
