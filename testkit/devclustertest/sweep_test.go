package devclustertest

import (
	"os"
	"path/filepath"
	"testing"
	"time"
)

func TestSweepRemovesOnlyWhatAKilledClusterLeft(t *testing.T) {
	temp := t.TempDir()
	old := time.Now().Add(-time.Hour)
	makeDir := func(name string, lock bool, at time.Time) string {
		t.Helper()
		dir := filepath.Join(temp, name)
		must(t, os.Mkdir(dir, 0o700))
		if !lock {
			return dir
		}
		path := filepath.Join(dir, "lock")
		must(t, os.WriteFile(path, nil, 0o600))
		must(t, os.Chtimes(path, at, at))
		return dir
	}
	left := makeDir(tempPrefix+"left", true, old)
	running := makeDir(tempPrefix+"running", true, old)
	kept := map[string]string{
		"running":         running,
		"about to start":  makeDir(tempPrefix+"young", true, time.Now()),
		"without a lock":  makeDir(tempPrefix+"other", false, old),
		"of another name": makeDir("cluster", true, old),
	}
	unlock, err := lockFile(filepath.Join(running, "lock"))
	must(t, err)
	defer unlock()

	sweep(temp)
	if _, err := os.Stat(left); !os.IsNotExist(err) {
		t.Errorf("left by a killed cluster: %v; want it removed", err)
	}
	for situation, dir := range kept {
		if _, err := os.Stat(dir); err != nil {
			t.Errorf("%s: %v; want it kept", situation, err)
		}
	}
}
