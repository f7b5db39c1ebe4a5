package main

import (
	"errors"
	"fmt"
	"net/url"
	"os"
	"time"

	"go.etcd.io/etcd/client/pkg/v3/transport"
	"go.etcd.io/etcd/server/v3/embed"
)

// etcdTimeout bounds etcd's start; alone in its cluster it needs milliseconds,
// or a second when it has a long log to read.
const etcdTimeout = time.Minute

// etcd is the running store.
type etcd struct {
	*embed.Etcd
	endpoint string // URL for clients
}

// startEtcd opens the store in dir and returns when it serves. Both its ports
// are free ones and ask for a certificate of the cluster: not every user of the
// machine may read what is in etcd.
func startEtcd(dir string, keys pki) (*etcd, error) {
	if err := os.MkdirAll(dir, dirMode); err != nil {
		return nil, fmt.Errorf("etcd: %w", err)
	}
	anyPort := url.URL{Scheme: "https", Host: loopback + ":0"}
	tls := transport.TLSInfo{CertFile: keys.cert, KeyFile: keys.key, TrustedCAFile: keys.ca, ClientCertAuth: true}

	config := embed.NewConfig()
	config.Dir = dir
	config.ListenClientUrls, config.AdvertiseClientUrls = []url.URL{anyPort}, []url.URL{anyPort}
	config.ListenPeerUrls, config.AdvertisePeerUrls = []url.URL{anyPort}, []url.URL{anyPort}
	config.InitialCluster = config.InitialClusterFromName(config.Name)
	config.ClientTLSInfo, config.PeerTLSInfo = tls, tls
	// A crash of the machine may cost the data of a test cluster; a crash of
	// the process does not.
	config.UnsafeNoFsync = true
	// The only member need not wait for the others before it leads.
	config.TickMs, config.ElectionMs = 20, 200
	config.EnableGRPCGateway = false // it has no JSON clients
	config.LogLevel, config.LogOutputs = "error", []string{"stderr"}

	server, err := embed.StartEtcd(config)
	if err != nil {
		return nil, fmt.Errorf("etcd: %w", err)
	}
	select {
	case <-server.Server.ReadyNotify():
	case err := <-server.Err():
		server.Close()
		return nil, fmt.Errorf("etcd: %w", err)
	case <-time.After(etcdTimeout):
		server.Close()
		return nil, errors.New("etcd: not ready after a minute")
	}
	return &etcd{Etcd: server, endpoint: "https://" + server.Clients[0].Addr().String()}, nil
}
