package helm

import (
	"context"
	"fmt"
	"log/slog"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
	o := h.options
	o.Log, o.Watcher = slog.New(slog.DiscardHandler), nil
	s, err := newHome(o, &c, h.homes)
	if err != nil {
		return nil, err
	}
	s.locks, s.dry, s.objects = &locks{}, r, pretended{h.objects}
	return s, nil
}

// dry makes such a home of the one that was found.
func dry(h *home, err error) (*home, error) {
	if err != nil {
		return nil, err
	}
	return h.dryRun()
}

// pretended answers writes of release records as if they were stored. Reads are passed on, so a plan begins with the
// real history.
type pretended struct{ recordObjects }

// Create implements recordObjects.
func (pretended) Create(_ context.Context, record *corev1.Secret, _ metav1.CreateOptions) (*corev1.Secret, error) {
	return record, nil
}

// Update implements recordObjects.
func (pretended) Update(_ context.Context, record *corev1.Secret, _ metav1.UpdateOptions) (*corev1.Secret, error) {
	return record, nil
}

// Delete implements recordObjects.
func (pretended) Delete(context.Context, string, metav1.DeleteOptions) error { return nil }
