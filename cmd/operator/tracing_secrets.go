package operator

import (
	"context"

	"go.opentelemetry.io/otel/attribute"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
)

// discreetExporter hides known secrets in spans before they are sent (J9). Spans are read only, so
// it wraps them. It runs in the goroutine of the batcher, so it delays no task.
type discreetExporter struct {
	sdktrace.SpanExporter
	hide func(string) string
}

// ExportSpans implements sdktrace.SpanExporter.
func (e discreetExporter) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	shown := make([]sdktrace.ReadOnlySpan, len(spans))
	for i, span := range spans {
		shown[i] = discreetSpan{span, e.hide}
	}
	return e.SpanExporter.ExportSpans(ctx, shown)
}

// discreetSpan is a span without secrets, in all texts that come from hooks, objects or errors.
// Attributes of other types than string are numbers.
type discreetSpan struct {
	sdktrace.ReadOnlySpan
	hide func(string) string
}

// Name implements sdktrace.ReadOnlySpan.
func (s discreetSpan) Name() string { return s.hide(s.ReadOnlySpan.Name()) }

// Attributes implements sdktrace.ReadOnlySpan.
func (s discreetSpan) Attributes() []attribute.KeyValue {
	return s.attributes(s.ReadOnlySpan.Attributes())
}

// Events implements sdktrace.ReadOnlySpan: errors are events.
func (s discreetSpan) Events() []sdktrace.Event {
	events := s.ReadOnlySpan.Events()
	shown := make([]sdktrace.Event, len(events))
	for i, event := range events {
		event.Name, event.Attributes = s.hide(event.Name), s.attributes(event.Attributes)
		shown[i] = event
	}
	return shown
}

// Status implements sdktrace.ReadOnlySpan.
func (s discreetSpan) Status() sdktrace.Status {
	status := s.ReadOnlySpan.Status()
	status.Description = s.hide(status.Description)
	return status
}

func (s discreetSpan) attributes(all []attribute.KeyValue) []attribute.KeyValue {
	shown := make([]attribute.KeyValue, len(all))
	for i, a := range all {
		if a.Value.Type() == attribute.STRING {
			a.Value = attribute.StringValue(s.hide(a.Value.AsString()))
		}
		shown[i] = a
	}
	return shown
}
