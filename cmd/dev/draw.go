package dev

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

	"addon-operator/messages/view"
)

// The colors, as codes of a terminal.
const (
	bold, dim, inverse = "1", "2", "7"
	red, green, yellow = "31", "32", "33"
)

// frame is the number of lines around the panes, glimpse how many lines of a problem and its
// excerpt are shown of a module that is folded, leastPane the smallest pane, and autoOpen the
// number of details up to which a fact is open by itself.
const (
	frame     = 5
	glimpse   = 5
	leastPane = 3
	autoOpen  = 20 // lines of a fact
)

// line is one line of a pane. A line with a name can be selected; lines without one belong to the
// named line above them. Names are unique in a pane and stay the same when the pane is drawn again:
// "m" and the module, "h" with module and hook, or the number of a fact.
type line struct {
	name, text  string
	color       string
	open        bool
	owner, hook string
	hooks       []string
}

// View implements tea.Model.
func (m model) View() tea.View {
	v := tea.NewView(m.screen())
	// What was on the terminal before is there again at the end.
	v.AltScreen = true
	return v
}

// screen draws the whole view in the size of the terminal. The modules get at most half of the
// lines, so that a long list leaves room for facts.
func (m model) screen() string {
	if m.help {
		return m.fitted(strings.Split(helpText, "\n"), m.height)
	}
	modules := m.lines(moduleList)
	room := max(m.height-frame, 2*leastPane)
	upper := min(len(modules), max(room/2, leastPane))
	out := []string{
		m.styled(bold, m.cut("addon-operator dev: "+m.title)),
		m.cut(m.summary()),
		m.styled(dim, m.cut(fmt.Sprintf("  %-20s %-12s %-14s %s", "MODULE", "STATE", "QUEUE", "RAN"))),
	}
	out = append(out, m.pane(moduleList, modules, upper)...)
	out = append(out, m.styled(dim, m.cut("── events "+strings.Repeat("─", max(m.width, 0)))))
	out = append(out, m.pane(factList, m.lines(factList), room-upper)...)
	for len(out) < m.height-1 {
		out = append(out, "")
	}
	return m.fitted(append(out, m.styled(dim, m.cut(keyText))), m.height)
}

// fitted joins at most n lines, of which the last one, with the keys, is always shown.
func (m model) fitted(lines []string, n int) string {
	if len(lines) > n && n > 0 {
		lines = append(slices.Clone(lines[:n-1]), lines[len(lines)-1])
	}
	for i := range lines {
		lines[i] = ansi.Truncate(lines[i], m.width, "…")
	}
	return strings.Join(lines, "\n")
}

// cut makes a text fit into a line, and harmless: texts come from hooks, and control characters
// would command the terminal (J10). A tab has no fixed width, so it becomes spaces.
func (m model) cut(text string) string {
	return ansi.Truncate(view.Printable(strings.ReplaceAll(text, "\t", "  ")), m.width, "…")
}

// styled colors a text. Without colors (NO_COLOR) the selected line is still inverse.
func (m model) styled(color, text string) string {
	if !m.color && color != inverse || color == "" {
		return text
	}
	return "\x1b[" + color + "m" + text + "\x1b[m"
}

// summary is the second line: what the operator does as a whole, and the address of its page.
func (m model) summary() string {
	bad := 0
	for _, s := range m.state.Modules {
		if len(s.Problems) > 0 {
			bad++
		}
	}
	text := "starting"
	switch {
	case m.ending:
		text = "stopping; press Ctrl-C again to stop at once"
	case m.state.Ready && bad > 0:
		text = fmt.Sprintf("running, %s with a problem", view.Count(bad, "module"))
	case m.state.Ready:
		text = "running"
	}
	return strings.TrimSuffix(text+" · "+m.state.Page, " · ")
}

// pane draws n of the lines. The selected one is among them, with as many of the lines that belong
// to it as there is room for. While no fact is selected, the newest are shown.
func (m model) pane(p pane, lines []line, n int) (out []string) {
	name := m.current(p)
	at := slices.IndexFunc(lines, func(l line) bool { return l.name == name })
	from := 0
	switch {
	case p == factList && m.selected[p] == "":
		from = len(lines) - n
	case at >= n:
		from = at - n + 1 + min(n-1, m.below(lines, at))
	}
	// A short list begins at the top, and there is no empty room below the last line of a long one.
	from = max(min(from, len(lines)-n), 0)
	for i, l := range lines[from:min(from+n, len(lines))] {
		text, color := m.cut("  "+l.text), l.color
		if l.name != "" && from+i == at && m.focus == p {
			text, color = m.cut("> "+l.text), inverse
		}
		out = append(out, m.styled(color, text))
	}
	return out
}

// below returns how many lines belong to the line at a position.
func (m model) below(lines []line, at int) (n int) {
	for _, l := range lines[at+1:] {
		if l.name != "" {
			break
		}
		n++
	}
	return n
}

// lines returns all lines of a pane, of any length: they are cut when they are drawn.
func (m model) lines(p pane) (all []line) {
	if p == factList {
		for i, f := range m.facts {
			all = append(all, m.factLines(strconv.Itoa(m.first+i), f)...)
		}
		return all
	}
	for _, s := range m.state.Modules {
		all = append(all, m.moduleLines(s)...)
	}
	return all
}

// moduleLines draws a module. Folded it shows the beginning of its problem and of what lint has
// found; open it shows all of both, why it is off, and the hooks that can be run again.
func (m model) moduleLines(s moduleState) []line {
	color := map[string]string{string(view.Ready): green, string(view.Disabled): dim}[s.State]
	switch {
	case len(s.Problems) > 0:
		color = red
	case color == "" && !s.isGlobal():
		color = yellow
	}
	head := line{name: "m " + s.Name, open: m.unfolded["m "+s.Name], owner: s.Name, hooks: s.Hooks, color: color}
	head.text = fmt.Sprintf("%-20s %-12s %-14s %s", s.Name, s.State, s.Queue, s.elapsed(m.now))
	all := []line{head}
	about := slices.Concat(s.Problems, s.Excerpt)
	if len(s.Problems) > 0 { // its first line is enough next to the excerpt
		about = append(m.wrapped(s.Problems[0], 2), s.Excerpt...)
	}
	if head.open {
		about = nil
		for _, text := range append(slices.Clone(s.Problems), s.Off) {
			about = append(about, m.wrapped(text, 100)...)
		}
		about = append(about, s.Excerpt...)
	} else if len(about) > glimpse {
		about = append(about[:glimpse:glimpse], "…")
	}
	for _, text := range about {
		all = append(all, line{text: "    " + text, color: red})
	}
	if head.open {
		for _, hook := range s.Hooks {
			all = append(all, line{name: "h " + s.Name + " " + hook, text: "  hook " + hook, owner: s.Name, hook: hook})
		}
	}
	return all
}

// wrapped breaks a text into at most n lines; the last one has all of the rest, and is cut.
func (m model) wrapped(text string, n int) []string {
	if text == "" {
		return nil
	}
	lines := strings.Split(ansi.Wrap(text, max(m.width-8, 20), " "), "\n")
	if len(lines) > n {
		lines = append(lines[:n-1], strings.Join(lines[n-1:], " ")) // the line is cut
	}
	return lines
}

// factLines draws a fact; its details only while it is open.
func (m model) factLines(name string, f fact) []line {
	head := line{name: name, open: m.isOpen(name, f)}
	text := fmt.Sprintf("%s %-5s %s", f.At.Format("15:04:05"), f.About, f.about())
	if n := len(f.Detail); n > 0 && !head.open {
		text += fmt.Sprintf(" [+%s]", view.Count(n, "line"))
	}
	head.text = text
	if f.Bad {
		head.color = red
	}
	all := []line{head}
	if !head.open {
		return all
	}
	if m.unfolded[name] && ansi.StringWidth(text) > m.width-2 { // the rest of the line
		for _, text := range m.wrapped(f.about(), 100) {
			all = append(all, line{text: "    " + text})
		}
	}
	for _, text := range f.Detail {
		detail := line{text: "      " + text}
		switch {
		case f.About != aboutDiff:
		case strings.HasPrefix(text, "+"):
			detail.color = green
		case strings.HasPrefix(text, "-"):
			detail.color = red
		}
		all = append(all, detail)
	}
	return all
}

// isOpen reports whether the details of a fact are shown: as a person has chosen, or else when they
// answer a save and are few.
func (m model) isOpen(name string, f fact) bool {
	if open, chosen := m.unfolded[name]; chosen {
		return open
	}
	return (f.About == aboutDiff || f.About == aboutLint || f.About == aboutTest) && len(f.Detail) <= autoOpen
}

const keyText = "r run  h hook  t retry  o page  enter expand  tab switch  ? help  q quit"

const helpText = `addon-operator dev: the keys

  up, down, k, j   select a line
  tab              switch between the modules and the events
  enter, space     expand or collapse the selected line: the full text of a problem and the hooks
                   of a module, the output of a hook, a diff
  r                run the selected module
  h                run the selected hook again, with the context of its last run; if a module has
                   several hooks, expand it and select one
  t                retry now what has failed in the selected module
  o                open the live page of the operator
  q, Ctrl-C        stop the operator and a cluster in memory; press Ctrl-C again to stop at once

Any key closes this help.`
