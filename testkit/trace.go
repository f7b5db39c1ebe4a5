package testkit

import (
	"fmt"
	"log/slog"
	"regexp"
	"strings"
	"time"

	"addon-operator/actors/scenario"
)

// NewTrace begins a trace now: each line has its virtual time.
func NewTrace() *scenario.Trace {
	began := time.Now()
	return &scenario.Trace{Stamp: func(line string) string {
		if strings.HasPrefix(line, heading) || strings.HasPrefix(line, comment) {
			return line
		}
		return fmt.Sprintf("%6s  %s", time.Since(began).Round(time.Millisecond), versions.ReplaceAllString(line, "resourceVersion N"))
	}}
}

// These begin lines of a script that are steps, and comments; a trace has both as they are.
const heading, comment = "> ", "#"

// versions are numbers that would change the trace with each write before them, whatever for: the API server in memory
// counts writes.
var versions = regexp.MustCompile(`resourceVersion \d+`)

// isMilestone reports whether a trace shows an Info message. The others say what hooks and Helm do,
// which the trace has from themselves.
func isMilestone(message string) bool {
	switch message {
	case "converged", "converged, but a purge is held back", "a purge is confirmed", "no purge is held back any longer",
		"modules discovered", "config values changed", "module is deleted", "module starts again from the beginning",
		"reload of all modules starts again", "release without a module directory is purged",
		"releases that were not installed by an addon-operator are left alone":
		return true
	}
	return false
}

// logLine shows warnings, errors and a few milestones of Info and above. What is a bug in any script, such as a
// message without a handler, becomes a problem. That depends on the texts of the log, because nothing else reports it.
func (o *observer) logLine(r slog.Record, attrs []slog.Attr) string {
	if r.Level < slog.LevelWarn && !isMilestone(r.Message) {
		return ""
	}
	line := r.Message
	for _, a := range attrs {
		switch a.Key {
		case "took", "stack", "revision", "attempt-id": // differ from run to run, or mean nothing here
			continue
		}
		line += fmt.Sprintf(" %s=%s", a.Key, firstLine(a.Value.String()))
	}
	if r.Level >= slog.LevelWarn {
		line = r.Level.String() + " " + line
	}
	if strings.HasPrefix(r.Message, "bug: ") {
		o.problem("%s", line)
	}
	return line
}

// firstLine keeps a trace to one line an event; … says that there is more.
func firstLine(s string) string {
	line, _, more := strings.Cut(s, "\n")
	if more {
		line += " …"
	}
	return line
}
