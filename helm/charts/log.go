package charts

import (
	"log"
	"log/slog"
	"regexp"
	"strings"
)

// RedirectLog redirects what Helm's library writes to Go's global logger, such as warnings about values that do not
// fit those of the chart, to log, as warnings.
//
// The logger is global to the process: call this from main, before the first goroutine.
func RedirectLog(to *slog.Logger) {
	log.SetFlags(0)
	log.SetOutput(redirected{to})
}

// redirected is the writer of the global logger.
type redirected struct{ to *slog.Logger }

// Write implements io.Writer. Some lines end with a value, which may be a secret.
func (r redirected) Write(line []byte) (int, error) {
	surplus := regexp.MustCompile(`(with non table for \S+|Ignoring non-table value) (?s:.*)|^(?i:info|warning): `)
	r.to.Warn("Helm's library returned a warning", "err", surplus.ReplaceAllString(strings.TrimSpace(string(line)), "$1"))
	return len(line), nil
}
