package server

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	_ "embed" // the page
	"encoding/base64"
	"fmt"
	"html/template"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"addon-operator/messages"
	"addon-operator/messages/view"
	"addon-operator/supervisor"
	"addon-operator/values"
)

//go:embed page.html
var pageHTML string

//go:embed detail.html
var detailHTML string

//go:embed page.css
var pageCSS string

//go:embed page.js
var pageJS string

// pageTemplate has the live page, its parts, which the stream sends, and the fragments. It is made
// once, on the first request, and panics on a mistake, which a test would find.
//
// Times are written as <time> elements with a kind: the script turns them into "5m ago", "for 5m"
// or "in 5m" and keeps them current. So the HTML of a part is the same as long as nothing has
// happened, and is not sent again each second.
var pageTemplate = sync.OnceValue(func() *template.Template {
	at := func(kind string) func(time.Time) template.HTML {
		return func(t time.Time) template.HTML {
			if t.IsZero() {
				return ""
			}
			return template.HTML(fmt.Sprintf("<time datetime=%q data-is=%q>%s</time>", t.UTC().Format(time.RFC3339), kind, t.UTC().Format(time.TimeOnly+" MST"))) //nolint:gosec // times only
		}
	}
	return template.Must(template.New("page").Funcs(template.FuncMap{
		"ago": at("ago"), "lasts": at("for"), "next": at("in"),
		"times": func(n int) string { return view.Count(n, "time") }, "diffLink": diffLink, "span": seconds,
	}).Parse(pageHTML + detailHTML))
})

// pagePolicy allows the one style and the one script of the page by their checksums, and requests
// to the origin of the page; nothing else. So a name from a tenant that slipped through as HTML
// could load and run nothing.
var pagePolicy = sync.OnceValue(func() string {
	hash := func(text string) string {
		sum := sha256.Sum256([]byte(text))
		return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
	}
	return "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; connect-src 'self'; script-src " + hash(pageJS) + "; style-src " + hash(pageCSS)
})

// overview is what the live page shows of everything, as its audience may see it. It is immutable:
// all readers of the stream share one (moment).
type overview struct {
	Headline, Stage string
	Ready           bool
	// Notices are problems that belong to no module or queue, or that a person should see first.
	Notices []string
	Modules []moduleRow // problems first, then in the order of runs
	Queues  []queueRow
	// Converges changes whenever the list of the last reloads does: the script then loads an open
	// list again. It is empty for the public, which is shown none.
	Converges string
	tree      []*supervisor.Node // what all of this was made of; for details that belong to it
}

// livePage is the whole page, as it is loaded first. The stream then replaces its parts.
type livePage struct {
	overview
	Version    string
	Leadership string // empty in a follower, whose Stage contains it, and without a Lease
	Detail     moduleDetail
	Actors     string // the dump of all mailboxes; empty unless requested
	Links      []pageLink
	Style      template.CSS
	Script     template.JS
}

// pageLink is a link. Paths are relative: the page may be below a prefix, as through the proxy of
// an API server.
type pageLink struct{ Path, Text string }

// pageModule is a module as the page shows it.
type pageModule struct{ view.Module }

// moduleRow is a row of the table of modules.
type moduleRow struct {
	pageModule
	Linked bool // to its detail, which the public has not
}

// Colour is a class of the style sheet. Sign shows the same with a character, for users who do not
// see colours.
func (m pageModule) Colour() string { c, _ := m.look(); return c }

// Sign is described with Colour.
func (m pageModule) Sign() string { _, s := m.look(); return s }

// Words are for people: the class, when the state alone does not show that there is a problem, then
// the state and what else is special. A suspended module is not also called "maintenance".
func (m pageModule) Words() string {
	words := []string{m.State}
	if c := m.Class(); c == view.ClassFailing || c == view.ClassWaiting || c == view.ClassProblem {
		words = []string{string(c), m.State}
	}
	if m.Parked {
		words = append(words, "parked")
	}
	if m.Maintenance != "" && m.Maintenance != values.Suspended {
		words = append(words, "maintenance")
	}
	return strings.Join(slices.Compact(words), ", ")
}

// look maps the class of a module to its colour and sign; what it does not name is on its way.
func (m pageModule) look() (colour, sign string) {
	switch m.Class() {
	case view.ClassFailing, view.ClassUnhealthy:
		return "bad", "▲"
	case view.ClassReady:
		return "good", "●"
	case view.ClassOff:
		return "dim", "○"
	case view.ClassSuspended:
		return "busy", "‖"
	}
	return "busy", "◆"
}

// queueRow is a queue. Since is when the task in progress came to the head; zero when the queue is
// empty or its first task waits. RunStatus is that of the run in progress.
type queueRow struct {
	Name, First, Doing string
	Cause              string // of the first task
	Length             int
	Triggers, Aside    int    // that wait: triggers of hooks in it, and tasks for complete snapshots next to it
	Path, Version      string // of its list of tasks; empty for the public. Version changes with the list.
	Oldest, Since      time.Time
	supervisor.RunStatus
}

// livePages are the page for people, and the stream of its changes, for one audience.
type livePages struct {
	Source
	who audience
}

// page is the page for people (J18). With ?actors it shows all mailboxes, too, to insiders. It
// works without the script, which only keeps it current: then the browser loads it again every few
// seconds.
func (s livePages) page() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		data := livePage{overview: s.overview(), Version: s.Version, Style: template.CSS(pageCSS), Script: template.JS(pageJS)} //nolint:gosec // ours
		if leadership, follower := s.standby(); s.Leadership != nil && !follower {
			data.Leadership = leadership.String()
		}
		data.Links = []pageLink{{"readyz?verbose", "readiness"}, {"queue", "queues"}, {"metrics", "metrics"}, {"discovery", "all pages"}}
		if s.who == insider {
			if data.Links = append(data.Links, pageLink{"?actors", "actors"}); r.URL.Query().Has("actors") {
				var dump bytes.Buffer
				_ = supervisor.WriteText(&dump, s.tree(s.who)) // a buffer takes everything
				data.Actors = dump.String()
			}
		}
		var out bytes.Buffer
		if err := pageTemplate().ExecuteTemplate(&out, "page", data); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		w.Header().Set("Content-Security-Policy", pagePolicy())
		w.Header().Set("Referrer-Policy", "no-referrer")
		_, _ = w.Write(out.Bytes()) // the client has gone
	})
}

// overview collects what the page shows. It reads the inspector and the disk, and asks no actor.
func (s livePages) overview() overview {
	tree, converge := s.tree(s.who), s.Converge()
	all := s.visible(tree)
	data := overview{
		Ready: converge.Ready, Stage: stage(tree, converge), Headline: view.Headline(all, globalStatus(tree)), Notices: notices(tree), Queues: queueRows(tree, s.who), tree: tree,
	}
	if s.who == insider {
		if data.Converges = fmt.Sprint(converge.Reload, converge.Phase); converge.Phase == view.ConvergeReloading {
			data.Converges += fmt.Sprint(queueLength(tree, messages.MainQueue))
		}
	}
	if what := s.differences()[messages.GlobalHooks]; what != "" {
		data.Notices = append(data.Notices, "Global hooks and values: "+what)
	}
	if loop := s.loops()[messages.GlobalHooks]; loop != "" {
		data.Notices = append(data.Notices, "Global hooks: "+loop)
	}
	for _, h := range s.hanging() { // allModules adds those of modules to their rows
		if h.Module == "" {
			data.Notices = append(data.Notices, "H"+strings.TrimPrefix(h.String(), "h"))
		}
	}
	if leadership, follower := s.standby(); follower {
		data.Stage = leadership.String()
	}
	for _, m := range all {
		data.Modules = append(data.Modules, moduleRow{pageModule{m}, s.who == insider})
	}
	// Stable: within a class the modules keep the order in which they run.
	slices.SortStableFunc(data.Modules, func(a, b moduleRow) int { return cmp.Compare(a.Class().Rank(), b.Class().Rank()) })
	return data
}

// differences is notInForce in words that the audience may read: which files have changed, or what
// is in them, is not for the public.
func (s livePages) differences() map[string]string {
	differs := s.notInForce()
	if s.who != insider {
		for name := range differs {
			differs[name] = "changed on disk since it was loaded"
		}
	}
	return differs
}

// visible are all modules in the tree, as the audience may see them. The caller passes a tree of
// that audience.
func (s livePages) visible(tree []*supervisor.Node) []view.Module {
	return s.allModules(tree, s.differences())
}

// notices are the problems in a tree that belong to no module or queue.
func notices(tree []*supervisor.Node) []string {
	var all []string
	walk(tree, func(n *supervisor.Node) {
		switch status := n.Status.(type) {
		case view.ConfigStatus:
			if notice := status.Notice(); notice != "" {
				all = append(all, withNext(notice, status.Next()))
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
				all = append(all, "The snapshot of a binding differs from the cluster: "+b.String())
			}
		case view.GlobalStatus:
			for _, f := range status.Failing {
				all = append(all, withNext("Global hooks: "+f.String(), status.Next()))
			}
		}
	})
	return all
}

// withNext adds what a person can do next; empty when the problem contains it.
func withNext(notice, next string) string {
	if next == "" {
		return notice
	}
	return notice + "; next: " + next
}

// queueRows describe the queues. The status of a queue has the first 100 of its tasks; Oldest is
// the oldest of those, which need not be the first: what was queued later may go past.
func queueRows(tree []*supervisor.Node, who audience) []queueRow {
	all, runs := queues(tree)
	var rows []queueRow
	for _, q := range all {
		row := queueRow{Name: q.name, Length: q.Length, Doing: "empty", Triggers: q.Triggers, Aside: q.Aside}
		if len(q.Head) > 0 {
			first := q.Head[0]
			kind, about := first.Work.Describe()
			row.First, row.Doing, row.Cause = strings.TrimSpace(kind+" "+first.Owner+" "+about), "waits", first.Cause.String()
			row.Oldest = slices.MinFunc(q.Head, func(a, b messages.Task) int { return a.QueuedAt.Compare(b.QueuedAt) }).QueuedAt
			if q.InProgress {
				row.Doing, row.Since, row.RunStatus = "", q.Since, runs[first.ID]
			}
			if who == insider {
				row.Path, row.Version = "live/queue?name="+url.QueryEscape(q.name), fmt.Sprint(q.Length, q.Triggers, first.ID, row.Attempt, row.Step, row.RetryAt.IsZero())
			}
		}
		rows = append(rows, row)
	}
	return rows
}
