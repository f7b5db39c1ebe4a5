package local_test

import (
	"bufio"
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"addon-operator/cmd/cli"
	"addon-operator/cmd/local"
)

// With --watch the tests of a module are played again when its files change, and no others, until the command is interrupted.
func TestWatchTests(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	const chart = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: NAME}\ndata: {size: \"1\"}\n"
	const play = "description: It is there\nexpect:\n  objects:\n  - {apiVersion: v1, kind: ConfigMap, metadata: {name: NAME}, data: {size: \"1\"}}\n"
	for _, name := range []string{"one", "two"} {
		write("modules/010-"+name+"/templates/cm.yaml", strings.ReplaceAll(chart, "NAME", name))
		write("modules/010-"+name+"/tests/a.yaml", strings.ReplaceAll(play, "NAME", name))
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	read, printed := io.Pipe()
	cmd := local.Test(&cli.Config{})
	cmd.SetOut(printed)
	cmd.SetErr(io.Discard)
	cmd.SetArgs([]string{filepath.Join(dir, "modules"), "--watch"})
	ended := make(chan error, 1)
	go func() {
		err := cmd.ExecuteContext(ctx)
		_ = printed.Close()
		ended <- err
	}()
	lines := bufio.NewScanner(read)
	round := func() string {
		t.Helper()
		var all strings.Builder
		for lines.Scan() {
			if strings.Contains(lines.Text(), "waiting for changes") {
				return all.String()
			}
			all.WriteString(lines.Text() + "\n")
		}
		t.Fatalf("it has ended; it printed %s", all.String())
		return ""
	}
	expect := func(text, want, never string) {
		t.Helper()
		if !strings.Contains(text, want) || never != "" && strings.Contains(text, never) {
			t.Errorf("printed\n%s\nwant %q and no %q", text, want, never)
		}
	}
	expect(round(), "2 scenarios passed", "FAIL")
	write("modules/010-one/templates/cm.yaml", strings.ReplaceAll(chart, "NAME", "other"))
	expect(round(), "FAIL  010-one/a", "010-two")
	write("modules/010-one/templates/cm.yaml", strings.ReplaceAll(chart, "NAME", "one"))
	expect(round(), "1 scenario passed", "010-two")
	write("modules/values.yaml", "global: {a: 1}\n")
	expect(round(), "2 scenarios passed", "FAIL")
	cancel()
	go func() { _, _ = io.Copy(io.Discard, read) }()
	select {
	case err := <-ended:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(time.Minute):
		t.Error("it goes on after the interruption")
	}
}
