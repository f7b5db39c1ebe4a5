package rbac

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"addon-operator/addons"
	"addon-operator/cmd/cli"
	"addon-operator/kube"
)

// demand is one thing that the operator must be allowed to do, and for whom.
type demand struct {
	namespace string // empty: in the whole cluster
	resource  schema.GroupResource
	names     string // resourceNames, separated by commas; empty: all objects
	verbs     []string
	why       string
}

// allVerbs are the verbs that Helm needs for an object, in the order in which people write them;
// see inOrder.
func allVerbs() []string {
	return []string{"get", "list", "watch", "create", "update", "patch", "delete"}
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
		named(c.ConfigMap, own("", "configmaps", "the ConfigMap with values", "get", "list", "watch", "update", "patch")),
		unnamed("configmaps", "the ConfigMap with values, if it does not exist"),
		unnamed("secrets", "the Secret with the last valid content of the ConfigMap, if it does not exist"),
		named(kube.LastValidName(c.ConfigMap), own("", "secrets", "the last valid content of the ConfigMap", "get", "update")),
		// The rule for the records of releases, which have no fixed names, grants this, too. It
		// is separate so that it stays when a person narrows that rule, because the records are
		// elsewhere.
		named(c.SecretName(), own("", "secrets", "the Secret with values", "get", "list", "watch", "update")),
		own("", "events", "Events on the ConfigMap and on the Pod of the operator", "get", "create", "update", "patch"),
		own("", "pods", "the Pod of the operator, to record Events on it", "get"),
		named(cli.LeaseName, own("coordination.k8s.io", "leases", "the Lease of the leader", "get", "list", "watch", "update", "patch")),
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

// reviewDemands is what secure metrics need in addition (J11).
func reviewDemands() []demand {
	const why = "secure metrics: authentication and authorization of requests"
	return []demand{
		{"", schema.GroupResource{Group: "authentication.k8s.io", Resource: "tokenreviews"}, "", []string{"create"}, why},
		{"", schema.GroupResource{Group: "authorization.k8s.io", Resource: "subjectaccessreviews"}, "", []string{"create"}, why},
	}
}

// rule is a rule of a role with the reasons for it, which become comments.
type rule struct {
	groups, resources, names, verbs, why []string
}

// role is a Role, or a ClusterRole when it has no namespace.
type role struct {
	namespace string
	rules     []rule
}

// isWide reports a demand for all groups, resources or verbs: a person who grants it should see
// which part of the operator needs it.
func (d demand) isWide() bool {
	return d.resource.Group == "*" || d.resource.Resource == "*" || slices.Contains(d.verbs, "*")
}

// roles turns demands into few rules: equal ones become one, and what is granted in the whole
// cluster is not granted a second time in a namespace. A demand with a * stays apart, with those
// who make it: a person who removes the rule keeps what the others need.
func roles(demands []demand) []role {
	// Demands with one key become one rule.
	type key struct {
		namespace, names string
		resource         schema.GroupResource
		wide             bool
	}
	verbs, why := map[key][]string{}, map[key][]string{}
	merge := func(k key, d demand) {
		verbs[k] = append(verbs[k], d.verbs...)
		why[k] = append(why[k], d.why)
	}
	for _, d := range demands {
		if d.namespace == "" {
			merge(key{"", d.names, d.resource, d.isWide()}, d)
		}
	}
	for _, d := range demands {
		all := key{"", "", d.resource, d.isWide()}
		// The rules of the whole cluster are complete here, so this does not depend on the order of
		// demands.
		if d.namespace != "" && !covers(verbs[all], d.verbs) {
			merge(key{d.namespace, d.names, d.resource, d.isWide()}, d)
		}
	}
	byNamespace := map[string][]rule{}
	for k := range verbs {
		one := rule{
			groups: []string{k.resource.Group}, resources: []string{k.resource.Resource}, names: strings.FieldsFunc(k.names, func(r rune) bool { return r == ',' }),
			verbs: inOrder(verbs[k]), why: unique(why[k]),
		}
		byNamespace[k.namespace] = append(byNamespace[k.namespace], one)
	}
	var all []role
	for namespace, rules := range byNamespace {
		one := role{namespace, joined(rules)}
		slices.SortStableFunc(one.rules, func(a, b rule) int {
			switch {
			case a.isWide() == b.isWide():
				return 0
			case a.isWide():
				return -1
			}
			return 1
		})
		all = append(all, one)
	}
	slices.SortFunc(all, func(a, b role) int { return cmp.Compare(a.namespace, b.namespace) })
	return all
}

// isWide is the same for a rule.
func (r rule) isWide() bool {
	return slices.Contains(r.groups, "*") || slices.Contains(r.resources, "*") || slices.Contains(r.verbs, "*")
}

// covers reports whether some verbs include others.
func covers(granted, wanted []string) bool {
	return !slices.ContainsFunc(wanted, func(verb string) bool { return !slices.Contains(granted, verb) && !slices.Contains(granted, "*") })
}

// joined puts rules together that differ only in their resource. It sorts them, so that the output
// does not depend on the order of maps: people keep it in a repository.
func joined(rules []rule) []rule {
	slices.SortFunc(rules, func(a, b rule) int {
		return cmp.Or(slices.Compare(a.why, b.why), slices.Compare(a.groups, b.groups), slices.Compare(a.verbs, b.verbs),
			slices.Compare(a.names, b.names), slices.Compare(a.resources, b.resources))
	})
	var out []rule
	for _, r := range rules {
		if last := len(out) - 1; last >= 0 && slices.Equal(out[last].why, r.why) && slices.Equal(out[last].groups, r.groups) &&
			slices.Equal(out[last].verbs, r.verbs) && slices.Equal(out[last].names, r.names) {
			out[last].resources = append(out[last].resources, r.resources...)
			continue
		}
		out = append(out, r)
	}
	return out
}

// inOrder sorts verbs as people write them, each once; unknown ones follow by name, and a * replaces
// all.
func inOrder(verbs []string) []string {
	rank := func(verb string) int {
		if i := slices.Index(allVerbs(), verb); i >= 0 {
			return i
		}
		return len(allVerbs())
	}
	verbs = unique(verbs)
	if slices.Contains(verbs, "*") {
		return []string{"*"}
	}
	slices.SortFunc(verbs, func(a, b string) int { return cmp.Or(cmp.Compare(rank(a), rank(b)), cmp.Compare(a, b)) })
	return verbs
}

func unique(texts []string) []string {
	texts = slices.Clone(texts)
	slices.Sort(texts)
	return slices.Compact(texts)
}

// manifest is what the roles are written for.
type manifest struct {
	name, namespace, account string // of the roles; of the ServiceAccount
	// missing are the reasons why rules are missing, line by line; empty when the rules are
	// complete.
	missing []string
}

// write prints roles and their bindings as YAML. It is not marshalled, because comments name the
// hooks and charts that need each rule.
func (m manifest) write(out io.Writer, all []role) error {
	w := &lines{out: bufio.NewWriter(out)}
	w.line("# Rules for ServiceAccount %s in namespace %s, generated by 'addon-operator rbac generate'.", m.account, m.namespace)
	w.line("# The permissions that hooks need for kubectl or KUBERNETES_PATCH_PATH cannot be determined:")
	w.line("# add them manually, in the chart of the operator under rbac.extraRules.")
	if len(m.missing) > 0 {
		w.line("#\n# These rules are INCOMPLETE:")
		for _, text := range m.missing {
			w.line("# - %s", text)
		}
		w.line("#")
	}
	w.needed(m.namespace, all)
	w.wide(all)
	for _, r := range all {
		// ClusterRoles of two operators in one cluster need different names.
		kind, name := "ClusterRole", m.namespace+":"+m.name
		if r.namespace != "" {
			kind, name = "Role", m.name
		}
		w.line("---\napiVersion: rbac.authorization.k8s.io/v1\nkind: %s\nmetadata:\n  name: %s", kind, scalar(name))
		w.inNamespace(r.namespace)
		w.line("rules:")
		for _, one := range r.rules {
			w.rule(one)
		}
		w.line("---\napiVersion: rbac.authorization.k8s.io/v1\nkind: %sBinding\nmetadata:\n  name: %s", kind, scalar(name))
		w.inNamespace(r.namespace)
		w.line("roleRef:\n  apiGroup: rbac.authorization.k8s.io\n  kind: %s\n  name: %s", kind, scalar(name))
		w.line("subjects:\n- kind: ServiceAccount\n  name: %s\n  namespace: %s", scalar(m.account), scalar(m.namespace))
	}
	return errors.Join(w.err, w.out.Flush())
}

// lines writes lines and remembers the first error, so that only write has to return it.
type lines struct {
	out *bufio.Writer
	err error
}

func (w *lines) line(format string, args ...any) {
	if _, err := fmt.Fprintf(w.out, format+"\n", args...); w.err == nil {
		w.err = err
	}
}

// needed names the namespaces in which there are roles: the API server refuses those until they
// exist. They are no part of the output, because 'kubectl delete -f' would delete all that is in
// them.
func (w *lines) needed(operator string, all []role) {
	var names []string
	for _, r := range all {
		if r.namespace != "" && r.namespace != operator {
			names = append(names, r.namespace)
		}
	}
	if names = unique(names); len(names) == 1 {
		w.line("# The namespace %s must exist before these rules are applied.", names[0])
	} else if len(names) > 1 {
		w.line("# The namespaces %s must exist before these rules are applied.", strings.Join(names, ", "))
	}
}

// wide lists the rules with a * above all others, with the parts that need them.
func (w *lines) wide(all []role) {
	first := true
	for _, r := range all {
		for _, one := range r.rules {
			if !one.isWide() {
				continue
			}
			if first {
				w.line("#\n# These rules contain a *; review them first:")
			}
			first = false
			where := "the whole cluster"
			if r.namespace != "" {
				where = "namespace " + r.namespace
			}
			for _, why := range one.why {
				w.line("# - %s: apiGroups %s, resources %s, verbs %s in %s", strings.ReplaceAll(why, "\n", " "), sequence(one.groups), sequence(one.resources), sequence(one.verbs), where)
			}
		}
	}
}

func (w *lines) inNamespace(namespace string) {
	if namespace != "" {
		w.line("  namespace: %s", scalar(namespace))
	}
}

func (w *lines) rule(r rule) {
	for _, why := range r.why {
		w.line("# %s", strings.ReplaceAll(why, "\n", " "))
	}
	w.line("- apiGroups: %s\n  resources: %s", sequence(r.groups), sequence(r.resources))
	if len(r.names) > 0 {
		w.line("  resourceNames: %s", sequence(r.names))
	}
	w.line("  verbs: %s", sequence(r.verbs))
}

// sequence writes texts as a YAML list on one line.
func sequence(texts []string) string {
	quoted := make([]string, len(texts))
	for i, text := range texts {
		quoted[i] = scalar(text)
	}
	return "[" + strings.Join(quoted, ", ") + "]"
}

// scalar writes a text so that YAML reads the same text, without quotes where they are not needed.
// The words are those that YAML 1.1 reads as something else.
func scalar(text string) string {
	if regexp.MustCompile(`^[a-z][a-z0-9./:-]*[a-z0-9]$`).MatchString(text) && text != "true" && text != "false" && text != "null" && text != "yes" && text != "no" && text != "on" && text != "off" {
		return text
	}
	return strconv.Quote(text)
}

// ownRules returns the rules of a role that a chart creates as demands: RBAC lets a client grant
// only what it holds. What an aggregated role will hold is not known, and URLs are no resources, so
// these need the verb escalate.
func ownRules(document []byte, namespace, why string) ([]demand, error) {
	// A Role has the same fields but the aggregation.
	var granted rbacv1.ClusterRole
	if err := yaml.Unmarshal(document, &granted); err != nil {
		return nil, err
	}
	var demands []demand
	for _, r := range granted.Rules {
		for _, group := range r.APIGroups {
			for _, name := range r.Resources {
				demands = append(demands, demand{namespace, schema.GroupResource{Group: group, Resource: name}, strings.Join(r.ResourceNames, ","), r.Verbs, why})
			}
		}
	}
	needsEscalate := granted.AggregationRule != nil || slices.ContainsFunc(granted.Rules, func(r rbacv1.PolicyRule) bool { return len(r.NonResourceURLs) > 0 })
	if needsEscalate { // it will hold what is unknown now
		demands = append(demands, demand{namespace, schema.GroupResource{Group: rbacv1.GroupName, Resource: "clusterroles"}, granted.Name, []string{"escalate"}, why})
	}
	return demands, nil
}
