package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"time"
)

// serviceRange is where Services get their addresses; its first one belongs to
// the Service "kubernetes".
const (
	serviceRange  = "10.96.0.0/16"
	serviceServer = "10.96.0.1"
)

// validity of certificates: longer than any directory of a test cluster lives.
const validity = 10 * 365 * 24 * time.Hour

// pki are the paths of the cluster's keys, all PEM.
type pki struct {
	ca       string // certificate of the authority that clients trust
	cert     string // of API server and etcd, as servers and towards each other
	key      string
	tokenKey string // signs tokens of service accounts
}

// ensurePKI returns the keys in dir, and makes them when there are none. They
// are made together: the token key, written last, says that the set is whole.
// The authority's own key is not kept, nothing is ever signed later.
func ensurePKI(dir string) (pki, error) {
	at := func(name string) string { return filepath.Join(dir, name) }
	keys := pki{ca: at("ca.crt"), cert: at("server.crt"), key: at("server.key"), tokenKey: at("tokens.key")}
	_, err := os.Stat(keys.tokenKey)
	if err == nil {
		return keys, nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return pki{}, fmt.Errorf("keys: %w", err)
	}
	if err := os.MkdirAll(dir, dirMode); err != nil {
		return pki{}, fmt.Errorf("keys: %w", err)
	}
	if err := keys.create(time.Now()); err != nil {
		return pki{}, fmt.Errorf("making keys: %w", err)
	}
	return keys, nil
}

// create makes all keys and writes them, the one that says that the set is whole last.
func (p pki) create(now time.Time) error {
	authority := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "devcluster"},
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	// One certificate for all servers: the API server, etcd and the node's kubelet. It also identifies
	// the API server as a client of etcd.
	server := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "devcluster-server"},
		DNSNames:    []string{"localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc"},
		IPAddresses: []net.IP{net.ParseIP(loopback), net.ParseIP(serviceServer)},
		KeyUsage:    x509.KeyUsageDigitalSignature,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	for _, c := range []*x509.Certificate{authority, server} {
		// An hour back: clocks of virtual machines jump.
		c.NotBefore, c.NotAfter = now.Add(-time.Hour), now.Add(validity)
	}
	authorityKey, err := newKey()
	if err != nil {
		return err
	}
	serverKey, err := newKey()
	if err != nil {
		return err
	}
	tokenKey, err := newKey()
	if err != nil {
		return err
	}
	err = errors.Join(
		writeCert(p.ca, authority, authority, &authorityKey.PublicKey, authorityKey),
		writeCert(p.cert, server, authority, &serverKey.PublicKey, authorityKey),
		writeKey(p.key, serverKey),
	)
	if err != nil {
		return err
	}
	return writeKey(p.tokenKey, tokenKey)
}

// newKey makes a key of P-256, which takes microseconds, unlike an RSA key.
func newKey() (*ecdsa.PrivateKey, error) {
	return ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
}

func writeCert(path string, cert, parent *x509.Certificate, public *ecdsa.PublicKey, signer *ecdsa.PrivateKey) error {
	der, err := x509.CreateCertificate(rand.Reader, cert, parent, public, signer)
	if err != nil {
		return err
	}
	return writeFile(path, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
}

func writeKey(path string, key *ecdsa.PrivateKey) error {
	der, err := x509.MarshalECPrivateKey(key)
	if err != nil {
		return err
	}
	return writeFile(path, pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: der}))
}
