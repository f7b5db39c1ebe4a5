package helm

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// The core that doc.go names can be read in half an hour, and doc.go names every file.
func TestCoreIsSmall(t *testing.T) {
	doc, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	total := 0
	for _, file := range regexp.MustCompile(`(?m)^//\t(\w+\.go) `).FindAllStringSubmatch(string(doc), -1) {
		total += linesOfCode(t, file[1])
	}
	const limit = 1750
	if total < limit/2 || total > limit {
		t.Errorf("the core has %d lines of code, want about 1,700", total)
	}
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	named := regexp.MustCompile(`\w+\.go\b`).FindAllString(string(doc), -1)
	for _, file := range files {
		if !strings.HasSuffix(file, "_test.go") && file != "doc.go" && !slices.Contains(named, file) {
			t.Errorf("doc.go does not say what %s is for", file)
		}
	}
}

// linesOfCode counts lines that are neither empty nor comments.
func linesOfCode(t *testing.T, file string) (n int) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "//") {
			n++
		}
	}
	return n
}
