package actors

import (
	"context"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"addon-operator/messages"
	"addon-operator/supervisor"
)

// Spans of traces. A converge is one span that begins in one message and ends in another;
// its tasks carry its name (Task.Trace), as text, because messages hold no contexts. What
// events cause has a trace of its own, with a link to the span that led to it
// (Cause.Trace). With World.Tracer nil all of this costs a comparison.

// span is a part of a trace; the zero value is none.
type span struct{ trace.Span }

// end ends the span; err, if not nil, is why it failed.
func (s span) end(err error) {
	if s.Span == nil {
		return
	}
	if err != nil {
		s.RecordError(err)
		first, _, _ := strings.Cut(err.Error(), "\n")
		s.SetStatus(codes.Error, first)
	}
	s.End()
}

// about describes a span; fields that do not apply are empty.
type about struct{ hook, binding, module string }

func (a about) attributes() []attribute.KeyValue {
	var all []attribute.KeyValue
	add := func(key, value string) {
		if value != "" {
			all = append(all, attribute.String(key, value))
		}
	}
	add("module", a.module)
	add("hook", a.hook)
	add("binding", a.binding)
	return all
}

// span begins a part of the job: of the part that run is in, or, as the first one, of what
// the task is a part of. The run that it returns is in the new part.
func (j job) span(run *supervisor.Run, name string, of about) (*supervisor.Run, span) {
	if j.program.Tracer == nil {
		return run, span{}
	}
	if of.module == "" {
		of.module = messages.ModuleOf(j.owner)
	}
	ctx, options := run.Context(), []trace.SpanStartOption{trace.WithAttributes(of.attributes()...)}
	if !trace.SpanContextFromContext(ctx).IsValid() {
		ctx = trace.ContextWithRemoteSpanContext(ctx, spanContext(j.task.Trace))
		options = append(options, j.taskOptions(run)...)
	}
	ctx, s := j.program.Tracer.Start(ctx, name, options...)
	return run.With(ctx), span{s}
}

// taskOptions are for the first span of an attempt.
func (j job) taskOptions(run *supervisor.Run) []trace.SpanStartOption {
	options := []trace.SpanStartOption{trace.WithAttributes(
		attribute.String("queue", j.task.Queue), attribute.String("task", j.task.ID), attribute.Int("attempt", run.Attempt()+1),
		attribute.String("activation", j.task.Cause.First().Activation), attribute.String("cause", j.task.Cause.String()),
	)}
	if j.task.Trace == "" {
		options = append(options, linkTo(j.task.Cause)...)
	}
	return options
}

// linkTo links to the span that led to a cause, if it had one.
func linkTo(c messages.Cause) []trace.SpanStartOption {
	for link := &c; link != nil; link = link.Parent {
		if from := spanContext(link.Trace); from.IsValid() {
			return []trace.SpanStartOption{trace.WithLinks(trace.Link{SpanContext: from})}
		}
	}
	return nil
}

// convergeSpan begins the span of a reload, the start-up before the first one included.
func (p *program) convergeSpan(reload int, cause messages.Cause) span {
	if p.Tracer == nil {
		return span{}
	}
	options := append(linkTo(cause), trace.WithNewRoot(), trace.WithAttributes(
		attribute.Int("reload", reload), attribute.String("activation", cause.First().Activation), attribute.String("cause", cause.String()),
	))
	_, s := p.Tracer.Start(context.Background(), "converge", options...)
	return span{s}
}

// name is the span as text, for tasks and causes: a W3C traceparent. It is empty for none.
func (s span) name() string {
	if s.Span == nil {
		return ""
	}
	return traceparent(s.SpanContext())
}

// traceOf is the span that a run is in, as text.
func traceOf(run *supervisor.Run) string {
	return traceparent(trace.SpanContextFromContext(run.Context()))
}

func traceparent(s trace.SpanContext) string {
	if !s.IsValid() {
		return ""
	}
	return "00-" + s.TraceID().String() + "-" + s.SpanID().String() + "-" + s.TraceFlags().String()
}

// spanContext reads what traceparent wrote; anything else is no span.
func spanContext(name string) trace.SpanContext {
	parts := strings.Split(name, "-")
	if len(parts) != 4 {
		return trace.SpanContext{}
	}
	traceID, err1 := trace.TraceIDFromHex(parts[1])
	spanID, err2 := trace.SpanIDFromHex(parts[2])
	if err1 != nil || err2 != nil {
		return trace.SpanContext{}
	}
	flags := trace.TraceFlags(0).WithSampled(parts[3] == trace.FlagsSampled.String())
	return trace.NewSpanContext(trace.SpanContextConfig{TraceID: traceID, SpanID: spanID, TraceFlags: flags})
}

// traceEnvironment lets a hook join the trace: it is what programs that trace look for.
func traceEnvironment(run *supervisor.Run) []string {
	if name := traceOf(run); name != "" {
		return []string{"TRACEPARENT=" + name}
	}
	return nil
}

// note adds what became of it to a span.
func (s span) note(attributes func() []attribute.KeyValue) {
	if s.Span != nil {
		s.SetAttributes(attributes()...)
	}
}
