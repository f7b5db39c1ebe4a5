package actors

import (
	"context"
	"errors"
	"fmt"

	"addon-operator/kube"
	"addon-operator/values"
)

// Secret is the Secret that holds confidential values, a layer right above the ConfigMap (D40).
// Config watches it, validates both together, and writes to it what hooks patch at paths that a
// schema marks with x-secret (D41). It has the form of the ConfigMap. Package kube implements it;
// Read fails with kube.ErrForbidden when the operator may not read it.
type Secret interface {
	// The methods are as those of ConfigMap. Errors and logs must not quote the contents.
	Read(ctx context.Context) (kube.ConfigMap, error)
	Watch(ctx context.Context, notify func(kube.ConfigMap))
	Write(ctx context.Context, base map[string]string, set map[string]*string) (kube.ConfigMap, error)
}

// initialSecret is the Secret as it was read at the start. off: there is none to be read or
// written, until the end of the process: a right that is given later takes effect after a restart.
type initialSecret struct {
	data     map[string]string
	revision string
	off      bool
}

// exists reports whether the Secret was there, or is not watched.
func (s initialSecret) exists() bool { return s.off || s.revision != "" }

// readSecret reads the Secret at the start. It waits for the API server like readConfigMap, but not
// for the right to read: the Secret is optional, and a role without it must not stop the start.
func readSecret(ctx context.Context, w World, waits func(string)) (initialSecret, error) {
	if w.Secret == nil {
		return initialSecret{off: true}, nil
	}
	var content kube.ConfigMap
	var forbidden error
	err := waitFor(ctx, w, "the Secret with values", waits, func() (err error) {
		if content, err = w.Secret.Read(ctx); errors.Is(err, kube.ErrForbidden) {
			forbidden = err
			return nil
		}
		return err
	})
	if forbidden != nil {
		w.Log.Warn("there are no values from a Secret: the operator may not read it; config values that schemas mark with x-secret are written to the ConfigMap; let the role get, list, watch, create and update it, and restart", "err", forbidden)
		return initialSecret{off: true}, nil //nolint:nilerr // the Secret is optional
	}
	return initialSecret{data: content.Data, revision: content.ResourceVersion}, err
}

// layerSecret gives all sections their parts of the Secret as it is now, for a plan without an
// operator. One that would be refused is an error. Without the right to read it, the plan is made
// without its values, as an operator with the same rights would start.
func (b *boot) layerSecret(ctx context.Context, w World) error {
	if w.Secret == nil {
		return nil
	}
	content, err := w.Secret.Read(ctx)
	if errors.Is(err, kube.ErrForbidden) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("read the Secret with values: %w", err)
	}
	sections, err := values.ParseSecret(content.Data)
	if err != nil {
		return fmt.Errorf("the Secret with values would be refused: %w", err)
	}
	for key, section := range b.sections {
		next, err := section.WithSecret(sections[key], values.Origin{Revision: content.ResourceVersion})
		if err != nil {
			return fmt.Errorf("the Secret with values would be refused: %w", err)
		}
		b.sections[key] = next
	}
	return nil
}
