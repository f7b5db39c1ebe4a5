package actors

import (
	"errors"
	"testing"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/trace"

	"addon-operator/messages"
	"addon-operator/supervisor"
)

// Without a tracer spans have no names, and hooks get none.
func TestNoSpans(t *testing.T) {
	j := Job{Shared: testProgram(nil).Runs, Owner: "m", Task: messages.Task{Cause: messages.Cause{Activation: messages.Startup}}}
	inner, s := j.span((&supervisor.Run{}).With(t.Context()), "hook run", attribute.String("hook", "h"))
	if s.End(errors.New("failed")); s.Name() != "" || traceEnvironment(inner) != nil {
		t.Error("there is a span")
	}
}

// Tasks and causes carry spans as W3C traceparents, which hooks understand, too.
func TestSpansAsText(t *testing.T) {
	const sampled = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	const dropped = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00"
	for _, name := range []string{sampled, dropped} {
		s := spanContext(name)
		if got := traceparent(s); got != name || s.IsSampled() != (name == sampled) {
			t.Errorf("%s is read as %s, sampled %t", name, got, s.IsSampled())
		}
	}
	for _, wrong := range []string{"", "x", "00-0-0-01", "00-0af7651916cd43dd8448eb211c80319c-0000000000000000-01", "00-zzf7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"} {
		if s := spanContext(wrong); s.IsValid() {
			t.Errorf("%q is read as %s", wrong, traceparent(s))
		}
	}
	if got := traceparent(trace.SpanContext{}); got != "" {
		t.Errorf("no span is %q", got)
	}
}

// A span has a link to the run of the hook that has led to its cause.
func TestLinks(t *testing.T) {
	const hook = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	patched := messages.By(messages.ByHook, "h changed values", messages.Cause{Activation: messages.Startup}).In(hook)
	for situation, c := range map[string]struct {
		cause messages.Cause
		to    string
	}{
		"from outside":   {messages.Cause{Activation: messages.ByConfigMap}, ""},
		"made by a hook": {patched, hook},
	} {
		config := trace.NewSpanStartConfig(linkTo(c.cause))
		if got := traceparent(config.Links()[0].SpanContext); got != c.to {
			t.Errorf("%s: a link to %q, want %q", situation, got, c.to)
		}
	}
}
