package server

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"addon-operator/messages"
	"addon-operator/messages/view"
	"addon-operator/supervisor"
)

// statuses are what the actors of a tree have published, by their paths. Unlike Inspector.Statuses
// they are what the audience of the tree may see.
func statuses(tree []*supervisor.Node) map[string]supervisor.Status {
	all := map[string]supervisor.Status{}
	for _, n := range tree {
		if n.Status != nil {
			all[n.Path] = n.Status
		}
	}
	return all
}

// allModules lists all modules, with what no actor publishes: hooks that hang, and files that have changed on disk
// (P8). differs has the texts about these files, or for the public a reduced form of them.
func (s Source) allModules(tree []*supervisor.Node, differs map[string]string) []view.Module {
	return view.Modules(statuses(tree), s.Hanging(), differs, time.Now())
}

// ofOwner is the owner that a page of a module is about, or global. People use the name of a module
// or the key of its values.
func ofOwner(r *http.Request) string {
	if strings.HasPrefix(r.URL.Path, "/global/") {
		return globalOwner
	}
	return r.PathValue("name")
}

// status answers /module/NAME/status, whose text says why.
func (s owners) status(r *http.Request) (any, error) {
	name, err := s.known(r.PathValue("name"))
	if err != nil {
		return nil, err
	}
	all := s.allModules(s.Inspector.Nodes(), s.NotInForce())
	i := slices.IndexFunc(all, func(m view.Module) bool { return m.Name == name })
	if i < 0 { // its owner has answered, so it existed a moment ago
		return nil, errors.New("the module is being restarted; try again")
	}
	return display{data: all[i], text: why(all[i])}, nil
}

// allHooks lists the hooks that are loaded, global first, then those of modules in the order they run; with only, of
// that owner alone.
func (s owners) allHooks(only string) (all []view.HookInfo, err error) {
	if only, err = s.known(only); err != nil {
		return nil, err
	}
	all = []view.HookInfo{}
	if only == "" || only == globalOwner {
		all = view.DescribeHooks(globalOwner, published[view.GlobalStatus](s.Inspector.Nodes()).Loaded)
	}
	for _, m := range s.modules() {
		if only == "" || only == m.Name {
			all = append(all, view.DescribeHooks(m.Name, m.Loaded)...)
		}
	}
	return all, s.notStarted()
}

// listHooks answers /hook/list and /global/list, in which scripts read globalHooks, the names only.
func (s owners) listHooks(r *http.Request) (any, error) {
	only := r.URL.Query().Get("module")
	if r.URL.Path == "/global/list" {
		only = globalOwner
	}
	all, err := s.allHooks(only)
	names := make([]string, 0, len(all))
	for _, h := range all {
		names = append(names, h.Hook)
	}
	data := map[string]any{"hooks": all}
	if only == globalOwner {
		data["globalHooks"] = names
	}
	return display{data: data, table: hookTable(all), names: names}, err
}

// snapshotDump is the snapshot of one binding as its page shows it.
type snapshotDump struct {
	Kind string `json:"kind"`
	// State is "complete", or the phase that explains why Objects is not what the cluster has.
	State   string `json:"state"`
	Message string `json:"message,omitempty"`
	Objects []any  `json:"objects"`
}

// watcher is the owner of the snapshots that a page shows and, on the page of one hook, the hook. Names
// of hooks have slashes, so the pattern of that route takes the whole rest of the path.
func (s owners) watcher(r *http.Request) (owner, hook string, err error) {
	if !strings.HasPrefix(r.URL.Path, "/hook/") {
		owner, err = s.known(ofOwner(r))
		return owner, "", err
	}
	asked := r.PathValue("name")
	hook, ok := strings.CutSuffix(asked, "/snapshots")
	if !ok {
		return "", "", notFound("page /hook/%s not found; available: /hook/list and /hook/NAME/snapshots", asked)
	}
	all, err := s.allHooks("")
	var known []string
	for _, h := range all {
		if h.Hook == hook {
			return h.Owner, hook, nil
		}
		known = append(known, h.Hook)
	}
	return "", "", cmp.Or(err, unknown("hook", hook, known))
}

// snapshots answers with hook → binding → dump (J4), of one hook, of all hooks of a module, or of the
// global ones. Objects are masked unless secrets were requested.
func (s owners) snapshots(r *http.Request) (any, error) {
	owner, hook, err := s.watcher(r)
	if err != nil {
		return nil, err
	}
	if owner == globalOwner {
		owner = messages.GlobalHooks
	}
	var dump []view.Snapshot
	if monitors := published[view.MonitorsStatus](s.Inspector.Nodes()); monitors.Snapshots != nil {
		dump = monitors.Snapshots(owner, hook)
	}
	byHook := map[string]map[string]snapshotDump{}
	for _, b := range dump {
		if !showSecrets(r) {
			b = b.Masked()
		}
		out := snapshotDump{Kind: b.Kind, State: b.Phase, Message: b.Message, Objects: []any{}}
		for _, o := range b.Objects {
			out.Objects = append(out.Objects, o)
		}
		if byHook[b.Hook] == nil {
			byHook[b.Hook] = map[string]snapshotDump{}
		}
		byHook[b.Hook][freeName(byHook[b.Hook], b.Binding)] = out
	}
	return display{data: byHook, table: snapshotTable(byHook)}, nil
}

// freeName numbers the bindings of a hook that have the same name, which is allowed: without it
// they would overwrite each other in the map.
func freeName(taken map[string]snapshotDump, name string) string {
	free := name
	for n := 2; ; n++ {
		if _, ok := taken[free]; !ok {
			return free
		}
		free = fmt.Sprintf("%s (%d)", name, n)
	}
}

// resourceMonitor lists the objects of releases that are watched for deletion (H13), of all modules
// or of ?module=NAME, with their states. Scripts expect the words "No monitor" for a module without any.
func (s owners) resourceMonitor(r *http.Request) (any, error) {
	only, err := s.known(r.URL.Query().Get("module"))
	if err := cmp.Or(s.notStarted(), err); err != nil {
		return nil, err
	}
	out, t := map[string]any{}, &table{columns: "MODULE OBJECT STATE MESSAGE", nothing: "There are no modules."}
	for _, m := range s.allModules(s.Inspector.Nodes(), nil) {
		if only != "" && m.Name != only {
			continue
		}
		var ids []string
		if m.Health != nil {
			for _, o := range m.Health.All {
				ids = append(ids, monitored(o.Object))
				t.rows = append(t.rows, []string{m.Name, monitored(o.Object), o.State, o.Message})
			}
		}
		if out[m.Name] = ids; len(ids) == 0 {
			out[m.Name] = "No monitor"
			t.rows = append(t.rows, []string{m.Name, "No monitor", "", ""})
		}
	}
	if only != "" {
		t.columns = "OBJECT STATE MESSAGE"
		for i := range t.rows {
			t.rows[i] = t.rows[i][1:]
		}
	}
	return display{data: out, table: t}, nil
}

// monitored is the name of an object, Kind namespace/name, as scripts expect it here: namespace/Kind/name, or
// Kind/name.
func monitored(object string) string {
	kind, name, _ := strings.Cut(object, " ")
	if namespace, rest, ok := strings.Cut(name, "/"); ok {
		return namespace + "/" + kind + "/" + rest
	}
	return kind + "/" + name
}

// drift answers /module/NAME/drift: which fields of its objects others have changed, by the last
// check, which the actor of the module remembers.
func (s owners) drift(r *http.Request) (any, error) {
	m, err := s.module(r.PathValue("name"))
	if err == nil && m.Drifted == nil {
		err = errors.New("the module is being restarted; try again")
	}
	if err != nil {
		return nil, err
	}
	drift := m.Drifted(showSecrets(r))
	return display{data: drift, table: driftTable(drift)}, nil
}

// What is kept of the runs of hooks, so that neither many hooks nor much output costs memory (J19).
const (
	runsOfHook    = 5
	outputOfRun   = 4 << 10 // bytes
	runsOfAll     = 1000
	textOfACause  = 200
	errorOfRecord = 4 << 10
)

// RanHook is a run of a hook that has ended, as pages show it and logs reads it. It is kept as text
// that was cut, without the secrets that were known when a text was cut; pages hide the rest.
type RanHook struct {
	Module  string    `json:"module"` // or "global"
	Hook    string    `json:"hook"`
	Binding string    `json:"binding"`
	Queue   string    `json:"queue"`
	Cause   string    `json:"cause"`
	Began   time.Time `json:"began"`
	Seconds float64   `json:"seconds"`
	Error   string    `json:"error,omitempty"`
	Output  string    `json:"output,omitempty"` // its last lines
}

// String implements fmt.Stringer. Output that is part of the error is not repeated.
func (r RanHook) String() string {
	took := time.Duration(r.Seconds * float64(time.Second)).Round(time.Millisecond)
	text := fmt.Sprintf("%s %s %s (%s) took %s", r.Began.Format(time.RFC3339), r.Hook, r.Binding, r.Cause, took)
	if r.Error != "" {
		text += ", failed: " + r.Error
	}
	if r.Output == "" || strings.Contains(r.Error, r.Output) {
		return text
	}
	return text + "\n  " + strings.ReplaceAll(r.Output, "\n", "\n  ")
}

// History keeps the last runs of hooks. It is safe for concurrent use: runs of hooks end in
// goroutines of their own. Without runs it is empty.
type History struct {
	// Hide gives a text without known secrets.
	Hide func(string) string

	mu   sync.Mutex
	runs []RanHook // the oldest first
}

// Add records a run, and drops the oldest ones: first of this hook, then of all. The texts are cut
// before the lock is taken, because hiding secrets in them may take long.
func (h *History) Add(r view.HookRun) {
	record := RanHook{
		Module: r.Owner, Hook: r.Hook, Binding: string(r.Binding), Queue: r.Queue, Cause: h.ending(r.Cause.String(), textOfACause),
		Began: time.Now().Add(-r.Took), Seconds: r.Took.Seconds(), Output: h.ending(r.Output, outputOfRun),
	}
	if record.Module == messages.GlobalHooks {
		record.Module = globalOwner
	}
	if r.Err != nil {
		record.Error = h.ending(r.Err.Error(), errorOfRecord)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.runs = append(h.runs, record)
	same := 0
	for i := len(h.runs) - 1; i >= 0; i-- {
		if h.runs[i].Hook == record.Hook {
			if same++; same > runsOfHook {
				h.runs = slices.Delete(h.runs, i, i+1)
				break
			}
		}
	}
	h.runs = slices.Delete(h.runs, 0, max(0, len(h.runs)-runsOfAll))
}

// Runs are those of a module, or of "global", and of a hook; an empty name means all. The hook is named
// as a whole or by the end of its path. They are copies.
func (h *History) Runs(module, hook string) []RanHook {
	found := []RanHook{}
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, r := range h.runs {
		if (module == "" || r.Module == module) && (hook == "" || r.Hook == hook || strings.HasSuffix(r.Hook, "/"+hook)) {
			found = append(found, r)
		}
	}
	return found
}

// ending is the end of a text that is too long: whole lines, or the end of the only line. Secrets
// are hidden before it is cut, since a part of a secret would not be found any more.
func (h *History) ending(text string, most int) string {
	if len(text) <= most {
		return text
	}
	if text = h.Hide(text); len(text) <= most {
		return text
	}
	text = text[len(text)-most:]
	if _, lines, several := strings.Cut(text, "\n"); several {
		text = lines
	}
	return strings.ToValidUTF8("…"+text, "") // the cut may be inside of a character
}

// runs answers /hook/runs.
func (s owners) runs(r *http.Request) (any, error) {
	module, err := s.known(r.URL.Query().Get("module"))
	if err != nil {
		return nil, err
	}
	found := s.History.Runs(module, r.URL.Query().Get("hook"))
	text := func(w io.Writer, _ bool) {
		if len(found) == 0 {
			fmt.Fprintln(w, "No runs of these hooks are kept: none has run since the operator started, or hook list has no hook of this name.")
		}
		for _, run := range found {
			fmt.Fprintln(w, run)
		}
	}
	return display{data: map[string]any{"runs": found}, text: text}, nil
}

// queueDump is the list of queues in the form that scripts parse (J5), with more fields. Its names
// must not change.
type queueDump struct {
	Active  []queueEntry `json:"active"`
	Empty   []queueEntry `json:"empty,omitempty"`
	Summary queueSummary `json:"summary"`
}

// queueEntry is a queue. Status is empty while its first task waits, so that no run has begun.
type queueEntry struct {
	Name       string      `json:"name"`
	TasksCount int         `json:"tasksCount"`
	Status     string      `json:"status,omitempty"`
	Tasks      []taskEntry `json:"tasks,omitempty"`
}

// taskEntry is a task. Failures and Error are those of its run, and 0 and empty before it.
type taskEntry struct {
	Index int `json:"index"`
	// Description is for people. What is in it has fields below, which programs should read.
	Description string `json:"description"`
	ID          string `json:"id"`
	Kind        string `json:"kind"`
	Owner       string `json:"owner"`
	About       string `json:"about,omitempty"`
	// Triggers are the events and ticks that one run of the hook will serve; 0 for other tasks.
	Triggers int            `json:"triggers,omitempty"`
	Cause    messages.Cause `json:"cause"`
	QueuedAt time.Time      `json:"queuedAt"`
	Failures int            `json:"failures,omitempty"`
	Error    string         `json:"error,omitempty"`
}

// queueSummary counts tasks of all queues, whichever are listed.
type queueSummary struct {
	MainQueueTasks int         `json:"mainQueueTasks"`
	OtherQueues    otherQueues `json:"otherQueues"`
	TotalTasks     int         `json:"totalTasks"`
}

type otherQueues struct {
	Active int `json:"active"`
	Empty  int `json:"empty"`
	Tasks  int `json:"tasks"`
}

// queues answers /queue, /queue/list and /queue/main, also for a queue without tasks.
func (s router) queues(r *http.Request) (any, error) {
	all, runs := queues(s.tree(s.who))
	if r.URL.Query().Get("errors") == "false" { // for the live page, which shows them with their modules
		for id, run := range runs {
			run.Error = ""
			runs[id] = run
		}
	}
	var known []string
	for _, q := range all {
		known = append(known, q.name)
	}
	d := display{data: dumpQueues(all, runs, r.URL.Query().Get("showEmpty") == "true"), names: known}
	name := r.URL.Query().Get("queue")
	if r.URL.Path == "/queue/main" {
		name = messages.MainQueue
	}
	if name != "" {
		i := slices.Index(known, name)
		if i < 0 {
			return nil, unknown("queue", name, known)
		}
		all = all[i : i+1]
		d.data, d.names = dumpQueue(all[0], runs), known[i:i+1]
	}
	d.text = func(w io.Writer, _ bool) { writeQueueList(w, all, runs) }
	return d, nil
}

// dumpQueues lists the queues that have tasks; with showEmpty also the others, apart.
func dumpQueues(all []namedQueue, runs map[string]supervisor.RunStatus, showEmpty bool) queueDump {
	dump := queueDump{Active: []queueEntry{}}
	for _, q := range all {
		sum := &dump.Summary
		sum.TotalTasks += q.Length
		switch {
		case q.name == messages.MainQueue:
			sum.MainQueueTasks = q.Length
		case q.Length == 0:
			sum.OtherQueues.Empty++
		default:
			sum.OtherQueues.Active++
			sum.OtherQueues.Tasks += q.Length
		}
		if q.Length > 0 {
			dump.Active = append(dump.Active, dumpQueue(q, runs))
		} else if showEmpty {
			dump.Empty = append(dump.Empty, dumpQueue(q, runs))
		}
	}
	return dump
}

// dumpQueue describes up to 100 tasks of a queue.
func dumpQueue(q namedQueue, runs map[string]supervisor.RunStatus) queueEntry {
	entry := queueEntry{Name: q.name, TasksCount: q.Length}
	for i, t := range q.Head[:min(len(q.Head), view.ShownTasks)] {
		run, line := runs[t.ID], taskEntry{Index: i + 1, ID: t.ID, Owner: t.Owner, Cause: t.Cause, QueuedAt: t.QueuedAt}
		if i == 0 && q.InProgress {
			entry.Status = describeRun(run)
		}
		if w, ok := t.Work.(messages.RunHook); ok {
			line.Triggers = len(w.Triggers)
		}
		line.Kind, line.About = t.Kind(), t.About()
		line.Failures, line.Error = run.Attempt, run.Error
		line.Description = describeTask(q.name, line)
		entry.Tasks = append(entry.Tasks, line)
	}
	return entry
}

// sleeping is how the state of a queue begins whose first task has failed (J5).
const sleeping = "sleep after fail for "

// describeRun describes what a queue does with its first task, in words that scripts parse (J5).
func describeRun(run supervisor.RunStatus) string {
	if run.RetryAt.IsZero() {
		return "run first task"
	}
	return fmt.Sprintf("%s%s", sleeping, max(0, time.Until(run.RetryAt)).Round(time.Second))
}

// describeTask is a line about a task: kind, queue, what it is about, failures, separated by
// colons.
func describeTask(queue string, t taskEntry) string {
	text := strings.Join([]string{t.Kind, queue, cmp.Or(t.About, t.Owner)}, ":")
	if t.Failures > 0 {
		text += strings.TrimSuffix(fmt.Sprintf(":failures %d:%s", t.Failures, t.Error), ":")
	}
	return text
}
