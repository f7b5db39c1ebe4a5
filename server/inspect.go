package server

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"addon-operator/messages"
	"addon-operator/messages/view"
	"addon-operator/supervisor"
)

// hanging, loops and notInForce call the functions of Source that may be nil, for which they return
// nothing.
func (s Source) hanging() []view.RunningHook {
	if s.Hanging == nil {
		return nil
	}
	return s.Hanging()
}

// loops is described with hanging.
func (s Source) loops() map[string]string {
	if s.Loops == nil {
		return nil
	}
	return s.Loops()
}

// notInForce is described with hanging. The caller may change the map.
func (s Source) notInForce() map[string]string {
	if s.NotInForce == nil {
		return nil
	}
	return s.NotInForce()
}

// statuses are what the actors of a tree have published, by their paths. Unlike Inspector.Statuses
// they are what the audience of the tree may see.
func statuses(tree []*supervisor.Node) map[string]supervisor.Status {
	all := map[string]supervisor.Status{}
	walk(tree, func(n *supervisor.Node) {
		if n.Status != nil {
			all[n.Path] = n.Status
		}
	})
	return all
}

// allModules lists all modules, with what no actor publishes: hooks that hang or trigger each other
// without end, and files that have changed on disk (P8). differs comes from notInForce, or is a
// reduced form of it for the public.
func (s Source) allModules(tree []*supervisor.Node, differs map[string]string) []view.Module {
	all, loops := view.Modules(statuses(tree), s.hanging(), differs, time.Now()), s.loops()
	for i := range all {
		if loop := loops[all[i].Name]; loop != "" {
			// Clip, because Problems shares its array with a published status.
			all[i].Problems = append(slices.Clip(all[i].Problems), loop)
		}
	}
	return all
}

// modulePages show one module, all modules, or the global section.
type modulePages struct{ owners }

// moduleList answers /module/list: the enabled modules, which is all that scripts of older
// operators expect, and as text only they; and the status of all modules. The commands wait, status
// and module list read it, also from operators of other versions: keys stay as they are.
func (s modulePages) moduleList(r *http.Request) (any, error) {
	converge, differs, tree := s.Converge(), s.notInForce(), s.Inspector.Tree()
	enabled := slices.AppendSeq([]string{}, slices.Values(converge.Enabled)) // [] in JSON, not null
	slices.Sort(enabled)
	all, global := s.allModules(tree, differs), globalStatus(tree)
	data := map[string]any{
		"headline": view.Headline(all, global), "stage": stage(tree, converge),
		"enabledModules": enabled, "modules": all, "global": global,
		"converge": map[string]any{"phase": converge.Phase, "ready": converge.Ready},
	}
	// Observed asks the API server, so only a client that waits for an edit requests it.
	if s.Observed != nil && r.URL.Query().Get("observed") == "true" {
		observed, err := s.Observed(r.Context())
		if err != nil {
			return nil, err
		}
		data["observed"] = observed
	}
	if held := converge.HeldPurge; held != nil {
		data["heldPurge"] = held
	}
	if s.Leadership != nil {
		data["leadership"] = s.Leadership()
	}
	problems := view.GlobalProblems(statuses(tree))
	if what := differs[messages.GlobalHooks]; what != "" {
		problems = append(slices.Clip(problems), what)
	}
	if loop := s.loops()[messages.GlobalHooks]; loop != "" {
		problems = append(slices.Clip(problems), loop)
	}
	if len(problems) > 0 {
		data["globalProblems"] = problems
	}
	if config := s.configStatus(); config.Refused != "" {
		data["config"] = config
	}
	return display{data, lines(enabled)}, nil
}

// configStatus is what the actor config has published; empty before the start.
func (s Source) configStatus() view.ConfigStatus {
	status, _ := s.Inspector.Status("operator/config").(view.ConfigStatus)
	return status
}

// lines writes one name on each line.
func lines(names []string) func(io.Writer) {
	return func(w io.Writer) {
		for _, name := range names {
			fmt.Fprintln(w, name)
		}
	}
}

// modulePage answers /module/NAME/PAGE for the pages that have no route of their own. A module
// without an owner is refused before the page is, so that the error names the first mistake.
func (s modulePages) modulePage(r *http.Request) (any, error) {
	name, page := r.PathValue("name"), r.PathValue("page")
	own, err := s.owner(r.Context(), name)
	switch {
	case err != nil:
		return nil, err
	case slices.Contains(sections(), page):
		return s.sectionPage(r, name, page)
	case page == "snapshots":
		return snapshots(s.Source, r, s.nameOf(name, own), "")
	case page == "status":
		all := s.allModules(s.Inspector.Tree(), s.notInForce())
		i := slices.IndexFunc(all, func(m view.Module) bool { return m.Name == s.nameOf(name, own) })
		if i < 0 { // its owner has answered, so it existed a moment ago
			return nil, errors.New("the module is being restarted; try again")
		}
		return all[i], nil
	}
	return nil, noPart(page, append(sections(), "snapshots", "render", "status"))
}

// nameOf is the name of the module whose owner has answered with own. People use the name or the
// key of the values, while actors and statuses have the name only. Name and key are equal without
// dashes and case.
func (s owners) nameOf(asked string, own messages.Values) string {
	for _, name := range s.modules() {
		if name == asked || strings.EqualFold(strings.ReplaceAll(name, "-", ""), own.Section.Key()) {
			return name
		}
	}
	return asked
}

// globalPage answers /global/PAGE.
func (s modulePages) globalPage(r *http.Request) (any, error) {
	switch page := r.PathValue("page"); {
	case slices.Contains(sections(), page):
		return s.sectionPage(r, globalOwner, page)
	case page == "snapshots":
		return snapshots(s.Source, r, messages.GlobalHooks, "")
	default:
		return nil, noPart(page, append(sections(), "snapshots", "list"))
	}
}

// noPart is the error for an unknown page of a module or of global, or for its unknown extension.
func noPart(page string, known []string) error {
	if extension := path.Ext(page); extension != "" && slices.Contains(known, strings.TrimSuffix(page, extension)) {
		return noFormat(extension)
	}
	return unknown("page", page, known)
}

// hookPages show hooks: their bindings, runs and snapshots.
type hookPages struct{ owners }

// hooksOf asks an owner for the hooks that it has loaded.
func (s hookPages) hooksOf(ctx context.Context, owner string) ([]view.HookInfo, error) {
	list, err := question[messages.HookList](ctx, s.Source, ownerPath(owner), messages.ListHooks{})
	return view.DescribeHooks(owner, list), err
}

// allHooks asks all owners for their hooks, global first, then modules in the order they run; with
// only, that module alone. One owner that does not answer fails the whole page.
func (s hookPages) allHooks(ctx context.Context, only string) ([]view.HookInfo, error) {
	owners := []string{globalOwner}
	for _, m := range view.Modules(s.Inspector.Statuses(), nil, nil, time.Now()) {
		owners = append(owners, m.Name)
	}
	if only != "" {
		own, err := s.owner(ctx, only)
		if err != nil {
			return nil, err
		}
		owners = []string{s.nameOf(only, own)}
	}
	all := []view.HookInfo{}
	for _, owner := range owners {
		found, err := s.hooksOf(ctx, owner)
		if err != nil {
			return nil, err
		}
		all = append(all, found...)
	}
	return all, nil
}

// hookList answers /hook/list. A hook with several runs that hang shows the first.
func (s hookPages) hookList(r *http.Request) (any, error) {
	all, err := s.allHooks(r.Context(), r.URL.Query().Get("module"))
	for _, h := range s.hanging() {
		for i := range all {
			if all[i].Hook == h.Hook && all[i].Hanging == nil {
				all[i].Hanging = &h
			}
		}
	}
	s.addProblems(all)
	return display{map[string]any{"hooks": all}, hookLines(all)}, err
}

// globalList answers /global/list. Scripts read globalHooks, which has the names only.
func (s hookPages) globalList(r *http.Request) (any, error) {
	all, err := s.hooksOf(r.Context(), globalOwner)
	s.addProblems(all)
	names := make([]string, 0, len(all))
	for _, h := range all {
		names = append(names, h.Hook)
	}
	return display{map[string]any{"globalHooks": names, "hooks": all}, lines(names)}, err
}

// addProblems adds to each hook why its snapshots are not what the cluster has (J12). It matches by
// the name of the hook alone, which for a hook of a module begins with the module's directory.
func (s hookPages) addProblems(all []view.HookInfo) {
	byHook := map[string][]string{}
	walk(s.Inspector.Tree(), func(n *supervisor.Node) {
		if reporter, ok := n.Status.(view.MonitorsReporter); ok {
			for _, b := range reporter.Monitors().Bindings {
				if problem := view.BindingProblem(b); problem != "" {
					byHook[b.Hook] = append(byHook[b.Hook], problem)
				}
			}
		}
	})
	for i := range all {
		all[i].Problems = byHook[all[i].Hook]
	}
}

func hookLines(all []view.HookInfo) func(io.Writer) {
	return func(w io.Writer) {
		table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
		for _, h := range all {
			var on []string
			for _, b := range h.Bindings {
				on = append(on, b.String())
			}
			if h.Hanging != nil {
				on = append(on, h.Hanging.String())
			}
			on = append(on, h.Problems...)
			fmt.Fprintf(table, "%s\t%s\t%s\n", h.Owner, h.Hook, strings.Join(on, ", "))
		}
		_ = table.Flush() // the client has gone
	}
}

// hookPage answers /hook/NAME/snapshots. Names of hooks have slashes, so the pattern of the route
// takes the whole rest of the path.
func (s hookPages) hookPage(r *http.Request) (any, error) {
	asked := r.PathValue("name")
	name, ok := strings.CutSuffix(asked, "/snapshots")
	if !ok {
		return nil, notFound("page /hook/%s not found; available: /hook/list and /hook/NAME/snapshots", asked)
	}
	all, err := s.allHooks(r.Context(), "")
	if err != nil {
		return nil, err
	}
	var known []string
	for _, h := range all {
		if h.Hook == name {
			owner := h.Owner
			if owner == globalOwner {
				owner = messages.GlobalHooks
			}
			return snapshots(s.Source, r, owner, name)
		}
		known = append(known, h.Hook)
	}
	return nil, unknown("hook", name, known)
}

// snapshotDump is the snapshot of one binding as its page shows it.
type snapshotDump struct {
	Kind string `json:"kind"`
	// State is "complete", or the phase that explains why Objects is not what the cluster has.
	State   string            `json:"state"`
	Message string            `json:"message,omitempty"`
	Objects []json.RawMessage `json:"objects"`
}

// snapshots answers with hook → binding → dump (J4), of one hook, or of all hooks of an owner when
// hook is empty. Objects are masked unless secrets were requested.
func snapshots(s Source, r *http.Request, owner, hook string) (any, error) {
	dump, err := question[messages.SnapshotDump](r.Context(), s, "monitors", messages.DumpSnapshots{Owner: owner, Hook: hook})
	if err != nil {
		return nil, err
	}
	byHook := map[string]map[string]snapshotDump{}
	for _, b := range dump.Bindings {
		if !showSecrets(r) {
			b = view.MaskedSnapshot(b)
		}
		out := snapshotDump{Kind: b.Kind, State: b.Phase, Message: b.Message, Objects: []json.RawMessage{}}
		for _, o := range b.Snapshot {
			text, err := json.Marshal(o)
			if err != nil {
				return nil, fmt.Errorf("snapshot of %s: %w", b.Binding, err)
			}
			out.Objects = append(out.Objects, text)
		}
		if byHook[b.Hook] == nil {
			byHook[b.Hook] = map[string]snapshotDump{}
		}
		byHook[b.Hook][freeName(byHook[b.Hook], b.BindingState.Binding)] = out
	}
	return byHook, nil
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

// resourceMonitor lists the objects of releases that are watched for deletion (H13). Scripts expect
// the words "No monitor" for a module without any.
func (s modulePages) resourceMonitor(r *http.Request) (any, error) {
	monitored, err := question[messages.Monitored](r.Context(), s.Source, "healer", messages.ListMonitored{})
	if err != nil {
		return nil, err
	}
	out := map[string]any{}
	for _, name := range s.modules() {
		out[name] = "No monitor"
		var ids []string
		for _, o := range monitored[name] {
			ids = append(ids, o.String())
		}
		if len(ids) > 0 {
			out[name] = ids
		}
	}
	return out, nil
}

// objects lists the objects of one module's release, for the command tree.
func (s modulePages) objects(r *http.Request) (any, error) {
	name := r.PathValue("name")
	own, err := s.owner(r.Context(), name)
	if err != nil {
		return nil, err
	}
	monitored, err := question[messages.Monitored](r.Context(), s.Source, "healer", messages.ListMonitored{})
	if err != nil {
		return nil, err
	}
	name = s.nameOf(name, own)
	return map[string]any{"module": name, "objects": append([]messages.MonitoredObject{}, monitored[name]...)}, nil
}

// rank are the modules of one order, which may run in parallel.
type rank struct {
	Order   int      `json:"order"`
	Modules []string `json:"modules"`
}

// graph draws the order of modules in the language of Graphviz (J4). Each module has an edge from
// every module of the rank before it: it begins when those have ended.
func (s actorPages) graph(*http.Request) (any, error) {
	ranks := []rank{}
	phase := map[string]view.Phase{}
	for _, m := range view.Modules(s.Inspector.Statuses(), nil, nil, time.Now()) {
		phase[m.Name] = m.Phase
		if last := len(ranks) - 1; last >= 0 && ranks[last].Order == m.Order {
			ranks[last].Modules = append(ranks[last].Modules, m.Name)
			continue
		}
		ranks = append(ranks, rank{m.Order, []string{m.Name}})
	}
	return display{map[string]any{"orders": ranks}, func(w io.Writer) {
		fmt.Fprintln(w, "digraph modules {\n  rankdir=LR; node [shape=box];")
		for i, r := range ranks {
			for _, name := range r.Modules {
				style := ""
				if phase[name] == view.Disabled {
					style = ", style=dashed"
				}
				fmt.Fprintf(w, "  %q [label=\"%d %s\\n%s\"%s];\n", name, r.Order, name, phase[name], style)
				if i > 0 {
					for _, before := range ranks[i-1].Modules {
						fmt.Fprintf(w, "  %q -> %q;\n", before, name)
					}
				}
			}
		}
		fmt.Fprintln(w, "}")
	}}, nil
}
