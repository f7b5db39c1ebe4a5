package server

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"path"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"sigs.k8s.io/yaml"

	"addon-operator/messages"
	"addon-operator/messages/view"
	"addon-operator/values"
)

// The formats of debug pages (J4). A table has cells of one line that are cut; in a wide table they
// are whole. Pages without a table show their text instead, and the other way around.
const (
	asJSON  = "json"
	asYAML  = "yaml"
	asText  = "text"
	asTable = "table"
	asWide  = "wide"
	asNames = "name" // of what a page lists, one a line
)

func formats() []string { return []string{asJSON, asYAML, asText, asTable, asWide, asNames} }

// page is a debug page: look finds the data, and ServeHTTP writes it as JSON, YAML or text. The
// extension of the path chooses the format, else ?output= or ?format=, else usual does. An error of
// look is answered with the status of a *pageError, any other one with 503: it mostly means that an
// actor cannot answer now.
type page struct {
	look  func(*http.Request) (any, error)
	usual string // "" is JSON
}

// display is data that has forms of its own for people. Data without one is written as YAML when
// text is requested.
type display struct {
	data  any
	text  func(w io.Writer, whole bool) // nil: as the table. Without whole, long texts are cut.
	table *table                        // nil: as the text
	names []string                      // nil: it has none
	// outcome is that of the OutcomeHeader.
	outcome string
}

// OutcomeHeader is the header with what a program must know of a plan (plan.Plan.Outcome).
const OutcomeHeader = "Addon-Operator-Outcome"

// MarshalJSON implements json.Marshaler, so that a display looks like its data in JSON and YAML.
func (d display) MarshalJSON() ([]byte, error) { return json.Marshal(d.data) }

// lines is a text of one name on each line.
func lines(names []string) func(io.Writer, bool) {
	return func(w io.Writer, _ bool) {
		for _, name := range names {
			fmt.Fprintln(w, name)
		}
	}
}

// ServeHTTP implements http.Handler. A wrong format is refused before the page is made.
func (p page) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	format, err := p.format(r)
	var found any
	if err == nil {
		found, err = p.look(r)
	}
	// Without headers, a table has rows only.
	answer(w, format, r.URL.Query().Get("headers") == "false", found, err)
}

// formatKey is the key of the context under which withoutExtension leaves the format.
type formatKey struct{}

// withoutExtension removes json, yaml or text from the path, so that routes do not depend on
// formats. Other extensions stay: names of hooks have some. RawPath is shortened, too, because the
// mux matches with it when the path has escapes.
func withoutExtension(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		extension := path.Ext(r.URL.Path)
		if !slices.Contains([]string{asJSON, asYAML, asText}, strings.TrimPrefix(extension, ".")) {
			next.ServeHTTP(w, r)
			return
		}
		r = r.Clone(context.WithValue(r.Context(), formatKey{}, extension[1:]))
		r.URL.Path, r.URL.RawPath = strings.TrimSuffix(r.URL.Path, extension), strings.TrimSuffix(r.URL.RawPath, extension)
		next.ServeHTTP(w, r)
	})
}

// format is the format that a request asks for. An unknown one is an error, which is shown as text.
func (p page) format(r *http.Request) (string, error) {
	if format, ok := r.Context().Value(formatKey{}).(string); ok {
		return format, nil
	}
	format := cmp.Or(r.URL.Query().Get("output"), r.URL.Query().Get("format"), p.usual, asJSON)
	if !slices.Contains(formats(), format) {
		return asText, badRequest("the format %q is not one of %s", format, strings.Join(formats(), ", "))
	}
	return format, nil
}

// pageError is an error that chooses its HTTP status. Its text is shown to the client.
type pageError struct {
	status int
	err    error
}

func (e *pageError) Error() string { return e.err.Error() }

// notFound is a *pageError with 404; %w keeps the cause.
func notFound(format string, args ...any) error {
	return &pageError{http.StatusNotFound, fmt.Errorf(format, args...)}
}

// badRequest is a *pageError with 400; %w keeps the cause.
func badRequest(format string, args ...any) error {
	return &pageError{http.StatusBadRequest, fmt.Errorf(format, args...)}
}

// answer writes what a page has found, or its error as plain text in every format.
func answer(w http.ResponseWriter, format string, bare bool, found any, err error) {
	if shown, ok := found.(display); ok && shown.outcome != "" {
		w.Header().Set(OutcomeHeader, shown.outcome)
	}
	var wrong *pageError
	switch {
	case errors.As(err, &wrong):
		http.Error(w, err.Error(), wrong.status)
	case err != nil:
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
	case format == asYAML:
		writeYAML(w, "application/yaml", found)
	case format == asJSON:
		writeJSON(w, found)
	default:
		writeText(w, format, bare, found)
	}
}

// writeText writes what people read: text, a table, or names.
func writeText(w http.ResponseWriter, format string, bare bool, found any) {
	const plain = "text/plain; charset=utf-8"
	shown, _ := found.(display)
	if format == asNames && shown.names == nil {
		http.Error(w, "this page lists nothing that has a name; use another format", http.StatusBadRequest)
		return
	}
	if format == asNames {
		shown.text, shown.table = lines(shown.names), nil
	}
	switch {
	case shown.text == nil && shown.table == nil:
		writeYAML(w, plain, found)
	case shown.table == nil, shown.text != nil && format == asText:
		w.Header().Set("Content-Type", plain)
		shown.text(w, format != asTable)
	default:
		w.Header().Set("Content-Type", plain)
		shown.table.write(w, format != asTable, bare)
	}
}

// writeYAML writes YAML with the field names of the JSON. Behind discreet, secrets are hidden in
// the JSON first, since they cannot be found in YAML (written.hidden).
func writeYAML(w http.ResponseWriter, contentType string, v any) {
	body, err := json.Marshal(v)
	if page, ok := w.(*written); ok && err == nil {
		body = page.hidden(body)
	}
	if err == nil {
		body, err = yaml.JSONToYAML(body)
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", contentType)
	_, _ = w.Write(body) // the client has gone
}

func writeJSON(w http.ResponseWriter, v any) {
	body, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(append(body, '\n')) // the client has gone
}

// manyNames bounds how many names an error lists.
const manyNames = 30

// unknown is the error, with 404, for a name that does not exist. It proposes the name that was
// probably meant, else it lists those that exist.
func unknown(what, name string, known []string) error {
	text := fmt.Sprintf("%s %q not found", what, name)
	switch meant := values.Nearest(name, known); {
	case meant != "":
		text += "; did you mean " + meant + "?"
	case len(known) == 0:
		text += "; there are none yet"
	case len(known) > manyNames:
		text += fmt.Sprintf("; %d are available: %s …", len(known), strings.Join(known[:manyNames], ", "))
	default:
		text += "; available: " + strings.Join(known, ", ")
	}
	return notFound("%s", text)
}

// What the commands add to the sentence of their page.
const (
	aboutStatus = `Prints the state of the modules: how many fail, wait and are ready; each problem with its error and what
to do next; and what the queues do now.`

	aboutList = `Prints all modules in the order in which they run, including disabled ones.

STATE is one of

    disabled     it is disabled
    waiting      it is enabled, and its first run has not begun
    starting     it is in its first run, or waits to retry it
    running      it is in a later run, or waits to retry it
    pending      a change is not applied yet: its run waits in a queue
    ready        its last run has succeeded, and the objects of its release match their specs
    progressing  objects of its release are in progress
    unhealthy    objects of its release have failed, or have been in progress for too long
    held         an upgrade would delete data, and waits until a person allows it
    suspended    a person has suspended it, or it was disabled and is about to be deleted
    deleting     its release is being deleted

The state may be followed by parked (its run fails or takes long, and others continue without it),
maintenance and drift. Below the table, the command shows purges of releases without a module
directory that wait for a confirmation and, with a Lease, which replica leads.`

	aboutWhy = `Prints why a module is disabled, or the chain of causes of its last run, the latest first: the release, the change
of values, the hook, the binding, and the object, tick or edit that started it; what fails now, or what it waits for;
and the problems of its files and of the objects that its hooks watch.`

	aboutLogs = `Prints the last five runs of each hook of a module, or of the global hooks with the name global: when, why, how
long, and the last lines that each printed.`

	aboutRender = `Prints the manifest that a run of the module would apply now. With --diff it prints the differences from the deployed
release. Nothing is applied. Earlier revisions are those of Helm: helm history and helm get show them.`

	aboutDrift = `Prints the result of the last drift check: fields that the chart sets and that have
another value in the cluster. The option --drift determines whether the operator checks for drift.`

	aboutExplain = `Prints the layer that each value at a path of the running operator comes from: a file,
the ConfigMap, a default of a schema or a hook; for hooks the task and the time; and below
it the values that it overrides. A path to a map explains every value in it. It begins with global
or with the module, unless MODULE is given.`
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

// problemOf is what a person should look at; empty for nothing.
func problemOf(m view.Module) string {
	switch {
	case !m.Troubled():
		return ""
	case m.Verdict.Class == view.ClassProblem && len(m.Problems) > 1:
		return fmt.Sprintf("%s (and %d more: addon-operator why %s)", m.Problems[0], len(m.Problems)-1, m.Name)
	case m.Verdict.Class == view.ClassProblem && len(m.Problems) > 0:
		return m.Problems[0]
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
		if m.Drift > 0 {
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

// hookTable has a line for each binding of each hook. Owner and hook are in the first line of the hook only.
func hookTable(all []view.HookInfo) *table {
	t := &table{
		columns: "MODULE HOOK BINDING ON NAME QUEUE",
		nothing: "No hooks are loaded. The hooks of a module are loaded when it is enabled.",
	}
	for _, h := range all {
		owner, hook := h.Owner, h.Hook
		for _, b := range h.Bindings {
			name := b.Name
			if name == b.Type { // as one without a name is called
				name = ""
			}
			t.rows = append(t.rows, []string{owner, hook, b.Type, b.On, name, b.Queue})
			owner, hook = " ", " "
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
