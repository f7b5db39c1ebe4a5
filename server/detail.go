package server

import (
	"cmp"
	"context"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"addon-operator/messages"
	"addon-operator/messages/view"
)

// moduleDetail is what the page shows of one module at once. It is sent with the stream, so it
// holds what is cheap; the rest is loaded when a person opens it (More, fragments.go). The zero
// value is shown when no module is chosen.
type moduleDetail struct {
	pageModule
	Missing bool // no module has the name that was asked for
	Hooks   []hookRow
	Moments []runMoment // of the last module run
	Runs    []RanHook   // of its hooks, the last one first
	Acts    []actButton
	Token   string // that the requests of its buttons must carry (PageTokenHeader)
	More    []fragmentLink
	Pages   []pageLink
}

// hookRow is a hook with its bindings.
type hookRow struct {
	Hook     string
	Bindings []bindingRow
	Problems []string
}

// bindingRow is a binding. Snapshot describes the snapshot of a kubernetes binding; it is empty for
// others.
type bindingRow struct{ What, Snapshot string }

// fragmentLink is a part of the detail that is loaded when it is opened. The script loads an open
// part again when its Version changes, so Version must differ whenever the content may; it is empty
// for parts of which no cheap sign of a change is known.
type fragmentLink struct{ ID, Title, Path, Version string }

// runMoment is an entry of the timeline of a module run. At is since its begin.
type runMoment struct {
	At   string
	Text string
	Bad  bool
}

// detail looks at one module, as of now. It asks the owner for its hooks, so it must not be called
// for each module. The public is shown no detail (J18).
func (s livePages) detail(ctx context.Context, now overview, name string) moduleDetail {
	if s.who != insider || name == "" {
		return moduleDetail{}
	}
	i := slices.IndexFunc(now.Modules, func(m moduleRow) bool { return m.Name == name })
	if i < 0 {
		return moduleDetail{pageModule: pageModule{view.Module{Name: name}}, Missing: true}
	}
	m := now.Modules[i].pageModule
	ran := s.History.Runs(name, "", 0)
	d := moduleDetail{pageModule: m, Hooks: s.hookRows(ctx, now, name), Moments: moments(m.Module, ran), Acts: s.actButtons(m.Module), Token: s.pageToken, More: fragmentLinks(m.Module), Pages: modulePageLinks(name)}
	const most = 20
	slices.Reverse(ran)
	d.Runs = ran[:min(len(ran), most)]
	return d
}

// hookRows are the hooks of a module. When its owner does not answer, it shows none: the next
// second shows them again, and an error would only flicker.
func (s livePages) hookRows(ctx context.Context, now overview, module string) []hookRow {
	found, err := hookPages{owners{s.Source}}.hooksOf(ctx, module)
	if err != nil {
		return nil
	}
	states := bindingStates(now.tree, module)
	rows := make([]hookRow, 0, len(found))
	for _, h := range found {
		row := hookRow{Hook: h.Hook}
		for _, b := range h.Bindings {
			state, watched := states[[2]string{h.Hook, b.Name}]
			shown := bindingRow{What: b.String()}
			if watched && b.Type == "kubernetes" {
				shown.Snapshot = snapshotWords(state)
				if problem := view.BindingProblem(state); problem != "" {
					row.Problems = append(row.Problems, problem)
				}
			}
			row.Bindings = append(row.Bindings, shown)
		}
		rows = append(rows, row)
	}
	return rows
}

// snapshotWords describe the snapshot of a binding: the number of its objects, and why it may differ from the
// cluster.
func snapshotWords(b messages.BindingState) string {
	text := view.Count(b.Objects, "object")
	if b.Phase != "complete" {
		text += ", " + b.Phase
	}
	if b.Held > 0 {
		text += ", " + view.Count(b.Held, "event") + " held back until Synchronization has succeeded"
	}
	if b.FilterErrors > 0 {
		text += fmt.Sprintf(", its filter failed %d times", b.FilterErrors)
	}
	return text
}

// moments are the timeline of the last module run: what led to it, the hooks that ran since, and
// how it ended. ran are the recorded runs of hooks of the module, the oldest first; history keeps
// only the last five of each hook, so older ones may be missing.
//
// Took is 0 while the run has not succeeded: then all hook runs since its beginning belong to it.
func moments(m view.Module, ran []RanHook) []runMoment {
	last := m.LastRun
	if last == nil {
		return nil
	}
	var all []runMoment
	for _, cause := range slices.Backward(last.Causes) {
		all = append(all, runMoment{Text: "because of " + cause.String()})
	}
	all = append(all, runMoment{At: "0s", Text: "the module run begins"})
	since := func(t time.Time) string { return "+" + max(0, t.Sub(last.Began)).Round(time.Millisecond).String() }
	end := last.Began.Add(last.Took)
	for _, r := range ran {
		// A hook of another queue may run during the module run, too; its queue is shown.
		if r.Began.Before(last.Began) || last.Took > 0 && r.Began.After(end) {
			continue
		}
		moment := runMoment{At: since(r.Began), Text: fmt.Sprintf("hook %s, %s, took %s", r.Hook, r.Binding, r.Took()), Bad: r.Error != ""}
		if r.Queue != "" && r.Queue != messages.MainQueue {
			moment.Text += ", in queue " + r.Queue
		}
		if moment.Bad {
			moment.Text += ", failed"
		}
		all = append(all, moment)
	}
	if last.Release != "" {
		all = append(all, runMoment{Text: "release: " + last.Release})
	}
	switch {
	case last.Took > 0:
		all = append(all, runMoment{At: since(end), Text: "the module run has succeeded"})
	case m.Failed.After(last.Began):
		all = append(all, runMoment{At: since(m.Failed), Text: "the last attempt has failed", Bad: true})
	}
	return all
}

// modulePageLinks are the debug pages of a module.
func modulePageLinks(name string) []pageLink {
	base := "module/" + url.PathEscape(name) + "/"
	return []pageLink{
		{base + "values.yaml", "values"}, {base + "config.yaml", "ConfigMap"}, {base + "patches.yaml", "patches of hooks"},
		{base + "snapshots.yaml", "snapshots"}, {base + "render", "manifest"},
		{base + "render?diff=true", "changes of the next run"}, {base + "drift.yaml", "drift"}, {base + "status.yaml", "status"},
	}
}

// fragmentLinks are the parts of a module that are loaded when a person opens them.
func fragmentLinks(m view.Module) []fragmentLink {
	query := "?module=" + url.QueryEscape(m.Name)
	// A drift check follows each run, so the end of a run makes what is shown old.
	ran := ""
	if m.LastRun != nil {
		ran = m.LastRun.Began.Format(time.RFC3339Nano) + cmp.Or(m.LastRun.Release, m.State)
	}
	return []fragmentLink{
		{"values", "Values, and where they come from", "live/values" + query, m.Values},
		{"snapshots", "Snapshots", "live/snapshots" + query, ""},
		{"history", "Revisions of the release", "live/history" + query, fmt.Sprint(m.Release)},
		{"drift", "Changed by others", "live/drift" + query, strings.Join(driftWords(m.Drift), "\n") + ran},
		{"actors", "Actors and mailboxes", "live/actors" + query, ""},
	}
}

func driftWords(drifted []view.DriftedObject) []string {
	words := make([]string, 0, len(drifted))
	for _, d := range drifted {
		words = append(words, d.String())
	}
	return words
}

// diffLink is the fragment with the difference of two revisions; from 0 means the revision before
// to. The template calls it with the newest revision as to, or with one and the one before.
func diffLink(module string, from, to int) pageLink {
	path := fmt.Sprintf("live/diff?module=%s&to=%d", url.QueryEscape(module), to)
	if from == 0 {
		return pageLink{path, "its changes"}
	}
	return pageLink{fmt.Sprintf("%s&from=%d", path, from), "changes since"}
}
