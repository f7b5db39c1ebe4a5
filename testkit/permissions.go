package testkit

import (
	"slices"
	"strings"
	"time"

	"addon-operator/hooks"
)

// deny takes a permission from the operator, or gives it back. The observer keeps when it was taken
// first; to take it again changes nothing.
func deny(p *player, rest string, denied bool) error {
	p.observer.mu.Lock()
	switch _, known := p.observer.forbidden[rest]; {
	case denied && !known:
		p.observer.forbidden[rest] = time.Now()
	case !denied:
		delete(p.observer.forbidden, rest)
	}
	p.observer.mu.Unlock()
	kind, namespace, _ := strings.Cut(rest, " ")
	return p.Cluster.Server.Deny(kind, namespace, denied)
}

// lacking checks that no hook is shown a snapshot that lacks what the operator may no longer read
// (C17). A run that began just after the permission was taken may still have it: its snapshot was
// complete when it was made.
func (o *observer) lacking(run hooks.Run) {
	const justNow = time.Second
	for _, b := range run.Hook.Config.Kubernetes {
		o.mu.Lock()
		since, forbidden := o.forbidden[b.Kind]
		o.mu.Unlock()
		if !forbidden || time.Since(since) < justNow {
			continue
		}
		shown := slices.ContainsFunc(run.Contexts, func(shows hooks.Context) bool {
			_, snapshot := shows.Snapshots[b.Name]
			return snapshot || shows.Binding == b.Name && shows.Type == hooks.TypeSynchronization
		})
		if shown {
			o.problem("hook %s receives a snapshot of %s, which the operator is no longer allowed to read", run.Hook.Name, b.Kind)
		}
	}
}
