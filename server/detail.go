package server

import (
	"cmp"
	"fmt"
	"net/url"
	"slices"
	"time"

	"addon-operator/messages/view"
)

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
