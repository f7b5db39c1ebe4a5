package main

import (
	"context"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"strconv"
	"time"

	"k8s.io/cri-streaming/pkg/streaming/portforward"
)

// Timeouts of a forwarding: without traffic, and until its streams are open.
const (
	forwardIdle   = time.Hour
	forwardStream = 30 * time.Second
)

// forwarder connects to the ports of Pods. The Pods of the node have no containers, and no network
// of their own: their ports are those of the machine.
type forwarder struct{ dialer net.Dialer }

// forwardPorts serves the kubelet's address, until ctx ends: the forwarding of ports, the only
// request of the API server to a kubelet that makes sense without containers.
func (k *kubelet) forwardPorts(ctx context.Context) {
	routes := http.NewServeMux()
	routes.HandleFunc("/portForward/{namespace}/{pod}", func(w http.ResponseWriter, r *http.Request) {
		options, err := portforward.NewV4Options(r)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		portforward.ServePortForward(w, r, &forwarder{}, r.PathValue("pod"), "", options, forwardIdle, forwardStream, portforward.SupportedProtocols)
	})
	// Streams take connections over, which HTTP/2 does not allow.
	server := &http.Server{Handler: routes, ReadHeaderTimeout: forwardStream, TLSNextProto: map[string]func(*http.Server, *tls.Conn, http.Handler){}}
	stop := context.AfterFunc(ctx, func() { _ = server.Close() })
	defer stop()
	_ = server.ServeTLS(k.listener, k.keys.cert, k.keys.key) // ends with ctx
}

// PortForward implements portforward.PortForwarder. It returns when the server has closed its side
// of the connection; that the client has closed its own is passed on, and the answer still read.
func (f *forwarder) PortForward(ctx context.Context, _, _ string, port int32, stream io.ReadWriteCloser) error {
	conn, err := f.dialer.DialContext(ctx, "tcp", net.JoinHostPort(loopback, strconv.Itoa(int(port))))
	if err != nil {
		return err
	}
	defer conn.Close()
	go func() {
		_, _ = io.Copy(conn, stream) // its end is the client's
		_ = conn.(*net.TCPConn).CloseWrite()
	}()
	_, err = io.Copy(stream, conn)
	return err
}
