package apiserver

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/subtle"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/http"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
)

// endpoint is where a server is reached from other processes, since Start.
type endpoint struct {
	http        *http.Server // nil: it is not started
	url         string
	token       string // what clients have to show
	certificate []byte // by which they know it, in DER
}

// Start serves TLS on a free port of the loopback interface, with a certificate of its own, and only requests that carry
// its token: other users of the machine can connect to the port, too. WriteKubeconfig writes both. Clients of the same
// process (RESTConfig) need neither.
func (s *Server) Start() error {
	certificate, err := newCertificate()
	if err != nil {
		return fmt.Errorf("API server in memory: %w", err)
	}
	listener, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS13})
	if err != nil {
		return fmt.Errorf("API server in memory: %w", err)
	}
	s.endpoint = endpoint{url: "https://" + listener.Addr().String(), token: rand.Text(), certificate: certificate.Certificate[0]}
	s.endpoint.http = &http.Server{Handler: authenticated(s.endpoint.token, s), ReadHeaderTimeout: time.Minute}
	go func() { _ = s.endpoint.http.Serve(listener) }() // Close ends it, which is no failure
	return nil
}

// URL is where a started server serves.
func (s *Server) URL() string { return s.endpoint.url }

// Close ends all connections, if the server is started.
func (s *Server) Close() error {
	if s.endpoint.http == nil {
		return nil
	}
	return s.endpoint.http.Close()
}

// newCertificate makes one that is its own authority: clients that get it from the kubeconfig trust this one certificate.
func newCertificate() (tls.Certificate, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return tls.Certificate{}, err
	}
	now := time.Now()
	template := &x509.Certificate{
		SerialNumber: big.NewInt(now.UnixNano()), Subject: pkix.Name{CommonName: "API server in memory"},
		NotBefore: now.Add(-time.Hour), NotAfter: now.AddDate(1, 0, 0),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, DNSNames: []string{"localhost"},
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, err
}

// authenticated lets only requests with a token through.
func authenticated(token string, next http.Handler) http.Handler {
	want := []byte("Bearer " + token)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if subtle.ConstantTimeCompare([]byte(r.Header.Get("Authorization")), want) != 1 {
			writeError(w, apierrors.NewUnauthorized("Unauthorized"))
			return
		}
		next.ServeHTTP(w, r)
	})
}

// WriteKubeconfig writes a file by which clients find a started server. Only its owner may read it. Namespace is where
// clients look when they name none.
func (s *Server) WriteKubeconfig(path, namespace string) error {
	const name = "memory"
	config := clientcmdapi.NewConfig()
	config.Clusters[name] = &clientcmdapi.Cluster{
		Server: s.endpoint.url, CertificateAuthorityData: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.endpoint.certificate}),
	}
	config.AuthInfos[name] = &clientcmdapi.AuthInfo{Token: s.endpoint.token}
	config.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name, Namespace: namespace}
	config.CurrentContext = name
	return clientcmd.WriteToFile(*config, path)
}
