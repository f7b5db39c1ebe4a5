package remote

import (
	"fmt"
	"io"
	"os"
	"strings"

	"addon-operator/cmd/cli"
	"addon-operator/hooks"
	"addon-operator/messages/view"
)

// The colors of a plan, as escapes of a terminal.
const (
	red, green, yellow, plain = "\x1b[31m", "\x1b[32m", "\x1b[33m", "\x1b[0m"
)

// planText collects the lines of a plan, which are written at once.
type planText struct {
	strings.Builder
	colored bool
}

// line adds a line, in a color if the reader has colors; "" is none. It makes the text printable
// before it adds escapes of its own: names of objects come from tenants (J10).
func (t *planText) line(color, format string, args ...any) {
	text := hooks.Printable(fmt.Sprintf(format, args...))
	if t.colored && color != "" {
		text = color + text + plain
	}
	t.WriteString(text + "\n")
}

// colored reports whether a writer gets colors: on a terminal, unless the person has set NO_COLOR.
func colored(w io.Writer) bool { return cli.IsTerminal(w) && os.Getenv("NO_COLOR") == "" }

// mark is the sign and the color for a step of a module or a verb of an object. What is not named
// is a change.
func mark(what string) (sign, color string) {
	switch what {
	case view.StepStart, "create":
		return "+", green
	case view.StepStop, view.StepPurge, "delete":
		return "-", red
	case view.StepKeep:
		return "!", yellow
	}
	return "~", yellow
}

// WriteObjects prints what would happen to objects, as a plan does.
func WriteObjects(w io.Writer, objects []view.ObjectPlan) error {
	t := &planText{colored: colored(w)}
	for _, o := range objects {
		t.object(o)
	}
	_, err := io.WriteString(w, t.String())
	return err
}

// writePlan prints a plan for people; source is its source in words. Modules that would not change
// are only counted, except for those that are kept, which may surprise a person, and those that
// would fail.
func writePlan(w io.Writer, f view.Plan, source string, colored bool) error {
	t := &planText{colored: colored}
	t.line("", "Plan of %s.", source)
	for _, note := range f.Notes {
		t.line(yellow, "Note: %s.", note)
	}
	// A refused ConfigMap has no modules in its plan.
	if f.Refused == "" {
		for _, m := range f.Modules {
			if m.Touches() || m.Step == view.StepKeep || m.Error != "" {
				t.module(m)
			}
		}
		t.summary(f)
	} else {
		t.line(red, "The ConfigMap would be refused as a whole, and nothing would be done:\n%s", f.Refused)
	}
	_, err := io.WriteString(w, t.String())
	return err
}

// ModulePlanText is what a plan prints of one module, without colors and the empty line before it.
func ModulePlanText(m view.ModulePlan) string {
	t := &planText{}
	t.module(m)
	return strings.TrimPrefix(t.String(), "\n")
}

// module prints one module: what would happen and why, what is uncertain about it, and its objects.
// The step run is shown as upgrade or adopt: a module runs with each reload, and what matters is
// what happens to its release.
func (t *planText) module(m view.ModulePlan) {
	sign, color := mark(m.Step)
	step, reason := m.Step, ""
	switch {
	case step != view.StepRun:
	case m.Release == view.Adopted:
		step = "adopt"
	default:
		step = "upgrade"
	}
	// For other steps Why is enough.
	if m.Reason != "" && (m.Step == view.StepStart || m.Step == view.StepRun) {
		reason = fmt.Sprintf("; its release would be %s: %s", m.Release, m.Reason)
	}
	t.line(color, "\n%s %s %s: %s%s", sign, step, m.Module, m.Why, reason)
	if m.HookValues == view.HookValuesUnknown {
		t.line(yellow, "    values of hooks unknown: its hooks have not run")
	}
	for _, note := range m.Notes {
		t.line("", "    %s", note)
	}
	for _, o := range m.Objects {
		t.object(o)
	}
	if m.Unknown != "" {
		t.line(yellow, "    its release cannot be predicted: %s", strings.ReplaceAll(m.Unknown, "\n", "\n      "))
	}
	if m.Error != "" {
		t.line(red, "    it would fail: %s", strings.ReplaceAll(m.Error, "\n", "\n      "))
	}
}

// object prints an object with its difference, indented. The difference is that of the operator,
// whose two headings repeat the name.
func (t *planText) object(o view.ObjectPlan) {
	sign, color := mark(o.Verb)
	note := ""
	if o.Note != "" {
		note = " (" + o.Note + ")"
	}
	t.line(color, "    %s %s%s", sign, o.Object, note)
	lines := strings.Split(strings.TrimSuffix(o.Diff, "\n"), "\n")
	if strings.HasPrefix(o.Diff, "--- ") { // the headings repeat the name
		const headings = 2
		lines = lines[min(headings, len(lines)):]
	}
	for _, line := range lines {
		if line == "" {
			continue
		}
		color := ""
		switch {
		case strings.HasPrefix(line, "+"):
			color = green
		case strings.HasPrefix(line, "-"):
			color = red
		}
		t.line(color, "        %s", line)
	}
}

// summary counts modules and objects. Outcomes that are rare have a line of their own, and only if
// there are some.
func (t *planText) summary(f view.Plan) {
	s := f.Summary
	t.line("", "")
	// One sentence in place of two lines of zeros.
	if !f.Changes() && s.Failing+s.Unknown == 0 {
		t.line("", "Nothing would be done. Modules: %d unchanged, %d kept.", s.Unchanged, s.Keep)
		return
	}
	t.line("", "Modules: %d to start, %d to upgrade, %d to stop, %d to purge, %d kept, %d unchanged.", s.Start, s.Upgrade, s.Stop, s.Purge, s.Keep, s.Unchanged)
	if s.Adopt > 0 {
		t.line("", "Modules whose release would be adopted unchanged: %d.", s.Adopt)
	}
	t.line("", "Objects: %d to create, %d to change, %d to delete.", s.Create, s.Change, s.Delete)
	if s.Unknown > 0 {
		t.line(yellow, "Modules whose release cannot be predicted: %d.", s.Unknown)
	}
	if s.Failing > 0 {
		t.line(red, "Modules that would fail: %d.", s.Failing)
	}
}
