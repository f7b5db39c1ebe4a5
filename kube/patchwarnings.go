package kube

import (
	"context"
	"fmt"
	"log/slog"

	"addon-operator/kube/objectpatch"
)

// maxPatchWarnings is how many warnings about the object patches of one hook run are logged; the
// others are counted.
const maxPatchWarnings = 20

// patchWarnings logs the warnings of the API server about the object patches of one hook run, such
// as unknown fields, with the object. It is used by one goroutine.
type patchWarnings struct {
	logger *slog.Logger
	object string             // of the operation in progress
	known  map[[2]string]bool // object and text of what was logged
	more   int                // that were not logged
}

type (
	patchWarningsKey struct{}
	aboutKey         struct{}
)

// WithAbout returns a context whose object patches are logged with attributes: whose they are.
func WithAbout(ctx context.Context, attributes ...any) context.Context {
	return context.WithValue(ctx, aboutKey{}, attributes)
}

func newPatchWarnings(ctx context.Context, log *slog.Logger) *patchWarnings {
	about, _ := ctx.Value(aboutKey{}).([]any)
	return &patchWarnings{logger: log.With(about...), known: map[[2]string]bool{}}
}

// of is the context of one operation. Its warnings reach log by the handler of all clients, which
// has no other way to find the object.
func (w *patchWarnings) of(ctx context.Context, p objectpatch.Patch) context.Context {
	w.object = p.Kind + " " + p.Name
	if p.Namespace != "" {
		w.object = p.Kind + " " + p.Namespace + "/" + p.Name
	}
	return context.WithValue(ctx, patchWarningsKey{}, w)
}

// log logs a warning, with the attribute err, because the log repeats what has one at growing
// intervals.
func (w *patchWarnings) log(text string) {
	warning := [2]string{w.object, text}
	switch {
	case w.known[warning]: // of another request of the operation
	case len(w.known) == maxPatchWarnings:
		w.more++
	default:
		w.known[warning] = true
		w.logger.Warn("the API server returned a warning for an object patch", "object", w.object, "err", text)
	}
}

// end logs how many warnings were dropped.
func (w *patchWarnings) end() {
	if w.more > 0 {
		w.logger.Warn("the API server returned warnings for more object patches; fix the objects of the earlier warnings first", "err", fmt.Sprintf("%d more warnings", w.more))
	}
}
