package dev

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"addon-operator/messages/view"
	"addon-operator/values"
)

// kind is the subject of a fact.
type kind string

// The kinds are words of five letters at most: they are a column of the output.
const (
	aboutStart kind = "start"
	aboutDisk  kind = "disk"
	aboutLint  kind = "lint"
	aboutHook  kind = "hook"
	aboutRun   kind = "run"
	aboutDiff  kind = "diff"
	aboutLog   kind = "log"
)

// maxDetail bounds the lines of one fact, and maxLine the bytes of a line: a hook may print
// anything.
const (
	maxDetail = 400
	maxLine   = 2000
)

// fact is one thing that has happened, as it is shown. Bad marks what a person should look at.
type fact struct {
	about  kind
	module string // empty: none, or all
	text   string // its first line is what happened, further lines are details
	bad    bool
}

// printer prints facts, one at a time; it is safe for concurrent use. A write that fails ends the
// command: the reader of the pipe is gone.
type printer struct {
	mu  sync.Mutex
	out io.Writer
	end func()
	// path replaces temporary paths in texts by those of the author.
	path func(text string) string
}

// show prints a fact in one write: a line with its time and what it is about, and its details,
// indented.
func (p *printer) show(f fact) {
	lines := strings.Split(strings.TrimRight(f.text, "\n"), "\n")
	if left := len(lines) - 1 - maxDetail; left > 0 {
		lines = append(lines[:maxDetail+1:maxDetail+1], fmt.Sprintf("… and %d more lines", left))
	}
	if f.module != "" {
		lines[0] = f.module + ": " + lines[0]
	}
	mark := " "
	if f.bad {
		mark = "!"
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	var text strings.Builder
	fmt.Fprintf(&text, "%s %s %-5s ", time.Now().Format("15:04:05.000"), mark, f.about)
	for i, line := range lines {
		if i > 0 {
			text.WriteString("    ")
		}
		fmt.Fprintf(&text, "%s\n", view.Printable(values.Shorten(p.path(line), maxLine)))
	}
	if _, err := io.WriteString(p.out, text.String()); err != nil {
		p.end()
	}
}
