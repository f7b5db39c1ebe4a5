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
	"slices"
	"strings"
	"time"

	"addon-operator/actors/plan"
	"addon-operator/messages"
	"addon-operator/messages/view"
	"addon-operator/supervisor"
	"addon-operator/values"
)

// tree is the dump as an audience may see it. For the public it removes all that may hold output of
// hooks or Helm, or values (J7): new fields of a status that may do so must be removed here, too.
//
// The nodes are made for each call, so they may be changed. The statuses in them are shared with
// the actors that published them: a status is copied, with its slices and maps, before a part of it
// is replaced.
func (s Source) tree(who audience) []*supervisor.Node {
	tree := s.Inspector.Nodes()
	if who == insider {
		return tree
	}
	for _, n := range tree {
		switch status := n.Status.(type) {
		case supervisor.RunStatus:
			status.Error = hidden(status.Error)
			n.Status = status
		case view.ModuleStatus:
			status.Failing = hideErrors(status.Failing)
			if status.Held != "" {
				status.Held = "the upgrade is held back; " + hidden("why")
			}
			n.Status = status
		case view.GlobalStatus:
			status.Failing = hideErrors(status.Failing)
			n.Status = status
		case view.ConvergeStatus: // as the reason of a refusal, a problem of a schema may show a value
			status.Problems, status.Off = hideProblems(status.Problems), hideDiscovery(status.Off)
			n.Status = status
		case view.ConfigStatus: // the reason may show the value that a schema refuses
			status.Refused = hidden(status.Refused)
			n.Status = status
		}
	}
	return tree
}

// hideErrors keeps which tasks fail, how often and when they are retried.
func hideErrors(tasks []view.FailingTask) []view.FailingTask {
	out := slices.Clone(tasks)
	for i := range out {
		out[i].Error = hidden(out[i].Error)
	}
	return out
}

// hideProblems keeps how many problems the files of each owner have.
func hideProblems(problems map[string][]string) map[string][]string {
	out := make(map[string][]string, len(problems))
	for owner, list := range problems {
		out[owner] = []string{"its files have " + view.Count(len(list), "problem") + "; " + hidden("why")}
	}
	return out
}

// hideDiscovery hides why a discovery fails: the error has the last lines of an enabled script.
func hideDiscovery(off map[string]string) map[string]string {
	out, fails := maps.Clone(off), view.DiscoveryFails(errors.New(""))
	for module, why := range out {
		if err, ok := strings.CutPrefix(why, fails); ok {
			out[module] = fails + hidden(err)
		}
	}
	return out
}

// hidden replaces an error. No error stays none, because empty means that there is none.
func hidden(err string) string {
	if err == "" {
		return ""
	}
	return "the log and the debug address show why"
}

// namedQueue is a queue with its name, taken from a dump.
type namedQueue struct {
	name string
	view.QueueStatus
}

// queues lists the queues of a dump, main first, then by name (J5), and the status of each run by
// the ID of its task, which is how the head of a queue finds its run. A task whose run has not
// started, or that waits, has none.
func queues(tree []*supervisor.Node) (all []namedQueue, runs map[string]supervisor.RunStatus) {
	runs = map[string]supervisor.RunStatus{}
	for _, n := range tree {
		switch s := n.Status.(type) {
		case view.QueueStatus:
			_, name, _ := strings.Cut(n.Path, "/queue/")
			all = append(all, namedQueue{name, s})
		case supervisor.RunStatus:
			if _, task, ok := supervisor.SplitRun(n.Path); ok {
				runs[task] = s
			}
		}
	}
	key := func(q namedQueue) string {
		if q.name == messages.MainQueue {
			return ""
		}
		return q.name
	}
	slices.SortFunc(all, func(a, b namedQueue) int { return cmp.Compare(key(a), key(b)) })
	return all, runs
}

// queueLength is the number of tasks in a queue; 0 for one that does not exist.
func queueLength(tree []*supervisor.Node, name string) int {
	all, _ := queues(tree)
	for _, q := range all {
		if q.name == name {
			return q.Length
		}
	}
	return 0
}

// writeQueueList is the page of seed 003: what each queue holds, without values (J2). It writes a line for each task,
// and the total of all queues given. A status has at most the first 100 tasks of its queue; the others are counted.
func writeQueueList(w io.Writer, all []namedQueue, runs map[string]supervisor.RunStatus) {
	total := 0
	for _, q := range all {
		total += q.Length
		if q.Length == 0 {
			fmt.Fprintf(w, "Queue %q is empty.\n", q.name)
			continue
		}
		fmt.Fprintf(w, "Queue %q: %d tasks\n", q.name, q.Length)
		entry := dumpQueue(q, runs)
		for i, t := range entry.Tasks {
			line := strings.TrimSpace(fmt.Sprintf("%s %s %s", t.Kind, t.Owner, t.About))
			if t.Triggers > 1 {
				line += fmt.Sprintf(" (%d triggers)", t.Triggers)
			}
			fmt.Fprintf(w, "%4d. %s  [%s] queued %s ago\n", i+1, line, t.Cause, time.Since(t.QueuedAt).Round(time.Second))
			// The run is shown only for the head of a queue that works. The run of a task that waits
			// for its next attempt has this state itself.
			if run, ok := runs[t.ID]; ok && i == 0 && q.InProgress {
				fmt.Fprintf(w, "      in progress for %s: %s\n", time.Since(q.Since).Round(time.Second), strings.TrimSuffix(run.String(), ": "))
			}
		}
		if more := q.Length - len(entry.Tasks); more > 0 {
			fmt.Fprintf(w, "      … and %d more\n", more)
		}
	}
	fmt.Fprintf(w, "%d tasks in %d queues.\n", total, len(all))
}

// writeConditions writes what readiness depends on, a line for each, in the order of the tree.
func writeConditions(w io.Writer, tree []*supervisor.Node) {
	for _, n := range tree {
		switch s := n.Status.(type) {
		case view.ConvergeStatus:
			fmt.Fprintf(w, "converge: %s\n", s)
		case view.ConfigStatus:
			fmt.Fprintf(w, "config: %s\n", s)
		case view.MonitorsStatus:
			fmt.Fprintf(w, "monitors: %s\n", s)
		case view.ModuleStatus:
			_, name, _ := strings.Cut(n.Path, "/module/")
			fmt.Fprintf(w, "module %s: %s\n", name, s)
		}
	}
}

// Limits of a proposed ConfigMap, in bytes. maxData bounds its data, as the API server does;
// maxProposal bounds the JSON of it, in which texts are escaped, before it is decoded.
const (
	maxData     = 1 << 20
	maxProposal = 4 * maxData
)

// owners are the pages about one owner, a module or global: its values, hooks, objects and what would happen to it.
// They find it by the names that people use.
type owners struct{ Source }

// plan shows what the operator would do: with the ConfigMap in force or, with POST, with the data
// of a ConfigMap in the body. It changes nothing. It may take minutes, in the goroutine of the
// request.
func (s owners) plan(r *http.Request) (any, error) {
	request := plan.Request{Secrets: showSecrets(r)}
	if r.Method == http.MethodPost {
		var err error
		if request.Proposed, err = proposal(r); err != nil {
			return nil, err
		}
	}
	if err := s.notStarted(); err != nil {
		return nil, err
	}
	plan, err := s.Plan(r.Context(), request)
	return display{data: plan, text: func(w io.Writer, _ bool) { fmt.Fprint(w, plan.Text()) }, outcome: plan.Outcome()}, err
}

// proposal reads the data of a ConfigMap from the body. {} is an empty ConfigMap. Both limits are
// checked, because the size of JSON differs from that of its texts.
func proposal(r *http.Request) (map[string]string, error) {
	var data map[string]string
	err := json.NewDecoder(http.MaxBytesReader(nil, r.Body, maxProposal)).Decode(&data)
	if err == nil && data == nil { // which would mean the ConfigMap in force
		err = errors.New("it is null")
	}
	if err != nil {
		return nil, badRequest("the body must be the data of a ConfigMap, a JSON object of strings: %w", err)
	}
	size := 0
	for key, text := range data {
		size += len(key) + len(text)
	}
	if size > maxData {
		return nil, badRequest("the data has %d bytes; a ConfigMap holds at most %d", size, maxData)
	}
	return data, nil
}

// checkConfig reports whether the operator would accept a ConfigMap, and what is special about the
// value at a path. The last valid content, with which values set restores a deleted ConfigMap, is
// only for clients that may see secrets.
func (s owners) checkConfig(r *http.Request) (any, error) {
	data, err := proposal(r)
	if err != nil {
		return nil, err
	}
	checked, err := question[messages.ConfigChecked](r.Context(), s.Source, "config", messages.CheckConfig{Data: data, Path: r.URL.Query().Get("path")})
	if !showSecrets(r) {
		checked.LastValid = nil
	}
	return checked, err
}

// renderTimeout limits the rendering of a chart; those that read much from the cluster (lookup)
// take longest.
const renderTimeout = time.Minute

// renderPage answers /module/NAME/render. It renders in the goroutine of the request, since the
// chart may read the cluster; the gate limits how many do. A chart that cannot be rendered is
// answered with 422: the request was right, and the module is not.
func (s owners) renderPage(r *http.Request) (any, error) {
	name, err := s.known(r.PathValue("name"))
	switch {
	case err != nil:
		return nil, err
	case name == globalOwner:
		return nil, notFound("there is nothing to render")
	}
	asked := func(name string) bool { return r.URL.Query().Get(name) == "true" }
	o := plan.RenderRequest{Diff: asked("diff"), Broken: asked("debug"), Secrets: showSecrets(r)}
	ctx, cancel := context.WithTimeout(r.Context(), renderTimeout)
	defer cancel()
	rendered, err := s.Render(ctx, name, o)
	if err != nil {
		return nil, &pageError{http.StatusUnprocessableEntity, err}
	}
	return display{data: rendered, text: func(w io.Writer, _ bool) { writeRendered(w, rendered, o) }}, nil
}

// writeRendered writes the objects as kubectl apply reads them or, with Diff, what differs.
func writeRendered(w io.Writer, rendered plan.Rendered, o plan.RenderRequest) {
	if !o.Diff {
		fmt.Fprint(w, rendered.Text)
		return
	}
	if len(rendered.Changes) == 0 {
		fmt.Fprintf(w, "No differences from the deployed release, revision %d.\n", rendered.Revision)
	}
	for _, c := range rendered.Changes {
		fmt.Fprintf(w, "%s is %s\n%s\n", c.Object, c.Verb, strings.TrimRight(c.Diff, "\n"))
	}
}

// Parameters are what people may change while the operator runs (J4). They are safe for concurrent
// use.
type Parameters interface {
	List() []view.Parameter
	// Set gives a parameter that is listed one of its choices. After back its default returns; 0 means
	// never. Another Set before that replaces both.
	Set(name, value string, back time.Duration)
}

// parameterPages show parameters, and change them.
type parameterPages struct{ Parameters }

// parameterView shows parameters, and when one reverts to its default by itself.
func parameterView(list []view.Parameter) display {
	d := display{data: map[string]any{"parameters": list}, table: &table{columns: "NAME VALUE DEFAULT UNTIL CHOICES MEANING", nothing: "Nothing can be changed."}}
	for _, p := range list {
		d.names = append(d.names, p.Name)
		d.table.rows = append(d.table.rows, []string{p.Name, p.Value, p.Default, at(p.Until), strings.Join(p.Choices, "|"), p.Help})
	}
	return d
}

// page answers /config/list and POST /config/set. Name, value and duration are in the query or in a
// form; the answer is the parameter as it is then.
func (s parameterPages) page(r *http.Request) (any, error) {
	if r.Method != http.MethodPost {
		return parameterView(s.List()), nil
	}
	name, value := r.FormValue("name"), strings.ToLower(r.FormValue("value"))
	if name == "" || value == "" {
		return nil, badRequest("name=NAME and value=VALUE are required, and duration=10m is optional")
	}
	var back time.Duration
	if text := r.FormValue("duration"); text != "" {
		d, err := time.ParseDuration(text)
		if err != nil || d <= 0 {
			return nil, badRequest("the duration must be above 0 and have units, such as 90s or 10m, not %q", text)
		}
		back = d
	}
	i := slices.IndexFunc(s.List(), func(p view.Parameter) bool { return p.Name == name })
	if i < 0 {
		return nil, unknown("parameter", name, parameterView(s.List()).names)
	}
	if choices := s.List()[i].Choices; !slices.Contains(choices, value) {
		return nil, badRequest("%s: %q is not one of %s", name, value, strings.Join(choices, ", "))
	}
	s.Set(name, value, back)
	return parameterView(s.List()[i : i+1]), nil
}

// askTimeout is how long a page waits for an actor; an answer takes microseconds.
const askTimeout = 5 * time.Second

// showSecrets reports whether a person asks for secrets. Only handlers of the debug address may
// obey it.
func showSecrets(r *http.Request) bool { return r.URL.Query().Get("show-secrets") == "true" }

// question sends a question to the actor with this path below the root, and returns its answer,
// whose type each question determines. Before the start, when there are no actors, it returns
// an error that explains this in place of the error of Ask.
func question[Answer any](ctx context.Context, s Source, path string, question any) (Answer, error) {
	var none Answer
	ctx, cancel := context.WithTimeoutCause(ctx, askTimeout, fmt.Errorf("%s has not answered for %s; see /actors", path, askTimeout))
	defer cancel()
	got, err := s.Ask(ctx, path, question)
	if err != nil {
		return none, cmp.Or(s.notStarted(), err) // the operator has not started
	}
	answer, ok := got.(Answer)
	if !ok {
		return none, fmt.Errorf("bug: %s answered %T", path, got)
	}
	return answer, nil
}

// notStarted is the error, with 503, of an operator that has no modules yet, with the reason why the
// start waits; nil when they exist. Converge has a Phase from the start of its actor on.
func (s Source) notStarted() error {
	c := s.Converge()
	if c.Phase != "" {
		return nil
	}
	return &pageError{http.StatusServiceUnavailable, fmt.Errorf("the operator has not started its modules yet: %s", cmp.Or(c.Waits, "it waits for the API server or for the leadership"))}
}

// globalOwner is the name of the global values in requests; no module can have it. Actors and
// messages call their owner messages.GlobalHooks.
const globalOwner = "global"

// module finds the module that people mean by its name or by the key of its values, with dashes and
// case or without; global is one that has only this name and its values.
func (s owners) module(asked string) (view.Module, error) {
	all := s.modules()
	plain := func(name string) string { return strings.ToLower(strings.ReplaceAll(name, "-", "")) }
	for _, same := range []func(view.Module) bool{
		func(m view.Module) bool { return m.Name == asked },
		func(m view.Module) bool { return plain(m.Name) == plain(asked) },
	} {
		if i := slices.IndexFunc(all, same); i >= 0 {
			return all[i], nil
		}
	}
	if asked == globalOwner {
		global := view.Module{Name: asked}
		global.Section = published[view.GlobalStatus](s.Inspector.Nodes()).Section
		return global, nil
	}
	return view.Module{}, s.noModule(asked, all)
}

// known is the name of the module that people mean; empty for all.
func (s owners) known(asked string) (string, error) {
	if asked == "" {
		return "", nil
	}
	m, err := s.module(asked)
	return m.Name, err
}

// owner finds the values of a module, or the global ones.
func (s owners) owner(asked string) (*values.Section, error) {
	m, err := s.module(asked)
	if err == nil && m.Section == nil {
		err = cmp.Or(s.notStarted(), errors.New("its actor has not started yet; try again"))
	}
	return m.Section, err
}

// noModule is the error for a name that is no module: its release may be waiting for a confirmation
// of its purge, the operator may not have started, or the name is unknown.
func (s owners) noModule(name string, modules []view.Module) error {
	if held := s.Converge().HeldPurge; held != nil && slices.Contains(held.Releases, name) {
		return notFound("%s no longer has a directory; %s", name, held)
	}
	if err := s.notStarted(); err != nil && len(modules) == 0 {
		return err
	}
	var names []string
	for _, m := range modules {
		names = append(names, m.Name)
	}
	slices.Sort(names)
	return unknown("module", name, names)
}

// modules are all modules, also those that are disabled.
func (s Source) modules() []view.Module {
	return view.Modules(s.Inspector.Statuses(), nil, nil, time.Now())
}

// section answers the pages values, config and patches of a module or of global (J4). With
// ?global=true the global part comes, too, each below its key, as hooks and charts get them.
func (s owners) section(page string) func(*http.Request) (any, error) {
	return func(r *http.Request) (any, error) {
		name, secrets := ofOwner(r), showSecrets(r)
		own, err := s.owner(name)
		if err != nil {
			return nil, err
		}
		if page == "patches" {
			patches := own.Saved(secrets)
			return display{data: patches, table: patchTable(patches)}, nil
		}
		part := partOf(own, page, secrets)
		if name != globalOwner && r.URL.Query().Get("global") == "true" {
			global, err := s.owner(globalOwner)
			if err != nil {
				return nil, err
			}
			part = map[string]any{global.Key(): partOf(global, page, secrets), own.Key(): part}
		}
		return part, nil
	}
}

// partOf is the part of the values that a page shows, masked unless secrets are requested.
func partOf(v *values.Section, page string, secrets bool) any {
	tree := v.Merged()
	if page == "config" {
		tree = v.Config()
	}
	if !secrets {
		tree = v.Secrets().Hide(tree)
	}
	return tree
}

// explainPage shows where values come from: ?module=NAME&path=PATH, or a path that begins
// with global or with a module.
func (s owners) explainPage(r *http.Request) (any, error) {
	module, path := r.URL.Query().Get("module"), r.URL.Query().Get("path")
	if module == "" {
		if module, path = firstElement(path); module == "" {
			return nil, badRequest("a path is required: ?path=global.a.b or ?module=NAME&path=a.b")
		}
	}
	known, err := s.owner(module)
	if err != nil {
		return nil, err
	}
	leaves, err := known.Explain(path, showSecrets(r))
	if err != nil {
		return nil, notFound("%w", err)
	}
	note := s.filesOf(known.Key())
	for i := range leaves {
		leaves[i].Note = note
	}
	return display{data: leaves, table: explainTable(leaves)}, nil
}

// filesOf describes how the files of a section differ from those in force; empty when
// they do not. Files of global concern all sections.
func (s owners) filesOf(section string) string {
	differs := s.NotInForce()
	for _, m := range s.modules() {
		if key, err := values.Key(m.Name); err == nil && key == section && differs[m.Name] != "" {
			return differs[m.Name]
		}
	}
	return differs[messages.GlobalHooks]
}

// firstElement splits a path into its first element, which names the section, and the rest, in the
// forms a.b, a["b"] and /a/b.
func firstElement(path string) (first, rest string) {
	path = strings.TrimPrefix(path, "/")
	end := strings.IndexAny(path, "./[")
	if end < 0 {
		return path, ""
	}
	return path[:end], strings.TrimPrefix(path[end:], ".")
}
