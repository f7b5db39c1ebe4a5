package server

import (
	"crypto/tls"
	"net"
	"net/http"
	"sync"
	"time"
)

// maxConnections is the number of connections of one listener: kubelet, Prometheus and a few people need some ten.
const maxConnections = 100

// connections bounds how many connections a server has. For one more it closes the one that has been waiting longest without
// a complete request. To wait until one is free would not do: who keeps all of them open would keep out the probes of the
// kubelet, which then restarts the Pod. Only when all connections are being answered does the next one wait.
type connections struct {
	mu    sync.Mutex
	freed sync.Cond
	limit int
	open  map[net.Conn]time.Time // since when it waits for a request; zero while one is answered
}

func newConnections(limit int) *connections {
	c := &connections{limit: limit, open: map[net.Conn]time.Time{}}
	c.freed.L = &c.mu
	return c
}

// changed is the ConnState hook of a server, which calls it for a new connection before it accepts the next one.
func (c *connections) changed(conn net.Conn, state http.ConnState) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch state {
	case http.StateNew:
		for len(c.open) >= c.limit && !c.closeOldest() {
			c.freed.Wait()
		}
		c.open[conn] = time.Now()
	case http.StateActive:
		c.set(conn, time.Time{})
	case http.StateIdle:
		c.set(conn, time.Now())
		c.freed.Signal()
	case http.StateHijacked, http.StateClosed:
		delete(c.open, conn)
		c.freed.Signal()
	}
}

// set leaves out connections that were closed to make room: their server does not know yet.
func (c *connections) set(conn net.Conn, since time.Time) {
	if _, open := c.open[conn]; open {
		c.open[conn] = since
	}
}

// closeOldest makes room; it tells whether it could.
func (c *connections) closeOldest() bool {
	var oldest net.Conn
	for conn, since := range c.open {
		if !since.IsZero() && (oldest == nil || since.Before(c.open[oldest])) {
			oldest = conn
		}
	}
	if oldest == nil {
		return false
	}
	delete(c.open, oldest)
	if encrypted, ok := oldest.(*tls.Conn); ok {
		oldest = encrypted.NetConn() // without a farewell, for which a TLS connection may wait
	}
	_ = oldest.Close() // nobody is answered on it
	return true
}
