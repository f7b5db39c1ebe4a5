package plan

import (
	"fmt"
	"slices"
	"strings"
)

// Request asks what the operator would do.
type Request struct {
	// Proposed is the data of a ConfigMap that would replace the one in force; nil leaves
	// that one.
	Proposed map[string]string `json:"proposed"`
	// Secrets shows the values of Secrets.
	Secrets bool `json:"secrets,omitempty"`
}

// Plan is what the operator would do, in the order in which it would do it.
type Plan struct {
	// Refused says why the proposed ConfigMap would be refused as a whole; then nothing
	// would be done.
	Refused string `json:"refused,omitempty"`
	// Notes say what the plan could not know.
	Notes   []string `json:"notes,omitempty"`
	Modules []Module `json:"modules"`
	// Summary counts the modules, each once: "start", "upgrade", "stop", "purge", "keep", "adopt", "unchanged",
	// "failing", "unknown"; and "objectsToCreate", "objectsToChange", "objectsToDelete".
	Summary map[string]int `json:"summary"`
}

// The steps of a module in a plan.
const (
	StepStart = "start" // enabled, and not running yet
	StepRun   = "run"   // enabled and running; its release may be upgraded
	StepStop  = "stop"  // disabled: its release is deleted
	StepPurge = "purge" // a release without a module directory
	StepKeep  = "keep"  // suspended (H27); or would be stopped or purged, but is under maintenance (H15), or held back (P1)
)

// Adopted is Module.Release of a module that takes over what Helm has installed, without a
// revision.
const Adopted = "adopted"

// Module is what would be done with one module, or with one release.
type Module struct {
	Module string `json:"module"`
	Step   string `json:"step"`
	// Why names who or what has enabled or disabled it.
	Why string `json:"why"`
	// Release is what Helm would do (installed, upgraded, adopted, skipped, uninstalled), and
	// Reason why; both are empty without a chart.
	Release string `json:"release,omitempty"`
	Reason  string `json:"reason,omitempty"`
	// Notes say what else would happen, or could not be tried.
	Notes   []string `json:"notes,omitempty"`
	Objects []Object `json:"objects,omitempty"`
	// Error is why it would fail.
	Error string `json:"error,omitempty"`
	// Confirm is the text that allows an upgrade that would be held back; empty for none.
	Confirm string `json:"confirm,omitempty"`
	// Unknown is why the outcome for its release cannot be predicted: values are missing
	// that its hooks, which have not run, may set.
	Unknown string `json:"unknown,omitempty"`
}

// Object is what would happen to one object, or how it differs from the deployed release.
type Object struct {
	Object string `json:"object"` // "Kind namespace/name"
	Verb   string `json:"verb"`   // create, change, delete; in a render added, changed, removed
	Note   string `json:"note,omitempty"`
	// Diff is a unified diff of the object as YAML.
	Diff string `json:"diff,omitempty"`
}

// effect is what happens to a module, and what it counts as in the summary. What fails, or cannot be predicted, is
// that alone.
func (m Module) effect() string {
	switch {
	case m.Error != "":
		return "failing"
	case m.Unknown != "":
		return "unknown"
	case m.Release == Adopted: // it takes over a release of Helm as it is
		return "adopt"
	case m.Step != StepRun:
		return m.Step
	case m.Release != "" && m.Release != "skipped":
		return "upgrade"
	}
	return "unchanged"
}

// Touches reports whether a module would be touched: started, stopped, or its release
// changed, as far as that is known.
func (m Module) Touches() bool { return m.effect() != StepKeep && m.effect() != "unchanged" }

// Changes reports whether anything would be done.
func (p Plan) Changes() bool {
	return slices.ContainsFunc(p.Modules, Module.Touches)
}

// Count fills the summary.
func (p *Plan) Count() {
	p.Summary = map[string]int{}
	verbs := map[string]string{"create": "objectsToCreate", "change": "objectsToChange", "delete": "objectsToDelete"}
	for _, m := range p.Modules {
		p.Summary[m.effect()]++
		for _, o := range m.Objects {
			p.Summary[verbs[o.Verb]]++
		}
	}
}

// RenderRequest selects what a render contains.
type RenderRequest struct {
	// Diff compares with the deployed release. Broken shows the text that templates made
	// even when it cannot be read. Secrets shows those; without it they are hidden, and so
	// is text that cannot be read.
	Diff, Broken, Secrets bool
	// Since is the revision that Diff compares with; 0 is the deployed one.
	Since int
}

// Rendered is what the chart of a module makes of its values now. Secrets are hidden,
// unless they were asked for.
type Rendered struct {
	Module string `json:"module"`
	// Text is the manifest: YAML documents in the order Helm applies them.
	Text string `json:"-"`
	// Objects are the same as data.
	Objects []any `json:"objects"`
	// Revision is that of the deployed release which Changes compare with; 0: there is none.
	Revision int `json:"deployedRevision,omitempty"`
	// Changes are what differs from the deployed release, when that was asked for.
	Changes []Object `json:"changes,omitempty"`
}

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
		if m.effect() != "unchanged" {
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
	case p.Summary["failing"] > 0: // before changes: no one should continue with this plan
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
	for line := range strings.SplitSeq(o.Diff, "\n") {
		if line != "" && !strings.HasPrefix(line, "--- ") && !strings.HasPrefix(line, "+++ ") {
			t.line("        %s", line)
		}
	}
}

// summary counts modules and objects. Outcomes that are rare have a line of their own, and only if
// there are some.
func (t *planText) summary(p Plan) {
	s := p.Summary
	if !p.Changes() { // one sentence in place of two lines of zeros
		t.line("\nNothing would be done. Modules: %d unchanged, %d kept.", s["unchanged"], s[StepKeep])
		return
	}
	t.line("\nModules: %d to start, %d to upgrade, %d to stop, %d to purge, %d kept, %d unchanged.",
		s[StepStart], s["upgrade"], s[StepStop], s[StepPurge], s[StepKeep], s["unchanged"])
	t.line("Objects: %d to create, %d to change, %d to delete.",
		s["objectsToCreate"], s["objectsToChange"], s["objectsToDelete"])
	for _, rare := range [][2]string{
		{"adopt", "whose release would be adopted unchanged"}, {"unknown", "whose release cannot be predicted"},
		{"failing", "that would fail"},
	} {
		if n := s[rare[0]]; n > 0 {
			t.line("Modules %s: %d.", rare[1], n)
		}
	}
}
