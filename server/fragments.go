package server

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"addon-operator/messages"
	"addon-operator/messages/view"
	"addon-operator/supervisor"
	"addon-operator/values"
)

// Limits of one fragment of the live page, for the memory of the operator and of the browser. The
// page shows how much was cut (J18).
const (
	mostValues  = 500
	mostObjects = 50      // of a snapshot
	mostText    = 2 << 10 // bytes of one value
)

// fragment is a part of the live page that is loaded when a person opens it: HTML of one template.
// An error is answered as a sentence in plain text, which the script shows in its place.
type fragment struct {
	name string // of the template
	look func(*http.Request) (any, error)
}

// ServeHTTP implements http.Handler.
func (f fragment) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	data, err := f.look(r)
	var wrong *pageError
	switch {
	case errors.As(err, &wrong):
		http.Error(w, err.Error(), wrong.status)
		return
	case err != nil:
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	var out bytes.Buffer
	if err := pageTemplate().ExecuteTemplate(&out, f.name, data); err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'") // for a person who opens the address itself
	w.Header().Set("Cache-Control", "no-store")
	_, _ = w.Write(out.Bytes()) // the client has gone
}

// fragments are the parts of the live page that it loads. Only insiders have them.
type fragments struct {
	Source
	who audience
}

// routes are their addresses, relative to which the page makes its links (fragmentLinks, diffLink).
func (s fragments) routes() []Route {
	part := func(name, help string, look func(*http.Request) (any, error)) Route {
		query := "module=NAME"
		if name == "diff" {
			query += ", from=REVISION, to=REVISION"
		}
		return get("/live/"+name, query, help, fragment{name, look})
	}
	return []Route{
		part("values", "for the live page, as HTML: the values of a module, and where they come from", s.valuesFragment),
		part("snapshots", "for the live page: the snapshots of the hooks of a module, with their first objects", s.snapshotsFragment),
		part("drift", "for the live page: the fields that others have changed in the objects of a module", s.driftFragment),
		part("history", "for the live page: the recorded revisions of a module's release", s.historyFragment),
		part("diff", "for the live page: the differences between two revisions", s.diffFragment),
		get("/live/converges", "", "for the live page: the last reloads", fragment{"converges", s.convergesFragment}),
		get("/live/queue", "name=QUEUE", "for the live page: the tasks of a queue", fragment{"tasks", s.tasksFragment}),
		part("actors", "for the live page: the actors and queues of a module", s.actorsFragment),
	}
}

// short is a text without known secrets, cut to mostText. Secrets are hidden first: a part of one
// would not be found any more.
func (s Source) short(text string) string {
	if s.Hide != nil {
		text = s.Hide(text)
	}
	return values.Shorten(text, mostText)
}

// inJSON is a value as a person reads it: without escapes of HTML, which the template makes.
func (s Source) inJSON(v any, indent string) string {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", indent)
	if err := encoder.Encode(v); err != nil {
		return err.Error()
	}
	return s.short(strings.TrimSpace(out.String()))
}

// valueRow is a value with its source, and the sources that it overrides, the strongest first.
type valueRow struct {
	Path string
	valueSource
	Overrides []valueSource
}

// valueSource is a value in one layer.
type valueSource struct {
	Value, From string
	Since       time.Time
}

// valuesFragment answers /live/values. Secrets stay hidden: the page has no way to ask for them. A
// module without any value is no error here, although explain returns one.
func (s fragments) valuesFragment(r *http.Request) (any, error) {
	module := r.URL.Query().Get("module")
	leaves, err := valuePages{owners{s.Source}}.explain(r.Context(), module, "", false)
	if _, ok := errors.AsType[*pageError](err); ok && slices.Contains(s.modules(), module) {
		err = nil // nothing has set a value
	}
	if err != nil {
		return nil, err
	}
	var data struct {
		Rows []valueRow
		Cut  int
		Note string
	}
	leaves = slices.DeleteFunc(leaves, func(l values.Leaf) bool { return len(l.Sources) == 0 }) // a section that is empty
	for _, leaf := range leaves[:min(len(leaves), mostValues)] {
		row := valueRow{Path: leaf.Path}
		for i, source := range leaf.Sources {
			shown := valueSource{s.inJSON(source.Value, ""), origin(source), source.Time}
			if source.Removed {
				shown.Value = "(removed)"
			}
			if i == 0 {
				row.valueSource = shown
			} else {
				row.Overrides = append(row.Overrides, shown)
			}
		}
		data.Rows, data.Note = append(data.Rows, row), leaf.Note
	}
	data.Cut = len(leaves) - len(data.Rows)
	return data, nil
}

// origin describes the source of a value: the layer, and the file, the hook, or the version of the ConfigMap
// or Secret if it is known.
func origin(s values.Source) string {
	revision := ""
	if s.Revision != "" {
		revision = "resourceVersion " + s.Revision
	}
	return strings.TrimSuffix(s.Layer+": "+cmp.Or(s.File, s.Hook, revision), ": ")
}

// snapshotRow is a binding with the first objects of its snapshot; Cut is how many more there are.
type snapshotRow struct {
	Hook, Binding, Kind, Words string
	Objects                    []objectRow
	Cut                        int
}

type objectRow struct{ Name, Text string }

// snapshotsFragment answers /live/snapshots. The snapshot is cut before it is masked, because
// masking copies the objects.
func (s fragments) snapshotsFragment(r *http.Request) (any, error) {
	module := r.URL.Query().Get("module")
	if _, err := (owners{s.Source}).owner(r.Context(), module); err != nil {
		return nil, err
	}
	dump, err := question[messages.SnapshotDump](r.Context(), s.Source, "monitors", messages.DumpSnapshots{Owner: module})
	if err != nil {
		return nil, err
	}
	rows := make([]snapshotRow, 0, len(dump.Bindings))
	for _, b := range dump.Bindings {
		row := snapshotRow{Hook: b.Hook, Binding: b.Binding, Kind: b.Kind, Words: snapshotWords(b.BindingState)}
		row.Cut = max(0, len(b.Snapshot)-mostObjects)
		b.Snapshot = b.Snapshot[:len(b.Snapshot)-row.Cut]
		for i, o := range view.MaskedSnapshot(b).Snapshot {
			row.Objects = append(row.Objects, objectRow{s.objectName(o.Object, o.FilterResult, i), s.inJSON(o, "  ")})
		}
		rows = append(rows, row)
	}
	return rows, nil
}

// objectName is NAMESPACE/NAME of an object, or its place and the beginning of its filter result,
// when the binding does not keep the object itself.
func (s Source) objectName(object, result json.RawMessage, place int) string {
	var known struct {
		Metadata struct{ Namespace, Name string }
	}
	if json.Unmarshal(object, &known) == nil && known.Metadata.Name != "" {
		return strings.TrimPrefix(known.Metadata.Namespace+"/"+known.Metadata.Name, "/")
	}
	const longest = 80
	text := []rune(s.short(string(result)))
	if len(text) > longest {
		text = append(text[:longest], '…')
	}
	return strings.TrimSpace(fmt.Sprintf("%d. %s", place+1, string(text)))
}

// driftFragment answers /live/drift with the result of the last check; it makes none.
func (s fragments) driftFragment(r *http.Request) (any, error) {
	module := r.URL.Query().Get("module")
	if _, err := (owners{s.Source}).owner(r.Context(), module); err != nil {
		return nil, err
	}
	drift, err := question[messages.Drift](r.Context(), s.Source, ownerPath(module), messages.GetDrift{})
	if err != nil {
		return nil, err
	}
	type field struct{ Object, Path, Found, Chart string }
	data := struct {
		Mode, Error string
		Checked     time.Time
		Fields      []field
		Cut         int
	}{Mode: drift.Mode, Error: drift.Error, Checked: drift.Checked}
	for _, o := range drift.Objects {
		for _, f := range o.Fields {
			if len(data.Fields) == mostValues {
				data.Cut++
				continue
			}
			data.Fields = append(data.Fields, field{o.Object, f.Path, s.inJSON(f.Found, ""), s.inJSON(f.Chart, "")})
		}
	}
	return data, nil
}

// actorRow is an actor of a module, or a queue that has tasks of it.
type actorRow struct {
	Path, State, Current, Status string
	Waiting                      int
	Handled                      int64
}

// actorsFragment answers /live/actors: the module's actor, its runs, and the queues among whose
// first tasks is one of the module.
func (s fragments) actorsFragment(r *http.Request) (any, error) {
	module := r.URL.Query().Get("module")
	if _, err := (owners{s.Source}).owner(r.Context(), module); err != nil {
		return nil, err
	}
	rows := []actorRow{}
	walk(s.tree(s.who), func(n *supervisor.Node) {
		_, path, _ := strings.Cut(n.Path, "/")
		status, queue := n.Status.(view.QueueStatus)
		mine := path == "module/"+module || strings.HasPrefix(path, "module/"+module+"/")
		if !mine && !(queue && slices.ContainsFunc(status.Head, func(t messages.Task) bool { return t.Owner == module })) {
			return
		}
		row := actorRow{Path: path, State: n.State, Current: n.Current, Waiting: n.UserMessages + n.SystemMessages, Handled: n.Processed}
		if n.Status != nil {
			row.Status = s.short(n.Status.String())
		}
		rows = append(rows, row)
	})
	return rows, nil
}

// bindingStates are the watches of the hooks of a module, by the names of hook and binding.
func bindingStates(tree []*supervisor.Node, module string) map[[2]string]messages.BindingState {
	states := map[[2]string]messages.BindingState{}
	walk(tree, func(n *supervisor.Node) {
		if reporter, ok := n.Status.(view.MonitorsReporter); ok {
			for _, b := range reporter.Monitors().Bindings {
				if b.Owner == module {
					states[[2]string{b.Hook, b.Binding}] = b
				}
			}
		}
	})
	return states
}

// ofModule calls a page of a module for the fragment of it: the page finds the module in its path,
// the fragment in its query. It returns the data of the display, which is nil after an error.
func (s fragments) ofModule(r *http.Request, page func(modulePages, *http.Request) (any, error)) (any, error) {
	r = r.Clone(r.Context())
	r.SetPathValue("name", r.URL.Query().Get("module"))
	found, err := page(modulePages{owners{s.Source}}, r)
	shown, _ := found.(display)
	return shown.data, err
}

// revisionRow is a recorded revision. Before is whether an earlier one exists to compare with, also
// when it is not listed; Newest is the number of the newest one.
type revisionRow struct {
	view.Revision
	Module string
	Before bool
	Newest int
}

// historyFragment answers /live/history.
func (s fragments) historyFragment(r *http.Request) (any, error) {
	found, err := s.ofModule(r, modulePages.historyPage)
	if err != nil {
		return nil, err
	}
	history, _ := found.(view.ReleaseHistory)
	var data struct {
		Rows []revisionRow
		Cut  int
	}
	for i, revision := range history.Revisions {
		before := i+1 < len(history.Revisions) || history.Recorded > len(history.Revisions)
		data.Rows = append(data.Rows, revisionRow{revision, history.Module, before, history.Revisions[0].Revision})
	}
	data.Cut = history.Recorded - len(history.Revisions)
	return data, nil
}

// diffLine is a line of a difference; its colour is a class of the style sheet, empty for context.
type diffLine struct{ Colour, Text string }

// diffFragment answers /live/diff. It removes show-secrets from the query, so that the difference
// is made without them, as the live page requires (J18).
func (s fragments) diffFragment(r *http.Request) (any, error) {
	query := r.URL.Query()
	query.Del("show-secrets")
	r = r.Clone(r.Context())
	r.URL.RawQuery = query.Encode()
	found, err := s.ofModule(r, modulePages.diffPage)
	if err != nil {
		return nil, err
	}
	diff, _ := found.(view.RevisionDiff)
	type object struct {
		view.ObjectDiff
		Lines []diffLine
	}
	data := struct {
		view.RevisionDiff
		Objects []object
	}{RevisionDiff: diff}
	for _, c := range diff.Changes {
		data.Objects = append(data.Objects, object{c, diffLines(c.Diff)})
	}
	return data, nil
}

// diffLines colours a unified diff. Each line has its line end, so none is empty.
func diffLines(diff string) (lines []diffLine) {
	for line := range strings.Lines(diff) {
		colour := ""
		switch line[0] {
		case '+':
			colour = "good"
		case '-':
			colour = "bad"
		}
		lines = append(lines, diffLine{colour, line})
	}
	return lines
}

// taskRow is a task in a queue, with the status of its run when that has begun.
type taskRow struct {
	view.QueuedTask
	Causes []messages.Cause // what led to it, the latest first
	supervisor.RunStatus
}

// tasksFragment answers /live/queue. Cut counts all tasks that are not shown, also those that the
// status of the queue lacks.
func (s fragments) tasksFragment(r *http.Request) (any, error) {
	all, runs := queues(s.tree(s.who))
	name, known := r.URL.Query().Get("name"), make([]string, 0, len(all))
	for _, q := range all {
		known = append(known, q.name)
	}
	i := slices.Index(known, name)
	if i < 0 {
		return nil, unknown("queue", name, known)
	}
	var data struct {
		Rows []taskRow
		Cut  int
	}
	tasks := all[i].Tasks()
	for _, t := range tasks[:min(len(tasks), mostObjects)] {
		data.Rows = append(data.Rows, taskRow{t, t.Cause.Chain(), runs[t.ID]})
	}
	data.Cut = all[i].Length - len(data.Rows)
	return data, nil
}
