package remote

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"slices"

	"addon-operator/cmd/cli"
	"addon-operator/kube/forward"
)

// debugPort is that of the debug address, unless its Pod says something else.
const debugPort = 9115

// asksCluster reports whether the operator in the cluster of a kubeconfig is meant: the command line names a cluster or a
// namespace in it, or kubectl runs this program. A flag for the debug address is stronger. In a Pod the namespace is not
// enough: its operator has it as an option, too.
func asksCluster(c *cli.Config) bool {
	if c.Flagged("debug-address") || c.Flagged("debug-unix-socket") {
		return false
	}
	if slices.ContainsFunc([]string{"kube-config", "kube-context", "kube-server"}, c.Flagged) {
		return true
	}
	return !c.InPod() && (c.Plugin || c.Flagged("namespace"))
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
	if c.Namespace != "" || !asksCluster(c) {
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
