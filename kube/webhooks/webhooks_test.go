package webhooks

import (
	"crypto/x509"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// At each moment the served certificate is valid, and signed by a CA that all configurations have had for a while. O2
func TestCertificatesOverYears(t *testing.T) {
	const life = 100 * time.Hour
	hosts, now := []string{"hooks.ns.svc"}, time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	certs, changed, err := (&certificates{}).renewed(now, life, hosts, false)
	if err != nil || !changed {
		t.Fatal(changed, err)
	}
	known, since := certs.bundle, now // what the configurations have, and since when
	served := map[*x509.Certificate]bool{}
	for range 400 {
		now = now.Add(time.Hour)
		if certs, _, err = certs.renewed(now, life, hosts, now.Sub(since) >= 3*time.Hour); err != nil {
			t.Fatal(err)
		}
		pool := x509.NewCertPool()
		for _, ca := range known {
			pool.AddCert(ca)
		}
		leaf := certs.served.Leaf
		served[leaf] = true
		if _, err := leaf.Verify(x509.VerifyOptions{DNSName: hosts[0], Roots: pool, CurrentTime: now}); err != nil {
			t.Fatalf("%s after the start: %v", now.Sub(since), err)
		}
		if len(certs.bundle) > 2 {
			t.Errorf("there are %d CAs", len(certs.bundle))
		}
		if !slices.Equal(known, certs.bundle) {
			known, since = certs.bundle, now
		}
	}
	if len(served) < 5 {
		t.Errorf("there were %d certificates in 400 hours", len(served))
	}
	// Another name needs another certificate, of the same CA.
	next, changed, err := certs.renewed(now, life, []string{"127.0.0.1"}, false)
	if err != nil || !changed || !slices.Equal(next.bundle, certs.bundle) || next.served.Leaf.VerifyHostname("127.0.0.1") != nil {
		t.Errorf("for another host: changed %t, error %v, addresses %v", changed, err, next.served.Leaf.IPAddresses)
	}
	// What has expired while no operator was there is replaced at once.
	next, _, err = certs.renewed(now.Add(10*life), life, hosts, true)
	if err != nil || len(next.bundle) != 1 || next.served.Leaf.CheckSignatureFrom(next.bundle[0]) != nil {
		t.Errorf("after ten lives: %d CAs, error %v", len(next.bundle), err)
	}
}

// Files of another issuer are read, and read again.
func TestCertificatesOfAnotherIssuer(t *testing.T) {
	dir := t.TempDir()
	w := &Webhooks{options: Options{Dir: dir, Log: slog.New(slog.DiscardHandler)}}
	if _, err := w.renew(t.Context()); err == nil {
		t.Error("no files are no error")
	}
	write := func() {
		certs, _, err := (&certificates{}).renewed(time.Now(), time.Hour, []string{"a"}, false)
		if err != nil {
			t.Fatal(err)
		}
		data, err := certs.secretData()
		if err != nil {
			t.Fatal(err)
		}
		for name, text := range data {
			if err := os.WriteFile(filepath.Join(dir, name), text, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	for range 2 {
		write()
		for _, want := range []bool{true, false} {
			if changed, err := w.renew(t.Context()); err != nil || changed != want {
				t.Errorf("changed %t, error %v, want %t", changed, err, want)
			}
		}
	}
}

// kube-system and the namespace of the operator are left out, unless they are named. O1
func TestNamespacesThatAreLeftOut(t *testing.T) {
	w := &Webhooks{options: Options{Namespace: "ops"}}
	in := func(names ...string) *metav1.LabelSelector {
		return &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: corev1.LabelMetadataName, Operator: metav1.LabelSelectorOpIn, Values: names}}}
	}
	for want, selector := range map[string]*metav1.LabelSelector{
		"kubernetes.io/metadata.name notin (kube-system,ops)":     nil,
		"a=b,kubernetes.io/metadata.name notin (kube-system,ops)": {MatchLabels: map[string]string{"a": "b"}},
		"kubernetes.io/metadata.name=ops,kubernetes.io/metadata.name notin (kube-system)": {
			MatchLabels: map[string]string{corev1.LabelMetadataName: "ops"},
		},
		"kubernetes.io/metadata.name in (kube-system,ops)": in("kube-system", "ops"),
	} {
		got, err := metav1.LabelSelectorAsSelector(w.excluded(selector))
		if err != nil {
			t.Fatal(err)
		}
		parsed, err := metav1.ParseToLabelSelector(want)
		if err != nil {
			t.Fatal(err)
		}
		wanted, err := metav1.LabelSelectorAsSelector(parsed)
		if err != nil || got.String() != wanted.String() {
			t.Errorf("got %s, want %s, error %v", got, want, err)
		}
	}
}
