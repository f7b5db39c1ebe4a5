package hooks

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"
	"unicode"
	"unicode/utf8"

	"addon-operator/values"
)

// MetricAction is what to do with a metric.
type MetricAction string

// The actions of I6.
const (
	ActionSet     MetricAction = "set"     // a gauge gets Value
	ActionAdd     MetricAction = "add"     // a counter grows by Value
	ActionObserve MetricAction = "observe" // a histogram with Buckets counts Value
	ActionExpire  MetricAction = "expire"  // all series of Group end
)

// Metric is one line of the file a hook writes to METRICS_PATH.
type Metric struct {
	Name    string // "" for ActionExpire
	Group   string // "" when the series lives until the process ends
	Action  MetricAction
	Value   float64
	Buckets []float64 // upper bounds, ascending; ActionObserve only
	Labels  map[string]string
}

// wireMetric is a metric as the hook writes it, shortcuts included. Pointers distinguish 0 from an
// absent value.
type wireMetric struct {
	Name, Group     string
	Action          *MetricAction
	Value, Set, Add *float64
	Buckets         []float64
	Labels          map[string]string
}

// ParseMetrics reads JSON objects one after another, on separate lines or not (I6). It reports each
// wrong object with its number, up to maxProblems of them; a syntax error ends the reading. Empty
// data are no metrics. An unknown key causes a warning: other operators ignore it, so hooks that
// have it must keep working. With an error the metrics are incomplete and must not be used.
func ParseMetrics(data []byte) (metrics []Metric, warnings []string, err error) {
	var problems []error
	decoder := json.NewDecoder(bytes.NewReader(data))
	for number := 1; len(problems) < maxProblems; number++ {
		var raw json.RawMessage
		switch err := decoder.Decode(&raw); {
		case errors.Is(err, io.EOF):
			return metrics, warnings, errors.Join(problems...)
		case err != nil:
			return metrics, warnings, errors.Join(append(problems, fmt.Errorf("metric %d: write JSON objects one after another: %w", number, err))...)
		}
		metric, warning, err := parseMetric(raw)
		if err != nil {
			problems = append(problems, fmt.Errorf("metric %d: %s: %w", number, shorten(raw, 80), err))
		}
		if warning != "" && len(warnings) < maxProblems {
			warnings = append(warnings, fmt.Sprintf("metric %d: %s: %s", number, shorten(raw, 80), warning))
		}
		metrics = append(metrics, metric)
	}
	return nil, warnings, errors.Join(append(problems, errTooManyProblems)...)
}

func parseMetric(raw json.RawMessage) (m Metric, warning string, err error) {
	var wire wireMetric
	strict := json.NewDecoder(bytes.NewReader(raw))
	strict.DisallowUnknownFields()
	if unknown := strict.Decode(&wire); unknown != nil {
		if err := json.Unmarshal(raw, &wire); err != nil {
			return m, "", err
		}
		warning = strings.TrimPrefix(unknown.Error(), "json: ") + "; known are name, group, action, value, set, add, buckets and labels"
	}
	m = Metric{Name: wire.Name, Group: wire.Group, Buckets: wire.Buckets, Labels: wire.Labels}
	switch long := wire.Action != nil || wire.Value != nil; {
	case wire.Set != nil && wire.Add != nil:
		return m, warning, errors.New("set and add are mutually exclusive; write two objects")
	case long && (wire.Set != nil || wire.Add != nil):
		return m, warning, errors.New("set and add are short for action and value; use one of the two forms")
	case wire.Set != nil:
		m.Action, wire.Value = ActionSet, wire.Set
	case wire.Add != nil:
		m.Action, wire.Value = ActionAdd, wire.Add
	case wire.Action != nil:
		m.Action = *wire.Action
	}
	if wire.Value != nil {
		m.Value = *wire.Value
	}
	return m, warning, m.check(wire.Value != nil)
}

// check checks the rules of I6, and what the metrics library would answer with a panic.
func (m Metric) check(valued bool) error {
	observe, expire := m.Action == ActionObserve, m.Action == ActionExpire
	ascending := slices.IsSorted(m.Buckets) && len(slices.Compact(slices.Clone(m.Buckets))) == len(m.Buckets)
	for _, rule := range []struct {
		broken bool
		text   string
	}{
		{m.Action == "", "action is missing; it is set, add, observe or expire"},
		{!observe && !expire && m.Action != ActionSet && m.Action != ActionAdd, "action is unknown: set, add, observe or expire"},
		{expire && m.Group == "", "action expire needs a group"},
		{expire && m.Name != "", "action expire removes a whole group; leave name out"},
		{!expire && m.Name == "", "name is missing"},
		{!expire && !metricName.MatchString(m.Name), "name must be letters, digits, _ and :, and not begin with a digit"},
		{!expire && !valued, fmt.Sprintf("value is missing; action %s needs a number", m.Action)},
		{m.Action == ActionAdd && m.Value < 0, fmt.Sprintf("a counter cannot go down; add %v must not be negative", m.Value)},
		{observe && m.Group != "", "action observe is not possible in a group"},
		{observe && len(m.Buckets) == 0, "action observe needs buckets, a list of upper bounds"},
		{observe && !ascending, "buckets must be in ascending order"},
		{!observe && len(m.Buckets) > 0, "buckets belong to action observe"},
	} {
		if rule.broken {
			return errors.New(rule.text)
		}
	}
	return m.checkLabels()
}

func (m Metric) checkLabels() error {
	for _, name := range slices.Sorted(maps.Keys(m.Labels)) {
		switch {
		case !labelName.MatchString(name) || strings.HasPrefix(name, "__"):
			return fmt.Errorf("label %q must be letters, digits and _, and not begin with a digit or __", name)
		case name == "le" && m.Action == ActionObserve:
			return errors.New("label le is the bucket of a histogram; choose another name")
		}
	}
	return nil
}

var (
	metricName = regexp.MustCompile(`^[a-zA-Z_:][a-zA-Z0-9_:]*$`)
	labelName  = regexp.MustCompile(`^[a-zA-Z_][a-zA-Z0-9_]*$`)
)

// shorten returns the beginning of what a hook wrote, for a message: on one line, without
// characters that control a terminal.
func shorten(data []byte, limit int) string {
	return printable([]byte(values.Shorten(string(bytes.TrimSpace(data)), limit)))
}

const (
	// longestLine is the length, in bytes, at which a line is logged in parts, so that a hook that
	// prints no newline costs no memory (C28).
	longestLine = 1 << 20
	// tailBytes and tailLines bound what an error, or Result.Output, contains of one stream.
	tailBytes = 4 << 10
	tailLines = 20
)

// lineLog forwards what a process prints to the log, line by line and without loss (C27, C28). It
// serves one stream, and one goroutine at a time writes to it: exec.Cmd copies each stream in a
// goroutine of its own.
type lineLog struct {
	log       *slog.Logger
	proxyJSON bool
	hide      func(string) string // returns a text without known secrets; nil when there are none
	pending   []byte              // the line that has no end yet
	tail      []byte              // the end of everything
}

// Write never fails: a hook must not die of a broken pipe because its log could not be written.
func (l *lineLog) Write(data []byte) (int, error) {
	l.remember(data)
	rest := data
	for {
		line, after, ended := bytes.Cut(rest, []byte("\n"))
		l.pending = append(l.pending, line...)
		for len(l.pending) > longestLine {
			l.text(l.pending[:longestLine])
			l.pending = append(l.pending[:0], l.pending[longestLine:]...)
		}
		if !ended {
			return len(data), nil
		}
		l.flush()
		rest = after
	}
}

// remember keeps the end of the stream: what ending returns, and as many bytes before it, so that a
// secret that begins there is recognized as a whole. It cuts only when there are tailBytes more
// than that, so that not every write copies everything.
func (l *lineLog) remember(data []byte) {
	const kept = 2 * tailBytes
	l.tail = append(l.tail, data[max(0, len(data)-kept):]...)
	if surplus := len(l.tail) - kept; surplus > tailBytes {
		l.tail = append(l.tail[:0], l.tail[surplus:]...)
	}
}

// flush logs the pending line; the runner calls it once more when the stream has ended, for a last
// line without a line break.
func (l *lineLog) flush() {
	line := bytes.TrimRight(l.pending, "\r")
	l.pending = l.pending[:0]
	if len(bytes.TrimSpace(line)) == 0 {
		return
	}
	if l.proxyJSON && l.record(line) {
		return
	}
	l.text(line)
}

func (l *lineLog) text(line []byte) {
	l.log.Info(printable(line))
}

// record merges a line that is a JSON object into the record of the operator's log: it understands
// level and msg, and other keys get the prefix hook_, so that they cannot collide with the labels
// (C28). It returns false for any other line, which is then logged as text.
func (l *lineLog) record(line []byte) bool {
	line = bytes.TrimSpace(line)
	if line[0] != '{' {
		return false
	}
	var fields map[string]any
	decoder := json.NewDecoder(bytes.NewReader(line))
	decoder.UseNumber()
	if err := decoder.Decode(&fields); err != nil || decoder.InputOffset() != int64(len(line)) {
		return false
	}
	level, message := slog.LevelInfo, ""
	var attrs []slog.Attr
	for _, key := range slices.Sorted(maps.Keys(fields)) {
		text, isText := fields[key].(string)
		if parsed, known := logLevel(text); key == "level" && isText && known {
			level = parsed
		} else if key == "msg" && isText {
			message = printable([]byte(text))
		} else {
			attrs = append(attrs, slog.Any("hook_"+key, fields[key]))
		}
	}
	l.log.LogAttrs(context.Background(), level, message, attrs...)
	return true
}

// logLevel maps the level names of the logging libraries of most languages.
func logLevel(name string) (slog.Level, bool) {
	switch strings.ToLower(name) {
	case "trace", "debug":
		return slog.LevelDebug, true
	case "info", "notice":
		return slog.LevelInfo, true
	case "warn", "warning":
		return slog.LevelWarn, true
	case "error", "err", "fatal", "critical", "panic":
		return slog.LevelError, true
	}
	return 0, false
}

// ending returns the last lines of the stream for an error. It hides secrets before it cuts,
// because a part of a secret would not be recognized.
func (l *lineLog) ending() string {
	tail := l.tail
	if l.hide != nil {
		tail = []byte(l.hide(string(tail)))
	}
	tail = bytes.TrimSpace(tail)
	if len(tail) > tailBytes {
		tail = tail[len(tail)-tailBytes:]
	}
	lines := bytes.Split(tail, []byte("\n"))
	if len(lines) > tailLines {
		lines = lines[len(lines)-tailLines:]
	}
	texts := make([]string, len(lines))
	for i, line := range lines {
		texts[i] = printable(bytes.TrimRight(line, "\r"))
	}
	return strings.Join(texts, "\n")
}

// printable writes bytes that are no text, and characters that would control a terminal, as
// escapes: nothing is lost, and a hook cannot forge lines of a log that is read in a terminal
// (J10).
func printable(line []byte) string {
	if utf8.Valid(line) && bytes.IndexFunc(line, func(char rune) bool { return !shown(char) }) < 0 {
		return string(line)
	}
	var text strings.Builder
	for len(line) > 0 {
		char, size := utf8.DecodeRune(line)
		switch {
		case char == utf8.RuneError && size == 1, char < 0x80 && !shown(char):
			fmt.Fprintf(&text, `\x%02x`, line[0])
		case !shown(char):
			fmt.Fprintf(&text, `\u%04x`, char)
		default:
			text.WriteRune(char)
		}
		line = line[size:]
	}
	return text.String()
}

func shown(char rune) bool {
	return char == '\t' || !unicode.IsControl(char)
}

// Printable returns a text of one or more lines in which nothing controls a terminal (J10): control
// characters, and bytes that are no text, become escapes. Names, annotations and events come from
// anyone who may create objects.
func Printable(text string) string {
	lines := strings.Split(text, "\n")
	for i, line := range lines {
		lines[i] = printable([]byte(line))
	}
	return strings.Join(lines, "\n")
}

// head keeps the beginning of a stream and counts the rest.
type head struct {
	limit int
	data  []byte
	total int
}

func (h *head) Write(data []byte) (int, error) {
	h.total += len(data)
	h.data = append(h.data, data[:min(len(data), h.limit-len(h.data))]...)
	return len(data), nil
}

// ExitError means that a hook, or an enabled script, has failed by itself. Its result files are
// ignored, except for object patches with ignoreHookError (C26, K9).
type ExitError struct {
	Hook   string
	Code   int            // the exit code; -1 when a signal ended the process
	Signal syscall.Signal // 0 unless a signal ended the process
	Stderr string         // the last lines of stderr: at most 20 and 4 KB
}

// Error names the hook, how it ended and what it said at last.
func (e *ExitError) Error() string {
	text := fmt.Sprintf("hook %s: exit code %d", e.Hook, e.Code)
	if e.Signal != 0 {
		text = fmt.Sprintf("hook %s: ended by signal %d (%s)", e.Hook, int(e.Signal), e.Signal)
	}
	return text + said(e.Stderr)
}

// Public is the error without what the hook said, which may be secret.
func (e *ExitError) Public() string {
	if e.Signal != 0 {
		return fmt.Sprintf("hook %s was ended by signal %d (%s)", e.Hook, int(e.Signal), e.Signal)
	}
	return fmt.Sprintf("hook %s failed with exit code %d", e.Hook, e.Code)
}

// TimeoutError means that a run was ended because it took too long (C29). Its result files are
// ignored like those of an ExitError.
type TimeoutError struct {
	Hook   string
	Limit  time.Duration
	Source string // the setting that holds the limit, which is what to change
	Stderr string // as in ExitError
}

// Error names the hook, the limit, where it was set, and what the hook said at last.
func (e *TimeoutError) Error() string {
	return fmt.Sprintf("hook %s: ended because it took longer than %s (%s)%s", e.Hook, e.Limit, e.Source, said(e.Stderr))
}

// Public is the error without what the hook said, which may be secret.
func (e *TimeoutError) Public() string {
	return fmt.Sprintf("hook %s took longer than %s (%s)", e.Hook, e.Limit, e.Source)
}

// PrintedError means that what a hook printed for --config is no configuration.
type PrintedError struct {
	Hook    string
	Printed []byte // all of it
	Err     error  // a *ConfigError, or why the text cannot be read at all
}

// Error shows the beginning of what the hook printed.
func (e *PrintedError) Error() string {
	return fmt.Sprintf("hook %s: %s\nit printed: %s", e.Hook, e.Err, shorten(e.Printed, 200))
}

// Unwrap returns what is wrong.
func (e *PrintedError) Unwrap() error { return e.Err }

// said is the end of a message that quotes stderr.
func said(stderr string) string {
	switch {
	case stderr == "":
		return ", nothing on stderr"
	case strings.Contains(stderr, "\n"):
		return ", stderr ends with:\n" + stderr
	}
	return ": " + stderr
}

func newExitError(hook string, exit *exec.ExitError, stderr string) *ExitError {
	e := &ExitError{Hook: hook, Code: exit.ExitCode(), Stderr: stderr}
	if status, ok := exit.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		e.Signal = status.Signal()
	}
	return e
}
