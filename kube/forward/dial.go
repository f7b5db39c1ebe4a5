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

// conn is a forwarded connection.
type conn struct {
	net.Conn
	stop context.CancelFunc
}

// Close implements net.Conn. It ends the forwarding, too.
func (c conn) Close() error {
	defer c.stop()
	return c.Conn.Close()
}

// Dial connects to a port on the loopback interface of a Pod, by a port of this machine's that is open until the connection
// is closed. When nothing listens in the Pod, the connection ends at once, and the library logs why. The user needs the
// permission to create pods/portforward in the namespace.
func (p Pod) Dial(ctx context.Context, port int) (net.Conn, error) {
	stopped, stop := context.WithCancel(context.WithoutCancel(ctx)) // a transport ends ctx when it is connected
	local, err := p.dial(ctx, port, stopped.Done())
	if err != nil {
		stop()
		return nil, fmt.Errorf("forward port %d of %s: %w", port, p, err)
	}
	return conn{local, stop}, nil
}

func (p Pod) dial(ctx context.Context, port int, stop <-chan struct{}) (net.Conn, error) {
	dialer, err := p.dialer()
	if err != nil {
		return nil, err
	}
	ready, ended := make(chan struct{}), make(chan error, 1)
	forwarder, err := portforward.NewOnAddressesForStreaming(dialer, []string{"127.0.0.1"}, []string{fmt.Sprintf("0:%d", port)}, stop, ready, nil, nil)
	if err != nil {
		return nil, err
	}
	go func() { ended <- forwarder.ForwardPorts() }()
	select {
	case <-ready:
	case err := <-ended:
		return nil, err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	ports, err := forwarder.GetPorts()
	if err != nil {
		return nil, err
	}
	return (&net.Dialer{}).DialContext(ctx, "tcp", fmt.Sprintf("127.0.0.1:%d", ports[0].Local))
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
