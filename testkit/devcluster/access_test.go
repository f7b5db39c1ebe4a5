package main

import (
	"crypto/tls"
	"crypto/x509"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/tools/clientcmd"
)

func TestKeysAreMadeOnceAndFitTogether(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "pki")
	keys, err := ensurePKI(dir)
	must(t, err)
	pair, err := tls.LoadX509KeyPair(keys.cert, keys.key)
	must(t, err)
	trust := x509.NewCertPool()
	if !trust.AppendCertsFromPEM([]byte(readFile(t, keys.ca))) {
		t.Fatal("the authority is no certificate")
	}
	for _, name := range []string{loopback, "localhost", "kubernetes.default.svc", serviceServer} {
		for _, usage := range []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth} {
			_, err := pair.Leaf.Verify(x509.VerifyOptions{
				Roots: trust, DNSName: name, KeyUsages: []x509.ExtKeyUsage{usage},
				CurrentTime: time.Now().AddDate(5, 0, 0),
			})
			if err != nil {
				t.Errorf("as %s, usage %d, in five years: %v", name, usage, err)
			}
		}
	}
	for _, path := range []string{keys.ca, keys.cert, keys.key, keys.tokenKey} {
		checkMode(t, path, fileMode)
	}

	before := readFile(t, keys.cert)
	if again, err := ensurePKI(dir); err != nil || again != keys || readFile(t, keys.cert) != before {
		t.Errorf("the second start made other keys: %v", err)
	}
}

func TestServiceAddressIsTheFirstOfItsRange(t *testing.T) {
	_, network, err := net.ParseCIDR(serviceRange)
	must(t, err)
	network.IP[len(network.IP)-1]++
	if network.IP.String() != serviceServer {
		t.Errorf("first address %s, certificate says %s", network.IP, serviceServer)
	}
}

func TestKubeconfigHoldsAllThatAClientNeeds(t *testing.T) {
	dir := t.TempDir()
	keys, err := ensurePKI(filepath.Join(dir, "pki"))
	must(t, err)
	first, err := ensureAccess(dir, "127.0.0.1:6443", keys)
	must(t, err)
	config, err := clientcmd.BuildConfigFromFlags("", first.kubeconfig)
	must(t, err)
	if config.Host != "https://127.0.0.1:6443" || config.Insecure || string(config.CAData) != readFile(t, keys.ca) || config.BearerToken == "" {
		t.Errorf("kubeconfig: %s", config)
	}
	for _, path := range []string{first.kubeconfig, first.controllers, first.tokens} {
		checkMode(t, path, fileMode)
	}

	tokens := readFile(t, first.tokens)
	moved, err := ensureAccess(dir, "127.0.0.1:7443", keys)
	must(t, err)
	if readFile(t, first.tokens) != tokens {
		t.Error("the second start made other tokens")
	}
	if text := readFile(t, moved.kubeconfig); !strings.Contains(text, "https://127.0.0.1:7443") {
		t.Errorf("on another port the kubeconfig still says:\n%s", text)
	}
}

func TestTokenFileWithoutTheUsersIsRefused(t *testing.T) {
	for situation, text := range map[string]string{
		"empty":            "",
		"other users":      "token,somebody,1,group\n",
		"not a csv":        "a,\"b\n",
		"only a token":     "token\n",
		"admin, no helper": "token,admin,admin,system:masters\n",
	} {
		path := filepath.Join(t.TempDir(), "tokens.csv")
		must(t, writeFile(path, []byte(text)))
		if _, err := ensureTokens(path); err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v; want an error that names the file", situation, err)
		}
	}
}
