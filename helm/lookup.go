package helm

import (
	"fmt"

	"helm.sh/helm/v3/pkg/engine"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"addon-operator/helm/kinds"
)

// lookupClients serves the lookup function of templates from the shared connections, and notes what
// templates asked the cluster. One is for one render, or for the attempts to make one; templates
// run in one goroutine.
type lookupClients struct {
	op    *operation
	used  bool         // also by a lookup that has failed
	asked *kinds.Asked // .Capabilities
}

var _ engine.ClientProvider = (*lookupClients)(nil)

// GetClientFor implements engine.ClientProvider.
func (l *lookupClients) GetClientFor(apiVersion, kind string) (dynamic.NamespaceableResourceInterface, bool, error) {
	l.used = true
	m, err := l.op.home.kinds.Mapping(schema.FromAPIVersionAndKind(apiVersion, kind))
	if err != nil {
		return nil, false, fmt.Errorf("lookup %s %s: %w", apiVersion, kind, err)
	}
	client, err := dynamic.NewForConfig(l.op.config())
	if err != nil {
		return nil, false, err
	}
	return client.Resource(m.Resource), kinds.Namespaced(m), nil
}
