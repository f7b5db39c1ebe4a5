package standin

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"sync"
	"time"
)

// tunnels is how the stand-in for HTTP servers answers requests to https://…: a program asks its
// proxy for a tunnel to a server (CONNECT), and finds the stand-in behind it, with a certificate of
// that server. Programs trust it by the variables that name a file of CAs. For net/http, tunnels is
// a listener whose connections are the open tunnels.
type tunnels struct {
	ca    *x509.Certificate
	key   *ecdsa.PrivateKey // of the CA and of all servers: it protects nothing, and making one takes time
	file  string            // of the CA, in PEM
	conns chan net.Conn     // from open to Accept
	done  chan struct{}     // closed by Close
	once  sync.Once         // net/http may close a listener more than once
}

// handshakeLimit is how long a program may take to begin with TLS.
const handshakeLimit = 10 * time.Second

// newTunnels makes a CA, and writes its certificate to a file. Its key is never written, so nothing
// else can sign what a program trusts that keeps this CA.
func newTunnels(file string) (*tunnels, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	t := &tunnels{key: key, file: file, conns: make(chan net.Conn), done: make(chan struct{})}
	now := time.Now()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "stand-in of a module test"}, NotBefore: now.Add(-24 * time.Hour), NotAfter: now.Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageDigitalSignature,
	}
	made, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err == nil {
		t.ca, err = x509.ParseCertificate(made)
	}
	if err != nil {
		return nil, err
	}
	return t, os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: made}), 0o644)
}

// environment names the CA as curl, OpenSSL, Go, Python, Node, git, aws and vault know it.
func (t *tunnels) environment() (env []string) {
	for _, name := range []string{"SSL_CERT_FILE", "CURL_CA_BUNDLE", "REQUESTS_CA_BUNDLE", "NODE_EXTRA_CA_CERTS", "GIT_SSL_CAINFO", "AWS_CA_BUNDLE", "VAULT_CACERT"} {
		env = append(env, name+"="+t.file)
	}
	return env
}

// certificate makes one for the server that a program wants to talk to. Serial numbers differ,
// because some TLS libraries refuse a second certificate with the issuer and the number of another
// one.
func (t *tunnels) certificate(host string) (*tls.Certificate, error) {
	template := &x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: "stand-in"}, NotBefore: t.ca.NotBefore, NotAfter: t.ca.NotAfter,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	if ip := net.ParseIP(host); ip != nil {
		template.IPAddresses = []net.IP{ip}
	} else {
		template.DNSNames = []string{host}
	}
	made, err := x509.CreateCertificate(rand.Reader, template, t.ca, &t.key.PublicKey, t.key)
	if err != nil {
		return nil, err
	}
	return &tls.Certificate{Certificate: [][]byte{made}, PrivateKey: t.key}, nil
}

// open answers a request for a tunnel. What comes through it is accepted as a connection. The error
// says why nothing can. The TLS handshake is done here and not when the first request is read, so
// that a program that does not trust the CA is reported with the address that it asked for.
func (t *tunnels) open(w http.ResponseWriter, r *http.Request) error {
	host, _, err := net.SplitHostPort(r.Host)
	if err != nil {
		return err
	}
	certificate, err := t.certificate(host)
	if err != nil {
		return err
	}
	hijacker, ok := w.(http.Hijacker)
	if !ok {
		return errors.New("bug: no tunnel can be made of this connection")
	}
	conn, _, err := hijacker.Hijack() // a client sends nothing before the answer
	if err != nil {
		return err
	}
	if _, err := io.WriteString(conn, "HTTP/1.1 200 Connection established\r\n\r\n"); err != nil {
		return errors.Join(err, conn.Close())
	}
	secured := tls.Server(conn, &tls.Config{Certificates: []tls.Certificate{*certificate}, NextProtos: []string{"http/1.1"}, MinVersion: tls.VersionTLS12})
	limited, cancel := context.WithTimeout(context.Background(), handshakeLimit)
	defer cancel()
	if err := secured.HandshakeContext(limited); err != nil {
		_ = conn.Close() // the handshake's error is the one that helps
		return fmt.Errorf("the TLS handshake of the program with the stand-in failed: %w; make it use the CA in the file that SSL_CERT_FILE and CURL_CA_BUNDLE name, or give the hook an address that begins with http://", err)
	}
	select {
	case t.conns <- secured:
		return nil
	case <-t.done:
		return conn.Close()
	}
}

// Accept implements net.Listener.
func (t *tunnels) Accept() (net.Conn, error) {
	select {
	case conn := <-t.conns:
		return conn, nil
	case <-t.done:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (t *tunnels) Close() error {
	t.once.Do(func() { close(t.done) })
	return nil
}

// Addr implements net.Listener. Tunnels have no address, and net/http needs none.
func (t *tunnels) Addr() net.Addr { return &net.TCPAddr{} }
