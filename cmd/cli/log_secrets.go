package cli

import (
	"context"
	"fmt"
	"log/slog"

	"addon-operator/hooks"
)

// discreetLog hides known secrets in records, and keeps names from tenants from commanding the terminal of who reads them.
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

// WithAttrs implements slog.Handler.
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

// attr keeps a value as it is, of whatever type, unless its text has something to hide.
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
