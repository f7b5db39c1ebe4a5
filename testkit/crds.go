package testkit

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"addon-operator/actors/scenario"
	"addon-operator/helm"
)

// crds installs the definitions of modules, which takes a while and changes nothing.
type crds struct {
	trace   *scenario.Trace
	takes   time.Duration
	refused map[string]bool // modules with a file that is wrong
}

// CheckCRDs implements work.CRDs.
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
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	var errs []error
	for _, m := range modules {
		if c.refused[m.Name] {
			errs = append(errs, fmt.Errorf("%s/crds/a.yaml is wrong", filepath.Base(m.Dir)))
		}
	}
	return nil, errors.Join(errs...)
}

// stepSlowCRDs has modules bring CRDs, and says how long their installation takes.
func stepSlowCRDs(p *player, text string) (err error) {
	p.bringCRDs().takes, err = time.ParseDuration(text)
	return err
}

func stepRefuseCRDs(p *player, module string) error {
	p.bringCRDs().refused[module] = true
	return nil
}

func stepAcceptCRDs(p *player, module string) error {
	delete(p.bringCRDs().refused, module)
	return nil
}

// bringCRDs has modules bring CRDs, if the operator is started after it.
func (p *player) bringCRDs() *crds {
	if p.crds == nil {
		p.crds = &crds{trace: p.Trace, refused: map[string]bool{}}
	}
	return p.crds
}
