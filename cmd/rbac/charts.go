package rbac

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path"
	"path/filepath"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"addon-operator/actors/plan"
	"addon-operator/addons"
	"addon-operator/helm"
	"addon-operator/helm/charts"
	helmmanifest "addon-operator/helm/manifest"
	"addon-operator/kube"
	"addon-operator/kube/apiserver"
	"addon-operator/values"
)

// maxRounds bounds how often kinds may lead to templates that bring more kinds: each may depend on
// another, without end.
const maxRounds = 6

// charts renders the charts of all modules, with each layer of values, and adds what their objects
// need. Templates may bring kinds whose presence other templates ask for. So all are rendered again,
// with the kinds that were found, until a round finds no more. It continues after a chart that fails,
// so that all failures are named at once.
func (g *generator) charts(ctx context.Context) error {
	if err := g.serve(); err != nil {
		return err
	}
	errs := []error{g.ownKinds()}
	var rendered map[string][]*unstructured.Unstructured
	var failed []error
	for more, round := true, 0; more && round < maxRounds; round++ {
		if err := g.serve(); err != nil {
			return err
		}
		more, rendered, failed, g.lookups = false, map[string][]*unstructured.Unstructured{}, nil, nil
		for _, m := range g.tree.Modules {
			if !charts.Exists(m.Dir) {
				continue
			}
			objects, err := g.render(ctx, m)
			rendered[m.Name], failed = objects, append(failed, err)
			for _, o := range objects {
				more = isDefinition(o) && g.addDefinition(o) || more
			}
		}
	}
	errs, g.demands = append(errs, failed...), append(g.demands, g.lookups...)
	for _, m := range g.tree.Modules {
		if charts.Exists(m.Dir) {
			g.demands = append(g.demands, namespaceDemands(g.config, m)...)
			errs = append(errs, g.objects(ctx, m, rendered[m.Name]))
		}
	}
	return errors.Join(errs...)
}

// serve makes an API server in memory with the kinds that were found so far, and the clients for it.
// It has no other objects but namespaces.
func (g *generator) serve() (err error) {
	server := apiserver.NewOf(g.cluster)
	for _, crd := range g.crds {
		_ = server.Apply(crd) // one that no API server accepts makes no kinds
	}
	for _, m := range g.tree.Modules {
		server.EnsureNamespace(cmp.Or(m.File.Namespace, g.config.Namespace)) // that of a release exists when it is rendered
	}
	// Requests of templates; discovery is answered before.
	server.OnRequest(func(r apiserver.Request) error {
		g.lookups = append(g.lookups, demand{r.Namespace, r.GroupResource(), "", []string{r.Verb}, "chart of module " + g.rendering})
		return nil
	})
	if g.kinds, err = kube.Connect(kube.Options{Config: server.RESTConfig(), QPS: -1}); err != nil {
		return err
	}
	g.helm, err = helm.New(helm.Options{Config: server.RESTConfig(), Namespace: g.config.Namespace})
	return err
}

// layers returns the values on disk, and these once more with each file of --values: a chart may make
// other objects.
func (g *generator) layers(m addons.Module) (all []helm.Module) {
	sections := map[string]any{values.GlobalKey: g.sections[values.GlobalKey].Merged(), m.Key: g.sections[m.Key].Merged()}
	for _, layer := range append([]any{nil}, g.extra...) {
		merged, _ := values.Merge(sections, layer).(map[string]any)
		all = append(all, plan.HelmModule(m, merged))
	}
	return all
}

// render returns the objects of a chart, hooks included, as it is rendered with each layer of values.
func (g *generator) render(ctx context.Context, m addons.Module) (objects []*unstructured.Unstructured, err error) {
	g.rendering = m.Name
	for _, layer := range g.layers(m) {
		found, err := plan.Objects(ctx, g.helm, layer)
		if objects = append(objects, found...); err != nil {
			return objects, fmt.Errorf("module %s: render its chart with the values on disk: %w; pass values that hooks set with --values", m.Name, err)
		}
	}
	return objects, nil
}

// objects adds what Helm does with the objects of a release. RBAC lets
// no one grant more than it holds, so roles of a chart add all of their rules to those of the operator.
func (g *generator) objects(ctx context.Context, m addons.Module, objects []*unstructured.Unstructured) error {
	why, home := "chart of module "+m.Name, cmp.Or(m.File.Namespace, g.config.Namespace)
	made := map[string]bool{} // roles, by kind and name
	for _, o := range objects {
		made[o.GetKind()+"/"+o.GetName()] = true
	}
	var errs []error
	for _, o := range objects {
		namespace, err := g.object(ctx, o, home, why)
		if err == nil && o.GroupVersionKind().Group == rbacv1.GroupName {
			if strings.HasSuffix(o.GetKind(), "Binding") {
				g.bind(o, made, home, why)
			} else {
				err = g.hold(o, namespace, fmt.Sprintf("%s grants it with %s %s", why, o.GetKind(), o.GetName()))
			}
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", why, err))
		}
	}
	return errors.Join(errs...)
}

// object adds what Helm does with one object of a release in the namespace home. It returns the
// namespace of the object, "" for one of the whole cluster.
func (g *generator) object(ctx context.Context, o *unstructured.Unstructured, home, why string) (namespace string, err error) {
	found, namespaced, err := g.kinds.FindKind(ctx, o.GetAPIVersion(), o.GetKind())
	if err != nil {
		return "", g.unknown(o.GetAPIVersion(), o.GetKind())
	}
	if namespaced { // an object without a namespace gets that of the release
		namespace = cmp.Or(o.GetNamespace(), home)
	}
	// Not by name: names of objects change with values and versions of the chart.
	g.demands = append(g.demands, demand{namespace, found.GroupResource(), "", allVerbs(), why})
	// Without these rights the operator looks for deleted objects once a minute (H13).
	if g.options.watch {
		g.demands = append(g.demands, demand{"", found.GroupResource(), "", []string{"list", "watch"}, why + ", to detect deleted objects at once"})
	}
	if o.GetAnnotations()["helm.sh/hook-output-log-policy"] != "" {
		g.demands = append(g.demands,
			demand{namespace, schema.GroupResource{Resource: "pods"}, "", []string{"list"}, why + ", the output of its hooks"},
			demand{namespace, schema.GroupResource{Resource: "pods/log"}, "", []string{"get"}, why + ", the output of its hooks"})
	}
	return namespace, nil
}

// hold adds the rules of a role that a chart creates: RBAC lets a client grant only what it holds. What
// an aggregated role will hold is not known, and URLs are no resources, so these need the verb escalate.
func (g *generator) hold(o *unstructured.Unstructured, namespace, why string) error {
	var granted rbacv1.ClusterRole // a Role has the same fields but the aggregation
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &granted); err != nil {
		return fmt.Errorf("%s %s: %w", o.GetKind(), o.GetName(), err)
	}
	escalates := granted.AggregationRule != nil
	for _, r := range granted.Rules {
		escalates = escalates || len(r.NonResourceURLs) > 0
		for _, group := range r.APIGroups {
			for _, name := range r.Resources {
				g.demands = append(g.demands, demand{namespace, schema.GroupResource{Group: group, Resource: name}, strings.Join(r.ResourceNames, ","), r.Verbs, why})
			}
		}
	}
	if escalates {
		g.demands = append(g.demands, demand{namespace, schema.GroupResource{Group: rbacv1.GroupName, Resource: "clusterroles"}, granted.Name, []string{"escalate"}, why})
	}
	return nil
}

// bind adds the right to grant a role that the chart does not contain: the rules of that role are
// unknown here, and the verb bind replaces holding all of them.
func (g *generator) bind(o *unstructured.Unstructured, made map[string]bool, home, why string) {
	kind, _, _ := unstructured.NestedString(o.Object, "roleRef", "kind")
	name, _, _ := unstructured.NestedString(o.Object, "roleRef", "name")
	if made[kind+"/"+name] {
		return
	}
	d := demand{"", schema.GroupResource{Group: rbacv1.GroupName, Resource: "clusterroles"}, name, []string{"bind"}, fmt.Sprintf("%s binds %s %s", why, kind, name)}
	if kind == "Role" {
		d.resource.Resource, d.namespace = "roles", cmp.Or(o.GetNamespace(), home)
	}
	g.demands = append(g.demands, d)
}

// ownKinds adds the kinds that definitions in crds/ bring, also in those of subcharts that any of the
// layers of values enables, and the rights to install these definitions.
func (g *generator) ownKinds() error {
	var errs []error
	for _, m := range g.tree.Modules {
		options := g.config.CRDOptions()
		files, err := charts.Definitions(m.Dir)
		if err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", charts.Root(m.Dir), err))
		}
		for _, layer := range g.layers(m) {
			files = append(files, g.helm.SubchartCRDs(layer)...)
		}
		for _, f := range files {
			if options.Skips(f.Name) {
				continue
			}
			if err := g.definitions(path.Dir(f.Name)+"/ of module "+m.Name, f.Data); err != nil {
				errs = append(errs, fmt.Errorf("%s: %w", filepath.Join(charts.Root(m.Dir), f.Name), err))
			}
		}
	}
	return errors.Join(errs...)
}

func isDefinition(o *unstructured.Unstructured) bool {
	return o.GetKind() == "CustomResourceDefinition"
}

// definitions adds the rights to install the definitions in a file, and their kinds. A verb other than create can be
// granted by the name of the definition.
func (g *generator) definitions(why string, data []byte) error {
	found, err := helmmanifest.Parse(string(data))
	for _, crd := range found {
		if !isDefinition(crd) {
			continue
		}
		definitions := schema.GroupResource{Group: "apiextensions.k8s.io", Resource: "customresourcedefinitions"}
		g.demands = append(g.demands,
			demand{"", definitions, "", []string{"create"}, why},
			demand{"", definitions, crd.GetName(), []string{"patch"}, why})
		g.addDefinition(crd)
	}
	return err
}

// addDefinition adds a definition, and reports whether it was new.
func (g *generator) addDefinition(crd *unstructured.Unstructured) (added bool) {
	if _, known := g.crds[crd.GetName()]; !known {
		g.crds[crd.GetName()], added = crd.Object, true
	}
	return added
}
