package bring

import (
	"maps"
	"os"
	"path/filepath"
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
			from, to := filepath.Join(root, "from"), filepath.Join(root, "to")
			fill(from, fresh)
			fill(to, before)
			if err := exchange(from, to, filepath.Join(root, "aside"), c.names...); (err != nil) != c.failed {
				t.Fatalf("got %v", err)
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
