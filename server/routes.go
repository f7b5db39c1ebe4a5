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

// Route is a page of the operator, as /discovery and the documentation list it. A route without
// Help is served and not listed.
type Route struct {
	Method string `json:"method"`
	// Path may hold names in braces; Query lists the parameters, separated by commas, with examples
	// of their values.
	Path  string `json:"path"`
	Query string `json:"query,omitempty"`
	Help  string `json:"help"`
	// Public pages are served on the public address, too: there are no values in them.
	Public bool `json:"public"`

	handler http.Handler
}

// Routes lists all pages, for the documentation and its test. Their handlers have no source and
// must not be called.
func Routes() []Route { return router{who: insider}.routes() }

// router serves the pages that an audience may see. Its Source is shared by all handlers.
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

// get is a route for GET; the mux answers HEAD with it, too.
func get(path, query, help string, handler http.Handler) Route {
	return Route{Method: http.MethodGet, Path: path, Query: query, Help: help, handler: handler}
}

// publicRoutes are on both addresses. They show no values, and on the public address no errors
// either. A new one must keep that: it is reachable from the whole cluster.
func (s router) publicRoutes() []Route {
	probes, live := probes(s), livePages(s)
	// Users look for the metrics of hooks on the first page, too (I1). A scrape continues when one
	// collector fails, so that the other metrics remain.
	both := discreetMetrics{prometheus.Gatherers{s.Metrics, s.HookMetrics}, s.Hide}
	scrape := promhttp.HandlerOpts{ErrorHandling: promhttp.ContinueOnError}
	all := []Route{
		get("/", "", "the live page: modules, queues, waiting tasks; on the debug address also actors", live.page()),
		get(livePath, "module=NAME", "the changes of the live page, as server-sent events", live.stream()),
		get("/healthz", "", "200 while the process lives", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { text(w, http.StatusOK, "ok\n") })),
		get("/readyz", "verbose", "200 after the first converge, on a follower when it could lead; 500 before", http.HandlerFunc(probes.readyz)),
		get("/metrics", "", "metrics of the operator and of hooks", promhttp.HandlerForTransactional(&scrapes{gatherer: both}, scrape)),
		get("/metrics/hooks", "", "metrics of hooks only", promhttp.HandlerForTransactional(&scrapes{gatherer: discreetMetrics{s.HookMetrics, s.Hide}}, scrape)),
		get("/queue", "", "the tasks of all queues, as text", http.HandlerFunc(probes.queueText)),
		get("/status/converge", "output=json", "progress of the converge, in fixed words for scripts", http.HandlerFunc(probes.converge)),
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
		get("/converge/progress", "", "progress of the current reload of all modules, and what runs now", json(convergePages{s.Source}.progress)),
		get("/module/list", "observed=true", "the enabled modules, and the state of all modules; whether the operator has received the current ConfigMap", json(modules.moduleList)),
		get("/module/resource-monitor", "", "the objects of releases that are watched for deletion", json(modules.resourceMonitor)),
		get("/module/{name}/{page}", "global=true, show-secrets=true", "values, config, patches, snapshots or status of a module", json(modules.modulePage)),
		get("/module/{name}/render", "diff=true, since=REVISION, debug=true, show-secrets=true", "the manifest that the chart renders now, or its differences from the deployed release or an earlier revision", page{modules.renderPage, asText}),
		{Method: http.MethodPost, Path: "/module/{name}/request", Query: "do=REQUEST", Help: "only for the live page: writes a request, run, retry, suspend or resume, to the object of a module", handler: page{actPages{owners}.request, asText}},
		get("/module/{name}/objects", "", "the objects of a module's release", json(modules.objects)),
		get("/module/{name}/history", "max=NUMBER", "the newest recorded revisions of a module's release, 20 by default", page{modules.historyPage, asJSON}),
		get("/module/{name}/diff", "from=REVISION, to=REVISION, show-secrets=true", "the differences between two revisions of a module's release, by default the two newest; long ones are cut", page{modules.diffPage, asText}),
		get("/module/{name}/drift", "show-secrets=true", "the fields of a module's objects that others have changed, as of the last check", json(modules.drift)),
		get("/hook/list", "module=NAME", "all hooks and their bindings", json(hooks.hookList)),
		get("/hook/runs", "module=NAME, hook=NAME, after=NUMBER", "the last runs of hooks: when, why, how long, and their last lines", json(hooks.runs)),
		get("/hook/{name}/snapshots", "show-secrets=true", "the snapshots of one hook", json(hooks.hookPage)),
		get("/values/explain", "module=NAME, path=PATH, show-secrets=true", "where values come from", json(values.explainPage)),
		get("/values/diff", "module=NAME, show-secrets=true", "which values changed since the last converge", json(values.diffPage)),
		{Method: http.MethodPost, Path: "/values/check", Query: "path=PATH, show-secrets=true", Help: "whether the operator would accept a ConfigMap, whose data is the body: a JSON object of strings; and whether the value at a path is marked as a secret", handler: json(values.checkConfig)},
		get("/plan", "show-secrets=true", "what the operator would do at the next reload", json(values.plan)),
		{Method: http.MethodPost, Path: "/plan", Query: "show-secrets=true", Help: "the same with another ConfigMap, whose data is the body: a JSON object of strings", handler: json(values.plan)},
		get("/graph", "", "the modules in the order they run, for Graphviz", page{actors.graph, asText}),
		get("/actors", "", "the mailboxes of all actors", page{actors.actors, asText}),
		get("/config/list", "", "the parameters that can be changed while the operator runs", json(parameters.list)),
		{Method: http.MethodPost, Path: "/config/set", Query: "name=NAME, value=VALUE, duration=10m", Help: "changes a parameter; with a duration, it reverts to the default afterwards", handler: json(parameters.set)},
		get("/debug/pprof/", "", "profiles of the process", http.HandlerFunc(pprof.Index)),
		get("/debug/pprof/cmdline", "", "", http.HandlerFunc(pprof.Cmdline)),
		get("/debug/pprof/profile", "seconds=30", "CPU", http.HandlerFunc(pprof.Profile)),
		get("/debug/pprof/symbol", "", "", http.HandlerFunc(pprof.Symbol)),
		get("/debug/pprof/trace", "seconds=1", "", http.HandlerFunc(pprof.Trace)),
	}...)
}

// pattern is what the mux matches. "{name...}" also matches slashes, which names of queues and
// hooks have; then /hook/{name}/snapshots cannot be a pattern, and hookPage cuts the end off
// itself. More specific patterns, such as /hook/list, win. "/{$}" is the root alone.
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

// handler serves the routes, and answers other paths with a sentence. Around them, from outside to
// inside: discreet sees all that is written, also refusals; withoutExtension decides the format;
// leaderOnly refuses what a follower does not have.
func (s router) handler() http.Handler {
	mux, routes := http.NewServeMux(), s.routes()
	for _, r := range routes {
		mux.Handle(r.pattern(), r.handler)
	}
	mux.HandleFunc("GET /", func(w http.ResponseWriter, r *http.Request) { answer(w, asText, nil, noPage(r.URL.Path, routes)) })
	// leaderOnly must see the path without its extension, or a follower would answer /graph.text.
	return s.discreet(withoutExtension(s.leaderOnly(mux)))
}

// noPage is the error for an unknown path: 405 when only the method is wrong, else 404 with the
// page or the format that was probably meant. The root is near to every short path, so it is not
// proposed.
func noPage(asked string, routes []Route) error {
	var known []string
	for _, r := range routes {
		if known = append(known, r.Path); r.Path == asked {
			return &pageError{http.StatusMethodNotAllowed, fmt.Errorf("%s accepts only %s", asked, r.Method)}
		}
	}
	extension := path.Ext(asked)
	if slices.Contains(known, strings.TrimSuffix(asked, extension)) && extension != "" {
		return noFormat(extension)
	}
	text := "page " + asked + " not found"
	if meant := values.Near(asked, known); meant != "" && meant != "/" {
		text += "; did you mean " + meant + "?"
	}
	return notFound("%s; /discovery lists all", text)
}

// noFormat is the error for an extension, with its dot, that is no format.
func noFormat(extension string) error {
	return notFound("the format %q is not one of %s", strings.TrimPrefix(extension, "."), strings.Join(formats(), ", "))
}

// discovery answers /discovery with the pages of this audience.
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
