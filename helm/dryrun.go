package helm

import (
	"fmt"
	"log/slog"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/metadata"

	"addon-operator/helm/dryrun"
)

// dryRun collects what a home would change in which nothing is changed. What Apply would do is
// learned by running Apply over transports that let no write through (package dryrun). So the
// result is what Apply does, repairs included, and there is no second implementation to keep equal.
type dryRun struct {
	*dryrun.Objects
	hooks []Hook // of the chart that an Uninstall runs
}

// dryRun makes a home where nothing is changed, neither in the cluster nor in the memory of this
// one. It shares what is expensive: connections, discovery, charts. What would be remembered of the
// operation, renders and records, is its own, so it is used for one operation.
func (h *home) dryRun() (*home, error) {
	r := &dryRun{Objects: dryrun.New(h.transport)}
	c := *h.connection
	c.transport = r
	var err error
	if c.metadata, err = metadata.NewForConfig(metadata.ConfigFor(c.over(r))); err != nil { // repairs delete through it
		return nil, fmt.Errorf("helm: metadata client: %w", err)
	}
	core, err := c.core(dryrun.Records{Next: h.transport})
	if err != nil {
		return nil, err
	}
	s := &home{connection: &c, options: h.options, homes: h.homes, locks: &locks{}, dry: r}
	s.options.Log, s.options.Watcher = slog.New(slog.DiscardHandler), nil
	s.records, s.objects = h.records.copied(), h.options.Driver.objects(core, h.options.Namespace)
	s.live = &live{connection: &c, namespace: h.options.Namespace, log: s.options.Log}
	if h.live.presence != nil {
		s.live.presence = looking{h.live.presence}
	}
	s.renderer = &renderer{live: s.live, labels: h.options.Labels, charts: h.renderer.charts, build: h.renderer.build}
	return s, nil
}

// looking is a Presence that only answers: a dry run must not change what is watched.
type looking struct{ Presence }

// Follow implements Presence.
func (looking) Follow(*meta.RESTMapping) {}

// Want implements Presence.
func (looking) Want(string, map[schema.GroupKind][]types.NamespacedName) {}
