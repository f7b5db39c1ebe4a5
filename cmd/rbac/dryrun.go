package rbac

import (
	"cmp"
	"compress/gzip"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"addon-operator/actors/decide"
	"addon-operator/actors/plan"
	"addon-operator/addons"
	"addon-operator/helm"
	"addon-operator/helm/charts"
	"addon-operator/kube"
	"addon-operator/kube/apiserver"
)

// serveHelm makes an API server in memory to which Helm applies charts: it has the kinds of the
// cluster of the kubeconfig, or those of Kubernetes, holds no objects, and refuses to store any.
// The objects that Helm would create are read from the release record, which Helm writes before everything else;
// the requests show which objects templates look up. So charts are read by the code that deploys
// them, and this package does not import Helm.
//
// Templates may bring kinds whose presence other templates ask for. So the server is made again
// with the kinds that were found, until a round finds no more.
func (g *generator) serveHelm(ctx context.Context) error {
	c := g.config
	o := c.Cluster()
	if g.withoutCluster() {
		o = kube.Options{Config: apiserver.New("v1.36.0").RESTConfig(), QPS: -1}
	}
	client, err := kube.Connect(o)
	if err != nil {
		return err
	}
	// The only requests to a real cluster.
	if g.cluster, err = client.Discover(ctx); err != nil {
		return fmt.Errorf("get the kinds of the cluster of %s: %w; --offline works without them", c.Kubeconfig, err)
	}
	g.unread = g.ownKinds()
	for range maxRounds {
		if err := g.serve(); err != nil {
			return err
		}
		if more, err := g.templateKinds(ctx); err != nil || !more {
			return err
		}
	}
	return nil
}

// maxRounds bounds how often kinds may lead to templates that bring more kinds: each may depend on
// another, without end.
const maxRounds = 5

// serve makes the API server with the kinds that were found so far, and the clients for it. Clients
// of an earlier server lack the newer kinds.
func (g *generator) serve() (err error) {
	server := apiserver.NewOf(g.cluster)
	server.EnsureNamespace(g.config.Namespace)
	for _, m := range g.tree.Modules {
		server.EnsureNamespace(cmp.Or(m.File.Namespace, g.config.Namespace)) // that of a release exists when it is rendered
	}
	// Requests of Helm only: discovery is answered before.
	server.OnRequest(g.review)
	if g.kinds, err = kube.Connect(kube.Options{Config: server.RESTConfig(), QPS: -1}); err != nil {
		return err
	}
	g.chart = func(namespace string) (*helm.Client, error) {
		return helm.New(helm.Options{Config: server.RESTConfig(), Namespace: cmp.Or(namespace, g.config.Namespace), Labels: helm.UsualLabels()})
	}
	return nil
}

// templateKinds adds the kinds whose definitions templates make: other modules may have objects of
// them. more reports that there were new ones, which templates may ask for.
func (g *generator) templateKinds(ctx context.Context) (more bool, err error) {
	for _, m := range g.tree.Modules {
		if !mentionsDefinitions(m) {
			continue
		}
		layers, err := g.layers(m)
		if err != nil {
			return false, err
		}
		client, err := g.chart(m.File.Namespace)
		if err != nil {
			return false, err
		}
		for _, merged := range layers {
			documents, err := client.Show(ctx, plan.HelmModule(m, merged))
			if err != nil {
				break // module reports it
			}
			for _, d := range documents {
				for _, o := range d.Objects {
					more = g.addKinds(o) || more
				}
			}
		}
	}
	// These renders are not those whose lookups count.
	g.lookups = nil
	return more, nil
}

// mentionsDefinitions reports whether a chart may make definitions; all others are not rendered for
// them.
func mentionsDefinitions(m addons.Module) bool {
	if !charts.Exists(m.Dir) {
		return false
	}
	loaded, err := new(charts.Cache).Load(decide.ChartModule(m))
	return err == nil && loaded.Mentions("CustomResourceDefinition")
}

// addKinds adds the kinds of an object that is a definition, and reports whether one was new.
func (g *generator) addKinds(o map[string]any) (added bool) {
	if o["kind"] != "CustomResourceDefinition" {
		return false
	}
	var crd definition
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o, &crd); err != nil {
		return false // the API server reports the mistake
	}
	return g.addDefinition(crd)
}

// review answers each request to the API server in memory: it keeps the release record that Helm
// wants to store, notes what templates look up, and refuses every write.
func (g *generator) review(r apiserver.Request) error {
	switch {
	case r.Verb == "get" || r.Verb == "list":
		if !strings.Contains(r.Labels, "owner=") { // of the records of releases, and of pointers to them
			g.lookups = append(g.lookups, r)
		}
		return nil
	// The record is the first Secret that Helm creates, and the only one: after this refusal it
	// gives up.
	case r.Verb == "create" && r.Resource == "secrets":
		g.record, _, _ = unstructured.NestedString(r.Object, "data", "release")
	}
	return apierrors.NewForbidden(r.GroupResource(), r.Name, errors.New("this is a dry run"))
}

// releaseRecord is the part of Helm's release record that lists objects.
type releaseRecord struct {
	Manifest string `json:"manifest"`
	Hooks    []struct {
		Manifest string `json:"manifest"`
	} `json:"hooks"`
}

// manifests returns the documents of a release record, those of Helm hooks last. record is the data
// of its Secret: JSON, packed with gzip, in base64 of Helm, in base64 of the Secret.
func manifests(record string) (string, error) {
	text := base64.NewDecoder(base64.StdEncoding, strings.NewReader(record)) // as data of a Secret
	packed, err := gzip.NewReader(base64.NewDecoder(base64.StdEncoding, text))
	if err != nil {
		return "", fmt.Errorf("unpack the release record: %w", err)
	}
	var release releaseRecord
	if err := json.NewDecoder(packed).Decode(&release); err != nil {
		return "", fmt.Errorf("read the release record: %w", err)
	}
	manifest := release.Manifest
	for _, hook := range release.Hooks {
		manifest += "\n---\n" + hook.Manifest
	}
	return manifest, nil
}
