package actors_test

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"addon-operator/testkit"
)

// P1: a purge that waits because a module cannot be rendered is not done when the directory of that module is away,
// or has another name that is not loaded yet: nothing on disk then says which objects the module has.
func TestPurgeWaitsForDirectories(t *testing.T) {
	testkit.PlayLive(t, 1, func(t *testing.T, l *testkit.Live) {
		modules := filepath.Join(l.Dir, "modules")
		write := func(path, text string) {
			t.Helper()
			if err := writeFile(filepath.Join(modules, path), textFile{text: text}); err != nil {
				t.Fatal(err)
			}
		}
		check := func(err error) {
			t.Helper()
			if err != nil {
				t.Fatal(err)
			}
		}
		releases := func(want ...string) {
			t.Helper()
			if got := l.Releases(); !slices.Equal(got, want) {
				t.Fatalf("releases are %q, want %q\n%s", got, want, l.Trace())
			}
		}
		notice := func() {
			l.NoticeDisk()
			check(l.Advance(3 * time.Second))
		}
		write("values.yaml", "aEnabled: true\nbEnabled: true\n")
		write("010-a/templates/cm.yaml", diskModule{}.templateText("a"))
		write("010-a/templates/_helpers.tpl", `{{ define "a.h" }}{{ end }}`)
		write("020-b/templates/cm.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: b}\n")
		check(l.Start())
		releases("a", "b")

		write("010-a/templates/cm.yaml", diskModule{brokenTemplate: failing}.templateText("a"))
		check(os.RemoveAll(filepath.Join(modules, "020-b")))
		notice()
		releases("a", "b")

		check(os.Rename(filepath.Join(modules, "010-a"), filepath.Join(modules, "050-a")))
		check(l.Advance(time.Minute)) // retries come before the operator looks at the disk
		releases("a", "b")

		notice()
		write("050-a/templates/cm.yaml", diskModule{}.templateText("a"))
		notice()
		check(l.Advance(time.Minute))
		releases("a", "b")
		check(l.Step("configmap-set global x: 1")) // the next reload tries it again
		check(l.Advance(time.Minute))
		releases("a")
	})
}
