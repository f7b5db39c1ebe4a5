package server

import (
	"cmp"
	"crypto/sha256"
	_ "embed" // the page
	"encoding/base64"
	"fmt"
	"html/template"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"addon-operator/messages/view"
	"addon-operator/values"
)

//go:embed page.html
var pageHTML string

//go:embed page.css
var pageCSS string

//go:embed page.js
var pageJS string

// pageTemplate has the live page. It is made once, on the first request, and panics on a mistake, which a test
// would find.
//
// Times are written as <time> elements with a kind: the script turns them into "5m ago", "for 5m"
// or "in 5m" and keeps them current. So the HTML is the same as long as nothing has happened, and
// is not sent again each second.
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
		"times": func(n int) string { return view.Count(n, "time") }, "copyable": copyable,
	}).Parse(pageHTML))
})

// commands are those of the project and of kubectl that stand alone in a text for people: at its
// beginning, behind a colon or in quotes. In the middle of a sentence nobody knows where they end.
var commands = regexp.MustCompile(`(?:^|: |')((?:addon-operator|kubectl) [^,;:'()]+)(?:$|[,;:'])`)

// copyable marks the commands in a text for the clipboard.
func copyable(text string) template.HTML {
	out, end := "", 0
	for _, at := range commands.FindAllStringSubmatchIndex(text, -1) {
		out += template.HTMLEscapeString(text[end:at[2]]) + `<code class="copy" tabindex="0" title="copy">` + template.HTMLEscapeString(text[at[2]:at[3]]) + "</code>"
		end = at[3]
	}
	return template.HTML(out + template.HTMLEscapeString(text[end:])) //nolint:gosec // escaped
}

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
// the readers of a second share one (page).
type overview struct {
	overall
	Rows []pageModule // problems first, then in the order of runs
	// Queues is how many tasks wait, QueueVersion changes with the list of them, so that the script
	// loads an open list again. Oldest is when the task was queued that has been waiting for longest,
	// if that is long.
	Queues, QueueVersion string
	Oldest               time.Time
}

// longWait is how long a task waits until the page shows the queues by itself.
const longWait = 10 * time.Second

// Worst is the colour of the worst module.
func (o overview) Worst() string {
	if len(o.Global.Failing) > 0 || o.Config != nil {
		return "bad"
	}
	if len(o.Rows) == 0 {
		return ""
	}
	return o.Rows[0].Colour()
}

// livePage is the whole page. The script loads it again each second, and replaces what has changed.
type livePage struct {
	overview
	Version string
	Leads   string // empty in a follower, whose Stage contains it, and without a Lease
	Detail  moduleDetail
	Links   []pageLink
	Style   template.CSS
	Script  template.JS
}

// Where is the operator, for the title: who looks after several clusters has a tab for each.
func (p livePage) Where() string {
	return strings.Join(slices.DeleteFunc([]string{p.Version, p.Namespace, p.Cluster, p.Leads}, func(s string) bool { return s == "" }), ", ")
}

// pageLink is a link. Paths are relative: the page may be below a prefix, as through the proxy of
// an API server.
type pageLink struct{ Path, Text string }

// pageModule is a module as the page shows it.
type pageModule struct {
	view.Module
	Linked bool // to its detail, which the public has not
}

// Trouble reports whether there is something to show in its row.
func (m pageModule) Trouble() bool {
	return m.Verdict.Class == view.ClassPending || len(m.Hanging)+len(m.Failing)+len(m.Problems) > 0 || m.Health != nil && len(m.Health.Unhealthy) > 0
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
	if c := m.Verdict.Class; slices.Contains([]view.Class{view.ClassFailing, view.ClassHeld, view.ClassPending, view.ClassProblem}, c) {
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
	switch m.Verdict.Class {
	case view.ClassFailing, view.ClassUnhealthy, view.ClassHeld:
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

// Commands are what a person can do about a module, for the clipboard. Acts are writes of objects of
// kind Module, which the API server allows or not: this page only reads.
func (m pageModule) Commands() []string {
	acts := []string{"why"}
	switch {
	case m.Maintenance == values.Suspended:
		acts = append(acts, "resume")
	case m.Phase == view.Disabled:
	case len(m.Failing) > 0:
		acts = append(acts, "logs", "retry", "run", "suspend")
	default:
		acts = append(acts, "logs", "run", "suspend")
	}
	for i, act := range acts {
		acts[i] = "addon-operator " + act + " " + m.Name
	}
	return acts
}

// lookEvery is how old an overview may be. To look at everything costs the same for one reader as for all.
const lookEvery = time.Second

// page is the page for people (J18), with the detail of ?module=NAME. It works without the script,
// which only keeps it current: then the browser loads it again every few seconds.
func (s router) page() http.Handler {
	var mu sync.Mutex // guards the two below, and is held while one reader looks for all
	var made time.Time
	var shared overview
	latest := func() overview {
		mu.Lock()
		defer mu.Unlock()
		if time.Since(made) >= lookEvery {
			shared, made = s.overview(), time.Now()
		}
		return shared
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		data := livePage{overview: latest(), Version: s.Version}
		data.Style, data.Script = template.CSS(pageCSS), template.JS(pageJS) //nolint:gosec // ours
		data.Detail = s.detail(data.overview, r.URL.Query().Get("module"))
		if data.Leadership != nil && data.Leadership.Leading {
			data.Leads = data.Leadership.String()
		}
		data.Links = []pageLink{{"readyz?verbose", "readiness"}, {"queue", "queues"}, {"metrics", "metrics"}, {"discovery", "all pages"}}
		if s.who == insider {
			data.Links = append(data.Links, pageLink{"actors", "actors"})
			data.Cluster = s.Cluster
			data.Namespace, _, _ = strings.Cut(s.ConfigMap, "/")
		}
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		w.Header().Set("Content-Security-Policy", pagePolicy())
		w.Header().Set("Referrer-Policy", "no-referrer")
		if err := pageTemplate().ExecuteTemplate(w, "page", data); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
		}
	})
}

// overview collects what the page shows.
func (s router) overview() overview {
	data := overview{overall: s.overall(s.who)}
	all, runs := queues(data.tree)
	total := 0
	for _, q := range all {
		total += q.Length
		for i, t := range q.Head {
			if i == 0 && q.InProgress {
				continue
			}
			if time.Since(t.QueuedAt) > longWait && (data.Oldest.IsZero() || t.QueuedAt.Before(data.Oldest)) {
				data.Oldest = t.QueuedAt
			}
		}
		if len(q.Head) > 0 {
			run := runs[q.Head[0].ID]
			data.QueueVersion += fmt.Sprint(q.name, q.Length, q.Triggers, q.Head[0].ID, run.Attempt, run.Step, run.RetryAt.IsZero())
		}
	}
	data.Queues = view.Count(total, "task") + " in " + view.Count(len(all), "queue")
	if leadership, follower := s.standby(); follower {
		data.Stage = leadership.String()
	}
	for _, m := range data.Modules {
		data.Rows = append(data.Rows, pageModule{m, s.who == insider})
	}
	// Stable: within a class the modules keep the order in which they run.
	slices.SortStableFunc(data.Rows, func(a, b pageModule) int { return cmp.Compare(a.Verdict.Class.Rank(), b.Verdict.Class.Rank()) })
	return data
}

// moduleDetail is what the page shows of one module at once. It is made each second, so it
// holds what is cheap; the rest are the texts of other pages, which are loaded when a person opens
// them. The zero value is shown when no module is chosen.
type moduleDetail struct {
	pageModule
	Missing bool // no module has the name that was asked for
	More    []pagePart
	Pages   []pageLink
}

// pagePart is the text of another page, which is loaded when it is opened. The script loads an open
// part again when its Version changes, so Version must differ whenever the content may; it is empty
// for parts of which no cheap sign of a change is known.
type pagePart struct {
	ID, Title, Path, Version string
	Open                     bool
}

// detail looks at one module, as of now. The public is shown no detail (J18).
func (s router) detail(now overview, name string) moduleDetail {
	if s.who != insider || name == "" {
		return moduleDetail{}
	}
	i := slices.IndexFunc(now.Rows, func(m pageModule) bool { return m.Name == name })
	if i < 0 {
		return moduleDetail{pageModule: pageModule{Module: view.Module{Name: name}}, Missing: true}
	}
	m := now.Rows[i]
	base, query := "module/"+url.PathEscape(name)+"/", "?output=wide&module="+url.QueryEscape(name)
	states := ""
	if m.Health != nil {
		states = fmt.Sprint(*m.Health)
	}
	// A drift check follows each run, so the end of a run makes what is shown old.
	ran, hooks := "", ""
	if m.LastRun != nil {
		ran = m.LastRun.Began.Format(time.RFC3339Nano) + cmp.Or(m.LastRun.Release, m.State)
	}
	for _, r := range s.History.Runs(name, "") {
		hooks = fmt.Sprint(r.Hook, r.Began.UnixNano()) // of the newest one
	}
	return moduleDetail{pageModule: m, More: []pagePart{
		{"why", "What caused the last run", base + "status?output=text", fmt.Sprint(ran, len(m.Failing), m.Off), false},
		{"objects", "Objects", "module/resource-monitor" + query + "&headers=false", states + ran, true},
		{"runs", "Last runs of hooks", "hook/runs" + query, hooks, true},
		{"hooks", "Hooks", "hook/list" + query, fmt.Sprint(m.Hooks, m.Problems), false},
		{"values", "Values, and where they come from", "values/explain" + query, m.Values, false},
		{"snapshots", "Snapshots", base + "snapshots?output=wide", "", false},
		{"drift", "Changed by others", base + "drift?output=wide", fmt.Sprint(m.Drift, ran), false},
	}, Pages: []pageLink{
		{base + "values.yaml", "values"}, {base + "config.yaml", "ConfigMap"}, {base + "patches.yaml", "patches of hooks"},
		{base + "render", "manifest"}, {base + "render?diff=true", "changes of the next run"}, {base + "status.yaml", "status"},
	}}
}
