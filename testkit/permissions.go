package testkit

import (
	"context"
	"slices"
	"time"

	"addon-operator/hooks"
)

// checkLostPermissions makes the witness insist that no hook runs with a snapshot that lacks what the
// operator may not read any more (C17), and checkOneSetOfValues makes the model of random scripts
// insist that Helm renders the values that were validated (D36).
// Neither holds yet.
const (
	checkLostPermissions = false
	checkOneSetOfValues  = false
)

// forbid takes the permission to read a kind away, or gives it back.
func (c *Cluster) forbid(kind string, forbidden bool) error {
	c.mu.Lock()
	if _, known := c.forbidden[kind]; forbidden && !known {
		c.forbidden[kind] = time.Now()
	} else if !forbidden {
		delete(c.forbidden, kind)
	}
	c.mu.Unlock()
	return c.server.Forbid(kind, forbidden)
}

// lacking checks the snapshots that a run is shown. What was forbidden only just now may come with it.
func (c *Cluster) lacking(w *witness, run hooks.Run) {
	if !checkLostPermissions || c == nil {
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

// definitions stand for the CRDs of modules: there are none, and it takes time to install them.
type definitions struct {
	hooks *Hooks
	takes time.Duration
}

// EnsureCRDs implements actors.CRDs.
func (d *definitions) EnsureCRDs(ctx context.Context, _ []string) error {
	d.hooks.mu.Lock()
	takes := d.takes
	d.hooks.mu.Unlock()
	if takes > 0 && !d.hooks.sleep(ctx, "crds", takes) {
		return context.Cause(ctx)
	}
	return nil
}

func (p *player) stepSlowCRDs(text string) error {
	takes, err := time.ParseDuration(text)
	p.hooks.mu.Lock()
	defer p.hooks.mu.Unlock()
	if p.definitions == nil {
		p.definitions = &definitions{hooks: p.hooks}
	}
	p.definitions.takes = takes
	return err
}

// stepLook keeps what is there now, for those who compare it with a model.
func (p *player) stepLook(string) error {
	now := &Played{}
	now.look(p)
	p.looked = append(p.looked, now)
	return nil
}
