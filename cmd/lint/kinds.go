package lint

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"addon-operator/kube"
	"addon-operator/kube/apiserver"
	"addon-operator/kube/builtin"
	"addon-operator/values"
)

// kinds are the kinds that exist where the modules will run: those of an API server in memory, to
// which the definitions of the modules are added in definitions and renderAll.
type kinds struct {
	server *apiserver.Server
	crds   []map[string]any
	// What the server serves, until there is one more definition; client is nil when it must be asked
	// again.
	client *kube.Client
	served map[string][]string // apiVersions by kind, the preferred ones first
}

func newKinds() *kinds { return &kinds{server: apiserver.New(builtin.Newest)} }

// know adds the kinds of a CustomResourceDefinition. The error is that of the API server, for a
// definition that it does not accept.
func (k *kinds) know(crd map[string]any) error {
	k.crds, k.client = append(k.crds, crd), nil
	return k.server.Apply(crd)
}

// ask learns what the server serves.
func (k *kinds) ask(ctx context.Context) (err error) {
	if k.client != nil {
		return nil
	}
	client, err := kube.Connect(kube.Options{Config: k.server.RESTConfig(), QPS: -1}) // nothing limits requests in memory
	if err != nil {
		return err
	}
	all, err := client.Discover(ctx)
	k.client, k.served = client, map[string][]string{}
	for _, list := range all.Kinds {
		for _, r := range list.APIResources {
			if !strings.Contains(r.Name, "/") {
				k.served[r.Kind] = append(k.served[r.Kind], list.GroupVersion)
			}
		}
	}
	return err
}

// unknown returns the problem of a kind; "" when it exists, or when a hook may use this name, such
// as a plural. It is an error when nothing outside of the tree can bring the kind: its group is one
// of Kubernetes or of a definition in the tree. Otherwise it is a warning, for bindings. apiVersion
// is "" when a binding leaves it out.
func (k *kinds) unknown(ctx context.Context, apiVersion, kind string) (problem, severity string) {
	if err := k.ask(ctx); err != nil {
		return "the kinds of the API server in memory are unknown: " + err.Error(), Error
	}
	gv, err := schema.ParseGroupVersion(apiVersion)
	_, _, missing := k.client.FindKind(ctx, apiVersion, kind)
	if missing == nil || err == nil && builtin.Has(gv.WithKind(kind)) {
		return "", ""
	}
	var names []string
	group := builtin.Owns(gv.Group) // or it is one of the tree
	for name, versions := range k.served {
		names = append(names, name)
		group = group || slices.ContainsFunc(versions, func(v string) bool { return strings.HasPrefix(v, gv.Group+"/") })
	}
	slices.Sort(names)
	problem = fmt.Sprintf("neither Kubernetes %s nor a CRD of the modules has %s", builtin.Newest, strings.TrimSpace(apiVersion+" "+kind))
	switch meant := values.Nearest(kind, names); {
	case group && len(k.served[kind]) > 0:
		return problem + "; it is served as " + strings.Join(k.served[kind], ", "), Error
	case group && meant != "":
		return problem + "; did you mean " + meant + "?", Error
	case group && apiVersion != "":
		return problem + "; correct the kind or the apiVersion", Error
	}
	return problem + ", so the hook receives nothing until something else installs it; add the CRD to crds/ of a module, or correct the name", Warning
}
