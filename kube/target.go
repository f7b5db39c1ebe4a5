package kube

import (
	"cmp"
	"fmt"
	"path/filepath"
	"strings"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
)

// Target is the API server that a kubeconfig leads to. Kubeconfig is a path, or several separated
// as in PATH, Server a URL.
type Target struct {
	Kubeconfig, Context, Server string
	// Pin is a kubeconfig without credentials: where it comes first in $KUBECONFIG, before those
	// above, kubectl uses the same context and server.
	Pin []byte
}

// FindTarget names the API server that Connect would connect to; without a kubeconfig in the
// options it is that of kubectl: of $KUBECONFIG, or of the home directory.
func FindTarget(o Options) (Target, error) {
	found, err := readKubeconfig(o)
	t := Target{Kubeconfig: found.files, Context: found.context}
	if found.merged != nil && t.Context == "" {
		return t, fmt.Errorf("kubeconfig %s has no current context", t.Kubeconfig)
	}
	if err != nil {
		return t, err
	}
	t.Server = found.config.Host
	pin := api.NewConfig()
	pin.CurrentContext = t.Context
	// Of several files the first one that has a cluster counts for all of its fields.
	if context := found.merged.Contexts[t.Context]; o.Server != "" && context != nil {
		cluster := api.NewCluster()
		if known := found.merged.Clusters[context.Cluster]; known != nil {
			cluster = known.DeepCopy()
		}
		cluster.Server, cluster.TLSServerName = o.Server, "" // that name is one of the other server
		pin.Clusters[context.Cluster] = cluster
	}
	t.Pin, err = clientcmd.Write(*pin)
	return t, err
}

// PersonConfig is the configuration of a person at a terminal, found as kubectl finds it. The
// namespace is that of the context, empty when it has none. A service account is never used: a
// person who works inside a Pod that has one means another cluster.
func PersonConfig(o Options) (config *rest.Config, namespace string, err error) {
	found, err := readKubeconfig(o)
	if err != nil {
		return nil, "", err
	}
	if context, ok := found.merged.Contexts[found.context]; ok {
		namespace = context.Namespace
	}
	found.config.UserAgent = cmp.Or(o.UserAgent, defaultUserAgent)
	return found.config, namespace, nil
}

// settings are the contents of one or several files, and the resulting configuration.
type settings struct {
	files   string // separated as in PATH
	context string // empty: none is current
	merged  *api.Config
	config  *rest.Config
}

// readKubeconfig reads the files as kubectl does: those of o.Kubeconfig or else of $KUBECONFIG,
// which may be several separated as in PATH, of which missing ones are skipped, or else
// ~/.kube/config. Its errors name the files, which are set with an error, too.
func readKubeconfig(o Options) (settings, error) {
	// Not ClientConfig of deferred rules: these would fall back to the service account of a Pod.
	rules := clientcmd.NewDefaultClientConfigLoadingRules()
	if o.Kubeconfig != "" {
		rules.MigrationRules = nil // they look at the home directory
		rules.Precedence = filepath.SplitList(o.Kubeconfig)
		if len(rules.Precedence) == 1 {
			rules.ExplicitPath = o.Kubeconfig // it must exist
		}
	}
	k := settings{files: strings.Join(rules.Precedence, string(filepath.ListSeparator)), context: o.Context}
	merged, err := rules.Load()
	if err != nil {
		return k, fmt.Errorf("kubeconfig %s: %w", k.files, err)
	}
	if len(merged.Clusters) == 0 && o.Server == "" {
		return k, fmt.Errorf("kubeconfig %s: it does not exist or contains no cluster; set --kubeconfig or $KUBECONFIG to another file", k.files)
	}
	k.merged, k.context = merged, cmp.Or(o.Context, merged.CurrentContext)
	overrides := &clientcmd.ConfigOverrides{CurrentContext: o.Context}
	overrides.ClusterInfo.Server = o.Server
	if k.config, err = clientcmd.NewNonInteractiveClientConfig(*merged, k.context, overrides, rules).ClientConfig(); err != nil {
		return k, fmt.Errorf("kubeconfig %s: %w", k.files, err)
	}
	return k, nil
}
