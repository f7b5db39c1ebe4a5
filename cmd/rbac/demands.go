package rbac

import (
	"k8s.io/apimachinery/pkg/runtime/schema"

	"addon-operator/addons"
	"addon-operator/cmd/cli"
	"addon-operator/kube"
	"addon-operator/kube/webhooks"
)

// demand is one thing that the operator must be allowed to do, and for whom.
type demand struct {
	namespace string // empty: in the whole cluster
	resource  schema.GroupResource
	names     string // resourceNames, separated by commas; empty: all objects
	verbs     []string
	why       string
}

// allVerbs are the verbs that Helm needs for an object.
func allVerbs() []string {
	return []string{"create", "delete", "get", "list", "patch", "update", "watch"}
}

func readVerbs() []string { return []string{"get", "list", "watch"} }

// baseDemands is what the operator needs without any module: the ConfigMap and the release records
// in its namespace, the Secret with the last valid content of the ConfigMap, events, its Lease, and
// watches of definitions and APIServices. The chart in deploy/ grants the same; a test compares
// them.
//
// ConfigMap and Lease are granted by name: lists and watches of a single object by its name, as the
// operator's are, count as those of that object. create is the one verb for which a name does not
// count.
func baseDemands(c *cli.Config) []demand {
	own := func(group, resource, why string, verbs ...string) demand {
		return demand{c.Namespace, schema.GroupResource{Group: group, Resource: resource}, "", verbs, why}
	}
	named := func(name string, d demand) demand {
		d.names = name
		return d
	}
	// Records of releases have no fixed names, nor has what is created. Where both are of one
	// resource, one rule grants both.
	unnamed := func(resource, created string) demand {
		if resource == c.HelmDriver.Resource().Resource {
			return own("", resource, "the records of releases, and "+created, allVerbs()...)
		}
		return own("", resource, created, "create")
	}
	return []demand{
		named(c.ConfigMap, own("", "configmaps", "the ConfigMap with values", "get", "list", "watch", "update")),
		unnamed("configmaps", "the ConfigMap with values, if it does not exist"),
		unnamed("secrets", "the Secret with the last valid content of the ConfigMap, if it does not exist"),
		named(kube.LastValidName(c.ConfigMap), own("", "secrets", "the last valid content of the ConfigMap", "get", "update")),
		// The rule for the records of releases, which have no fixed names, grants this, too. It
		// is separate so that it stays when a person narrows that rule, because the records are
		// elsewhere.
		named(c.SecretName(), own("", "secrets", "the Secret with values", "get", "list", "watch", "update")),
		own("", "events", "Events on the ConfigMap and on the Pod of the operator", "create", "patch"),
		own("", "pods", "the Pod of the operator, to record Events on it", "get"),
		named(cli.LeaseName, own("coordination.k8s.io", "leases", "the Lease of the leader", "get", "update")),
		own("coordination.k8s.io", "leases", "the Lease of the leader, if it does not exist", "create"),
		own(kube.ModuleGroup, "modules", "objects that show the state of modules", "get", "list", "watch", "create", "delete"),
		own(kube.ModuleGroup, "modules/status", "objects that show the state of modules", "patch"),
		{"", schema.GroupResource{Group: "apiextensions.k8s.io", Resource: "customresourcedefinitions"}, "", readVerbs(), "to detect new kinds"},
		{"", schema.GroupResource{Group: "apiregistration.k8s.io", Resource: "apiservices"}, "", readVerbs(), "to detect new kinds"},
	}
}

// namespaceDemands is what a module with a namespace of its own needs (H20): the records of its
// release there, and the right to create the namespace.
func namespaceDemands(c *cli.Config, m addons.Module) []demand {
	namespace := m.File.Namespace
	if namespace == "" || namespace == c.Namespace {
		return nil
	}
	all := schema.GroupResource{Resource: "namespaces"}
	return []demand{
		{namespace, c.HelmDriver.Resource().GroupResource(), "", allVerbs(), "the records of the release of module " + m.Name},
		{"", all, namespace, []string{"get"}, "the namespace of module " + m.Name},
		{"", all, "", []string{"create"}, "the namespace of module " + m.Name + ", if it does not exist"},
	}
}

// webhookDemands is what the operator needs to have the API server ask hooks (O2).
func webhookDemands(c *cli.Config) []demand {
	const why = "the configurations of webhooks of hooks, and the conversion of CRDs"
	group, all := "admissionregistration.k8s.io", []string{"create", "delete", "get", "list", "patch", "update"}
	own := func(resource, names, why string, verbs ...string) demand {
		return demand{c.Namespace, schema.GroupResource{Resource: resource}, names, verbs, why}
	}
	return []demand{
		{"", schema.GroupResource{Group: group, Resource: "mutatingwebhookconfigurations"}, "", all, why},
		{"", schema.GroupResource{Group: group, Resource: "validatingwebhookconfigurations"}, "", all, why},
		{"", schema.GroupResource{Group: "apiextensions.k8s.io", Resource: "customresourcedefinitions"}, "", []string{"patch"}, why},
		own("secrets", webhooks.SecretName, "the certificate of webhooks", "get", "patch", "update"),
		own("pods", "", "the label of the Pod that answers webhooks", "list", "patch"),
	}
}

// reviewDemands is what secure metrics need in addition (J11).
func reviewDemands() []demand {
	const why = "secure metrics: authentication and authorization of requests"
	return []demand{
		{"", schema.GroupResource{Group: "authentication.k8s.io", Resource: "tokenreviews"}, "", []string{"create"}, why},
		{"", schema.GroupResource{Group: "authorization.k8s.io", Resource: "subjectaccessreviews"}, "", []string{"create"}, why},
	}
}
