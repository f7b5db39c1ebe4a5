package actors

import (
	"context"
	"strings"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"addon-operator/messages"
	"addon-operator/supervisor"
)

// span is a part of a trace. Without tracing it is one that does nothing, and has no name; the zero value has not begun.
//
// A converge is one span that begins in one message and ends in another; its tasks carry its name
// (Task.Trace) as text, because messages hold no contexts. What events cause has a trace of its
// own, with a link to the span that led to it (Cause.Trace).
type span struct{ trace.Span }

// End ends the span; err, if not nil, is why it failed.
func (s span) End(err error) {
	if s.Span == nil {
		return
	}
	if err != nil {
		s.RecordError(err)
		first, _, _ := strings.Cut(err.Error(), "\n")
		s.SetStatus(codes.Error, first)
	}
	s.Span.End()
}

// span begins a part of the job: of the part that run is in, or, as the first one, of what the task
// is a part of. The run that it returns is in the new part; what is to become a part of that must
// use it. The caller ends the span.
func (j Job) span(run *supervisor.Run, name string, about ...attribute.KeyValue) (*supervisor.Run, span) {
	if module := messages.ModuleOf(j.Owner); module != "" {
		about = append(about, attribute.String("module", module))
	}
	ctx, options := run.Context(), []trace.SpanStartOption{trace.WithAttributes(about...)}
	if !trace.SpanContextFromContext(ctx).IsValid() {
		ctx = trace.ContextWithRemoteSpanContext(ctx, spanContext(j.Task.Trace))
		options = append(options, trace.WithAttributes(
			attribute.String("queue", j.Task.Queue), attribute.String("task", j.Task.ID), attribute.Int("attempt", run.Attempt()+1),
			attribute.String("activation", j.Task.Cause.First().Activation), attribute.String("cause", j.Task.Cause.String()),
		))
		if j.Task.Trace == "" {
			options = append(options, linkTo(j.Task.Cause)...)
		}
	}
	ctx, s := j.Tracer.Start(ctx, name, options...)
	return run.With(ctx), span{s}
}

// linkTo links to the span that led to a cause, if it had one: the nearest in the chain, because
// people and timers, which begin chains, have none.
func linkTo(c messages.Cause) []trace.SpanStartOption {
	for link := &c; link != nil; link = link.Parent {
		if from := spanContext(link.Trace); from.IsValid() {
			return []trace.SpanStartOption{trace.WithLinks(trace.Link{SpanContext: from})}
		}
	}
	return nil
}

// ConvergeSpan begins the span of a reload, the start-up before the first one included.
func (s Services) ConvergeSpan(reload int, cause messages.Cause) span {
	options := append(linkTo(cause), trace.WithNewRoot(), trace.WithAttributes(
		attribute.Int("reload", reload), attribute.String("activation", cause.First().Activation), attribute.String("cause", cause.String()),
	))
	_, began := s.Tracer.Start(context.Background(), "converge", options...)
	return span{began}
}

// Name is the span as text, for tasks and causes: a W3C traceparent. It is empty for none.
func (s span) Name() string { return traceparent(s.SpanContext()) }

// traceOf is the span that a run is in, as text.
func traceOf(run *supervisor.Run) string {
	return traceparent(trace.SpanContextFromContext(run.Context()))
}

// traceparent is a span as the header of W3C Trace Context; empty for none.
func traceparent(s trace.SpanContext) string {
	header := propagation.MapCarrier{}
	propagation.TraceContext{}.Inject(trace.ContextWithSpanContext(context.Background(), s), header)
	return header["traceparent"]
}

// spanContext reads what traceparent wrote; anything else is no span.
func spanContext(name string) trace.SpanContext {
	header := propagation.MapCarrier{"traceparent": name}
	return trace.SpanContextFromContext(propagation.TraceContext{}.Extract(context.Background(), header))
}

// traceEnvironment lets a hook join the trace: it is what programs that trace look for.
func traceEnvironment(run *supervisor.Run) []string {
	if name := traceOf(run); name != "" {
		return []string{"TRACEPARENT=" + name}
	}
	return nil
}
