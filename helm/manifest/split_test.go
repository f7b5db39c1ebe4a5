package manifest

import (
	"fmt"
	"slices"
	"testing"

	"helm.sh/helm/v3/pkg/releaseutil"
)

// helmSplits is Helm's own way.
func helmSplits(text string) []string {
	found := releaseutil.SplitManifests(text)
	documents := make([]string, 0, len(found))
	for i := range len(found) {
		documents = append(documents, found[fmt.Sprintf("manifest-%d", i)])
	}
	return documents
}

// Documents are divided exactly as Helm divides them.
func FuzzSplit(f *testing.F) {
	for _, text := range []string{
		"", "a: 1", "---", "---\na: 1\n---\nb: 1", "a\n---\n---\nb", "a\n--- # comment\nb", "a\n----\nb", "a: |\n  x\n  ---\n  y\n---\t\r\n---x", "------", "a\n\n \n---   \n\nb\n---",
		"---\n---", "a ---\nb", "\u00a0---\na", "a\n\u00a0\n---\n\u00a0b", "a\v\n---b", "a\n---\n\n\n---\n", "---\n\n---\n---a\n\n---",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if got, want := Split(text), helmSplits(text); !slices.Equal(got, want) {
			t.Errorf("%q is divided into %q, by Helm into %q", text, got, want)
		}
	})
}
