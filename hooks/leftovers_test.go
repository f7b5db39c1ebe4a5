package hooks

import (
	"os"
	"path/filepath"
	"testing"
)

// left lists what lies in a directory for temporary files.
func left(t *testing.T, dir string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	must(t, err)
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	return names
}

// An operator that was killed leaves the directories of its runs behind, with values in them.
func TestNewRunnerRemovesWhatAKilledOperatorLeft(t *testing.T) {
	tests := map[string]struct {
		keep, used bool
		want       int
	}{
		"the directory is not in use":             {false, false, 1},
		"files are kept":                          {true, false, 3},
		"another operator runs on this directory": {false, true, 3},
	}
	for situation, test := range tests {
		t.Run(situation, func(t *testing.T) {
			dir := t.TempDir()
			var other *Runner
			if test.used {
				var err error
				if other, err = NewRunner(Options{TmpDir: dir}); err != nil {
					t.Fatal(err)
				}
			}
			for _, name := range []string{"run-a-1/values.json", "run-b-2/values.json", "mine/values.json"} {
				write(t, filepath.Join(dir, name), "", 0o600)
			}
			must(t, second(NewRunner(Options{TmpDir: dir, KeepFiles: test.keep})))
			if names := left(t, dir); len(names) != test.want {
				t.Errorf("left: %q", names)
			}
			if other != nil && other.inUse.Close() != nil {
				t.Error("the other operator has lost its mark")
			}
		})
	}
}

func TestRunnerGoesOnBesideAnother(t *testing.T) {
	dir := t.TempDir()
	first, err := NewRunner(Options{TmpDir: dir})
	must(t, err)
	hook := script(t, `touch ready; until [[ -e go ]]; do sleep 0.01; done; echo '{"name": "n", "set": 5}' > $METRICS_PATH`)
	done := make(chan int)
	go func() {
		result, err := first.Run(t.Context(), Run{Hook: hook})
		if err != nil {
			t.Error(err)
		}
		done <- len(result.Metrics)
	}()
	at := filepath.Dir(hook.Path)
	until(t, "the hook runs", func() bool { return exists(filepath.Join(at, "ready")) })
	must(t, second(NewRunner(Options{TmpDir: dir})))
	must(t, os.WriteFile(filepath.Join(at, "go"), nil, 0o600))
	if n := <-done; n != 1 {
		t.Error("a second operator has removed the files of a run that goes on")
	}
}
