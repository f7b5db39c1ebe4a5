package remote

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"addon-operator/messages/view"
	"addon-operator/values"
)

// tableWriter makes a table of the JSON of a page. It decodes only the fields that it needs, and
// reads from the writer how to write (cell, notes).
type tableWriter func(w io.Writer, body []byte) error

// table writes a head, whose words are the columns, and rows; without rows the sentence nothing.
// Empty cells become dashes, so that no column seems to be missing. A cell of one space stays
// empty.
func table(w io.Writer, nothing, head string, rows [][]string) error {
	if len(rows) == 0 {
		_, err := fmt.Fprintln(notes(w), nothing)
		return err
	}
	out := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	// notes returns another writer when only rows are wanted.
	if notes(w) == w {
		fmt.Fprintln(out, strings.Join(strings.Fields(head), "\t"))
	}
	for _, row := range rows {
		for i, cell := range row {
			row[i] = orDash(cell)
		}
		fmt.Fprintln(out, strings.Join(row, "\t"))
	}
	return out.Flush()
}

// listedModule is a module in the answer of /module/list.
type listedModule struct{ view.Module }

// problem is the most urgent problem of the module; empty when there is none. The order is
// that of urgency: decisions for a person, then tasks that hang, wait or fail, then problems that
// exist although the last run has succeeded. Of several problems it is the first, with the number of the
// others.
func (m listedModule) problem(w io.Writer, held *view.HeldPurge) string {
	switch {
	case held != nil && slices.Contains(held.Releases, m.Name):
		return "its directory is missing; its purge is held"
	case m.State == view.Held:
		return m.Held // with the command that allows it
	case len(m.Hanging) > 0:
		return cell(w, m.Hanging[0].String(), 100)
	case m.Waiting != nil:
		return cell(w, m.Waiting.String(), 140) + ", " + m.Waiting.Times()
	case len(m.Failing) > 0:
		f := m.Failing[0]
		return cell(w, fmt.Sprintf("%s failed %d times: %s", f.Task, f.Attempts, f.Error), 100)
	case len(m.Contested) > 0:
		return m.Contested[0]
	case m.Health != nil && len(m.Health.Unhealthy) > 0:
		return firstOf(w, unhealthy(m.Health), "module list -o json")
	}
	return firstOf(w, m.Problems, "why "+m.Name)
}

// unhealthy are the objects of a release that are not as their specs ask for, one text each.
func unhealthy(h *view.Health) []string {
	var all []string
	for _, o := range h.Unhealthy {
		all = append(all, o.String())
	}
	return all
}

// firstOf is the first of several problems, and the command that lists the others.
func firstOf(w io.Writer, problems []string, where string) string {
	switch len(problems) {
	case 0:
		return ""
	case 1:
		return cell(w, problems[0], 100)
	}
	return cell(w, problems[0], 100) + proposed(w, fmt.Sprintf(" (and %d more: addon-operator %s)", len(problems)-1, where))
}

// moduleTable has a line for each module, and above and below it what concerns all: a refused
// ConfigMap, which explains states, first; the leader, a held purge and problems of global hooks
// after it.
func moduleTable(w io.Writer, body []byte) error {
	var list struct {
		Modules        []listedModule
		HeldPurge      *view.HeldPurge
		GlobalProblems []string
		Leadership     *view.Leadership
		Config         view.ConfigStatus
	}
	if err := decoded(body, &list); err != nil {
		return err
	}
	if notice := list.Config.Notice(); notice != "" {
		fmt.Fprintf(notes(w), "%s\n\n", notice)
	}
	var rows [][]string
	for _, m := range list.Modules {
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
			// The namespace of the operator is not shown: most releases are there.
			if m.Namespace != "" {
				release += " in " + m.Namespace
			}
		}
		if m.LastRun != nil {
			ran = ago(m.LastRun.Began)
		}
		rows = append(rows, []string{m.Name, fmt.Sprint(m.Order), state, release, fmt.Sprint(m.Hooks), ran, cell(w, m.Off, 100), m.problem(w, list.HeldPurge)})
	}
	err := table(w, "There are no modules.", "NAME ORDER STATE REVISION HOOKS RAN WHY-OFF PROBLEM", rows)
	below := notes(w)
	if err == nil && list.Leadership != nil {
		_, err = fmt.Fprintf(below, "\nThis replica is the %s.\n", list.Leadership)
	}
	// A held purge is about releases without a directory, so they need not be in the table.
	if err == nil && list.HeldPurge != nil {
		_, err = fmt.Fprintf(below, "\nNote: %s\n", list.HeldPurge)
	}
	for _, problem := range list.GlobalProblems {
		fmt.Fprintf(below, "\nGlobal hooks: %s\n", problem)
	}
	return err
}

// hookTable has a line for each binding of each hook. Owner, hook and problem are in the first line
// of the hook only; the space in the others is an empty cell.
func hookTable(w io.Writer, body []byte) error {
	var list struct{ Hooks []view.HookInfo }
	if err := decoded(body, &list); err != nil {
		return err
	}
	var rows [][]string
	for _, h := range list.Hooks {
		// A hook without bindings has no line: nothing ever runs it.
		for i, b := range h.Bindings {
			owner, hook, problem := h.Owner, h.Hook, firstOf(w, h.Problems, "hook snapshots "+h.Hook)
			switch {
			case i > 0:
				owner, hook, problem = " ", " ", " "
			case h.Hanging != nil:
				problem = cell(w, h.Hanging.String(), 100)
			}
			name := b.Name
			// A binding without a name is called like its type.
			if name == b.Type {
				name = ""
			}
			rows = append(rows, []string{owner, hook, b.Type, b.On, name, b.Queue, problem})
		}
	}
	return table(w, "No hooks are loaded. The hooks of a module are loaded when it is enabled.", "MODULE HOOK BINDING ON NAME QUEUE PROBLEM", rows)
}

// snapshotTable has a line for each binding; the objects themselves are in the other formats.
func snapshotTable(w io.Writer, body []byte) error {
	var byHook map[string]map[string]struct {
		Kind, State, Message string
		Objects              []json.RawMessage
	}
	if err := decoded(body, &byHook); err != nil {
		return err
	}
	var rows [][]string
	// Maps of JSON have no order; sorted, two outputs can be compared.
	for _, hook := range slices.Sorted(maps.Keys(byHook)) {
		for _, binding := range slices.Sorted(maps.Keys(byHook[hook])) {
			b := byHook[hook][binding]
			rows = append(rows, []string{hook, binding, b.Kind, strings.TrimSuffix(b.State+": "+b.Message, ": "), fmt.Sprint(len(b.Objects))})
		}
	}
	return table(w, "No hook watches objects.", "HOOK BINDING KIND STATE OBJECTS", rows)
}

// patchTable has a line for each saved operation. Value is a pointer: an operation may set null, or
// have none.
func patchTable(w io.Writer, body []byte) error {
	var patches []struct {
		Op, Path, Hook, Task string
		Value                *any
		Time                 time.Time
	}
	if err := decoded(body, &patches); err != nil {
		return err
	}
	var rows [][]string
	for _, p := range patches {
		value := ""
		if p.Value != nil {
			value = shown(w, *p.Value)
		}
		rows = append(rows, []string{p.Op, p.Path, value, p.Hook, p.Task, at(p.Time)})
	}
	return table(w, "No hook has patched these values.", "OP PATH VALUE HOOK TASK SINCE", rows)
}

// valueTable has a line for each value, with its whole path.
func valueTable(w io.Writer, body []byte) error {
	var tree any
	if err := decoded(body, &tree); err != nil {
		return err
	}
	var rows [][]string
	flatten("", tree, func(path string, value any) { rows = append(rows, []string{path, shown(w, value)}) })
	return table(w, "There are no values.", "PATH VALUE", rows)
}

// flatten visits everything that is no map, and empty maps, in the order of their paths. Lists are
// not taken apart.
func flatten(path string, tree any, visit func(path string, value any)) {
	m, ok := tree.(map[string]any)
	if !ok || len(m) == 0 {
		if path != "" {
			visit(path, tree)
		}
		return
	}
	for _, key := range slices.Sorted(maps.Keys(m)) {
		below := key
		if path != "" {
			below = path + "." + key
		}
		flatten(below, m[key], visit)
	}
}

// parametersIn reads the answer of /config/list and of /config/set.
func parametersIn(body []byte) ([]view.Parameter, error) {
	var list struct{ Parameters []view.Parameter }
	err := decoded(body, &list)
	return list.Parameters, err
}

// parameterTable has a line for each parameter.
func parameterTable(w io.Writer, body []byte) error {
	list, err := parametersIn(body)
	if err != nil {
		return err
	}
	var rows [][]string
	for _, p := range list {
		until := ""
		if !p.Until.IsZero() {
			until = at(p.Until)
		}
		rows = append(rows, []string{p.Name, p.Value, p.Default, until, strings.Join(p.Choices, "|"), p.Help})
	}
	return table(w, "Nothing can be changed.", "NAME VALUE DEFAULT UNTIL CHOICES MEANING", rows)
}

// monitorTable has a line for each object; a module without any has a text in place of a list.
func monitorTable(w io.Writer, body []byte) error {
	var byModule map[string]any
	if err := decoded(body, &byModule); err != nil {
		return err
	}
	var rows [][]string
	for _, module := range slices.Sorted(maps.Keys(byModule)) {
		// A module without watched objects has a text, which is shown as it is.
		ids, ok := byModule[module].([]any)
		if !ok {
			rows = append(rows, []string{module, fmt.Sprint(byModule[module])})
		}
		for _, id := range ids {
			rows = append(rows, []string{module, fmt.Sprint(id)})
		}
	}
	return table(w, "There are no modules.", "MODULE OBJECT", rows)
}

// from names who set a value within its layer: the file, the hook, or the version of the ConfigMap.
func from(s values.Source) string {
	revision := ""
	if s.Revision != "" {
		revision = "resourceVersion " + s.Revision
	}
	return orDash(cmp.Or(s.File, s.Hook, revision))
}

// at is a time; "-" for none. ago is for times that are near.
func at(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.Format(time.RFC3339)
}

func ago(t time.Time) string { return time.Since(t).Round(time.Second).String() + " ago" }

func orDash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}

// shown is a value in a cell, as JSON. HTML is not escaped: "<" stays readable. w may be nil, for a
// text that is no cell.
func shown(w io.Writer, v any) string {
	const longest = 60
	text, err := values.Encode(v)
	if err != nil {
		return err.Error()
	}
	return cell(w, string(text), longest)
}

// shortened is a text on one line, with at most longest characters, the last of which is an
// ellipsis if it was cut.
func shortened(text string, longest int) string {
	// Fields also removes the line end that an encoder has added.
	line := []rune(strings.Join(strings.Fields(text), " "))
	if len(line) > longest {
		return string(line[:longest-1]) + "…"
	}
	return string(line)
}
