package remote

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"addon-operator/cmd/cli"
	"addon-operator/kube/forward"
)

// answerLimit is how long an answer may take. The slowest page is a render that asks the cluster;
// the operator limits it to a minute.
const answerLimit = 70 * time.Second

// completionLimit is how long an answer may take after a person has pressed Tab.
const completionLimit = time.Second

// endpoint is where a running operator answers.
type endpoint struct {
	client *http.Client
	host   string // for URLs; the dialer of a socket or a Pod ignores it, and the operator checks it (J7)
	where  string // for people
	option string // that determines where, for errors
}

// endpointOf is the debug address of the options or, when that is switched off or only the socket
// is given, the unix socket. The options are those of the operator itself, so in its Pod, or with
// its environment, a command needs no flags.
func endpointOf(c *cli.Config) (endpoint, error) {
	socket, overSocket := strings.CutPrefix(c.DebugAddress, "unix:")
	if c.DebugAddress == "" || c.Given("debug-unix-socket") && !c.Given("debug-address") {
		socket, overSocket = c.DebugSocket, true
	}
	// The default client keeps its connection, for --watch and for commands with several requests.
	if !overSocket {
		return endpoint{http.DefaultClient, c.DebugAddress, c.DebugAddress, "--debug-address ($DEBUG_HTTP_SERVER_ADDR)"}, nil
	}
	if socket == "" {
		return endpoint{}, errors.New("both debug-address and debug-unix-socket are disabled, so commands cannot connect to the operator")
	}
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) {
		var d net.Dialer
		return d.DialContext(ctx, "unix", socket)
	}
	// No connection is kept: send makes a new transport for each request, so a kept one would never
	// be used again, and with --watch one more would stay open each time, here and in the operator.
	return endpoint{&http.Client{Transport: &http.Transport{DialContext: dial, DisableKeepAlives: true}}, "socket", socket, "--debug-unix-socket ($DEBUG_UNIX_SOCKET)"}, nil
}

// send asks the running operator, for at most limit, which includes finding it. Content is JSON.
func send(ctx context.Context, c *cli.Config, limit time.Duration, method, path, content string) (answer, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	to, err := choose(ctx, c)
	if err != nil {
		return answer{}, err
	}
	return to.send(ctx, method, path, content)
}

// choose finds the operator that a person means (asksCluster).
func choose(ctx context.Context, c *cli.Config) (endpoint, error) {
	if asksCluster(c) {
		return endpointInCluster(ctx, c)
	}
	return endpointOf(c)
}

// send sends a request. Every answer but 200 is an error (refused).
func (e endpoint) send(ctx context.Context, method, path, content string) (answer, error) {
	req, err := http.NewRequestWithContext(ctx, method, "http://"+e.host+path, strings.NewReader(content))
	if err != nil {
		return answer{}, cli.Usagef("request %s from %s: %w; check --debug-address", path, e.where, err)
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := e.client.Do(req)
	if err != nil {
		return answer{}, e.unreachable(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		return answer{}, fmt.Errorf("read %s: %w", path, err)
	}
	if err := e.refused(resp, body); err != nil {
		return answer{}, err
	}
	return answer{body, resp.Header}, nil
}

// unreachable is the error, with the fix, when no connection could be made.
func (e endpoint) unreachable(err error) error {
	// The URL in the error contains only the address, which the sentence has.
	if inner, ok := errors.AsType[*url.Error](err); ok {
		err = inner.Err
	}
	if errors.Is(err, syscall.EACCES) {
		return fmt.Errorf("no access to the operator on %s: %w; only the user that the operator runs as may open the socket: run the command as that user, or use --debug-address", e.where, err)
	}
	none := []error{syscall.ECONNREFUSED, os.ErrNotExist, io.EOF, syscall.ECONNRESET} // the last two are those of a Pod
	if slices.ContainsFunc(none, func(e error) bool { return errors.Is(err, e) }) {
		return fmt.Errorf("no operator answers on %s: %w; is it running, and is %s the one that it was started with? "+
			"Without it, commands reach the operator in the cluster of your kubeconfig", e.where, err, e.option)
	}
	return fmt.Errorf("no operator answers on %s: %w", e.where, err)
}

// refused is nil for 200. The statuses that the operator uses come with a sentence for people,
// which is the error; anything else is probably not an operator, so the error contains the
// address.
func (e endpoint) refused(resp *http.Response, body []byte) error {
	sentence := strings.TrimSpace(string(body))
	switch resp.StatusCode {
	case http.StatusOK:
		return nil
	case http.StatusBadRequest, http.StatusNotFound, http.StatusUnprocessableEntity, http.StatusServiceUnavailable:
		// A sentence of the operator is plain text; the page of another server with this status is
		// HTML.
		if sentence != "" && strings.HasPrefix(resp.Header.Get("Content-Type"), "text/plain") {
			return errors.New(sentence)
		}
	}
	return fmt.Errorf("%s answered %s; is that the debug address of an operator? The answer was: %.200q", e.where, resp.Status, sentence)
}

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
