package server

import (
	"bytes"
	_ "embed" // the page
	"fmt"
	"html/template"
	"net/http"
	"strings"
	"time"

	"addon-operator/messages"
	"addon-operator/messages/view"
	"addon-operator/supervisor"
)

//go:embed live.html
var livePage string

// refresh is how often the live page loads itself again, in seconds.
const refresh = 5

// livePageData is what the live page shows.
type livePageData struct {
	Refresh          int
	Version, Summary string
	Leadership       string // of a leader with a Lease
	Ready            bool
	// Notices are what a person should look at first.
	Notices []string
	Modules []liveModule
	Queues  []liveQueue
	Actors  string
	Links   []liveLink
	Now     string
}

type liveModule struct {
	view.Module
	Class, LastRan string
}

type liveQueue struct {
	Name         string
	Length       int
	First, Doing string
	Failing      bool
}

type liveLink struct{ Path, Text string }

// live is the page for people: how the modules are and what waits. With ?actors it shows
// all mailboxes, too, to who may see them.
func (s probes) live() http.Handler {
	page := template.Must(template.New("live").Parse(livePage)) // a text of this program, which a test reads
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var out bytes.Buffer
		if err := page.Execute(&out, s.liveData(r.URL.Query().Has("actors"))); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		w.Header().Set("Content-Security-Policy", "default-src 'none'; style-src 'unsafe-inline'")
		_, _ = w.Write(out.Bytes()) // the client has gone
	})
}

func (s probes) liveData(actors bool) livePageData {
	tree, converge, differs := s.tree(s.who), s.Converge(), s.notInForce()
	if s.who != insider {
		for name := range differs {
			differs[name] = "changed on disk since it was loaded"
		}
	}
	data := livePageData{
		Refresh: refresh, Version: s.Version, Ready: converge.Ready, Summary: "starting", Notices: notices(tree),
		Modules: liveModules(s.allModules(tree, differs)), Queues: liveQueues(tree), Now: time.Now().UTC().Format("2006-01-02 15:04:05 MST"),
	}
	if what := differs[messages.GlobalHooks]; what != "" {
		data.Notices = append(data.Notices, "Global hooks and values: "+what)
	}
	for _, h := range s.hanging() { // those of modules are shown with them
		if h.Module != "" {
			continue
		}
		data.Notices = append(data.Notices, "H"+strings.TrimPrefix(h.String(), "h"))
	}
	leadership, follower := s.standby()
	switch {
	case follower:
		data.Summary = leadership.String()
	case converge.Phase == view.ConvergeReloading:
		data.Summary = fmt.Sprintf("reloading all modules, %d tasks to do", queueLength(tree, messages.MainQueue))
	case converge.Ready:
		data.Summary = "converged"
		if converge.HeldPurge != nil {
			data.Summary += ", but a purge is held back"
		}
	}
	if s.Leadership != nil && !follower {
		data.Leadership = leadership.String()
	}
	data.Links = []liveLink{{"/readyz?verbose", "readiness"}, {"/queue", "queues"}, {"/metrics", "metrics"}, {"/discovery", "all pages"}}
	if s.who == insider {
		if data.Links = append(data.Links, liveLink{"/?actors", "actors"}); actors {
			var dump bytes.Buffer
			_ = supervisor.WriteText(&dump, tree) // a buffer takes everything
			data.Actors = dump.String()
		}
	}
	return data
}

// notices are the problems that belong to no module or queue.
func notices(tree []*supervisor.Node) []string {
	var all []string
	walk(tree, func(n *supervisor.Node) {
		switch status := n.Status.(type) {
		case view.ConfigStatus:
			if notice := status.Notice(); notice != "" {
				all = append(all, notice)
			}
		case view.ConvergeStatus:
			if status.HeldPurge != nil {
				all = append(all, "A person must decide: "+status.HeldPurge.String())
			}
			for _, problem := range status.Problems[messages.GlobalHooks] {
				all = append(all, "Global hooks: "+problem)
			}
		case view.MonitorsReporter:
			for _, b := range status.Monitors().Incomplete() {
				all = append(all, "The snapshot of a binding is not what the cluster has: "+b.String())
			}
		case view.GlobalStatus:
			for _, f := range status.Failing {
				all = append(all, "Global hooks: "+f.String())
			}
		}
	})
	return all
}

func liveModules(list []view.Module) []liveModule {
	var all []liveModule
	for _, m := range list {
		row := liveModule{Module: m, LastRan: "–"}
		if m.LastRun != nil {
			row.LastRan = time.Since(m.LastRun.Began).Round(time.Second).String() + " ago"
		}
		switch {
		case len(m.Failing) > 0, len(m.Hanging) > 0, m.State == view.Unhealthy:
			row.Class = "bad"
		case m.Waiting != nil:
			row.Class = "busy"
		case m.State == string(view.Ready):
			row.Class = "good"
		case m.Phase == view.Disabled:
			row.Class = "dim"
		default:
			row.Class = "busy"
		}
		all = append(all, row)
	}
	return all
}

func liveQueues(tree []*supervisor.Node) []liveQueue {
	all, runs := queues(tree)
	var rows []liveQueue
	for _, q := range all {
		row := liveQueue{Name: q.name, Length: q.Length, Doing: "is empty"}
		if tasks := q.Tasks(); len(tasks) > 0 {
			first := tasks[0]
			row.First = strings.TrimSpace(first.Kind + " " + first.Owner + " " + first.About)
			row.Doing = "waits"
			if run, ok := runs[first.ID]; ok && q.InProgress {
				row.Doing, row.Failing = fmt.Sprintf("for %s: %s", time.Since(q.Since).Round(time.Second), run), run.Attempt > 0
			}
		}
		rows = append(rows, row)
	}
	return rows
}
