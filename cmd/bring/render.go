package bring

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"os"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"addon-operator/actors/scenario"
	"addon-operator/addons"
	"addon-operator/helm"
	"addon-operator/helm/charts"
	"addon-operator/helm/manifest"
	"addon-operator/kube"
	"addon-operator/kube/apiserver"
	"addon-operator/values"
)

// rendered is what the chart of a module makes of its values.
type rendered struct {
	objects []map[string]any // without hooks
	hooks   []map[string]any
	crds    []map[string]any // in crds/, of the chart and of its subcharts
}

// all are the objects and hooks.
func (r rendered) all() []map[string]any { return slices.Concat(r.objects, r.hooks) }

// render renders the chart of a module against a cluster in memory that holds nothing but the
// namespace of the release. All documents that cannot be read are in the error. Objects of 'helm
// test' are left out.
func render(ctx context.Context, m addons.Module, merged map[string]any) (r rendered, err error) {
	// The version is that of scenarios, so that a test of the module renders the same.
	server := apiserver.New(scenario.DefaultVersion)
	server.EnsureNamespace(namespaceOf(m))
	client, err := helm.New(helm.Options{Config: server.RESTConfig(), Namespace: namespaceOf(m)})
	if err != nil {
		return r, err
	}
	module := helm.Module{Name: m.Name, Key: m.Key, Dir: m.Dir, Shown: m.Shown(m.Dir), Values: merged}
	// The operator installs definitions before the release (M2).
	if r.crds, err = definitions(client, module); err != nil {
		return r, err
	}
	documents, err := client.Show(ctx, module)
	if err != nil {
		return r, err
	}
	var errs []error
	for _, d := range documents {
		switch {
		case d.Err != nil:
			errs = append(errs, d.Err)
		case d.Hook:
			r.hooks = append(r.hooks, slices.DeleteFunc(d.Objects, isTest)...)
		default:
			r.objects = append(r.objects, d.Objects...)
		}
	}
	return r, errors.Join(errs...)
}

// renderWith renders the chart of a module with the values of its files.
func renderWith(ctx context.Context, m addons.Module, global addons.Global) (rendered, error) {
	merged := map[string]any{}
	for key, of := range map[string]struct {
		schemas *values.Schemas
		static  []values.Layer
	}{values.GlobalKey: {global.Schemas, global.Static}, m.Key: {m.Schemas, m.Static}} {
		section, err := values.NewSection(key, of.schemas, of.static...)
		if err != nil {
			return rendered{}, err
		}
		merged[key] = section.Merged()
	}
	return render(ctx, m, merged)
}

// isTest reports whether an object belongs only to 'helm test', which the operator does not run.
// One annotation may name several events.
func isTest(object map[string]any) bool {
	u := unstructured.Unstructured{Object: object}
	events := u.GetAnnotations()["helm.sh/hook"]
	return events != "" && !slices.ContainsFunc(strings.Split(events, ","), func(event string) bool { return !strings.HasPrefix(strings.TrimSpace(event), "test") })
}

// namespaceOf is the namespace of the release: the one in module.yaml (H20), or that of scenarios.
func namespaceOf(m addons.Module) string { return cmp.Or(m.File.Namespace, scenario.Namespace) }

// definitions are the objects in crds/ of a chart and of its subcharts that the values enable. Helm
// does not render these (M7), so Show does not return them.
func definitions(client *helm.Client, m helm.Module) (found []map[string]any, err error) {
	files, err := kube.CRDFiles(charts.Root(m.Dir), kube.CRDOptions{Ignored: charts.Ignored})
	if err != nil {
		return nil, err
	}
	var texts [][]byte
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		texts = append(texts, text)
	}
	for _, f := range client.SubchartCRDs(m) {
		texts = append(texts, f.Data)
	}
	for _, text := range texts {
		// Some editors begin files with a byte order mark, which the parser would take for content.
		objects, err := manifest.Parse(string(bytes.TrimPrefix(text, []byte("\ufeff"))))
		if err != nil {
			return nil, err
		}
		for _, o := range objects {
			found = append(found, o.Object)
		}
	}
	return found, nil
}

func identify(object map[string]any) manifest.Object {
	return manifest.Of(&unstructured.Unstructured{Object: object})
}

// stable returns the objects that both of two renders have, in the order of the second, and whether
// the renders are equal. Hooks do not count: golden files do not have them.
func stable(a, b rendered) (names []manifest.Object, same bool) {
	known := map[manifest.Object]string{}
	for _, o := range a.objects {
		text, _ := values.YAML(o) // what cannot be written differs
		known[identify(o)] = string(text)
	}
	same = len(a.objects) == len(b.objects)
	for _, o := range b.objects {
		text, _ := values.YAML(o)
		before, there := known[identify(o)]
		if there {
			names = append(names, identify(o))
		}
		same = same && there && before == string(text)
	}
	return names, same
}

// missing are what the objects of a chart need in a cluster and neither Kubernetes nor the chart
// itself has: namespaces, and definitions of kinds. A test gives them, as another module or an
// administrator would.
func missing(ctx context.Context, r rendered) (stubs []map[string]any, err error) {
	known := map[schema.GroupKind]bool{}
	for _, o := range slices.Concat(r.crds, r.objects, r.hooks) {
		group, _, _ := unstructured.NestedString(o, "spec", "group")
		kind, _, _ := unstructured.NestedString(o, "spec", "names", "kind")
		if o["kind"] == "CustomResourceDefinition" {
			known[schema.GroupKind{Group: group, Kind: kind}] = true
		}
	}
	// Namespaces first: other stubs do not depend on them, but objects in them do.
	stubs = namespaces(r)
	client, err := kube.Connect(kube.Options{Config: apiserver.New(scenario.DefaultVersion).RESTConfig(), QPS: -1})
	if err != nil {
		return nil, err
	}
	for _, o := range r.all() {
		u := unstructured.Unstructured{Object: o}
		gvk := u.GroupVersionKind()
		if known[gvk.GroupKind()] {
			continue
		}
		// Once for each kind, whether it is found or not.
		known[gvk.GroupKind()] = true
		// A definition cannot bring a kind without a group: an unknown one is a mistake in the
		// chart.
		if _, _, err := client.FindKind(ctx, u.GetAPIVersion(), gvk.Kind); err == nil || gvk.Group == "" {
			continue
		}
		stubs = append(stubs, stub(gvk))
	}
	return stubs, nil
}

// namespaces are those that the objects name and the chart does not make, each once.
func namespaces(r rendered) (all []map[string]any) {
	// The scenario has its own namespace, and "" is that of objects without one.
	there := map[string]bool{"": true, scenario.Namespace: true}
	for _, o := range r.objects {
		if o["kind"] == "Namespace" {
			there[identify(o).Name] = true
		}
	}
	for _, o := range r.all() {
		if name := identify(o).Namespace; !there[name] {
			there[name] = true
			all = append(all, map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": name}})
		}
	}
	return all
}

// stub is a definition that accepts any object of a kind. Plural and scope are guesses, good enough
// for the test of a chart: kinds whose names begin with Cluster are cluster-wide.
func stub(gvk schema.GroupVersionKind) map[string]any {
	plural, _ := meta.UnsafeGuessKindToResource(gvk)
	scope := "Namespaced"
	if strings.HasPrefix(gvk.Kind, "Cluster") {
		scope = "Cluster"
	}
	return map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
		"metadata": map[string]any{"name": plural.Resource + "." + gvk.Group},
		"spec": map[string]any{
			"group": gvk.Group, "scope": scope,
			"names": map[string]any{"kind": gvk.Kind, "plural": plural.Resource, "singular": strings.ToLower(gvk.Kind)},
			"versions": []any{map[string]any{
				"name": gvk.Version, "served": true, "storage": true,
				"schema": map[string]any{"openAPIV3Schema": map[string]any{"type": "object", "x-kubernetes-preserve-unknown-fields": true}},
			}},
		},
	}
}
