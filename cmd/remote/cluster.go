package remote

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"

	"addon-operator/cmd/cli"
	"addon-operator/kube"
	"addon-operator/kube/forward"
)

// debugPort is that of the debug address, unless its Pod says something else.
const debugPort = 9115

// asksCluster reports whether the command line names a cluster, or a namespace in it: then the operator there is meant,
// whatever runs on this machine.
func asksCluster(c *cli.Config) bool {
	return mayAskCluster(c) && slices.ContainsFunc([]string{"namespace", "kube-config", "kube-context", "kube-server"}, c.Flagged)
}

// mayAskCluster reports whether nothing says where the operator is asked. In a Pod it is the one in that Pod.
func mayAskCluster(c *cli.Config) bool {
	return !c.Given("debug-address") && !c.Given("debug-unix-socket") && !c.InPod()
}

// servesAnother reports whether an operator that says with which API server it works serves another cluster than that of
// the kubeconfig. Without a kubeconfig there is no other.
func servesAnother(c *cli.Config, apiServer string) bool {
	config, _, err := kube.PersonConfig(c.Cluster())
	return err == nil && apiServer != "" && strings.TrimSuffix(config.Host, "/") != strings.TrimSuffix(apiServer, "/")
}

// endpointInCluster finds the operator that leads, by the kubeconfig of the person who asks. Each question looks
// again, so that a change of the leader is followed.
func endpointInCluster(ctx context.Context, c *cli.Config) (endpoint, error) {
	pod, err := leader(ctx, c)
	if err != nil {
		return endpoint{}, err
	}
	port, err := pod.Port(debugPort, "debug-address", "DEBUG_HTTP_SERVER_ADDR", "ADDON_OPERATOR_DEBUG_ADDRESS")
	if err != nil {
		return endpoint{}, err
	}
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) { return pod.Dial(ctx, port) }
	return endpoint{
		client: &http.Client{Transport: &http.Transport{DialContext: dial, DisableKeepAlives: true}},
		host:   fmt.Sprintf("localhost:%d", port), where: pod.String(), option: "the debug address of the Pod",
	}, nil
}

// inItsNamespace sets the namespace, when no option gives it, to that of the operator that is found.
func inItsNamespace(ctx context.Context, c *cli.Config) error {
	if c.Namespace != "" || !mayAskCluster(c) {
		return nil
	}
	pod, err := leader(ctx, c)
	c.Namespace = pod.Namespace
	return err
}

// leader finds the Pod of the operator that leads.
func leader(ctx context.Context, c *cli.Config) (forward.Pod, error) {
	return forward.Search{
		Person: c.Cluster(), Namespace: c.Namespace, Lease: c.LeaseName,
		Name: func(identity string) string {
			name, _ := cli.ParseIdentity(identity)
			return name
		},
	}.Leader(ctx)
}
