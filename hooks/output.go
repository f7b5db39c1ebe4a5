package hooks

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

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
