package server

import (
	"crypto/tls"
	"net"
	"net/http"
	"sync"
	"time"
)

// maxConnections is the number of connections of one listener: kubelet, Prometheus and a few people
// need some ten.
const maxConnections = 100

// connections bounds how many connections a server has. For one more it closes the one that has
// been waiting longest without a complete request or, when all of them are being answered, the one
// whose answer takes longest (J8). The obvious alternative, to accept no connection until one is
// free, would let a client that keeps all of them open lock out the probes of the kubelet, which
// then restarts the Pod.
type connections struct {
	// mu guards open. It is held while a connection is closed, which does not block (closeOldest).
	mu    sync.Mutex
	limit int
	open  map[net.Conn]occupation
}

// occupation is the state of a connection, and when it began.
type occupation struct {
	answered bool // false: it waits for a complete request, also while it is idle
	since    time.Time
}

func newConnections(limit int) *connections {
	return &connections{limit: limit, open: map[net.Conn]occupation{}}
}

// changed is the ConnState hook of a server. The server calls it for a new connection in its accept
// loop, before the next Accept, so there are never more than limit connections. For the other
// states it is called in the goroutine of the connection.
func (c *connections) changed(conn net.Conn, state http.ConnState) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch state {
	case http.StateNew:
		for len(c.open) >= c.limit {
			c.closeOldest()
		}
		c.open[conn] = occupation{since: time.Now()}
	case http.StateActive, http.StateIdle:
		// A connection that was closed to make room is not added again: its goroutine in the server
		// may not have noticed yet.
		if _, open := c.open[conn]; open {
			c.open[conn] = occupation{answered: state == http.StateActive, since: time.Now()}
		}
	case http.StateHijacked, http.StateClosed:
		delete(c.open, conn)
	}
}

// closeOldest makes room for one connection. The caller holds the mutex, and open is not empty.
func (c *connections) closeOldest() {
	var oldest net.Conn
	var of occupation
	for conn, o := range c.open {
		if oldest == nil || of.answered && !o.answered || of.answered == o.answered && o.since.Before(of.since) {
			oldest, of = conn, o
		}
	}
	delete(c.open, oldest)
	if encrypted, ok := oldest.(*tls.Conn); ok {
		// Closing TLS sends an alert first, which may wait for a client that does not read.
		oldest = encrypted.NetConn()
	}
	_ = oldest.Close() // it has no request, or its client does not read: no one needs the error
}
