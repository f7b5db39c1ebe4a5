package forward

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/transport/spdy"
	"k8s.io/streaming/pkg/httpstream"
)

// lastWord is how long a connection that ends waits for the reason, which comes on another stream.
const lastWord = time.Second

// Dial connects to a port on the loopback interface of a Pod. Nothing listens on this machine
// meanwhile. The error of a Pod in which nothing listens on the port comes with the first Read at
// the latest. The user needs the permission to create pods/portforward in the namespace.
//
// It has no context because the library takes none; the caller, an HTTP transport, does not wait for it.
func (p Pod) Dial(port int) (net.Conn, error) {
	conn, err := p.dial(port)
	if err != nil {
		return nil, fmt.Errorf("forward port %d of %s: %w", port, p, err)
	}
	return conn, nil
}

// dial opens a connection to the API server for one forwarded connection. It could carry several;
// with one for each, Close ends just this one.
func (p Pod) dial(port int) (net.Conn, error) {
	dialer, err := p.dialer()
	if err != nil {
		return nil, err
	}
	connection, protocol, err := dialer.Dial(portforward.PortForwardProtocolV1Name)
	if err != nil {
		return nil, err
	}
	if protocol != portforward.PortForwardProtocolV1Name {
		return nil, errors.Join(fmt.Errorf("the server speaks %q, not %q", protocol, portforward.PortForwardProtocolV1Name), connection.Close())
	}
	c, err := open(connection, port)
	if err != nil {
		return nil, errors.Join(err, connection.Close())
	}
	return c, nil
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

// conn is one forwarded connection: a stream for data, and one on which the kubelet sends the reason of its
// end. Both belong to a connection to the API server, and end with it.
type conn struct {
	httpstream.Stream
	connection httpstream.Connection
	reason     chan error // receives one value, nil for none, when the other stream ends
}

// open begins the two streams in the order of the protocol: the one for errors first. Both
// have the same request ID, by which the kubelet pairs them. After an error
// the caller closes the connection, which also ends the goroutine.
func open(connection httpstream.Connection, port int) (net.Conn, error) {
	headers := http.Header{}
	headers.Set(corev1.StreamType, corev1.StreamTypeError)
	headers.Set(corev1.PortHeader, strconv.Itoa(port))
	headers.Set(corev1.PortForwardRequestIDHeader, "0")
	problems, err := connection.CreateStream(headers)
	if err != nil {
		return nil, err
	}
	_ = problems.Close() // nothing is written to it
	c := &conn{connection: connection, reason: make(chan error, 1)}
	go func() {
		const longest = 4 << 10                                  // bytes; what the other end sends is not bounded
		text, _ := io.ReadAll(io.LimitReader(problems, longest)) // it ends with the connection
		if len(text) == 0 {
			c.reason <- nil
			return
		}
		c.reason <- errors.New(strings.TrimSpace(string(text)))
	}()
	headers.Set(corev1.StreamType, corev1.StreamTypeData)
	if c.Stream, err = connection.CreateStream(headers); err != nil { // the kubelet may have given up before it has answered this
		return nil, c.explain(err)
	}
	return c, nil
}

// Read implements net.Conn. At the end it returns the reason that the kubelet gives, if there is
// one.
func (c *conn) Read(p []byte) (int, error) {
	n, err := c.Stream.Read(p)
	if n > 0 || err == nil {
		return n, err
	}
	return 0, c.explain(err)
}

// explain waits a moment for the reason that the kubelet gives for the end; without one it is err.
// It puts the reason back, for the next Read.
func (c *conn) explain(err error) error {
	select {
	case reason := <-c.reason:
		c.reason <- reason
		if reason != nil {
			return reason
		}
	case <-time.After(lastWord):
	}
	return err
}

// Close implements net.Conn.
func (c *conn) Close() error { return c.connection.Close() }

// A stream has no addresses and no deadlines: the reader closes it when the time is over.

// LocalAddr implements net.Conn.
func (c *conn) LocalAddr() net.Addr { return &net.TCPAddr{} }

// RemoteAddr implements net.Conn.
func (c *conn) RemoteAddr() net.Addr { return &net.TCPAddr{} }

// SetDeadline implements net.Conn.
func (c *conn) SetDeadline(time.Time) error { return nil }

// SetReadDeadline implements net.Conn.
func (c *conn) SetReadDeadline(time.Time) error { return nil }

// SetWriteDeadline implements net.Conn.
func (c *conn) SetWriteDeadline(time.Time) error { return nil }
