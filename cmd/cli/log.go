package cli

import (
	"fmt"
	"io"
	"log/slog"
	"strings"
	"time"

	"github.com/lmittmann/tint"
	"k8s.io/cli-runtime/pkg/printers"

	"addon-operator/hooks"
	"addon-operator/supervisor"
)

// Logger makes the log of the operator: readable text on a terminal, JSON elsewhere. The level can
// be changed while it runs, through the LevelVar. All texts go through hide. A failure that repeats
// is logged at growing intervals, except at level debug. An error is a UsageError.
func (c *Config) Logger(w io.Writer, hide func(string) string) (*slog.Logger, *slog.LevelVar, error) {
	level := &slog.LevelVar{}
	if err := level.UnmarshalText([]byte(strings.ToUpper(c.LogLevel))); err != nil {
		return nil, nil, Usagef("log-level: %q is not one of debug, info, warn, error", c.LogLevel)
	}
	kind := c.LogType
	switch {
	case kind == "auto" && printers.IsTerminal(w):
		kind = "color"
	case kind == "auto":
		kind = "json"
	}
	shown := func(groups []string, a slog.Attr) slog.Attr {
		if c.LogNoTime {
			a = WithoutTime(groups, a)
		}
		return discreet(a, hide)
	}
	var handler slog.Handler
	switch kind {
	case "json":
		handler = slog.NewJSONHandler(w, &slog.HandlerOptions{Level: level, ReplaceAttr: shown})
	case "text", "color":
		noColor := kind == "text"
		handler = tint.NewHandler(w, &tint.Options{Level: level, ReplaceAttr: shown, NoColor: noColor, TimeFormat: "15:04:05.000"})
	default:
		return nil, nil, Usagef("log-type: %q is not one of auto, text, color, json", c.LogType)
	}
	// Sparing is outside: what it drops costs no search for secrets.
	return slog.New(supervisor.Sparing(handler)), level, nil
}

// discreet hides known secrets in the message and the attributes of a record (J9), and escapes control characters
// in names from tenants and in the output of hooks (J10). The handler that writes calls it, so no logger can avoid
// it; for attributes of a logger once, so secrets that become known later are not found in them. A value keeps its
// type, by which the handler formats it, unless its text has something to hide. Lists are lists in JSON, also
// without elements.
func discreet(a slog.Attr, hide func(string) string) slog.Attr {
	text := func(text string) string { return hooks.Printable(hide(text)) }
	switch v := a.Value.Any().(type) {
	case string:
		a.Value = slog.StringValue(text(v))
	case time.Duration: // as people read it
		a.Value = slog.StringValue(v.String())
	case []string:
		list := make([]string, len(v))
		for i, one := range v {
			list[i] = text(one)
		}
		a.Value = slog.AnyValue(list)
	case time.Time, int64, uint64, float64, bool:
	default:
		plain := fmt.Sprintf("%+v", v)
		if shown := text(plain); shown != plain {
			a.Value = slog.StringValue(shown)
		}
	}
	return a
}
