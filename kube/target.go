package kube

import (
	"cmp"
	"fmt"

	"k8s.io/client-go/tools/clientcmd"
)

// Target is the API server that a kubeconfig leads to. Kubeconfig is a path, Server a URL.
type Target struct{ Kubeconfig, Context, Server string }

// FindTarget names the API server that Connect would connect to; without a kubeconfig in the
// options it is that of kubectl: of $KUBECONFIG, or of the home directory.
func FindTarget(o Options) (Target, error) {
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	if o.Kubeconfig != "" {
		rules = &clientcmd.ClientConfigLoadingRules{ExplicitPath: o.Kubeconfig}
	}
	t := Target{Kubeconfig: rules.GetDefaultFilename(), Context: o.Context}
	overrides := &clientcmd.ConfigOverrides{CurrentContext: o.Context}
	overrides.ClusterInfo.Server = o.Server
	found := clientcmd.NewNonInteractiveDeferredLoadingClientConfig(rules, overrides)
	raw, err := found.RawConfig()
	if err != nil {
		return t, fmt.Errorf("kubeconfig %s: %w", t.Kubeconfig, err)
	}
	t.Context = cmp.Or(t.Context, raw.CurrentContext)
	if t.Context == "" {
		return t, fmt.Errorf("kubeconfig %s has no current context", t.Kubeconfig)
	}
	config, err := found.ClientConfig()
	if err != nil {
		return t, fmt.Errorf("kubeconfig %s: %w", t.Kubeconfig, err)
	}
	t.Server = config.Host
	return t, nil
}
