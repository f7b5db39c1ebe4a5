package server

import (
	"fmt"
	"io"
	"net/http"
	"net/http/pprof"
	"path"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"addon-operator/values"
)

// Route is a page of the operator, as /discovery and the documentation list it.
type Route struct {
	Method string `json:"method"`
	// Path may hold names in braces, Query what can be asked for.
	Path  string `json:"path"`
	Query string `json:"query,omitempty"`
	Help  string `json:"help"`
	// Public pages are served on the public address, too: there are no values in them.
	Public bool `json:"public"`

	handler http.Handler
}

// Routes lists all pages.
func Routes() []Route { return router{who: insider}.routes() }

// router serves the pages that an audience may see.
type router struct {
	Source
	who audience
}

func (s router) routes() []Route {
	all := s.publicRoutes()
	if s.who == public {
		return all
	}
	return append(all, s.debugRoutes()...)
}

func get(path, query, help string, handler http.Handler) Route {
	return Route{Method: http.MethodGet, Path: path, Query: query, Help: help, handler: handler}
}

func (s router) publicRoutes() []Route {
	probes, live := probes(s), livePages(s)
	// Users look for the metrics of hooks on the first page, too (I1).
	both := discreetMetrics{prometheus.Gatherers{s.Metrics, s.HookMetrics}, s.Hide}
	scrape := promhttp.HandlerOpts{ErrorHandling: promhttp.ContinueOnError}
	all := []Route{
		get("/", "", "the live page: modules, queues, what waits; on the debug address also actors", live.page()),
		get(livePath, "module=NAME", "what changes on the live page, as server-sent events", live.stream()),
		get("/healthz", "", "200 while the process lives", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { text(w, http.StatusOK, "ok\n") })),
		get("/readyz", "verbose", "200 after the first converge, in a follower when it could lead; 500 before", http.HandlerFunc(probes.readyz)),
		get("/metrics", "", "metrics of the operator and of hooks", promhttp.HandlerForTransactional(&scrapes{gatherer: both}, scrape)),
		get("/metrics/hooks", "", "metrics of hooks only", promhttp.HandlerForTransactional(&scrapes{gatherer: discreetMetrics{s.HookMetrics, s.Hide}}, scrape)),
		get("/queue", "", "the tasks of all queues, as text", http.HandlerFunc(probes.queueText)),
		get("/status/converge", "output=json", "how far the converge is, in words for scripts", http.HandlerFunc(probes.converge)),
		get("/discovery", "", "this list", page{s.discovery, asText}),
	}
	for i := range all {
		all[i].Public = true
	}
	return all
}

// debugRoutes may show values of users: on the debug address only (J4, J7).
func (s router) debugRoutes() []Route {
	owners := owners{s.Source}
	modules, values, hooks := modulePages{owners}, valuePages{owners}, hookPages{owners}
	actors, parameters := actorPages{s.Source}, parameterPages{s.Parameters}
	json := func(look func(*http.Request) (any, error)) page { return page{look, asJSON} }
	return append(fragments(s).routes(), []Route{
		get("/queue/list", "showEmpty=true", "all queues and their tasks", json(actors.queueList)),
		get("/queue/{name}", "", "the tasks of one queue", json(actors.queueOne)),
		get("/converge/list", "", "the last reloads of all modules: what ran when, what the end waited for, the slowest hooks", json(convergePages{s.Source}.list)),
		get("/global/list", "", "the global hooks", json(hooks.globalList)),
		get("/global/{page}", "show-secrets=true", "values, config, patches or snapshots of the global section and hooks", json(modules.globalPage)),
		get("/converge/progress", "", "how far the reload of all modules in progress is, and what runs now", json(convergePages{s.Source}.progress)),
		get("/module/list", "observed=true", "the enabled modules, and how all modules are; whether the ConfigMap in the cluster has been seen", json(modules.moduleList)),
		get("/module/resource-monitor", "", "the objects of releases that are watched for deletion", json(modules.resourceMonitor)),
		get("/module/{name}/{page}", "global=true, show-secrets=true", "values, config, patches, snapshots or status of a module", json(modules.modulePage)),
		get("/module/{name}/render", "diff=true, since=REVISION, debug=true, show-secrets=true", "what the chart makes of the values now; what differs from the deployed release, or from an earlier revision", page{modules.renderPage, asText}),
		{Method: http.MethodPost, Path: "/module/{name}/request", Query: "do=REQUEST", Help: "for the live page alone: writes a request, run, retry, suspend or resume, to the object of a module", handler: page{actPages{owners}.request, asText}},
		get("/module/{name}/objects", "", "the objects of a module's release", json(modules.objects)),
		get("/module/{name}/history", "max=NUMBER", "the newest recorded revisions of a module's release, 20 unless more are asked for", page{modules.historyPage, asJSON}),
		get("/module/{name}/diff", "from=REVISION, to=REVISION, show-secrets=true", "what differs between two revisions of a module's release, by default the two newest; what is too long is left out", page{modules.diffPage, asText}),
		get("/module/{name}/drift", "show-secrets=true", "which fields of a module's objects others have changed, by the last check", json(modules.drift)),
		get("/hook/list", "module=NAME", "all hooks and what they run on", json(hooks.hookList)),
		get("/hook/runs", "module=NAME, hook=NAME, after=NUMBER", "the last runs of hooks: when, why, how long, and their last lines", json(hooks.runs)),
		get("/hook/{name}/snapshots", "show-secrets=true", "the snapshots of one hook", json(hooks.hookPage)),
		get("/values/explain", "module=NAME, path=PATH, show-secrets=true", "where values come from", json(values.explainPage)),
		get("/values/diff", "module=NAME, show-secrets=true", "which values changed since the last converge", json(values.diffPage)),
		{Method: http.MethodPost, Path: "/values/check", Query: "path=PATH, show-secrets=true", Help: "whether the operator would take a ConfigMap, whose data is the body: a JSON object of strings; and whether the value at a path is marked as a secret", handler: json(values.checkConfig)},
		get("/plan", "show-secrets=true", "what the operator would do at the next reload", json(values.plan)),
		{Method: http.MethodPost, Path: "/plan", Query: "show-secrets=true", Help: "the same with another ConfigMap, whose data is the body: a JSON object of strings", handler: json(values.plan)},
		get("/graph", "", "the modules in the order they run, for Graphviz", page{actors.graph, asText}),
		get("/actors", "", "the mailboxes of all actors", page{actors.actors, asText}),
		get("/config/list", "", "what can be changed while the operator runs", json(parameters.list)),
		{Method: http.MethodPost, Path: "/config/set", Query: "name=NAME, value=VALUE, duration=10m", Help: "changes one of these; with a duration it goes back by itself", handler: json(parameters.set)},
		get("/debug/pprof/", "", "profiles of the process", http.HandlerFunc(pprof.Index)),
		get("/debug/pprof/cmdline", "", "", http.HandlerFunc(pprof.Cmdline)),
		get("/debug/pprof/profile", "seconds=30", "CPU", http.HandlerFunc(pprof.Profile)),
		get("/debug/pprof/symbol", "", "", http.HandlerFunc(pprof.Symbol)),
		get("/debug/pprof/trace", "seconds=1", "", http.HandlerFunc(pprof.Trace)),
	}...)
}

// pattern is what the router makes of a route. Names of queues and hooks have slashes.
func (r Route) pattern() string {
	switch r.Path {
	case "/":
		return r.Method + " /{$}"
	case "/queue/{name}":
		return r.Method + " /queue/{name...}"
	case "/hook/{name}/snapshots":
		return r.Method + " /hook/{name...}"
	}
	return r.Method + " " + r.Path
}

// handler serves routes; other paths are answered by a sentence.
func (s router) handler() http.Handler {
	mux, routes := http.NewServeMux(), s.routes()
	for _, r := range routes {
		mux.Handle(r.pattern(), r.handler)
	}
	mux.HandleFunc("GET /", func(w http.ResponseWriter, r *http.Request) { answer(w, asText, nil, noPage(r.URL.Path, routes)) })
	return s.discreet(s.leaderOnly(withoutExtension(mux)))
}

// noPage says which page was probably meant.
func noPage(asked string, routes []Route) error {
	var known []string
	for _, r := range routes {
		if known = append(known, r.Path); r.Path == asked {
			return &pageError{http.StatusMethodNotAllowed, fmt.Errorf("%s is asked by %s only", asked, r.Method)}
		}
	}
	extension := path.Ext(asked)
	if slices.Contains(known, strings.TrimSuffix(asked, extension)) && extension != "" {
		return noFormat(extension)
	}
	text := "there is no page " + asked
	if meant := values.Near(asked, known); meant != "" && meant != "/" {
		text += "; did you mean " + meant + "?"
	}
	return notFound("%s; /discovery lists all", text)
}

func noFormat(extension string) error {
	return notFound("the format %q is none of %s", strings.TrimPrefix(extension, "."), strings.Join(formats(), ", "))
}

// discovery answers /discovery.
func (s router) discovery(*http.Request) (any, error) {
	routes := slices.DeleteFunc(s.routes(), func(r Route) bool { return r.Help == "" })
	return display{routes, func(w io.Writer) {
		table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
		for _, r := range routes {
			fmt.Fprintf(table, "%s\t%s\t%s\t%s\n", r.Method, r.Path, r.Query, r.Help)
		}
		_ = table.Flush() // the client has gone
	}}, nil
}
