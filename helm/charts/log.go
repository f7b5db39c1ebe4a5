package charts

import (
	"log"
	"log/slog"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// RedirectLog redirects what Helm's library writes to Go's global logger, such as warnings about values that do not
// fit those of the chart, to log, as warnings with the module that it is about (During).
//
// The logger is global to the process: call this from main, before the first goroutine.
func RedirectLog(to *slog.Logger) {
	log.SetFlags(0)
	log.SetOutput(&redirected{to: to, modules: map[string]int{}})
}

// During notes that the library works on the chart of a module until ended is called. While it works on several, the
// library does not say which one a line is about, and the log names all.
func During(module string) (ended func()) {
	r, ok := log.Writer().(*redirected)
	if !ok {
		return func() {}
	}
	r.change(module, 1)
	return func() { r.change(module, -1) }
}

// redirected is the writer of the global logger.
type redirected struct {
	to      *slog.Logger
	mu      sync.Mutex
	modules map[string]int // how often the library works on a chart at the moment
}

func (r *redirected) change(module string, by int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.modules[module] += by; r.modules[module] == 0 {
		delete(r.modules, module)
	}
}

// Write implements io.Writer. Some lines end with a value, which may be a secret.
func (r *redirected) Write(line []byte) (int, error) {
	surplus := regexp.MustCompile(`(with non table for \S+|Ignoring non-table value) (?s:.*)|^(?i:info|warning): `)
	text := surplus.ReplaceAllString(strings.TrimSpace(string(line)), "$1")
	r.mu.Lock()
	modules := slices.Sorted(maps.Keys(r.modules))
	r.mu.Unlock()
	to := r.to
	if len(modules) > 0 {
		to = to.With("module", strings.Join(modules, ", "))
	}
	to.Warn("Helm's library returned a warning", "err", text)
	return len(line), nil
}
