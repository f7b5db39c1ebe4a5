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

// debugPort is the port of the debug address, unless a variable of the Pod names another one.
const debugPort = 9115

// asksCluster reports whether the operator that answers is the one in the cluster of the kubeconfig's
// current context, as with kubectl. A debug address or socket that is given selects another one; in
// a Pod that is its own operator. What the command line names is stronger than variables: those are
// mostly of an operator, whose address and namespace they are.
func asksCluster(c *cli.Config) bool {
	if c.Flagged("debug-address") || c.Flagged("debug-unix-socket") {
		return false
	}
	if slices.ContainsFunc([]string{"kube-config", "kube-context", "kube-server"}, c.Flagged) {
		return true
	}
	return !c.InPod() && (c.Plugin || c.Flagged("namespace") || !c.Given("debug-address") && !c.Given("debug-unix-socket"))
}

// endpointInCluster finds the operator that leads, with the kubeconfig of the user, and
// reaches its debug address through the API server, as kubectl port-forward does. Each request
// searches again, so --watch follows a change of the leader. The host is localhost, which the
// operator demands (J7).
func endpointInCluster(ctx context.Context, c *cli.Config) (endpoint, error) {
	pod, err := leader(ctx, c)
	if err != nil {
		return endpoint{}, fmt.Errorf("%w; to reach an operator that runs on this machine, set DEBUG_HTTP_SERVER_ADDR, for example to %s", err, c.DebugAddress)
	}
	port, err := pod.Port(debugPort, "DEBUG_HTTP_SERVER_ADDR")
	if err != nil {
		return endpoint{}, err
	}
	dial := func(context.Context, string, string) (net.Conn, error) { return pod.Dial(ctx, port) }
	return endpoint{
		client: &http.Client{Transport: &http.Transport{DialContext: dial, DisableKeepAlives: true}},
		host:   fmt.Sprintf("localhost:%d", port), where: pod.String(), option: "the debug address of the Pod",
	}, nil
}

// leader finds the Pod of the operator that leads.
func leader(ctx context.Context, c *cli.Config) (forward.Pod, error) {
	return forward.Leader(ctx, c.Cluster(), c.Namespace, cli.LeaseName, func(identity string) string {
		name, _ := cli.ParseIdentity(identity)
		return name
	})
}
