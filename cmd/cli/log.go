package cli

import (
	"io"
	"log/slog"
	"strings"
	"time"

	"github.com/lmittmann/tint"
	"golang.org/x/term"

	"addon-operator/supervisor"
)

// IsTerminal reports whether a reader or writer is a terminal. In tests it is a buffer.
func IsTerminal(file any) bool {
	f, ok := file.(interface{ Fd() uintptr })
	return ok && term.IsTerminal(int(f.Fd()))
}

// Logger makes the log of the operator: readable text on a terminal, JSON elsewhere. The level can
// be changed while it runs, through the LevelVar. All texts go through hide. A failure that repeats
// is logged at growing intervals, except at level debug. An error is a UsageError.
func (o *ProcessOptions) Logger(w io.Writer, hide func(string) string) (*slog.Logger, *slog.LevelVar, error) {
	level := &slog.LevelVar{}
	if err := level.UnmarshalText([]byte(strings.ToUpper(o.LogLevel))); err != nil {
		return nil, nil, Usagef("log-level: %q is not one of debug, info, warn, error", o.LogLevel)
	}
	kind := o.LogType
	if kind == "auto" {
		kind = "json"
		if IsTerminal(w) {
			kind = "color"
		}
	}
	noTime := func(groups []string, a slog.Attr) slog.Attr {
		if o.LogNoTime && len(groups) == 0 && a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}
	// Sparing is outside: what it drops costs no search for secrets.
	discreet := func(h slog.Handler) *slog.Logger {
		return slog.New(supervisor.Sparing(discreetLog{h, hide}))
	}
	switch kind {
	case "json":
		plain := func(groups []string, a slog.Attr) slog.Attr { return readable(noTime(groups, a)) }
		return discreet(slog.NewJSONHandler(w, &slog.HandlerOptions{Level: level, ReplaceAttr: plain})), level, nil
	case "text", "color":
		return discreet(tint.NewHandler(w, &tint.Options{Level: level, ReplaceAttr: noTime, NoColor: kind == "text", TimeFormat: "15:04:05.000"})), level, nil
	}
	return nil, nil, Usagef("log-type: %q is not one of auto, text, color, json", o.LogType)
}

// readable writes durations as people read them, and empty lists as lists, not as null.
func readable(a slog.Attr) slog.Attr {
	switch v := a.Value.Any().(type) {
	case time.Duration:
		return slog.String(a.Key, v.String())
	case []string:
		if v == nil {
			return slog.Any(a.Key, []string{})
		}
	}
	return a
}
