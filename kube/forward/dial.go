package forward

import (
	"context"
	"fmt"
	"net"
	"net/http"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/transport/spdy"
	"k8s.io/streaming/pkg/httpstream"
)

// Dial connects to a port on the loopback interface of a Pod, by a port of this machine's that is open until ctx
// ends. When nothing listens in the Pod, the connection ends at once, and the library logs why. The user needs the
// permission to create pods/portforward in the namespace.
func (p Pod) Dial(ctx context.Context, port int) (net.Conn, error) {
	local, err := p.forward(ctx, port)
	if err != nil {
		return nil, fmt.Errorf("forward port %d of %s: %w", port, p, err)
	}
	return (&net.Dialer{}).DialContext(ctx, "tcp", local)
}

// forward returns the address on this machine.
func (p Pod) forward(ctx context.Context, port int) (local string, err error) {
	dialer, err := p.dialer()
	if err != nil {
		return "", err
	}
	ready, ended := make(chan struct{}), make(chan error, 1)
	here, ports := []string{"127.0.0.1"}, []string{fmt.Sprintf("0:%d", port)}
	forwarder, err := portforward.NewOnAddressesForStreaming(dialer, here, ports, ctx.Done(), ready, nil, nil)
	if err != nil {
		return "", err
	}
	go func() { ended <- forwarder.ForwardPorts() }()
	select {
	case <-ready:
	case err := <-ended:
		return "", err
	case <-ctx.Done():
		return "", context.Cause(ctx)
	}
	open, err := forwarder.GetPorts()
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("127.0.0.1:%d", open[0].Local), nil
}

// dialer uses websockets and, when the API server or a proxy before it does not support them, SPDY.
func (p Pod) dialer() (httpstream.Dialer, error) {
	client, err := kubernetes.NewForConfig(p.config)
	if err != nil {
		return nil, err
	}
	url := client.CoreV1().RESTClient().Post().Resource("pods").Namespace(p.Namespace).Name(p.Name).SubResource("portforward").URL()
	transport, upgrader, err := spdy.RoundTripperFor(p.config)
	if err != nil {
		return nil, err
	}
	websockets, err := portforward.NewSPDYOverWebsocketDialerForStreaming(url, p.config)
	if err != nil {
		return nil, err
	}
	old := spdy.NewDialerForStreaming(upgrader, &http.Client{Transport: transport}, http.MethodPost, url)
	return portforward.NewFallbackDialerForStreaming(websockets, old, func(err error) bool {
		return httpstream.IsUpgradeFailure(err) || httpstream.IsHTTPSProxyError(err)
	}), nil
}
