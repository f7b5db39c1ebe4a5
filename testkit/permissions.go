package testkit

import (
	"slices"
	"strings"
	"time"

	"addon-operator/hooks"
)

// notePermission notes since when a kind is forbidden, by the steps forbid and permit.
func (c *Cluster) notePermission(step string) {
	verb, kind, _ := strings.Cut(step, " ")
	c.mu.Lock()
	defer c.mu.Unlock()
	switch _, known := c.forbidden[kind]; {
	case verb == "forbid" && !known:
		c.forbidden[kind] = time.Now()
	case verb == "permit":
		delete(c.forbidden, kind)
	}
}

// lacking checks that no hook is shown a snapshot that lacks what the operator may no longer read
// (C17). What was forbidden only just now may come with it.
func (c *Cluster) lacking(w *witness, run hooks.Run) {
	if c == nil {
		return
	}
	const justNow = time.Second
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, b := range run.Hook.Config.Kubernetes {
		since, forbidden := c.forbidden[b.Kind]
		if !forbidden || time.Since(since) < justNow {
			continue
		}
		shown := slices.ContainsFunc(run.Contexts, func(shows hooks.Context) bool {
			_, snapshot := shows.Snapshots[b.Name]
			return snapshot || shows.Binding == b.Name && shows.Type == hooks.TypeSynchronization
		})
		if shown {
			w.problem("hook %s is shown a snapshot of %s, which the operator may not read any more", run.Hook.Name, b.Kind)
		}
	}
}
