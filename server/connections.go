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
// a complete request, or, when all of them are being answered, the one whose answer takes longest. To wait until one is free
// would not do: who keeps all of them open, or asks and reads nothing, would keep out the probes of the kubelet, which then
// restarts the Pod.
type connections struct {
	mu    sync.Mutex
	limit int
	open  map[net.Conn]occupation
}

// occupation is what a connection is open for, and since when.
type occupation struct {
	answered bool // or it waits for a request
	since    time.Time
}

func newConnections(limit int) *connections {
	return &connections{limit: limit, open: map[net.Conn]occupation{}}
}

// changed is the ConnState hook of a server, which calls it for a new connection before it accepts the next one.
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
		if _, open := c.open[conn]; open { // one that was closed to make room is left out: its server does not know yet
			c.open[conn] = occupation{answered: state == http.StateActive, since: time.Now()}
		}
	case http.StateHijacked, http.StateClosed:
		delete(c.open, conn)
	}
}

// closeOldest makes room.
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
		oldest = encrypted.NetConn() // without a farewell, for which a TLS connection may wait
	}
	_ = oldest.Close() // it has no request, or its client does not read
}
