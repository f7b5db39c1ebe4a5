package objectpatch

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// The operations that docs/hooks.md shows are accepted, and it names all there are. K2
func TestDocsShowObjectPatches(t *testing.T) {
	docs, err := os.ReadFile("../../docs/hooks.md")
	if err != nil {
		t.Fatal(err)
	}
	shown := regexp.MustCompile("(?s)<!-- object patches -->\n```json\n(.*?)```").FindSubmatch(docs)
	if shown == nil {
		t.Fatal("no object patches are shown")
	}
	patches, err := Parse(shown[1])
	if err != nil || len(patches) != strings.Count(string(shown[1]), "\n") {
		t.Errorf("%d patches, %v", len(patches), err)
	}
	for _, o := range []Operation{
		Create, CreateIfNotExists, CreateOrUpdate, ServerSideApply, Delete, DeleteInBackground, DeleteNonCascading, MergePatch, JSONPatch, JQPatch,
	} {
		if !strings.Contains(string(docs), "| `"+string(o)+"` |") {
			t.Errorf("operation %s is not explained", o)
		}
	}
}
