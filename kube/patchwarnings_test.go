package kube

import (
	"bytes"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"addon-operator/kube/objectpatch"
)

// Warnings about object patches name the object and whose they are, each once, and there are not more than a person reads.
func TestPatchWarnings(t *testing.T) {
	var log bytes.Buffer
	logger := slog.New(slog.NewTextHandler(&log, nil))
	general := newWarnings(logger)
	w := newPatchWarnings(WithAbout(t.Context(), "module", "dns"), logger)
	for i := range 50 {
		ctx := w.of(t.Context(), objectpatch.Patch{Kind: "ConfigMap", Namespace: "d", Name: fmt.Sprint("a", i)})
		for range 2 { // requests of one operation
			general.HandleWarningHeaderWithContext(ctx, 299, "", "unknown field x")
		}
	}
	w.end()
	text := log.String()
	if n := strings.Count(text, "unknown field"); n != maxPatchWarnings {
		t.Errorf("%d warnings, want %d:\n%s", n, maxPatchWarnings, text)
	}
	for _, want := range []string{`module=dns object="ConfigMap d/a0"`, "returned warnings for more object patches"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in:\n%s", want, text)
		}
	}
}
