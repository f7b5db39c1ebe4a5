package rbac

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/yaml"

	"addon-operator/actors/decide"
	"addon-operator/addons"
	"addon-operator/helm/charts"
	helmmanifest "addon-operator/helm/manifest"
	"addon-operator/kube"
)

// object is the part of a manifest from which demands follow.
type object struct {
	APIVersion string
	Kind       string
	Metadata   struct {
		Name, Namespace string
		Annotations     map[string]string
	}
	RoleRef rbacv1.RoleRef
}

// objects adds what Helm does with the objects of a release. RBAC lets no one grant more than it
// holds, so roles of a chart add all of their rules to those of the operator. Bindings come last:
// whether a chart makes the role that it binds is known only after all of its objects.
func (g *generator) objects(ctx context.Context, m addons.Module, record string) error {
	text, err := manifests(record)
	if err != nil {
		return fmt.Errorf("module %s: %w", m.Name, err)
	}
	why := "chart of module " + m.Name
	made := map[rbacv1.RoleRef]bool{}
	var bindings []object
	found, err := helmmanifest.Parse(text) // as Helm reads it: a List is its items
	if err != nil {
		return fmt.Errorf("%s: %w", why, err)
	}
	for _, u := range found {
		document, err := u.MarshalJSON()
		if err != nil {
			return fmt.Errorf("%s: %w", why, err)
		}
		var o object
		if err := yaml.Unmarshal(document, &o); err != nil {
			return fmt.Errorf("%s: %w", why, err)
		}
		namespace, err := g.object(ctx, o, cmp.Or(m.File.Namespace, g.config.Namespace), why)
		switch {
		case err != nil:
			return fmt.Errorf("%s: %w", why, err)
		case !strings.HasPrefix(o.APIVersion, rbacv1.GroupName+"/"):
		case strings.HasSuffix(o.Kind, "Binding"):
			bindings = append(bindings, o)
		default:
			made[rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: o.Kind, Name: o.Metadata.Name}] = true
			held, err := ownRules(document, namespace, fmt.Sprintf("%s grants it with %s %s", why, o.Kind, o.Metadata.Name))
			if err != nil {
				return fmt.Errorf("%s: %s %s: %w", why, o.Kind, o.Metadata.Name, err)
			}
			g.demands = append(g.demands, held...)
		}
	}
	// Bindings come last, when all roles of the chart are in made.
	for _, o := range bindings {
		g.bind(o, made, cmp.Or(m.File.Namespace, g.config.Namespace), why)
	}
	return nil
}

// object adds what Helm does with one object of a release in the namespace home. It returns the
// namespace of the object, "" for one of the whole cluster.
func (g *generator) object(ctx context.Context, o object, home, why string) (namespace string, err error) {
	found, namespaced, err := g.kinds.FindKind(ctx, o.APIVersion, o.Kind)
	if err != nil {
		return "", g.unknown(o.APIVersion, o.Kind)
	}
	// An object without a namespace gets that of the release.
	if namespaced {
		namespace = cmp.Or(o.Metadata.Namespace, home)
	}
	// Not by name: names of objects change with values and versions of the chart.
	g.demands = append(g.demands, demand{namespace, found.GroupResource(), "", allVerbs(), why})
	// Without these rights the operator looks for deleted objects once a minute (H13).
	if g.options.watch {
		g.demands = append(g.demands, demand{"", found.GroupResource(), "", []string{"list", "watch"}, why + ", to detect deleted objects at once"})
	}
	// The operator reports why the Pod of a Job that is a Helm hook does not start (F19).
	if o.Metadata.Annotations["helm.sh/hook"] != "" && o.Kind == "Job" {
		g.demands = append(g.demands, demand{namespace, schema.GroupResource{Resource: "pods"}, "", []string{"list"}, why + ", to report what it waits for"})
	}
	// And why Pods of other workloads do not run: what they say, or without Pods the Events (H25).
	if slices.Contains([]string{"Deployment", "ReplicaSet", "StatefulSet", "DaemonSet", "Job"}, o.Kind) {
		for _, resource := range []string{"pods", "events"} {
			g.demands = append(g.demands, demand{namespace, schema.GroupResource{Resource: resource}, "", []string{"list"}, why + ", to report why Pods do not run"})
		}
	}
	if o.Metadata.Annotations["helm.sh/hook-output-log-policy"] != "" {
		g.demands = append(g.demands, demand{namespace, schema.GroupResource{Resource: "pods/log"}, "", []string{"get"}, why + ", the output of its hooks"})
	}
	return namespace, nil
}

// bind adds the right to grant a role that the chart does not contain: the rules of that role are
// unknown here, and the verb bind replaces holding all of them.
func (g *generator) bind(o object, made map[rbacv1.RoleRef]bool, home, why string) {
	if made[o.RoleRef] {
		return
	}
	d := demand{"", schema.GroupResource{Group: rbacv1.GroupName, Resource: "clusterroles"}, o.RoleRef.Name, []string{"bind"}, fmt.Sprintf("%s binds %s %s", why, o.RoleRef.Kind, o.RoleRef.Name)}
	if o.RoleRef.Kind == "Role" {
		d.resource.Resource, d.namespace = "roles", cmp.Or(o.Metadata.Namespace, home)
	}
	g.demands = append(g.demands, d)
}

// ownKinds adds the kinds that definitions in crds/ bring, and the rights to install these
// definitions. It reads all modules, also after an error.
func (g *generator) ownKinds() error {
	var errs []error
	for _, m := range g.tree.Modules {
		files, err := kube.CRDFiles(charts.Root(m.Dir), g.config.CRDOptions())
		if err != nil {
			errs = append(errs, fmt.Errorf("module %s: %w", m.Name, err))
		}
		for _, file := range files {
			data, err := os.ReadFile(file)
			if err == nil {
				err = g.definitions("crds/ of module "+m.Name, data)
			}
			if err != nil {
				errs = append(errs, fmt.Errorf("%s: %w", file, err))
			}
		}
		errs = append(errs, g.subcharts(m))
	}
	return errors.Join(errs...)
}

// subcharts does the same for the subcharts of a module's chart that any of the layers of values
// enables.
func (g *generator) subcharts(m addons.Module) error {
	if !charts.HasSubcharts(m.Dir) {
		return nil
	}
	loaded, err := new(charts.Cache).Load(decide.ChartModule(m))
	if err != nil {
		return nil //nolint:nilerr // module reports the reason
	}
	layers, err := g.layers(m)
	if err != nil {
		return err
	}
	seen := map[string]bool{}
	for _, merged := range layers {
		files, err := loaded.SubchartCRDs(merged)
		if err != nil {
			return fmt.Errorf("module %s: %w", m.Name, err)
		}
		for _, f := range files {
			// Several layers of values may enable one subchart.
			if seen[f.Name] || g.config.CRDOptions().Skips(f.Name) {
				continue
			}
			seen[f.Name] = true
			if err := g.definitions(path.Dir(f.Name)+" of module "+m.Name, f.Data); err != nil {
				return fmt.Errorf("%s: %w", filepath.Join(charts.Root(m.Dir), f.Name), err)
			}
		}
	}
	return nil
}

// definition is the part of a CustomResourceDefinition with the kinds that it defines.
type definition struct {
	Kind     string `json:"kind"`
	Metadata struct {
		Name string `json:"name"`
	} `json:"metadata"`
	Spec struct {
		Group string `json:"group"`
		Scope string `json:"scope"`
		Names struct {
			Plural     string   `json:"plural"`
			Kind       string   `json:"kind"`
			ShortNames []string `json:"shortNames"`
		} `json:"names"`
		Versions []struct {
			Name string `json:"name"`
		} `json:"versions"`
	} `json:"spec"`
}

// definitions adds the rights to install the definitions in a file, and their kinds. The operator
// creates them, patches them, patches their status when a version is dropped, and then writes all
// objects of the kind again (M3). A verb other than create can be granted by the name of the
// definition.
func (g *generator) definitions(why string, data []byte) error {
	for _, document := range documents(string(data)) {
		var crd definition
		if err := yaml.Unmarshal(document, &crd); err != nil {
			return err
		}
		if crd.Kind != "CustomResourceDefinition" {
			continue
		}
		definitions := schema.GroupResource{Group: "apiextensions.k8s.io", Resource: "customresourcedefinitions"}
		status := schema.GroupResource{Group: definitions.Group, Resource: definitions.Resource + "/status"}
		g.demands = append(g.demands,
			demand{"", definitions, "", []string{"create"}, why},
			demand{"", definitions, crd.Metadata.Name, []string{"patch"}, why},
			demand{"", status, crd.Metadata.Name, []string{"patch"}, why})
		// An incomplete definition, which the API server refuses, makes no rule.
		if own := (schema.GroupResource{Group: crd.Spec.Group, Resource: crd.Spec.Names.Plural}); own.Resource != "" && own.Group != "" {
			g.demands = append(g.demands, demand{"", own, "", []string{"list", "patch"}, why + ", to write objects again when it drops a version"})
		}
		g.addDefinition(crd)
	}
	return nil
}

// addDefinition adds the kinds of a definition, and reports whether one was new. The cluster's own kinds
// stay.
func (g *generator) addDefinition(crd definition) (added bool) {
	names := crd.Spec.Names
	for _, v := range crd.Spec.Versions {
		gv := schema.GroupVersion{Group: crd.Spec.Group, Version: v.Name}.String()
		known := slices.ContainsFunc(g.cluster.Kinds, func(list *metav1.APIResourceList) bool {
			return list.GroupVersion == gv && slices.ContainsFunc(list.APIResources, func(r metav1.APIResource) bool { return r.Name == names.Plural })
		})
		if known {
			continue
		}
		added = true
		g.cluster.Kinds = append(g.cluster.Kinds, &metav1.APIResourceList{
			GroupVersion: gv,
			APIResources: []metav1.APIResource{{Name: names.Plural, Kind: names.Kind, Namespaced: crd.Spec.Scope == "Namespaced", ShortNames: names.ShortNames}},
		})
	}
	return added
}

// documents splits a stream of YAML into its documents, without empty ones.
func documents(text string) (all [][]byte) {
	for document := range strings.SplitSeq("\n"+text, "\n---") {
		if strings.TrimSpace(document) != "" {
			all = append(all, []byte(document))
		}
	}
	return all
}
