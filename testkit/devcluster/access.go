package main

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/csv"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/clientcmd/api"
)

// The two users of the token file. Both may do everything; they have two names
// so that audit logs and managedFields distinguish them.
const (
	adminUser      = "admin"
	controllerUser = "system:kube-controller-manager"
	masters        = "system:masters"
)

// access is how one gets into the cluster.
type access struct {
	server      string // URL
	tokens      string // path of the API server's token file
	kubeconfig  string // path, admin
	controllers string // path, kubeconfig of the controllers
	admin       *kubernetes.Clientset
}

// ensureAccess writes the token file, when there is none, and the kubeconfigs
// for the API server at address (host:port).
func ensureAccess(dir, address string, keys pki) (access, error) {
	a := access{
		server:      "https://" + address,
		tokens:      filepath.Join(dir, "tokens.csv"),
		kubeconfig:  filepath.Join(dir, "kubeconfig"),
		controllers: filepath.Join(dir, "controllers.kubeconfig"),
	}
	tokens, err := ensureTokens(a.tokens)
	if err != nil {
		return access{}, fmt.Errorf("tokens: %w", err)
	}
	err = errors.Join(
		a.writeKubeconfig(a.kubeconfig, adminUser, tokens[adminUser], keys.ca),
		a.writeKubeconfig(a.controllers, controllerUser, tokens[controllerUser], keys.ca),
	)
	if err != nil {
		return access{}, fmt.Errorf("kubeconfig: %w", err)
	}
	config, err := clientcmd.BuildConfigFromFlags("", a.kubeconfig)
	if err != nil {
		return access{}, fmt.Errorf("kubeconfig: %w", err)
	}
	config.QPS = -1 // no limit: it only asks whether the cluster is ready
	config.WarningHandler = rest.NoWarnings{}
	a.admin, err = kubernetes.NewForConfig(config)
	return a, err
}

// ensureTokens returns token by user from the file, which it makes when there
// is none: token, user, uid, groups.
func ensureTokens(path string) (map[string]string, error) {
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		data = fmt.Appendf(nil, "%s,%s,%s,%s\n%s,%s,%s,%s\n",
			rand.Text(), adminUser, adminUser, masters,
			rand.Text(), controllerUser, controllerUser, masters)
		err = writeFile(path, data)
	}
	if err != nil {
		return nil, err
	}
	rows, err := csv.NewReader(strings.NewReader(string(data))).ReadAll()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	tokens := make(map[string]string, len(rows))
	for _, row := range rows {
		if len(row) > 1 {
			tokens[row[1]] = row[0]
		}
	}
	if tokens[adminUser] == "" || tokens[controllerUser] == "" {
		return nil, fmt.Errorf("%s: no token for %s or %s: delete the file", path, adminUser, controllerUser)
	}
	return tokens, nil
}

// writeKubeconfig writes a kubeconfig that holds everything: it can be copied.
func (a access) writeKubeconfig(path, user, token, caPath string) error {
	ca, err := os.ReadFile(caPath)
	if err != nil {
		return err
	}
	const name = "devcluster"
	config := api.NewConfig()
	config.Clusters[name] = &api.Cluster{Server: a.server, CertificateAuthorityData: ca}
	config.AuthInfos[user] = &api.AuthInfo{Token: token}
	config.Contexts[name] = &api.Context{Cluster: name, AuthInfo: user, Namespace: metav1.NamespaceDefault}
	config.CurrentContext = name
	data, err := clientcmd.Write(*config)
	if err != nil {
		return err
	}
	return writeFile(path, data)
}

// apiServerReady is nil when the API server answers that it is ready.
func (a access) apiServerReady(ctx context.Context) error {
	return a.admin.RESTClient().Get().AbsPath("/readyz").Do(ctx).Error()
}

// controllersReady is nil when there is proof that controllers work: without
// the account they make in each namespace no Pod is admitted.
func (a access) controllersReady(ctx context.Context) error {
	_, err := a.admin.CoreV1().ServiceAccounts(metav1.NamespaceDefault).Get(ctx, "default", metav1.GetOptions{})
	return err
}

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
