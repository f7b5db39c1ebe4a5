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

	"addon-operator/addons"
	"addon-operator/helm/charts"
	helmmanifest "addon-operator/helm/manifest"
	"addon-operator/kube"
)

// object is what a rule needs to know of a manifest.
type object struct {
	APIVersion string
	Kind       string
	Metadata   struct {
		Name, Namespace string
		Annotations     map[string]string
	}
	RoleRef rbacv1.RoleRef
}

// objects adds what Helm does with the objects of a release.
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
	for _, o := range bindings {
		g.bind(o, made, cmp.Or(m.File.Namespace, g.config.Namespace), why)
	}
	return nil
}

// object adds what Helm does with one object of a release in the namespace home, and returns its namespace.
func (g *generator) object(ctx context.Context, o object, home, why string) (namespace string, err error) {
	found, namespaced, err := g.kinds.FindKind(ctx, o.APIVersion, o.Kind)
	if err != nil {
		return "", g.unknown(o.APIVersion, o.Kind)
	}
	if namespaced {
		namespace = cmp.Or(o.Metadata.Namespace, home)
	}
	g.demands = append(g.demands, demand{namespace, found.GroupResource(), "", allVerbs(), why})
	if g.options.watch {
		g.demands = append(g.demands, demand{"", found.GroupResource(), "", []string{"list", "watch"}, why + ", to see deleted objects at once"})
	}
	if o.Metadata.Annotations["helm.sh/hook"] != "" && o.Kind == "Job" {
		g.demands = append(g.demands, demand{namespace, schema.GroupResource{Resource: "pods"}, "", []string{"list"}, why + ", to say what it waits for"})
	}
	if o.Metadata.Annotations["helm.sh/hook-output-log-policy"] != "" {
		g.demands = append(g.demands, demand{namespace, schema.GroupResource{Resource: "pods/log"}, "", []string{"get"}, why + ", the output of its hooks"})
	}
	return namespace, nil
}

// bind adds the right to hand out a role that the chart itself does not make: its rules
// are not known here.
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

// ownKinds adds the kinds that the definitions of modules bring, and the right to
// install these.
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

// subcharts does the same for the subcharts that some of the values enable.
func (g *generator) subcharts(m addons.Module) error {
	if !charts.HasSubcharts(m.Dir) {
		return nil
	}
	loaded, err := new(charts.Cache).Load(charts.Module{Name: m.Name, Key: m.Key, Dir: m.Dir})
	if err != nil {
		return nil //nolint:nilerr // module says why
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

// definition is the part of a CustomResourceDefinition that says which kinds there are.
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
		if own := (schema.GroupResource{Group: crd.Spec.Group, Resource: crd.Spec.Names.Plural}); own.Resource != "" && own.Group != "" {
			g.demands = append(g.demands, demand{"", own, "", []string{"list", "patch"}, why + ", to write objects again when it drops a version"})
		}
		g.know(crd)
	}
	return nil
}

// know adds the kinds of a definition, and reports whether one was new.
func (g *generator) know(crd definition) (added bool) {
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

// documents splits a stream of YAML.
func documents(text string) (all [][]byte) {
	for document := range strings.SplitSeq("\n"+text, "\n---") {
		if strings.TrimSpace(document) != "" {
			all = append(all, []byte(document))
		}
	}
	return all
}
