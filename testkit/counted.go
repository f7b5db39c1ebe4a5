package testkit

import (
	"net/http"
	"net/http/httptest"
	"regexp"

	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// stepCounts writes how a scrape shows the runs of hooks into the trace.
func stepCounts(p *player, _ string) error {
	scrape := httptest.NewRecorder()
	handler := promhttp.HandlerFor(p.options.Metrics.Registry, promhttp.HandlerOpts{})
	handler.ServeHTTP(scrape, httptest.NewRequest(http.MethodGet, "/metrics", http.NoBody))
	counted := regexp.MustCompile(`(?m)^\w+hook_(success_total|(allowed_)?errors(_total)?|run_seconds_count)\b.*$`)
	for _, line := range counted.FindAllString(scrape.Body.String(), -1) {
		p.Trace.AddLine(line)
	}
	return nil
}
