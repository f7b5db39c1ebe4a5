package testkit

import (
	"context"
	"path/filepath"
	"time"

	"addon-operator/actors/scenario"
	"addon-operator/helm"
)

// crds installs the definitions of modules, which takes a while and changes nothing.
type crds struct {
	trace *scenario.Trace
	takes time.Duration
}

// EnsureSubcharts implements work.CRDs.
func (c *crds) CheckCRDs(helm.Module) error { return nil }

// EnsureSubcharts implements work.CRDs.
func (c *crds) EnsureSubcharts(context.Context, helm.Module) error { return nil }

// EnsureCRDs implements work.CRDs.
func (c *crds) EnsureCRDs(ctx context.Context, modules []helm.Module) (written map[string]string, err error) {
	for _, m := range modules {
		c.trace.Add("CRDs of %s", filepath.Base(m.Dir))
	}
	select {
	case <-time.After(c.takes):
	case <-ctx.Done():
	}
	return nil, context.Cause(ctx)
}

// stepSlowCRDs has modules bring CRDs, and says how long their installation takes.
func stepSlowCRDs(p *player, text string) (err error) {
	if p.crds == nil {
		p.crds = &crds{trace: p.Trace}
	}
	p.crds.takes, err = time.ParseDuration(text)
	return err
}
