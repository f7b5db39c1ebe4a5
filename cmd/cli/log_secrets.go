package cli

import (
	"context"
	"fmt"
	"log/slog"

	"addon-operator/hooks"
)

// discreetLog hides known secrets in records (J9), and escapes control characters in names from
// tenants and in the output of hooks (J10). It is around the handler that writes, so no logger can
// avoid it.
type discreetLog struct {
	slog.Handler
	hide func(string) string
}

// Handle implements slog.Handler.
func (h discreetLog) Handle(ctx context.Context, record slog.Record) error {
	out := slog.NewRecord(record.Time, record.Level, h.text(record.Message), record.PC)
	record.Attrs(func(a slog.Attr) bool {
		out.AddAttrs(h.attr(a))
		return true
	})
	return h.Handler.Handle(ctx, out)
}

// WithAttrs implements slog.Handler. Attributes are checked here and once: secrets that become
// known later are not found in those of an existing logger.
func (h discreetLog) WithAttrs(attrs []slog.Attr) slog.Handler {
	shown := make([]slog.Attr, len(attrs))
	for i, a := range attrs {
		shown[i] = h.attr(a)
	}
	h.Handler = h.Handler.WithAttrs(shown)
	return h
}

// WithGroup implements slog.Handler.
func (h discreetLog) WithGroup(name string) slog.Handler {
	h.Handler = h.Handler.WithGroup(name)
	return h
}

func (h discreetLog) text(text string) string { return hooks.Printable(h.hide(text)) }

// attr keeps a value as it is, so that the handler formats it by its type, unless its text has
// something to hide: then it becomes that text. Kinds that are not named are numbers, booleans and
// times.
func (h discreetLog) attr(a slog.Attr) slog.Attr {
	a.Value = a.Value.Resolve()
	switch a.Value.Kind() {
	case slog.KindString:
		a.Value = slog.StringValue(h.text(a.Value.String()))
	case slog.KindGroup:
		group := a.Value.Group()
		shown := make([]slog.Attr, len(group))
		for i, one := range group {
			shown[i] = h.attr(one)
		}
		a.Value = slog.GroupValue(shown...)
	case slog.KindAny:
		// Lists stay lists in JSON.
		if list, ok := a.Value.Any().([]string); ok {
			a.Value = slog.AnyValue(h.list(list))
			break
		}
		text := fmt.Sprintf("%+v", a.Value.Any())
		if shown := h.text(text); shown != text {
			a.Value = slog.StringValue(shown)
		}
	}
	return a
}

// list copies the list: it belongs to the caller of the logger. nil stays nil.
func (h discreetLog) list(list []string) []string {
	if list == nil {
		return nil
	}
	shown := make([]string, len(list))
	for i, text := range list {
		shown[i] = h.text(text)
	}
	return shown
}
