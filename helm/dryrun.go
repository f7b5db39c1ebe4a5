package helm

import (
	"context"
	"fmt"
	"log/slog"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	typedcorev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/metadata"

	"addon-operator/helm/dryrun"
)

// What Apply would do is found out by letting Apply do it, over transports that let no
// write through (package dryrun). So the result is what Apply does, repairs
// included, and there is no second implementation to keep equal.

// dryRun is what a client that changes nothing finds out.
type dryRun struct {
	*dryrun.Objects
	hooks []Hook // of the chart that an Uninstall runs
}

// dryRun makes a client that changes nothing, neither in the cluster nor in the
// memory of this one. It shares what is expensive: connections, discovery, charts.
func (c *Client) dryRun(ctx context.Context) (*Client, error) {
	r := &dryRun{Objects: dryrun.New(c.transport)}
	s := &Client{options: c.options, base: c.base, transport: r, kinds: c.kinds, charts: c.charts, build: c.build, locks: &locks{}, homes: c.homes, dry: r}
	s.options.Log, s.options.Watcher = slog.New(slog.DiscardHandler), nil
	s.records = c.records.copied(ctx)
	if c.options.Presence != nil {
		s.options.Presence = looking{c.options.Presence}
	}
	var err error
	if s.metadata, err = metadata.NewForConfig(metadata.ConfigFor(s.over(r))); err != nil { // repairs delete through it
		return nil, fmt.Errorf("helm: metadata client: %w", err)
	}
	typed, err := typedcorev1.NewForConfig(protobuf(s.over(dryrun.Records{Next: c.transport})))
	if err != nil {
		return nil, fmt.Errorf("helm: core client: %w", err)
	}
	s.objects = s.options.Driver.objects(typed, s.options.Namespace)
	return s, nil
}

// looking is what is known of objects without a say in what is watched for.
type looking struct{ Presence }

// Follow implements Presence.
func (looking) Follow(*meta.RESTMapping) {}

// Want implements Presence.
func (looking) Want(string, map[schema.GroupKind][]types.NamespacedName) {}
