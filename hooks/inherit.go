package hooks

import (
	"slices"
	"strings"
)

// inherited are the variables of the operator that hooks and enabled scripts get: all but the headers with which the
// operator authenticates to a collector of traces, which contain tokens (OTEL_EXPORTER_OTLP_HEADERS,
// OTEL_EXPORTER_OTLP_TRACES_HEADERS and so on). It is never nil, which exec.Cmd takes for all variables.
func inherited(environment []string) []string {
	return slices.DeleteFunc(append([]string{}, environment...), func(variable string) bool {
		name, _, _ := strings.Cut(variable, "=")
		return strings.HasPrefix(name, "OTEL_EXPORTER_OTLP_") && strings.HasSuffix(name, "HEADERS")
	})
}
