package cli

import (
	"bytes"
	"io"
	"os"
	"strings"
	"sync"

	"github.com/charmbracelet/x/ansi"
	"golang.org/x/term"

	"addon-operator/hooks"
)

// clearLine goes to the beginning of the line of a terminal and clears it.
const clearLine = "\r\x1b[K"

// StatusLine is a terminal with one line below all others, which is rewritten: the log goes through
// Write, the line through Set. It is safe for concurrent use.
type StatusLine struct {
	out   io.Writer
	fd    uintptr
	width func() int // of the terminal, in cells

	mu      sync.Mutex
	shown   string // the status line on the terminal; empty for none
	partial bool   // what was written last has no end of line: nothing can be shown below it
}

// NewStatusLine returns nil when w is no terminal, or one that cannot rewrite a line.
func NewStatusLine(w io.Writer) *StatusLine {
	f, ok := w.(*os.File)
	if !ok || !IsTerminal(f) || os.Getenv("TERM") == "dumb" {
		return nil
	}
	return &StatusLine{out: f, fd: f.Fd(), width: func() int {
		width, _, err := term.GetSize(int(f.Fd()))
		if err != nil || width <= 0 {
			return 80
		}
		return width
	}}
}

// Fd is the descriptor of the terminal. The logger looks for it to choose colours.
func (s *StatusLine) Fd() uintptr { return s.fd }

// Write writes lines above the status line: it clears the line, writes, and shows it again below.
// After a text without a line end it shows nothing until the next line end, or it would be in the
// middle of a line.
func (s *StatusLine) Write(lines []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	before, after := "", ""
	if s.shown != "" && !s.partial {
		before = clearLine
	}
	s.partial = len(lines) > 0 && !bytes.HasSuffix(lines, []byte("\n"))
	if s.shown != "" && !s.partial {
		after = s.shown
	}
	if _, err := io.WriteString(s.out, before+string(lines)+after); err != nil {
		return 0, err
	}
	return len(lines), nil
}

// Set replaces the status line by the first line of a text, cut to the width of the terminal; empty
// removes it. The same text again writes nothing.
func (s *StatusLine) Set(text string) {
	if text, _, _ = strings.Cut(text, "\n"); text != "" {
		text = ansi.Truncate(hooks.Printable(text), max(s.width()-1, 0), "…") // the last cell would begin a new line
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if text == s.shown {
		return
	}
	s.shown = text
	if !s.partial {
		_, _ = io.WriteString(s.out, clearLine+text) // the terminal is gone, which the next record of the log reports
	}
}
