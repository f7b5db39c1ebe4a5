package server

import (
	"fmt"
	"net/http"
	"net/http/pprof"
	"path"
	"slices"
	"strings"

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
	// Command is the use line of the command that prints the page; empty for none. Its first
	// argument is the name in the path, the others are parameters of the query. Long adds to Help.
	Command string `json:"command,omitempty"`
	Long    string `json:"-"`
	// YAML is what the command prints unless another format is chosen; otherwise a table or text.
	YAML bool `json:"-"`

	handler http.Handler
}

// Routes lists all pages, for the documentation and its test. Their handlers have no source and
// must not be called.
func Routes() []Route { return router{who: insider}.routes() }

// router serves the pages that an audience may see, and has those about everything: probes, the live page, queues
// and actors. They show what actors have published, without asking them, so they answer while one is stuck.
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

// maxScrapes is how many pages of metrics are made at a time; another request is answered with 503. A client that
// does not read keeps its page in memory, up to some 20 MB with 1,000 modules, for as long as an answer may take
// (J8).
const maxScrapes = 4

// publicRoutes are on both addresses. They show no values, and on the public address no errors
// either. A new one must keep that: it is reachable from the whole cluster.
func (s router) publicRoutes() []Route {
	// Users look for the metrics of hooks on the first page, too (I1). A scrape continues when one
	// collector fails, so that the other metrics remain.
	both := discreetMetrics{prometheus.Gatherers{s.Metrics, s.HookMetrics}, s.Hide}
	scrape := promhttp.HandlerOpts{ErrorHandling: promhttp.ContinueOnError, MaxRequestsInFlight: maxScrapes}
	all := []Route{
		get("/", "module=NAME", "the live page: modules and queues; on the debug address also errors, and one module", s.page()),
		get("/healthz", "", "200 while the process lives", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { text(w, http.StatusOK, "ok\n") })),
		get("/readyz", "verbose", "200 after the first converge, on a follower when it could lead; 500 before", http.HandlerFunc(s.readyz)),
		get("/metrics", "", "metrics of the operator and of hooks", promhttp.HandlerFor(both, scrape)),
		get("/metrics/hooks", "", "metrics of hooks only", promhttp.HandlerFor(discreetMetrics{s.HookMetrics, s.Hide}, scrape)),
		get("/queue", "", "the tasks of all queues, as text", page{s.queues, asText}),
		get("/status/converge", "output=json", "progress of the converge, in fixed words for scripts", http.HandlerFunc(s.converge)),
		get("/discovery", "", "this list", page{s.discovery, asText}),
	}
	for i := range all {
		all[i].Public = true
	}
	return all
}

// command gives a page the command that prints it.
func (r Route) command(use, long string) Route {
	r.Command, r.Long = use, long
	return r
}

// inYAML is for the commands of values, which people read as YAML.
func (r Route) inYAML() Route {
	r.YAML = true
	return r
}

// debugRoutes may show values of users: on the debug address only (J4, J7).
func (s router) debugRoutes() []Route {
	of, parameters := owners{s.Source}, parameterPages{s.Parameters}
	json := func(look func(*http.Request) (any, error)) page { return page{look, asJSON} }
	text := func(look func(*http.Request) (any, error)) page { return page{look, asText} }
	const secrets = "show-secrets=true"
	routes := []Route{
		get("/status", "", "the state of the modules: what fails and why, what runs now, what to try next", text(s.status)).command("status", aboutStatus),
		get("/module/list", "", "all modules and their state; as text, the names of the enabled ones", json(s.list)).command("module list", aboutList),
		get("/module/ready", "module=MODULE", "the word ready, or which modules are not ready and why", text(s.ready)),
		get("/module/resource-monitor", "module=MODULE", "the objects of releases that are watched for deletion", json(of.resourceMonitor)).command("module resource-monitor [MODULE]", ""),
		get("/module/{name}/status", "", "what caused the last run of a module, or why it is disabled", json(of.status)).command("why MODULE", aboutWhy),
		get("/module/{name}/values", "global=true, "+secrets, "the merged values of a module", json(of.section("values"))).command("module values MODULE", "").inYAML(),
		get("/module/{name}/config", "global=true, "+secrets, "the values of a module in the ConfigMap", json(of.section("config"))).command("module config MODULE", "").inYAML(),
		get("/module/{name}/patches", secrets, "the saved patches of the hooks of a module", json(of.section("patches"))).command("module patches MODULE", "").inYAML(),
		get("/module/{name}/snapshots", secrets, "the snapshots of the kubernetes bindings of a module's hooks", json(of.snapshots)).command("module snapshots MODULE", ""),
		get("/module/{name}/render", "diff=true, debug=true, "+secrets, "the manifest that the chart of a module renders now", text(of.renderPage)).command("module render MODULE", aboutRender),
		get("/module/{name}/drift", secrets, "the fields of a module's objects that others have changed", json(of.drift)).command("module drift MODULE", aboutDrift),
		get("/global/list", "", "the global hooks and their bindings", json(of.listHooks)).command("global list", ""),
		get("/global/values", secrets, "the merged global values", json(of.section("values"))).command("global values", "").inYAML(),
		get("/global/config", secrets, "the global values in the ConfigMap", json(of.section("config"))).command("global config", "").inYAML(),
		get("/global/patches", secrets, "the saved patches of global hooks", json(of.section("patches"))).command("global patches", "").inYAML(),
		get("/global/snapshots", secrets, "the snapshots of the kubernetes bindings of global hooks", json(of.snapshots)).command("global snapshots", ""),
		get("/hook/list", "module=MODULE", "the hooks of the running operator and their bindings", json(of.listHooks)).command("hook list", ""),
		get("/hook/runs", "module=MODULE, hook=HOOK", "the last runs of hooks: when, why, how long, and their last lines", json(of.runs)).command("logs MODULE [HOOK]", aboutLogs),
		get("/hook/{name}/snapshots", secrets, "the snapshots of the kubernetes bindings of a hook", json(of.snapshots)).command("hook snapshots HOOK", ""),
		get("/queue/list", "queue=QUEUE, showEmpty=true", "the queues and their tasks, or one queue", json(s.queues)).command("queue list [QUEUE]", ""),
		get("/queue/main", "", "the tasks of the main queue", json(s.queues)).command("queue main", ""),
		get("/values/explain", "module=MODULE, path=PATH, "+secrets, "where values come from, and what they override", json(of.explainPage)).command("values explain [MODULE] PATH", aboutExplain),
		{Method: http.MethodPost, Path: "/values/check", Query: "path=PATH, " + secrets, Help: "whether the operator would accept a ConfigMap, whose data is the body: a JSON object of strings; and whether the value at a path is marked as a secret", handler: json(of.checkConfig)},
		get("/plan", secrets, "what the operator would do at the next reload", json(of.plan)),
		{Method: http.MethodPost, Path: "/plan", Query: secrets, Help: "the same with another ConfigMap, whose data is the body: a JSON object of strings", handler: json(of.plan)},
		get("/actors", "", "the mailboxes of all actors", text(s.actors)),
		get("/config/list", "", "the parameters that can be changed while the operator runs", json(parameters.page)).command("config list", ""),
		{Method: http.MethodPost, Path: "/config/set", Query: "name=NAME, value=VALUE, duration=10m", Help: "change a parameter at once, until the operator ends or for a duration", handler: json(parameters.page), Command: "config set NAME VALUE [DURATION]"},
		get("/debug/pprof/", "", "profiles of the process", http.HandlerFunc(pprof.Index)),
		get("/debug/pprof/cmdline", "", "", http.HandlerFunc(pprof.Cmdline)),
		get("/debug/pprof/profile", "seconds=30", "CPU", http.HandlerFunc(pprof.Profile)),
		get("/debug/pprof/symbol", "", "", http.HandlerFunc(pprof.Symbol)),
		get("/debug/pprof/trace", "seconds=1", "", http.HandlerFunc(pprof.Trace)),
	}
	return routes
}

// pattern is what the mux matches. "{name...}" also matches slashes, which names of hooks have; then
// /hook/{name}/snapshots cannot be a pattern, and watcher cuts the end off itself. More specific patterns, such as
// /hook/list, win. "/{$}" is the root alone.
func (r Route) pattern() string {
	switch r.Path {
	case "/":
		return r.Method + " /{$}"
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
	mux.HandleFunc("GET /", func(w http.ResponseWriter, r *http.Request) {
		answer(w, asText, false, nil, noPage(r.URL.Path, routes))
	})
	// leaderOnly must see the path without its extension, or a follower would answer /module/list.text.
	return s.discreet(withoutExtension(s.leaderOnly(mux)))
}

// noPage is the error for an unknown path: 405 when only the method is wrong, else 404 with the
// page that was probably meant. The root is near to every short path, so it is not
// proposed.
func noPage(asked string, routes []Route) error {
	var known []string
	for _, r := range routes {
		// For pages of a module, its name stands in place of the braces.
		if parts := strings.Split(asked, "/"); len(parts) > 2 {
			r.Path = strings.Replace(r.Path, "{name}", parts[2], 1)
		}
		if known = append(known, r.Path); r.Path == asked {
			return &pageError{http.StatusMethodNotAllowed, fmt.Errorf("%s accepts only %s", asked, r.Method)}
		}
	}
	text := "page " + asked + " not found"
	if meant := values.Nearest(strings.TrimSuffix(asked, path.Ext(asked)), known); meant != "" && meant != "/" {
		text += "; did you mean " + meant + "?"
	}
	return notFound("%s; /discovery lists all", text)
}

// discovery answers /discovery with the pages of this audience.
func (s router) discovery(*http.Request) (any, error) {
	routes := slices.DeleteFunc(s.routes(), func(r Route) bool { return r.Help == "" })
	t, names := &table{columns: "METHOD PATH PARAMETERS ANSWER"}, []string{}
	for _, r := range routes {
		t.rows = append(t.rows, []string{r.Method, r.Path, r.Query, r.Help})
		if r.Method == http.MethodGet && !strings.Contains(r.Path, "{") {
			names = append(names, r.Path)
		}
	}
	return display{data: routes, table: t, names: names}, nil
}
