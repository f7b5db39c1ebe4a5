package dev

import (
	"fmt"
	"io"
	"strings"

	"addon-operator/messages/view"
)

// plain prints each fact as a line with its time and what it is about; details follow it, indented.
type plain struct {
	out io.Writer
	end func() // ends the command
}

// show prints a fact in one write. A write that fails ends the command: the reader of the pipe is
// gone.
func (p plain) show(f fact) {
	var text strings.Builder
	mark := " "
	if f.Bad {
		mark = "!"
	}
	fmt.Fprintf(&text, "%s %s %-5s %s\n", f.At.Format("15:04:05.000"), mark, f.About, view.Printable(f.about()))
	for _, line := range f.Detail {
		fmt.Fprintf(&text, "    %s\n", view.Printable(line))
	}
	if _, err := io.WriteString(p.out, text.String()); err != nil {
		p.end() // no one reads it any more
	}
}
