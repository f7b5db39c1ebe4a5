package plan

import (
	"addon-operator/messages"
	"fmt"
	"strings"
)

// Text is the plan for people. A line begins with its sign: + for what comes, - for what goes, ~ for
// what changes and ! for what may surprise. Modules that would not change are only counted, except
// for those that are kept, and those that would fail.
func (p Plan) Text() string {
	t := &planText{}
	for _, note := range p.Notes {
		t.line("Note: %s.", note)
	}
	if p.Refused != "" { // it has no modules
		t.line("The ConfigMap would be refused as a whole, and nothing would be done:\n%s", p.Refused)
		return t.String()
	}
	for _, m := range p.Modules {
		if m.Touches() || m.Step == StepKeep || m.Error != "" {
			t.line("\n%s", strings.TrimRight(m.Text(), "\n"))
		}
	}
	t.summary(p)
	return t.String()
}

// Outcome is what a pipeline must know of a plan: refused, failing, changes, or empty for nothing.
func (p Plan) Outcome() string {
	switch {
	case p.Refused != "":
		return PlanRefused
	case p.Summary.Failing > 0: // before changes: nobody must go on with this plan
		return PlanFailing
	case p.Changes():
		return PlanChanges
	}
	return ""
}

// The outcomes of plans.
const (
	PlanRefused = "refused"
	PlanFailing = "failing"
	PlanChanges = "changes"
)

// planText collects lines.
type planText struct{ strings.Builder }

func (t *planText) line(format string, args ...any) { fmt.Fprintf(t, format+"\n", args...) }

// sign is that of a step of a module or a verb of an object. What is not named is a change.
func sign(what string) string {
	switch what {
	case StepStart, "create":
		return "+"
	case StepStop, StepPurge, "delete":
		return "-"
	case StepKeep:
		return "!"
	}
	return "~"
}

// Text is what would happen to one module and why, what is uncertain about it, and its objects. The
// step run is shown as upgrade or adopt: a module runs with each reload, and what matters is what
// happens to its release.
func (m Module) Text() string {
	t, step, reason := &planText{}, m.Step, ""
	if step == StepRun {
		if step = "upgrade"; m.Release == Adopted {
			step = "adopt"
		}
	}
	// For other steps Why is enough.
	if m.Reason != "" && (m.Step == StepStart || m.Step == StepRun) {
		reason = fmt.Sprintf("; its release would be %s: %s", m.Release, m.Reason)
	}
	t.line("%s %s %s: %s%s", sign(m.Step), step, m.Module, m.Why, reason)
	if m.HookValues == HookValuesUnknown {
		t.line("    values of hooks unknown: its hooks have not run")
	}
	for _, note := range m.Notes {
		t.line("    %s", note)
	}
	for _, o := range m.Objects {
		t.object(o)
	}
	if m.Unknown != "" {
		t.line("    its release cannot be predicted: %s", strings.ReplaceAll(m.Unknown, "\n", "\n      "))
	}
	if m.Error != "" {
		t.line("    it would fail: %s", strings.ReplaceAll(m.Error, "\n", "\n      "))
	}
	return t.String()
}

// object is an object with its difference, indented, without the two headings that repeat the name.
func (t *planText) object(o Object) {
	t.line("    %s", strings.TrimSuffix(fmt.Sprintf("%s %s (%s)", sign(o.Verb), o.Object, o.Note), " ()"))
	diff := o.Diff
	for range 2 {
		if strings.HasPrefix(diff, "--- ") || strings.HasPrefix(diff, "+++ ") {
			_, diff, _ = strings.Cut(diff, "\n")
		}
	}
	for line := range strings.SplitSeq(diff, "\n") {
		if line != "" {
			t.line("        %s", line)
		}
	}
}

// summary counts modules and objects. Outcomes that are rare have a line of their own, and only if
// there are some.
func (t *planText) summary(p Plan) {
	s := p.Summary
	// One sentence in place of two lines of zeros.
	if !p.Changes() && s.Failing+s.Unknown == 0 {
		t.line("\nNothing would be done. Modules: %d unchanged, %d kept.", s.Unchanged, s.Keep)
		return
	}
	t.line("\nModules: %d to start, %d to upgrade, %d to stop, %d to purge, %d kept, %d unchanged.", s.Start, s.Upgrade, s.Stop, s.Purge, s.Keep, s.Unchanged)
	t.line("Objects: %d to create, %d to change, %d to delete.", s.Create, s.Change, s.Delete)
	for _, rare := range []struct {
		n    int
		what string
	}{{s.Adopt, "whose release would be adopted unchanged"}, {s.Unknown, "whose release cannot be predicted"}, {s.Failing, "that would fail"}} {
		if rare.n > 0 {
			t.line("Modules %s: %d.", rare.what, rare.n)
		}
	}
}

// HeldUpgrade is the text about an upgrade that waits until a person allows it, short enough for an Event.
func HeldUpgrade(objects []string, why, confirm string) string {
	return fmt.Sprintf("the upgrade is held back, because %s: %s; to allow it: %s", why, messages.Few(10, objects), confirm)
}
