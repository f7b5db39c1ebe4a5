package server

import (
	"cmp"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"

	"addon-operator/messages"
	"addon-operator/messages/view"
	"addon-operator/supervisor"
)

// overall is the state of everything, from which pages about all modules are made. Scripts read its
// JSON, so keys stay as they are.
type overall struct {
	Headline string `json:"headline"`
	Stage    string `json:"stage"`
	// Cluster and Namespace are where the operator is; Queues are those with tasks: in /status only.
	Cluster        string            `json:"cluster,omitempty"`
	Namespace      string            `json:"namespace,omitempty"`
	EnabledModules []string          `json:"enabledModules"`
	Modules        []view.Module     `json:"modules"`
	Global         view.GlobalStatus `json:"global"`
	Converge       struct {
		Phase string `json:"phase"`
		Ready bool   `json:"ready"`
	} `json:"converge"`
	HeldPurge      *view.HeldPurge    `json:"heldPurge,omitempty"`
	GlobalProblems []string           `json:"globalProblems,omitempty"`
	ValuesWarnings []string           `json:"valuesWarnings,omitempty"` // of the ConfigMap and the Secret with values
	Leadership     *view.Leadership   `json:"leadership,omitempty"`     // nil: there is no election
	Config         *view.ConfigStatus `json:"config,omitempty"`         // nil: it is not refused
	Queues         *queueDump         `json:"queues,omitempty"`

	tree []*supervisor.Node
}

// overall reads the inspector and the disk as an audience may see them, and asks no actor. Which
// files have changed, or what is in them, is not for the public.
func (s Source) overall(who audience) overall {
	differs, converge := s.NotInForce(), s.Converge()
	for name := range differs {
		if who == public {
			differs[name] = "changed on disk since it was loaded"
		}
	}
	o := overall{tree: s.tree(who), EnabledModules: slices.AppendSeq([]string{}, slices.Values(converge.Enabled)), HeldPurge: converge.HeldPurge}
	slices.Sort(o.EnabledModules)
	o.Converge.Phase, o.Converge.Ready = converge.Phase, converge.Ready
	o.Modules, o.Global = s.allModules(o.tree, differs), published[view.GlobalStatus](o.tree)
	o.Headline, o.Stage = view.Headline(o.Modules, o.Global), view.Stage(o.Modules, o.Global, converge, queueLength(o.tree, messages.MainQueue))
	config := published[view.ConfigStatus](o.tree)
	if o.ValuesWarnings = config.Warnings; config.Refused != "" {
		o.Config = &config
	}
	if s.Leadership != nil {
		leadership := s.Leadership()
		o.Leadership = &leadership
	}
	o.GlobalProblems = slices.Clip(view.Problems(statuses(o.tree))[messages.GlobalHooks])
	if problem := differs[messages.GlobalHooks]; problem != "" {
		o.GlobalProblems = append(o.GlobalProblems, problem)
	}
	for _, h := range s.Hanging() { // those of modules are with their modules
		if h.Module == "" {
			o.GlobalProblems = append(o.GlobalProblems, h.String())
		}
	}
	return o
}

// list answers /module/list. As text it has the names of the enabled modules only, which is all that
// scripts of older operators expect.
func (s router) list(*http.Request) (any, error) {
	o, names := s.overall(insider), []string{}
	for _, m := range o.Modules {
		names = append(names, m.Name)
	}
	return display{data: o, text: lines(o.EnabledModules), table: moduleTable(o), names: names}, nil
}

// status answers /status: how everything is, on one screen, with what to do next.
func (s router) status(*http.Request) (any, error) {
	o := s.overall(insider)
	all, runs := queues(o.tree)
	dump := dumpQueues(all, runs, false)
	o.Cluster, o.Queues = s.Cluster, &dump
	o.Namespace, _, _ = strings.Cut(s.ConfigMap, "/")
	return display{data: o, text: func(w io.Writer, whole bool) { o.write(w, whole) }}, nil
}

// write writes the overview. Names stand in a column, each with a text of any length.
func (o overall) write(w io.Writer, whole bool) {
	fmt.Fprintf(w, "%s\n%s", o.Headline, o.Stage)
	if o.Leadership != nil {
		fmt.Fprintf(w, "; this replica is the %s", o.Leadership)
	}
	fmt.Fprintln(w)
	section := func(title string, rows [][2]string) {
		t := table{longest: 800} // on one screen
		for _, row := range rows {
			t.rows = append(t.rows, []string{"  " + row[0], row[1]})
		}
		if len(rows) > 0 {
			fmt.Fprintf(w, "\n%s\n", title)
			t.write(w, whole, true)
		}
	}
	problems := o.Notices()
	for _, m := range o.Modules { // one that is only off, or on its way, has no problem
		problems = append(problems, withNext(m.Name, problemOf(m), m.Verdict.Next)...)
	}
	section("PROBLEMS", problems)
	var busy [][2]string
	for _, q := range o.Queues.Active {
		busy = append(busy, [2]string{q.Name, q.doing()})
	}
	section("QUEUES", busy)
}

// doing describes what a queue does now.
func (q queueEntry) doing() string {
	text := view.Count(q.TasksCount, "task")
	if len(q.Tasks) > 0 {
		text += ", first " + strings.Join(strings.Fields(q.Tasks[0].Kind+" "+q.Tasks[0].Owner+" "+q.Tasks[0].About), " ")
	}
	switch wait, failed := strings.CutPrefix(q.Status, sleeping); {
	case failed:
		text += ": next attempt in " + wait
	case q.Status != "":
		text += ": in progress"
	}
	return text
}

// withNext is a problem and, in a row below, the next step, unless the problem contains it; nothing
// without a problem.
func withNext(who, problem, next string) [][2]string {
	switch {
	case problem == "":
		return nil
	case next == "":
		return [][2]string{{who, problem}}
	}
	return [][2]string{{who, problem}, {"", "next: " + next}}
}

// Notices are the problems that belong to no module, each with its owner.
func (o overall) Notices() (rows [][2]string) {
	if o.Config != nil {
		rows = withNext("configuration", o.Config.Notice(), "")
	}
	for _, text := range o.ValuesWarnings {
		rows = append(rows, [2]string{"configuration", text})
	}
	if o.HeldPurge != nil {
		rows = append(rows, [2]string{"purge", o.HeldPurge.String()})
	}
	for _, f := range o.Global.Failing {
		rows = append(rows, withNext("global hooks", f.Message(), f.Next(globalOwner))...)
	}
	for _, p := range o.GlobalProblems {
		rows = append(rows, [2]string{"global hooks", p})
	}
	return rows
}

// ready answers /module/ready, for the command wait: the word ready, or what is not ready, a line for
// each. Without ?module it is about all enabled modules and the reload of all; modules that are named
// must exist and be enabled. After an edit of the ConfigMap the modules are still ready as before it,
// so they count only when the operator has seen the ConfigMap as it is in the cluster; that is asked
// first, since the answer is about the modules as they are then.
func (s router) ready(r *http.Request) (any, error) {
	asked, missing := r.URL.Query()["module"], []string{}
	observed, err := s.Observed(r.Context())
	if err != nil {
		return nil, err
	}
	if !observed {
		missing = append(missing, "the ConfigMap has changed, and the operator has not received the change yet")
	}
	o, known := s.overall(insider), map[string]bool{}
	for _, m := range o.Modules {
		known[m.Name] = true
		named := slices.Contains(asked, m.Name)
		switch {
		case len(asked) > 0 && !named, !m.Enabled && !named, m.State == string(view.Ready): // nothing to wait for
		case !m.Enabled:
			missing = append(missing, fmt.Sprintf("%s is %s: %s", m.Name, m.State, cmp.Or(m.Off, "it is not enabled")))
		default:
			missing = append(missing, strings.TrimSuffix(fmt.Sprintf("%s is %s: %s", m.Name, m.State, m.Verdict.Message), ": "))
		}
	}
	for _, name := range asked {
		if !known[name] {
			missing = append(missing, name+": no such module")
		}
	}
	// Named modules may be ready while a reload of others is in progress.
	if len(asked) == 0 && !(o.Converge.Ready && o.Converge.Phase == view.ConvergeIdle) {
		missing = append(missing, "a reload of all modules is not over")
	}
	said := missing
	if len(missing) == 0 {
		said = []string{"ready"}
	}
	return display{data: map[string]any{"ready": len(missing) == 0, "missing": missing}, text: lines(said)}, nil
}

// why is the text about a module: the verdict, and what led to its last run.
func why(m view.Module) func(io.Writer, bool) {
	return func(w io.Writer, _ bool) {
		v := m.Verdict
		switch v.Reason {
		case view.Off:
			fmt.Fprintf(w, "module %s is off: %s\n", m.Name, m.Off)
		case view.Succeeded:
			fmt.Fprintf(w, "module %s: %s\n", m.Name, v.Class)
		default:
			fmt.Fprintf(w, "module %s: %s: %s\n", m.Name, v.Class, cmp.Or(v.Message, "it is "+m.State))
			if v.Next != "" {
				fmt.Fprintf(w, "next: %s\n", v.Next)
			}
		}
		if m.LastRun != nil {
			writeRun(w, m)
		} else if v.Reason != view.Off {
			fmt.Fprintln(w, "it has not run since the operator started")
		}
		for _, problem := range m.Problems {
			if problem != v.Message || v.Class == view.ClassProblem { // else it is above
				fmt.Fprintf(w, "problem: %s\n", problem)
			}
		}
	}
}

// writeRun describes the last run of a module, and what fails. Causes are the latest first; each is indented below the
// one that it led to.
func writeRun(w io.Writer, m view.Module) {
	release := cmp.Or(m.LastRun.Release, "not finished")
	if m.Namespace != "" { // empty: that of the operator
		release = "in namespace " + m.Namespace + ": " + release
	}
	fmt.Fprintf(w, "last run began %s (%s)\nrelease: %s\n", at(m.LastRun.Began), ago(m.LastRun.Began), release)
	for i, cause := range m.LastRun.Causes {
		fmt.Fprintf(w, "%sbecause of %s\n", strings.Repeat("  ", i+1), cause)
	}
	for _, f := range m.Failing {
		fmt.Fprintln(w, f)
	}
}

// published is the status of a type that one actor in a tree has published; the zero value before that.
func published[S any](tree []*supervisor.Node) (status S) {
	for _, n := range tree {
		if s, ok := any(n.Status).(S); ok {
			status = s
		}
	}
	return status
}
