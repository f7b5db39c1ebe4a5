package testkit

import (
	"bytes"
	"maps"
	"os"
	"regexp"
	"slices"
	"testing"
)

// The steps that doc.go and docs/testkit.md explain are those that there are.
func TestStepsAreDocumented(t *testing.T) {
	want := slices.Sorted(maps.Keys(steps()))
	for file, line := range map[string]string{
		"doc.go":             `(?m)^//\t([a-z-]+)(?: [[A-Z0-9].*)?  `,
		"../docs/testkit.md": "(?m)^\\| `([a-z-]+)",
	} {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		_, list, _ := bytes.Cut(text, []byte("Steps")) // in both a heading, or a sentence
		list, _, _ = bytes.Cut(list, []byte("\n## "))
		documented := map[string]bool{}
		for _, match := range regexp.MustCompile(line).FindAllSubmatch(list, -1) {
			documented[string(match[1])] = true
		}
		if got := slices.Sorted(maps.Keys(documented)); !slices.Equal(got, want) {
			t.Errorf("%s explains %v, there are %v", file, got, want)
		}
	}
}
