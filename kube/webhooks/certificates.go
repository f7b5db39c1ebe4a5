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
func issue(now time.Time, life time.Duration, hosts []string, ca *x509.Certificate, caKey *ecdsa.PrivateKey) (*x509.Certificate, *ecdsa.PrivateKey, error) {
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

// renew renews the certificates if that is due, and reports whether they are others.
func (w *Webhooks) renew(ctx context.Context) (changed bool, err error) {
	if w.options.Dir != "" {
		return w.readDir()
	}
	for range 3 { // whoever finds that another process has written the Secret takes over what is in it
		if changed, err = w.renewSecret(ctx); !apierrors.IsConflict(err) && !apierrors.IsAlreadyExists(err) && !apierrors.IsNotFound(err) {
			break
		}
		w.secret = nil
	}
	if err != nil {
		err = fmt.Errorf("certificate of webhooks in Secret %s: %w", SecretName, err)
	}
	return changed, err
}

// renewSecret is renew for certificates of the operator itself.
func (w *Webhooks) renewSecret(ctx context.Context) (bool, error) {
	if w.secret == nil {
		if err := w.readSecret(ctx); err != nil {
			return false, err
		}
	}
	settled := !w.applied.IsZero() && time.Since(w.applied) >= w.options.Settle
	before := cmp.Or(w.certs, &certificates{})
	next, due, err := before.renewed(time.Now(), w.options.Life, w.hosts(), settled)
	if err != nil || !due && w.secret != nil {
		return false, err
	}
	if err := w.writeSecret(ctx, next); err != nil {
		return false, err
	}
	if !slices.Equal(next.bundle, before.bundle) {
		w.applied = time.Time{}
	}
	w.options.Log.Info("certificate of webhooks is renewed", "ends", next.served.Leaf.NotAfter, "authorities", len(next.bundle))
	w.use(next)
	return true, nil
}

// readDir is renew for the files of another issuer, which are read again.
func (w *Webhooks) readDir() (bool, error) {
	next, err := fromDir(w.options.Dir)
	if err != nil {
		return false, err
	}
	changed := w.certs == nil || !bytes.Equal(next.pem(), w.certs.pem()) || !bytes.Equal(next.served.Certificate[0], w.certs.served.Certificate[0])
	w.use(next)
	return changed, nil
}

// use presents certificates from now on.
func (w *Webhooks) use(c *certificates) {
	w.certs = c
	w.served.Store(c.served)
}

// hosts are the names by which the API server calls the operator.
func (w *Webhooks) hosts() []string {
	if w.options.Service != "" {
		return []string{w.options.Service + "." + w.options.Namespace + ".svc"}
	}
	host, _, _ := net.SplitHostPort(w.options.Address)
	return []string{host}
}

// readSecret reads what an earlier process has left. What cannot be read is replaced.
func (w *Webhooks) readSecret(ctx context.Context) error {
	found, err := w.client.Resource(core("secrets")).Namespace(w.options.Namespace).Get(ctx, SecretName, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		w.secret = nil
		return nil
	}
	var secret corev1.Secret
	if err == nil {
		err = runtime.DefaultUnstructuredConverter.FromUnstructured(found.Object, &secret)
	}
	if err != nil {
		return err
	}
	w.secret = &secret
	c, err := parse(secret.Data[bundleKey], secret.Data[corev1.TLSCertKey], secret.Data[corev1.TLSPrivateKeyKey])
	if err == nil {
		block, _ := pem.Decode(secret.Data[caKeyKey])
		if block == nil {
			err = errors.New(caKeyKey + " is no PEM")
		} else {
			c.caKey, err = x509.ParseECPrivateKey(block.Bytes)
		}
	}
	if err != nil {
		w.options.Log.Warn("a certificate that cannot be read is replaced", "secret", SecretName, "err", err)
		return nil
	}
	w.use(c)
	return nil
}

func (w *Webhooks) writeSecret(ctx context.Context, c *certificates) error {
	next := &corev1.Secret{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
		ObjectMeta: metav1.ObjectMeta{Name: SecretName, Namespace: w.options.Namespace, Labels: w.labels()}, Type: corev1.SecretTypeTLS,
	}
	var err error
	if next.Data, err = c.secretData(); err != nil {
		return err
	}
	if w.secret != nil {
		next.ResourceVersion = w.secret.ResourceVersion
	}
	object, err := runtime.DefaultUnstructuredConverter.ToUnstructured(next)
	if err != nil {
		return err
	}
	of, written := w.client.Resource(core("secrets")).Namespace(w.options.Namespace), &unstructured.Unstructured{Object: object}
	if w.secret == nil {
		written, err = of.Create(ctx, written, metav1.CreateOptions{})
	} else {
		written, err = of.Update(ctx, written, metav1.UpdateOptions{})
	}
	if err != nil {
		return err
	}
	next.ResourceVersion = written.GetResourceVersion()
	w.secret = next
	return nil
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
