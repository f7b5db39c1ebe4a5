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

// endpoint is where a server is reached from other processes. Start sets http and url, Protect the
// rest before.
type endpoint struct {
	http        *http.Server // nil: it is not started
	url         string
	token       string           // what clients have to show; "": nothing
	certificate *tls.Certificate // nil: no TLS
}

// Start serves on a free port of the loopback interface.
func (s *Server) Start() error {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return fmt.Errorf("API server in memory: %w", err)
	}
	s.endpoint.url = "http://" + listener.Addr().String()
	s.endpoint.http = &http.Server{Handler: authenticated(s.endpoint.token, s), ReadHeaderTimeout: time.Minute}
	if s.endpoint.certificate != nil {
		s.endpoint.url = "https://" + listener.Addr().String()
		listener = tls.NewListener(listener, &tls.Config{Certificates: []tls.Certificate{*s.endpoint.certificate}, MinVersion: tls.VersionTLS13})
	}
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

// Protect makes a server that is not started yet serve TLS only, with a certificate of its own, and
// only requests that carry its token: other users of the machine can connect to its port, too.
// WriteKubeconfig writes both. Clients of the same process (RESTConfig) need neither.
func (s *Server) Protect() error {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return err
	}
	now := time.Now()
	// It is its own authority: clients that get it from the kubeconfig trust this one certificate.
	template := &x509.Certificate{
		SerialNumber: big.NewInt(now.UnixNano()), Subject: pkix.Name{CommonName: "API server in memory"},
		NotBefore: now.Add(-time.Hour), NotAfter: now.AddDate(1, 0, 0),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1), net.IPv6loopback}, DNSNames: []string{"localhost"},
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
		IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return err
	}
	s.endpoint.certificate = &tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
	s.endpoint.token = rand.Text()
	return nil
}

// authenticated lets only requests with a token through; "" is none.
func authenticated(token string, next http.Handler) http.Handler {
	if token == "" {
		return next
	}
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
	config.Clusters[name] = &clientcmdapi.Cluster{Server: s.endpoint.url}
	if s.endpoint.certificate != nil {
		config.Clusters[name].CertificateAuthorityData = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.endpoint.certificate.Certificate[0]})
	}
	token := s.endpoint.token
	if token == "" {
		token = name // without one kubectl asks for a user
	}
	config.AuthInfos[name] = &clientcmdapi.AuthInfo{Token: token}
	config.Contexts[name] = &clientcmdapi.Context{Cluster: name, AuthInfo: name, Namespace: namespace}
	config.CurrentContext = name
	return clientcmd.WriteToFile(*config, path)
}
