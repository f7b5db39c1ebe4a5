package webhooks

import (
	"bytes"
	"cmp"
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
	"math/big"
	"net"
	"os"
	"path/filepath"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
)

// Keys of the Secret, and names of files of another issuer, next to those of every Secret for TLS.
const (
	bundleKey = "ca.crt"
	caKeyKey  = "ca.key"
)

// certificates are what the operator presents, and what the API server is to trust: a bundle, because the certificate
// of the old CA is presented until all configurations have that of the new one, too.
type certificates struct {
	bundle []*x509.Certificate // of CAs, the newest first
	caKey  *ecdsa.PrivateKey   // of the first one; nil for files of another issuer
	served *tls.Certificate
}

// pem is the bundle.
func (c *certificates) pem() []byte {
	var text []byte
	for _, ca := range c.bundle {
		text = append(text, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: ca.Raw})...)
	}
	return text
}

// renewed returns the certificates that are due, and whether they are others. CA and certificate end together, and a
// new CA is made when a third of its life is left. Its certificate is presented when settled says that the API server
// trusts it; that of the old one if it cannot be used any more.
func (c *certificates) renewed(now time.Time, life time.Duration, hosts []string, settled bool) (*certificates, bool, error) {
	next := &certificates{caKey: c.caKey, served: c.served}
	for _, ca := range c.bundle {
		if ca.NotAfter.After(now) {
			next.bundle = append(next.bundle, ca)
		}
	}
	old := len(next.bundle) == 0 || next.caKey == nil
	if !old {
		newest := next.bundle[0]
		old = newest.NotAfter.Sub(now) < newest.NotAfter.Sub(newest.NotBefore)/3 || !next.caKey.PublicKey.Equal(newest.PublicKey)
	}
	if old {
		ca, key, err := issue(now, life, nil, nil, nil)
		if err != nil {
			return nil, false, err
		}
		next.bundle, next.caKey, settled = slices.Insert(next.bundle, 0, ca), key, false
	}
	usable := next.served != nil && slices.ContainsFunc(next.bundle, func(ca *x509.Certificate) bool {
		return next.served.Leaf.CheckSignatureFrom(ca) == nil
	}) && !slices.ContainsFunc(hosts, func(host string) bool { return next.served.Leaf.VerifyHostname(host) != nil })
	if !usable || settled && next.served.Leaf.CheckSignatureFrom(next.bundle[0]) != nil {
		leaf, key, err := issue(now, life, hosts, next.bundle[0], next.caKey)
		if err != nil {
			return nil, false, err
		}
		next.served = &tls.Certificate{Certificate: [][]byte{leaf.Raw}, PrivateKey: key, Leaf: leaf}
	}
	return next, next.served != c.served || !slices.Equal(next.bundle, c.bundle), nil
}

// issue makes a CA, or a certificate for hosts that ends with its CA.
func issue(
	now time.Time, life time.Duration, hosts []string, ca *x509.Certificate, caKey *ecdsa.PrivateKey,
) (*x509.Certificate, *ecdsa.PrivateKey, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, fmt.Errorf("create a certificate: %w", err)
	}
	serial, err := rand.Int(rand.Reader, new(big.Int).Lsh(big.NewInt(1), 120))
	if err != nil {
		return nil, nil, fmt.Errorf("create a certificate: %w", err)
	}
	template := &x509.Certificate{
		SerialNumber: serial, Subject: pkix.Name{CommonName: "addon-operator webhooks"}, BasicConstraintsValid: true,
		NotBefore: now.Add(-min(time.Hour, life/10)), NotAfter: now.Add(life), // the clock of the API server may be behind
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth},
	}
	if ca == nil {
		// The name tells CAs of one bundle apart: who verifies looks for the issuer by it.
		template.Subject.CommonName += fmt.Sprintf(" CA %x", serial.Bytes()[:4])
		template.IsCA, template.KeyUsage, template.ExtKeyUsage = true, x509.KeyUsageCertSign, nil
		ca, caKey = template, key
	} else {
		template.NotAfter = ca.NotAfter
		for _, host := range hosts {
			if ip := net.ParseIP(host); ip != nil {
				template.IPAddresses = append(template.IPAddresses, ip)
			} else {
				template.DNSNames = append(template.DNSNames, host)
			}
		}
	}
	der, err := x509.CreateCertificate(rand.Reader, template, ca, key.Public(), caKey)
	if err != nil {
		return nil, nil, fmt.Errorf("create a certificate: %w", err)
	}
	made, err := x509.ParseCertificate(der)
	return made, key, err
}

// renew renews the certificates if that is due, and reports whether they are others. Those of the Secret, or of
// another issuer, are read again each time: a person may have changed them.
func (w *Webhooks) renew(ctx context.Context) (changed bool, err error) {
	var next *certificates
	if w.options.Dir != "" {
		if next, err = fromDir(w.options.Dir); err != nil {
			return false, err
		}
	} else if next, err = w.renewSecret(ctx); err != nil {
		return false, fmt.Errorf("certificate of webhooks in Secret %s: %w", SecretName, err)
	}
	sameBundle := w.certs != nil && bytes.Equal(next.pem(), w.certs.pem())
	if changed = !sameBundle || !bytes.Equal(next.served.Certificate[0], w.certs.served.Certificate[0]); changed {
		w.options.Log.Info("webhooks have another certificate", "ends", next.served.Leaf.NotAfter, "authorities", len(next.bundle))
	}
	if !sameBundle {
		w.applied = time.Time{}
	}
	w.certs = next
	w.served.Store(next.served)
	return changed, nil
}

// renewSecret is renew for certificates of the operator itself. What cannot be read is replaced.
func (w *Webhooks) renewSecret(ctx context.Context) (*certificates, error) {
	secret, before := &corev1.Secret{Type: corev1.SecretTypeTLS}, cmp.Or(w.certs, &certificates{})
	of := w.client.Resource(v1("", "secrets")).Namespace(w.options.Namespace)
	object, err := of.Get(ctx, SecretName, metav1.GetOptions{})
	if err == nil {
		err = runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, secret)
	}
	if err != nil && !apierrors.IsNotFound(err) {
		return nil, err
	}
	absent := err != nil
	if removed, err := time.Parse(time.RFC3339Nano, secret.Annotations[Label]); err == nil && removed.After(w.began) {
		return nil, ErrRemoved
	}
	if read, err := parseSecret(secret.Data); err == nil {
		before = read
	} else if !absent {
		w.options.Log.Warn("a certificate that cannot be read is replaced", "secret", SecretName, "err", err)
	}
	settled := !w.applied.IsZero() && time.Since(w.applied) >= w.options.Settle
	next, due, err := before.renewed(time.Now(), w.options.Life, w.hosts(), settled)
	if err != nil || !due && !absent {
		return next, err
	}
	write := &corev1.Secret{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"}, Type: secret.Type,
		ObjectMeta: metav1.ObjectMeta{
			Name: SecretName, Namespace: w.options.Namespace, Labels: w.labels(), ResourceVersion: secret.ResourceVersion,
		},
	}
	if write.Data, err = next.secretData(); err != nil {
		return nil, err
	}
	written, err := runtime.DefaultUnstructuredConverter.ToUnstructured(write)
	if err != nil {
		return nil, err
	}
	if absent {
		_, err = of.Create(ctx, &unstructured.Unstructured{Object: written}, metav1.CreateOptions{})
	} else {
		_, err = of.Update(ctx, &unstructured.Unstructured{Object: written}, metav1.UpdateOptions{})
	}
	return next, err
}

// ErrRemoved means that a person, or the end of the installation, wants no webhooks.
var ErrRemoved = errors.New("'webhooks delete' has removed them; they are configured when the operator starts again")

// parseSecret reads what secretData has written.
func parseSecret(data map[string][]byte) (*certificates, error) {
	c, err := parse(data[bundleKey], data[corev1.TLSCertKey], data[corev1.TLSPrivateKeyKey])
	if err != nil {
		return nil, err
	}
	block, _ := pem.Decode(data[caKeyKey])
	if block == nil {
		return nil, errors.New(caKeyKey + " is no PEM")
	}
	c.caKey, err = x509.ParseECPrivateKey(block.Bytes)
	return c, err
}

// hosts are the names by which the API server calls the operator.
func (w *Webhooks) hosts() []string {
	if w.options.Service != "" {
		return []string{w.options.Service + "." + w.options.Namespace + ".svc"}
	}
	host, _, _ := net.SplitHostPort(w.options.Address)
	return []string{host}
}

// secretData are the certificates as the data of the Secret.
func (c *certificates) secretData() (map[string][]byte, error) {
	served, _ := c.served.PrivateKey.(*ecdsa.PrivateKey)
	key, err1 := x509.MarshalECPrivateKey(served)
	caKey, err2 := x509.MarshalECPrivateKey(c.caKey)
	return map[string][]byte{
		bundleKey: c.pem(), caKeyKey: pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: caKey}),
		corev1.TLSCertKey:       pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: c.served.Certificate[0]}),
		corev1.TLSPrivateKeyKey: pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: key}),
	}, errors.Join(err1, err2)
}

// fromDir reads the files of another issuer.
func fromDir(dir string) (*certificates, error) {
	var files [3][]byte
	for i, name := range []string{bundleKey, corev1.TLSCertKey, corev1.TLSPrivateKeyKey} {
		var err error
		if files[i], err = os.ReadFile(filepath.Join(dir, name)); err != nil {
			return nil, fmt.Errorf("certificate of webhooks: %w", err)
		}
	}
	c, err := parse(files[0], files[1], files[2])
	if err != nil {
		return nil, fmt.Errorf("certificate of webhooks in %s: %w", dir, err)
	}
	return c, nil
}

func parse(bundle, cert, key []byte) (*certificates, error) {
	c := &certificates{}
	for block, rest := pem.Decode(bundle); block != nil; block, rest = pem.Decode(rest) {
		ca, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", bundleKey, err)
		}
		c.bundle = append(c.bundle, ca)
	}
	if len(c.bundle) == 0 {
		return nil, errors.New(bundleKey + " contains no certificate")
	}
	served, err := tls.X509KeyPair(cert, key) // sets Leaf
	if err != nil {
		return nil, err
	}
	c.served = &served
	return c, nil
}
