package server

import (
	"net/http"
	"testing"
)

// L3: a follower asks its leader itself, also where the environment names a proxy. The
// library reads that once for a process and takes none to loopback, so the test looks at the
// client.
func TestLeaderIsAskedWithoutProxy(t *testing.T) {
	if transport, ok := toLeader.Transport.(*http.Transport); !ok || transport.Proxy != nil {
		t.Errorf("the client is %+v", toLeader)
	}
}
