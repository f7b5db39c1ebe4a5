package golden

import (
	"flag"
	"os"
	"slices"
	"testing"

	"golang.org/x/tools/txtar"

	"addon-operator/helm/manifest"
)

var update = flag.Bool("update", false, "rewrite the golden files")

// Updating reports whether the golden files are rewritten, for tests that write something else, too, such as the
// answers of another program.
func Updating() bool { return *update }

// File compares got with the content of a file. With -update it writes the file instead.
func File(t testing.TB, path, got string) {
	t.Helper()
	want, err := os.ReadFile(path)
	if err != nil && !*update {
		t.Fatalf("%v; go test -update writes it. It would be\n%s", err, got)
	}
	if string(want) == got && err == nil {
		return
	}
	if *update {
		write(t, path, []byte(got))
		return
	}
	t.Errorf("%s differs; go test -update rewrites it\n%s", path, Diff(string(want), got))
}

// Part compares got with a part of an archive, which is the file at path; one that is missing counts as an empty one
// at the end. With -update it writes the part into the file.
func Part(t testing.TB, path string, archive *txtar.Archive, part, got string) {
	t.Helper()
	i := slices.IndexFunc(archive.Files, func(f txtar.File) bool { return f.Name == part })
	if i < 0 {
		i, archive.Files = len(archive.Files), append(archive.Files, txtar.File{Name: part})
	}
	f := &archive.Files[i]
	if want := string(f.Data); want != got && !*update {
		t.Errorf("%s: %s differs; go test -update rewrites it\n%s", path, part, Diff(want, got))
	}
	if f.Data = []byte(got); *update {
		write(t, path, txtar.Format(archive))
	}
}

func write(t testing.TB, path string, data []byte) {
	t.Helper()
	if err := os.WriteFile(path, data, 0o644); err != nil {
		t.Fatal(err)
	}
}

// Diff shows the lines in which two texts differ, with the three before and after them.
func Diff(want, got string) string { return manifest.UnifiedTexts(want, got, "want", "got") }
