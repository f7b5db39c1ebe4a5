package golden_test

import (
	"strings"
	"testing"

	"golang.org/x/tools/txtar"

	"addon-operator/testkit/golden"
)

// A test compares its whole output with a file. go test -update writes the file.
func ExampleFile() {
	_ = func(t *testing.T) { // a test
		golden.File(t, "testdata/page.golden", strings.ToUpper("hello\n"))
	}
}

// A case and its output lie in one archive. go test -update writes the part of the output.
func ExamplePart() {
	_ = func(t *testing.T) { // a test
		const path = "testdata/hello.txtar"
		archive, err := txtar.ParseFile(path)
		if err != nil {
			t.Fatal(err)
		}
		golden.Part(t, path, archive, "want", strings.ToUpper(string(archive.Files[0].Data)))
	}
}
