package helm

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// doc.go says what every file is for.
func TestEveryFileIsNamed(t *testing.T) {
	doc, err := os.ReadFile("doc.go")
	files, errGlob := filepath.Glob("*.go")
	if err != nil || errGlob != nil {
		t.Fatal(err, errGlob)
	}
	named := regexp.MustCompile(`\w+\.go\b`).FindAllString(string(doc), -1)
	for _, file := range files {
		if !strings.HasSuffix(file, "_test.go") && file != "doc.go" && !slices.Contains(named, file) {
			t.Errorf("doc.go does not say what %s is for", file)
		}
	}
}
