package cli

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"
	"math"
	"strings"
	"time"

	"github.com/lmittmann/tint"
	"github.com/spf13/cobra"
	"k8s.io/cli-runtime/pkg/printers"

	"addon-operator/actors/plan"
	"addon-operator/hooks"
	"addon-operator/supervisor"
)

// Groups of commands in the help text of the root; their titles are in Root.
const (
	GroupRun    = "run"
	GroupLook   = "look"
	GroupChange = "change"
	GroupMake   = "make"
)

// Root makes the command above all others, with the options of the operator as flags of every
// command. lookup reads environment variables. It prints no error itself: main does, and chooses
// the exit code by UsageError and ExitError.
func Root(version string, lookup func(string) (string, bool)) (*cobra.Command, *Config) {
	root := &cobra.Command{Use: "addon-operator", SilenceErrors: true, SilenceUsage: true, Args: NoArgs}
	c := New(version, root.PersistentFlags(), lookup)
	root.PersistentPreRunE = func(*cobra.Command, []string) error { return c.Read() }
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return UsageError{err} })
	root.AddGroup(&cobra.Group{ID: GroupRun, Title: "Run the operator:"}, &cobra.Group{ID: GroupLook, Title: "Inspect a running operator:"},
		&cobra.Group{ID: GroupChange, Title: "Change modules and values:"},
		&cobra.Group{ID: GroupMake, Title: "Write and check modules:"})
	return root, c
}

// UsageError is a mistake in the command line or in a variable of the environment.
type UsageError struct{ error }

// Usagef formats a UsageError.
func Usagef(format string, args ...any) error { return UsageError{fmt.Errorf(format, args...)} }

// Unwrap returns the cause.
func (e UsageError) Unwrap() error { return e.error }

// ExitError is the end of a command with an exit code that needs no text. main does
// not print an error that wraps one, so its other parts must have been logged.
type ExitError int

// Error implements error.
func (e ExitError) Error() string { return fmt.Sprintf("exit code %d", int(e)) }

// Group is a command that only has others below it; alone it prints its help.
func Group(use, short string) *cobra.Command {
	return &cobra.Command{Use: use, Short: short, Args: NoArgs, RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() }}
}

// NoArgs is for commands without arguments. cobra passes the name of an unknown command as an
// argument to the command above it, so this also reports those, and proposes one that exists.
func NoArgs(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	cmd.SuggestionsMinimumDistance = 2 // letters, at most
	if near := cmd.SuggestionsFor(args[0]); len(near) > 0 {
		return Usagef("unknown command or argument %q; did you mean %s?", args[0], near[0])
	}
	return Usagef("unknown command or argument %q", args[0])
}

// Arguments is for commands with the arguments in their use line: those in brackets may be left out,
// and one that ends with "..." may be repeated. In contrast to the functions of cobra, the errors are
// UsageErrors and name the arguments.
func Arguments(words ...string) cobra.PositionalArgs {
	least, most := 0, len(words)
	for _, word := range words {
		if !strings.HasPrefix(word, "[") {
			least++
		}
		if strings.HasSuffix(word, "...") {
			most = math.MaxInt
		}
	}
	needs := cmp.Or(strings.Join(words, " "), "no arguments")
	return func(cmd *cobra.Command, args []string) error {
		if len(args) < least || len(args) > most { // the command is named without the program
			return Usagef("%s needs %s", strings.TrimPrefix(cmd.CommandPath(), cmd.Root().Name()+" "), needs)
		}
		return nil
	}
}

// Planner makes a plan from the modules directory and the cluster, without a running operator. Package main
// passes it to those that need it, so that they do not import the operator.
type Planner func(context.Context, *Config, *slog.Logger, plan.Request) (plan.Plan, error)

// Log is the log of a command, for a person: on stderr, so that stdout has the result only, and
// without times.
func Log(cmd *cobra.Command, level slog.Level) *slog.Logger {
	return slog.New(slog.NewTextHandler(cmd.ErrOrStderr(), &slog.HandlerOptions{Level: level, ReplaceAttr: WithoutTime}))
}

// WithoutTime removes the time of a record of a log.
func WithoutTime(groups []string, a slog.Attr) slog.Attr {
	if len(groups) == 0 && a.Key == slog.TimeKey {
		return slog.Attr{}
	}
	return a
}

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
