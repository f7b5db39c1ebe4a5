package plan

import (
	"fmt"
	"slices"
	"strings"

	"addon-operator/messages"
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
	Summary Summary  `json:"summary"`
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
	// HookValues: values that hooks set are "unknown", because its hooks have not run;
	// "remembered" from their last runs; empty when there are no hooks.
	HookValues string `json:"hookValues,omitempty"`
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

// What is known of the values that hooks set.
const (
	HookValuesUnknown    = "unknown"
	HookValuesRemembered = "remembered"
)

// Object is what would happen to one object.
type Object struct {
	Object string `json:"object"`
	Verb   string `json:"verb"` // create, change, delete
	Note   string `json:"note,omitempty"`
	// Fields are the paths that change, empty for objects that come or go.
	Fields []string `json:"fields,omitempty"`
	// Diff is a unified diff of the object as YAML.
	Diff string `json:"diff,omitempty"`
}

// Summary counts.
type Summary struct {
	Start     int `json:"start"`
	Upgrade   int `json:"upgrade"` // running modules whose release would be installed or upgraded
	Stop      int `json:"stop"`
	Purge     int `json:"purge"`
	Keep      int `json:"keep"`
	Adopt     int `json:"adopt"` // modules that take over a release of Helm as it is; they may be among those to start
	Unchanged int `json:"unchanged"`
	Failing   int `json:"failing"`
	Unknown   int `json:"unknown"`
	Create    int `json:"objectsToCreate"`
	Change    int `json:"objectsToChange"`
	Delete    int `json:"objectsToDelete"`
}

// Touches reports whether a module would be touched: started, stopped, or its release
// changed, as far as that is known.
func (m Module) Touches() bool {
	switch m.Step {
	case StepKeep:
		return false
	case StepRun:
		return m.Release != "" && m.Release != "skipped" || m.Unknown != ""
	}
	return true
}

// Changes reports whether anything would be done.
func (p Plan) Changes() bool {
	return slices.ContainsFunc(p.Modules, Module.Touches)
}

// Count fills the summary.
func (p *Plan) Count() {
	s := Summary{}
	steps := map[string]*int{StepStart: &s.Start, StepStop: &s.Stop, StepPurge: &s.Purge, StepKeep: &s.Keep}
	verbs := map[string]*int{"create": &s.Create, "change": &s.Change, "delete": &s.Delete}
	for _, m := range p.Modules {
		if m.Error != "" {
			s.Failing++
		}
		if m.Unknown != "" {
			s.Unknown++
		}
		if m.Release == Adopted {
			s.Adopt++
		}
		switch n := steps[m.Step]; {
		case n != nil:
			*n++
		case m.Unknown != "", m.Release == Adopted:
		case m.Touches():
			s.Upgrade++
		case m.Error == "":
			s.Unchanged++
		}
		for _, o := range m.Objects {
			if n := verbs[o.Verb]; n != nil {
				*n++
			}
		}
	}
	p.Summary = s
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
	Changes []ObjectDiff `json:"changes,omitempty"`
}

// ObjectDiff is one object that differs from the deployed release.
type ObjectDiff struct {
	// Object is "Kind namespace/name"; Action is added, changed or removed.
	Object string `json:"object"`
	Action string `json:"action"`
	// Diff of the YAML of the object in unified form.
	Diff string `json:"diff"`
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
