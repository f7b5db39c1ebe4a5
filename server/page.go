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

// pageTemplate makes the live page and its parts. It is a text of this program, which a test reads.
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

// pagePolicy allows the style and the script that are in the page, and questions to where it comes from; nothing else.
var pagePolicy = sync.OnceValue(func() string {
	hash := func(text string) string {
		sum := sha256.Sum256([]byte(text))
		return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
	}
	return "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; connect-src 'self'; script-src " + hash(pageJS) + "; style-src " + hash(pageCSS)
})

// overview is what the live page shows.
type overview struct {
	Headline, Stage string
	Ready           bool
	// Notices are what a person should look at first.
	Notices []string
	Modules []moduleRow // problems first, then in the order of runs
	Queues  []queueRow
	// Converges is the version of the record of the last reloads, which insiders are shown; empty for others.
	Converges string
	tree      []*supervisor.Node // what all of this was made of
}

// livePage is the whole page.
type livePage struct {
	overview
	Version    string
	Leadership string // of a leader with a Lease
	Detail     moduleDetail
	Actors     string
	Links      []pageLink
	Style      template.CSS
	Script     template.JS
}

type pageLink struct{ Path, Text string }

// pageModule is a module as the page shows it.
type pageModule struct{ view.Module }

type moduleRow struct {
	pageModule
	Linked bool // to its detail, which the public is not shown
}

// Colour is a class of the style; Sign says the same without colours.
func (m pageModule) Colour() string { c, _ := m.look(); return c }

// Sign is described with Colour.
func (m pageModule) Sign() string { _, s := m.look(); return s }

// Words are the class, when the state does not say so, and the state.
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

// queueRow is a queue; Since is zero while its first task waits.
type queueRow struct {
	Name, First, Doing string
	Cause              string // of the first task
	Length             int
	Triggers, Aside    int    // that wait: triggers of hooks in it, and tasks for complete snapshots next to it
	Path, Version      string // of its list of tasks, for insiders
	Oldest, Since      time.Time
	supervisor.RunStatus
}

// livePages are the page for people, and what changes on it.
type livePages struct {
	Source
	who audience
}

// page is the page for people: how the modules are and what waits. With ?actors it shows all mailboxes, too, to who may see them.
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

// overview looks at everything.
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
	for _, h := range s.hanging() { // those of modules are shown with them
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
	slices.SortStableFunc(data.Modules, func(a, b moduleRow) int { return cmp.Compare(a.Class().Rank(), b.Class().Rank()) })
	return data
}

// differences are the files that are not in force, in words that the audience may read.
func (s livePages) differences() map[string]string {
	differs := s.notInForce()
	if s.who != insider {
		for name := range differs {
			differs[name] = "changed on disk since it was loaded"
		}
	}
	return differs
}

// visible are all modules in the tree, as the audience may see them.
func (s livePages) visible(tree []*supervisor.Node) []view.Module {
	return s.allModules(tree, s.differences())
}

// notices are the problems that belong to no module or queue.
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
				all = append(all, "The snapshot of a binding is not what the cluster has: "+b.String())
			}
		case view.GlobalStatus:
			for _, f := range status.Failing {
				all = append(all, withNext("Global hooks: "+f.String(), status.Next()))
			}
		}
	})
	return all
}

func withNext(notice, next string) string {
	if next == "" {
		return notice
	}
	return notice + "; next: " + next
}

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
