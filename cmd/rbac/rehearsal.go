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

	"addon-operator/cmd/cli"
	"addon-operator/helm"
	"addon-operator/kube"
	"addon-operator/kube/apiserver"
)

// serveHelm makes an API server in memory to which Helm applies charts: it has the kinds of the
// cluster of the kubeconfig, or those of Kubernetes, holds no objects, and refuses to store any.
// What Helm would create is read from the release record, which Helm writes before everything
// else; what templates look up is seen from what is asked. So the charts are read by the very
// code that deploys them, and only package helm needs to know Helm.
func (g *generator) serveHelm(ctx context.Context) error {
	c := g.config
	o := kube.Options{Kubeconfig: c.Kubeconfig, Context: c.KubeContext, Server: c.KubeServer, UserAgent: "addon-operator/" + c.Version}
	if g.withoutCluster() {
		o = kube.Options{Config: apiserver.New("v1.36.0").RESTConfig(), QPS: -1}
	}
	client, err := kube.Connect(o)
	if err != nil {
		return err
	}
	if g.cluster, err = client.Discover(ctx); err != nil {
		return fmt.Errorf("ask the cluster of %s for its kinds: %w; --offline does without", c.Kubeconfig, err)
	}
	if err := g.ownKinds(); err != nil {
		return err
	}
	stage := apiserver.NewOf(g.cluster)
	stage.OnRequest(g.review)
	if g.kinds, err = kube.Connect(kube.Options{Config: stage.RESTConfig(), QPS: -1}); err != nil {
		return err
	}
	labels, err := cli.ParseLabels(c.ExtraLabels)
	if err != nil {
		return fmt.Errorf("helm-extra-labels: %w", err)
	}
	g.chart = func(namespace string) (*helm.Client, error) {
		return helm.New(helm.Options{Config: stage.RESTConfig(), Namespace: cmp.Or(namespace, c.Namespace), Labels: labels})
	}
	return nil
}

// review takes the release record out of what Helm wants to store, notes what is looked up,
// and refuses every write.
func (g *generator) review(r apiserver.Request) error {
	switch {
	case r.Verb == "get" || r.Verb == "list":
		if !strings.Contains(r.Labels, "owner=") { // the records of releases, and where they lie: there are none
			g.lookups = append(g.lookups, r)
		}
		return nil
	case r.Verb == "create" && r.Resource == "secrets":
		g.record, _, _ = unstructured.NestedString(r.Object, "data", "release")
	}
	return apierrors.NewForbidden(r.GroupResource(), r.Name, errors.New("this is a dry run"))
}

// releaseRecord is the part of Helm's record that lists objects.
type releaseRecord struct {
	Manifest string `json:"manifest"`
	Hooks    []struct {
		Manifest string `json:"manifest"`
	} `json:"hooks"`
}

// manifests are the documents of a record, those of hooks behind the others.
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
