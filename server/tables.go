package server

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"addon-operator/messages"
	"addon-operator/messages/view"
	"addon-operator/values"
)

// table is a list for people.
type table struct {
	columns string // names, separated by blanks
	rows    [][]string
	nothing string // what is said in place of no rows
	// above and below are paragraphs around it.
	above, below []string
	longest      int // characters of a cell in a table that is cut; 0 means 140
}

// write writes the table; bare, it is only its rows. Empty cells become dashes, so that no column
// seems to be missing; a cell of one space stays empty.
func (t table) write(w io.Writer, whole, bare bool) {
	if bare {
		t.above, t.below, t.nothing = nil, nil, ""
	}
	for _, text := range t.above {
		fmt.Fprintf(w, "%s\n\n", text)
	}
	if len(t.rows) == 0 && t.nothing != "" {
		fmt.Fprintln(w, t.nothing)
	}
	const usual = 140
	out := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	if len(t.rows) > 0 && !bare {
		fmt.Fprintln(out, strings.Join(strings.Fields(t.columns), "\t"))
	}
	for _, row := range t.rows {
		for i, text := range row {
			indent := text[:len(text)-len(strings.TrimLeft(text, " "))]
			if row[i] = cmp.Or(indent+strings.Join(strings.Fields(text), " "), "-"); !whole {
				row[i] = shortened(row[i], cmp.Or(t.longest, usual))
			}
		}
		fmt.Fprintln(out, strings.Join(row, "\t"))
	}
	_ = out.Flush() // the client has gone
	for _, text := range t.below {
		fmt.Fprintf(w, "\n%s\n", text)
	}
}

// shortened leaves out the middle of a text that is too long: the beginning names what failed, and
// the end, which often is the last line of a hook, the reason.
func shortened(text string, most int) string {
	runes := []rune(text)
	if len(runes) <= most {
		return text
	}
	end := most * 3 / 8
	return string(runes[:most-end-1]) + "…" + string(runes[len(runes)-end:])
}

// at is a time; empty for none. ago is for times that are near.
func at(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	return t.Format(time.RFC3339)
}

func ago(t time.Time) string { return time.Since(t).Round(time.Second).String() + " ago" }

// encoded is a value in a cell, as JSON. HTML is not escaped: "<" stays readable.
func encoded(v any) string {
	text, err := values.Encode(v)
	if err != nil {
		return err.Error()
	}
	return strings.TrimSpace(string(text))
}

// firstOf is the first of several problems, and the command that lists the others.
func firstOf(problems []string, command string) string {
	switch len(problems) {
	case 0:
		return ""
	case 1:
		return problems[0]
	}
	return fmt.Sprintf("%s (and %d more: addon-operator %s)", problems[0], len(problems)-1, command)
}

// problemOf is what a person should look at; empty for nothing.
func problemOf(m view.Module) string {
	switch problems := slices.Concat(m.Contested, m.Problems); {
	case !m.Troubled(): // what others undo stays a problem while a run is in progress
		return firstOf(m.Contested, "why "+m.Name)
	case m.Verdict.Class == view.ClassProblem && len(problems) > 0:
		return firstOf(problems, "why "+m.Name)
	}
	return m.Verdict.Message
}

// moduleTable has a line for each module, and around it what concerns all: a refused ConfigMap,
// which explains states, above; the leader, a held purge and problems of global hooks below.
func moduleTable(o overall) *table {
	t := &table{columns: "NAME ORDER STATE REVISION HOOKS RAN WHY-OFF PROBLEM", nothing: "There are no modules."}
	if notice := o.Config; notice != nil {
		t.above = append(t.above, notice.Notice())
	}
	for _, m := range o.Modules {
		state, release, ran := m.State, "", ""
		if m.Parked {
			state += ", parked"
		}
		if m.Maintenance != "" && m.Maintenance != values.Suspended { // the state contains it
			state += ", maintenance"
		}
		if len(m.Drift) > 0 {
			state += ", drift"
		}
		if m.Release > 0 {
			release = fmt.Sprint(m.Release)
			if m.Namespace != "" { // empty: that of the operator, where most releases are
				release += " in " + m.Namespace
			}
		}
		if m.LastRun != nil {
			ran = ago(m.LastRun.Began)
		}
		t.rows = append(t.rows, []string{m.Name, fmt.Sprint(m.Order), state, release, fmt.Sprint(m.Hooks), ran, m.Off, problemOf(m)})
	}
	if o.Leadership != nil {
		t.below = append(t.below, fmt.Sprintf("This replica is the %s.", o.Leadership))
	}
	if o.HeldPurge != nil { // it is about releases without a directory, which need not be in the table
		t.below = append(t.below, "Note: "+o.HeldPurge.String())
	}
	for _, problem := range o.GlobalProblems {
		t.below = append(t.below, "Global hooks: "+problem)
	}
	return t
}

// hookTable has a line for each binding of each hook. Owner, hook and problem are in the first line
// of the hook only.
func hookTable(all []view.HookInfo) *table {
	t := &table{columns: "MODULE HOOK BINDING ON NAME QUEUE PROBLEM", nothing: "No hooks are loaded. The hooks of a module are loaded when it is enabled."}
	for _, h := range all {
		for i, b := range h.Bindings {
			owner, hook, problem := h.Owner, h.Hook, firstOf(h.Problems, "hook snapshots "+h.Hook)
			switch {
			case i > 0:
				owner, hook, problem = " ", " ", " "
			case h.Hanging != nil:
				problem = h.Hanging.String()
			}
			name := b.Name
			if name == b.Type { // as one without a name is called
				name = ""
			}
			t.rows = append(t.rows, []string{owner, hook, b.Type, b.On, name, b.Queue, problem})
		}
	}
	return t
}

// snapshotTable has a line for each binding; the objects themselves are in the other formats.
func snapshotTable(byHook map[string]map[string]snapshotDump) *table {
	t := &table{columns: "HOOK BINDING KIND STATE OBJECTS", nothing: "No hook watches objects."}
	for _, hook := range slices.Sorted(maps.Keys(byHook)) {
		for _, binding := range slices.Sorted(maps.Keys(byHook[hook])) {
			b := byHook[hook][binding]
			t.rows = append(t.rows, []string{hook, binding, b.Kind, strings.TrimSuffix(b.State+": "+b.Message, ": "), fmt.Sprint(len(b.Objects))})
		}
	}
	return t
}

// explainTable has a line for each source of each value, the strongest first; only that one has the
// path, so that the overridden sources are easy to see below it.
func explainTable(leaves []values.Leaf) *table {
	t := &table{columns: "PATH VALUE LAYER FROM TASK SINCE", nothing: "There are no values."}
	for _, leaf := range leaves {
		path := leaf.Path
		for _, source := range leaf.Sources {
			value := encoded(source.Value)
			if source.Removed { // by a hook, from a layer below
				value = "(removed)"
			}
			t.rows = append(t.rows, []string{path, value, source.Layer, from(source), source.Task, at(source.Time)})
			path = "  overrides"
		}
	}
	if len(leaves) > 0 && leaves[0].Note != "" { // the same in all
		t.below = []string{"Note: " + leaves[0].Note}
	}
	return t
}

// from names who set a value within its layer: the file, the hook, or the version of the ConfigMap.
func from(s values.Source) string {
	revision := ""
	if s.Revision != "" {
		revision = "resourceVersion " + s.Revision
	}
	return cmp.Or(s.File, s.Hook, revision)
}

// driftTable has a line for each changed field. An empty table can mean four things: not checked,
// checked with an error, not checked yet, or nothing found.
func driftTable(drift messages.Drift) *table {
	t := &table{columns: "OBJECT FIELD FOUND CHART", nothing: fmt.Sprintf("No object was changed (%s).", at(drift.Checked))}
	switch {
	case drift.Mode == messages.DriftOff:
		t.nothing = "Drift is not checked: the option --drift is off."
	case drift.Error != "":
		t.nothing = "The last drift check failed: " + drift.Error
	case drift.Checked.IsZero():
		t.nothing = "Not checked yet: the module must have run, and must not be in maintenance."
	}
	for _, object := range drift.Objects {
		for _, field := range object.Fields {
			t.rows = append(t.rows, []string{object.Object, field.Path, encoded(field.Found), encoded(field.Chart)})
		}
	}
	return t
}

// patchTable has a line for each saved operation of hooks.
func patchTable(patches values.Patch) *table {
	t := &table{columns: "OP PATH VALUE HOOK TASK SINCE", nothing: "No hook has patched these values."}
	for _, p := range patches {
		value := ""
		if p.HasValue {
			value = encoded(p.Value)
		}
		t.rows = append(t.rows, []string{p.Op, p.Path, value, p.Origin().Hook, p.Origin().Task, at(p.Origin().Time)})
	}
	return t
}
