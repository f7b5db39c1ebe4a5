package dev

import (
	"fmt"
	"strings"
	"time"

	"addon-operator/values"
)

// kind is the subject of a fact.
type kind string

// The kinds are words of five letters at most: they are a column of the output.
const (
	aboutStart kind = "start"
	aboutDisk  kind = "disk"
	aboutLint  kind = "lint"
	aboutTest  kind = "test"
	aboutHook  kind = "hook"
	aboutRun   kind = "run"
	aboutDiff  kind = "diff"
	aboutState kind = "state"
	aboutLog   kind = "log"
)

// maxDetail bounds the lines of one fact, and maxLine the bytes of a line: a hook may print
// anything.
const (
	maxDetail = 400
	maxLine   = 2000
)

// fact is one thing that has happened, as it is shown. It is not changed after the loop has passed
// it to the screen. Bad marks what a person should look at.
type fact struct {
	At     time.Time
	About  kind
	Module string // empty: none, or all
	Text   string // one line
	Detail []string
	Bad    bool
}

// newFact makes a fact of this moment. The first line of text is what happened; further lines are
// details, before those that are given. All are bounded.
func newFact(about kind, module, text string, detail ...string) fact {
	first, rest, more := strings.Cut(strings.TrimRight(text, "\n"), "\n")
	f := fact{At: time.Now(), About: about, Module: module, Text: values.Shorten(first, maxLine)}
	if more {
		detail = append(strings.Split(rest, "\n"), detail...)
	}
	if left := len(detail) - maxDetail; left > 0 {
		detail = append(detail[:maxDetail:maxDetail], fmt.Sprintf("… and %d more lines", left))
	}
	for _, line := range detail {
		f.Detail = append(f.Detail, values.Shorten(line, maxLine))
	}
	return f
}

// size is about how many bytes the fact takes, for the limit of the view.
func (f fact) size() (n int) {
	n = len(f.Text)
	for _, line := range f.Detail {
		n += len(line)
	}
	return n
}

// bad returns the fact marked as one that a person should look at.
func (f fact) bad() fact {
	f.Bad = true
	return f
}

// about is the text with the module in front.
func (f fact) about() string {
	if f.Module == "" {
		return f.Text
	}
	return f.Module + ": " + f.Text
}
