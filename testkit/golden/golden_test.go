package golden

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"
)

// failing notes what a comparison says; Fatalf ends it.
type failing struct {
	testing.TB
	said string
}

type ended struct{}

func (*failing) Helper()                          {}
func (f *failing) Errorf(format string, a ...any) { f.said += fmt.Sprintf(format, a...) }
func (f *failing) Fatalf(format string, a ...any) { f.Errorf(format, a...); panic(ended{}) }
func (f *failing) Fatal(a ...any)                 { f.Fatalf("%s", fmt.Sprint(a...)) }

// says is what a comparison complains of.
func says(t *testing.T, updating bool, compare func(t testing.TB)) string {
	t.Helper()
	before := *update
	*update = updating
	defer func() { *update = before }()
	f := &failing{TB: t}
	func() {
		defer func() {
			if r := recover(); r != nil && r != (ended{}) {
				panic(r)
			}
		}()
		compare(f)
	}()
	return f.said
}

// A difference is shown by its lines, a missing file by what it would be; -update writes both, and nothing else does.
func TestFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "out.golden")
	first := func(t testing.TB) { File(t, path, "a\nb\n") }
	second := func(t testing.TB) { File(t, path, "a\nc\n") }
	if got := says(t, false, first); !strings.Contains(got, "go test -update writes it") || !strings.Contains(got, "a\nb\n") {
		t.Errorf("without the file it says %q", got)
	}
	for _, step := range []struct {
		compare func(testing.TB)
		update  bool
		differs bool
	}{{first, true, false}, {first, false, false}, {second, false, true}, {second, true, false}, {second, false, false}, {first, false, true}} {
		got := says(t, step.update, step.compare)
		if (got != "") != step.differs || step.differs && !(strings.Contains(got, "\n-b\n+c\n") || strings.Contains(got, "\n-c\n+b\n")) {
			t.Errorf("%+v says %q", step, got)
		}
	}
}

// An empty output is one; a file that is missing is not empty.
func TestEmptyFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "out.golden")
	empty := func(t testing.TB) { File(t, path, "") }
	if got := says(t, false, empty); got == "" {
		t.Error("a missing file counts as an empty one")
	}
	if got := says(t, true, empty) + says(t, false, empty); got != "" {
		t.Error(got)
	}
}

// The other parts of an archive stay as they are.
func TestPart(t *testing.T) {
	path := filepath.Join(t.TempDir(), "case.txtar")
	if err := os.WriteFile(path, []byte("what it shows\n-- given --\nx\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	part := func(got string) func(testing.TB) {
		return func(t testing.TB) {
			archive, err := txtar.ParseFile(path)
			if err != nil {
				t.Fatal(err)
			}
			Part(t, path, archive, "want", got)
		}
	}
	if got := says(t, false, part("y\n")); !strings.Contains(got, "want differs") {
		t.Errorf("without the part it says %q", got)
	}
	for _, text := range []string{"y\n", "z\n"} {
		if got := says(t, true, part(text)) + says(t, false, part(text)); got != "" {
			t.Error(got)
		}
		if data, err := os.ReadFile(path); err != nil || string(data) != "what it shows\n-- given --\nx\n-- want --\n"+text {
			t.Errorf("%v; the file is\n%s", err, data)
		}
	}
	if got := says(t, false, part("other\n")); !strings.Contains(got, "want differs") || !strings.Contains(got, "\n-z\n+other\n") {
		t.Errorf("it says %q", got)
	}
}
