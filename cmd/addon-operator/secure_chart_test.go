package main

import (
	"strings"
	"testing"

	"addon-operator/cmd/operator"
)

// J11: with secure metrics the Pod serves TLS, kubelets ask by it, and the operator may ask who asks; otherwise it
// may not.
func TestChartSecuresMetrics(t *testing.T) {
	const asks = "tokenreviews"
	if plain := rendered(t, everything); strings.Contains(plain["rbac.yaml"], asks) || plain["metricsreader.yaml"] != "" || strings.Contains(plain["podmonitor.yaml"], "https") {
		t.Error("there are parts of secure metrics that were not asked for")
	}
	values := everything + "secureMetrics: {enabled: true, certificateSecret: of-cert-manager}"
	d := deployment(t, values)
	c := d.Spec.Template.Spec.Containers[0]
	cfg, err := configured(environmentOf(t, d))
	must(t, err)
	mounted := false
	for _, m := range c.VolumeMounts {
		mounted = mounted || m.ReadOnly && m.MountPath == operator.CertificateDir
	}
	if !cfg.SecureMetrics || !mounted || c.LivenessProbe.HTTPGet.Scheme != "HTTPS" || c.ReadinessProbe.HTTPGet.Scheme != "HTTPS" {
		t.Errorf("secure %t, certificate mounted %t, probes %s and %s", cfg.SecureMetrics, mounted, c.LivenessProbe.HTTPGet.Scheme, c.ReadinessProbe.HTTPGet.Scheme)
	}
	all := rendered(t, values)
	for _, want := range []string{"nonResourceURLs: [/metrics, /metrics/hooks]", "kubernetes.io/service-account-token"} {
		if !strings.Contains(all["metricsreader.yaml"], want) {
			t.Errorf("no %s for Prometheus", want)
		}
	}
	if monitor := all["podmonitor.yaml"]; !strings.Contains(monitor, "scheme: https") || !strings.Contains(monitor, "name: addon-operator-metrics-reader") {
		t.Errorf("the PodMonitor asks without a token:\n%s", monitor)
	}
	if c := deployment(t, "secureMetrics: {enabled: true}").Spec.Template.Spec; len(c.Volumes) != 2 {
		t.Errorf("without a Secret there are %d volumes", len(c.Volumes))
	}
}
