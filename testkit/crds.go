package testkit

import (
	"context"
	"os"
	"path/filepath"
	"time"

	"addon-operator/actors/scenario"
	"addon-operator/actors/work"
	"addon-operator/helm"
)

// faultOfCRDs is the installation of definitions, which takes long.
const faultOfCRDs = "crds "

// crds are the definitions of modules, with a trace, and the time that a script gives them.
type crds struct {
	work.CRDs
	trace  *scenario.Trace
	faults *scenario.Faults
	sched  *scheduler
}

// EnsureCRDs implements work.CRDs.
func (c crds) EnsureCRDs(ctx context.Context, modules []helm.Module) (written map[string]string, err error) {
	bring := false
	for _, m := range modules {
		if _, err := os.Stat(filepath.Join(m.Dir, "crds")); err == nil {
			bring = true
			c.trace.Add("CRDs of %s", filepath.Base(m.Dir))
		}
	}
	if d := c.faults.Lasts(faultOfCRDs); d > 0 && bring {
		select {
		case <-time.After(d):
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
		c.sched.await("crds")
	}
	return c.CRDs.EnsureCRDs(ctx, modules)
}

// stepSlowCRDs says how long the installation of definitions takes.
func stepSlowCRDs(p *player, text string) error {
	d, err := time.ParseDuration(text)
	p.Faults.Slow(faultOfCRDs, d)
	return err
}
