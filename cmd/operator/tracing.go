package operator

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strings"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	otelresource "go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"addon-operator/actors"
	"addon-operator/cmd/cli"
)

// lastSpans is how long the end of the process may wait for a collector of traces.
const lastSpans = 2 * time.Second

// newTracer makes what traces the operator, and what sends the last spans at the stop. It
// is nil unless the standard variables of OpenTelemetry name an endpoint; the library reads
// all of them itself: headers, certificates, sampling, attributes, sizes of batches.
func newTracer(ctx context.Context, c *cli.Config, secrets *actors.Secrets, log *slog.Logger) (tracer trace.Tracer, stop func(), err error) {
	if !tracing(os.Getenv, log) {
		return nil, func() {}, nil
	}
	// The library has one handler of its errors for the whole process.
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) {
		log.Warn("traces cannot be sent; check OTEL_EXPORTER_OTLP_ENDPOINT", "err", err)
	}))
	exporter, err := otlptracehttp.New(ctx)
	if err != nil {
		return nil, nil, fmt.Errorf("export traces: %w; check the variables OTEL_EXPORTER_OTLP_…", err)
	}
	named, err := otelresource.New(ctx, otelresource.WithTelemetrySDK(), otelresource.WithAttributes(
		attribute.String("service.name", "addon-operator"), attribute.String("service.version", c.Version), attribute.String("k8s.namespace.name", c.Namespace),
	// Last, because what a person sets in OTEL_RESOURCE_ATTRIBUTES wins.
	), otelresource.WithFromEnv())
	if err != nil {
		return nil, nil, fmt.Errorf("describe the source of traces: %w; check OTEL_RESOURCE_ATTRIBUTES", err)
	}
	provider := sdktrace.NewTracerProvider(sdktrace.WithBatcher(discreetExporter{exporter, secrets.Hide}), sdktrace.WithResource(named))
	stop = func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lastSpans)
		defer cancel()
		if err := provider.Shutdown(ctx); err != nil {
			log.Warn("the last traces are lost", "err", err)
		}
	}
	return provider.Tracer("addon-operator", trace.WithInstrumentationVersion(c.Version)), stop, nil
}

// tracing reports whether the variables ask for traces that the operator can send. The library
// has more protocols than this program contains.
func tracing(getenv func(string) string, log *slog.Logger) bool {
	endpoint := cmp.Or(getenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"), getenv("OTEL_EXPORTER_OTLP_ENDPOINT"))
	exporter := cmp.Or(getenv("OTEL_TRACES_EXPORTER"), "otlp")
	if endpoint == "" || exporter == "none" || strings.EqualFold(getenv("OTEL_SDK_DISABLED"), "true") {
		return false
	}
	protocol := cmp.Or(getenv("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL"), getenv("OTEL_EXPORTER_OTLP_PROTOCOL"), "http/protobuf")
	sent := exporter == "otlp" && protocol == "http/protobuf"
	if !sent { // The variables are often set for everything in a cluster: no reason not to start.
		log.Warn("traces are not sent: the operator supports OTLP over http/protobuf only; set OTEL_EXPORTER_OTLP_TRACES_PROTOCOL to http/protobuf, and the endpoint to the port for HTTP, usually 4318",
			"exporter", exporter, "protocol", protocol)
	}
	return sent
}

// discreetExporter hides known secrets in spans before they are sent (J9), in all texts that come from hooks,
// objects or errors. It runs in the goroutine of the batcher, so it delays no task.
type discreetExporter struct {
	sdktrace.SpanExporter
	hide func(string) string
}

// ExportSpans implements sdktrace.SpanExporter. Spans are read only; the stubs are the copies that the library has.
// Attributes of other types than string are numbers.
func (e discreetExporter) ExportSpans(ctx context.Context, spans []sdktrace.ReadOnlySpan) error {
	hidden := func(all []attribute.KeyValue) []attribute.KeyValue {
		all = slices.Clone(all)
		for i, a := range all {
			if a.Value.Type() == attribute.STRING {
				all[i].Value = attribute.StringValue(e.hide(a.Value.AsString()))
			}
		}
		return all
	}
	shown := tracetest.SpanStubsFromReadOnlySpans(spans)
	for i := range shown {
		s := &shown[i]
		s.Name, s.Status.Description = e.hide(s.Name), e.hide(s.Status.Description)
		s.Attributes, s.Events = hidden(s.Attributes), slices.Clone(s.Events)
		for j, event := range s.Events { // errors are events
			s.Events[j].Name, s.Events[j].Attributes = e.hide(event.Name), hidden(event.Attributes)
		}
	}
	return e.SpanExporter.ExportSpans(ctx, shown.Snapshots())
}
