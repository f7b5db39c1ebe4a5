package main

import (
	"os"
	"path/filepath"
	"testing"
)

// A start that could not write all keys leaves no set that the next one takes for whole.
func TestKeysAreMadeTogether(t *testing.T) {
	dir := t.TempDir()
	obstacle := filepath.Join(dir, "server.key")
	must(t, os.MkdirAll(filepath.Join(obstacle, "file"), 0o700))
	if _, err := ensurePKI(dir); err == nil {
		t.Fatal("a key was written over a directory")
	}
	must(t, os.RemoveAll(obstacle))
	keys, err := ensurePKI(dir)
	must(t, err)
	for _, path := range []string{keys.ca, keys.cert, keys.key, keys.tokenKey} {
		if _, err := os.Stat(path); err != nil {
			t.Error(err)
		}
	}
}
