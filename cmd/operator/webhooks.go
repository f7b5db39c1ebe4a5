package operator

import (
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"time"

	"github.com/spf13/cobra"

	"addon-operator/cmd/cli"
	"addon-operator/kube"
	"addon-operator/kube/webhooks"
	"addon-operator/server"
)

// newWebhooks makes what the API server needs to ask hooks, and what answers it; nil without an address. They are
// served until ctx ends. Who makes the operator sets Review.
func newWebhooks(ctx context.Context, c *cli.Config, client *kube.Client, r *replica) (*webhooks.Webhooks, *server.Reviews, error) {
	if c.WebhookAddress == "" {
		return nil, nil, nil
	}
	reviews := &server.Reviews{Hide: r.hide, Log: r.log, ClientCA: c.WebhookClientCA}
	pod := ""
	if c.HA && c.WebhookService != "" {
		pod = c.PodName
	}
	configured, err := webhooks.New(webhooks.Options{
		Client: client, Log: r.log, Namespace: c.Namespace, Pod: pod, Address: c.WebhookAddress, Service: c.WebhookService,
		Dir: c.WebhookCertsDir, Life: r.limits.Webhooks.Life, Settle: r.limits.Webhooks.Settle,
		Listen: func(certificate func() (*tls.Certificate, error)) (string, error) {
			return server.ServeReviews(ctx, c.WebhookAddress, reviews, certificate)
		},
	})
	return configured, reviews, err
}

// yield takes the label of the Pod that answers webhooks: this process does not, until it leads. Without it a killed
// leader that has restarted would get requests.
func (r *replica) yield(ctx context.Context) {
	if r.reviews == nil || r.config.PodName == "" || r.config.WebhookService == "" {
		return
	}
	const limit = 5 * time.Second
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	if err := webhooks.Yield(ctx, r.client, r.config.Namespace, r.config.PodName); err != nil {
		r.log.Warn("the label of the replica that answers webhooks could not be removed; the next leader removes it", "err", err)
	}
}

// WebhooksCommand has the command that ends all webhook requests, for the end of an installation.
func WebhooksCommand(c *cli.Config) *cobra.Command {
	group := cli.Group("webhooks", "Remove the webhooks of the operator from the cluster")
	group.Hidden = true
	group.AddCommand(&cobra.Command{
		Use: "delete", Short: "Remove the webhooks that the operator has configured in the cluster",
		Long: `Removes the configurations of webhooks that the operator in the namespace has made for hooks, ends the conversions
of CRDs. The chart runs it when it is uninstalled: with failurePolicy Fail, an operator that is gone would keep people
from writing what its hooks have reviewed. The operator configures them again when it starts again.`,
		Args: cli.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if err := c.Complete(); err != nil {
				return err
			}
			client, err := kube.Connect(c.Cluster())
			if err != nil {
				return err
			}
			log := slog.New(slog.NewTextHandler(cmd.ErrOrStderr(), nil))
			configured, err := webhooks.New(webhooks.Options{Client: client, Log: log, Namespace: c.Namespace})
			if err != nil {
				return err
			}
			if err := configured.RemoveAll(cmd.Context()); err != nil {
				return fmt.Errorf("not all webhooks are removed: %w", err)
			}
			return nil
		},
	})
	return group
}
