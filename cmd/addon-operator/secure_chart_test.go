package main

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"sigs.k8s.io/yaml"
)

// J11: with secure metrics the Pod serves TLS, kubelets ask by it, and the operator may ask who asks; otherwise it may not.
func TestChartSecuresMetrics(t *testing.T) {
	const asks = "tokenreviews"
	if plain := rendered(t, everything); strings.Contains(plain["rbac.yaml"], asks) || plain["metricsreader.yaml"] != "" || strings.Contains(plain["podmonitor.yaml"], "https") {
		t.Error("there are parts of secure metrics that were not asked for")
	}
	values := everything + "secureMetrics: {enabled: true, certificateSecret: of-cert-manager}"
	c := deployment(t, values).Spec.Template.Spec.Containers[0]
	env := variables{}
	for _, e := range c.Env {
		env[e.Name] = e.Value
		if e.ValueFrom != nil {
			env[e.Name] = "x"
		}
	}
	cfg, err := configured(env)
	if err != nil {
		t.Fatal(err)
	}
	mounted := false
	for _, m := range c.VolumeMounts {
		mounted = mounted || m.ReadOnly && strings.HasPrefix(cfg.TLSCert, m.MountPath+"/") && strings.HasPrefix(cfg.TLSKey, m.MountPath+"/")
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

func TestChartHasANetworkPolicy(t *testing.T) {
	policy := func(values string) (p networkingv1.NetworkPolicy) {
		t.Helper()
		if err := yaml.UnmarshalStrict([]byte(rendered(t, values)["networkpolicy.yaml"]), &p); err != nil {
			t.Fatal(err)
		}
		return p
	}
	open := policy("")
	selected := deployment(t, "").Spec.Template.Labels
	for key, value := range open.Spec.PodSelector.MatchLabels {
		if selected[key] != value {
			t.Errorf("the policy selects Pods with %s=%s", key, value)
		}
	}
	if in := open.Spec.Ingress; len(open.Spec.PolicyTypes) != 1 || len(in) != 1 || len(in[0].From) != 0 || len(in[0].Ports) != 1 || in[0].Ports[0].Port.String() != "metrics" {
		t.Errorf("it lets in %+v", in)
	}
	narrow := policy("networkPolicy: {create: true, from: [{namespaceSelector: {matchLabels: {a: b}}}]}").Spec.Ingress[0].From
	if len(narrow) != 2 || narrow[0].NamespaceSelector.MatchLabels["a"] != "b" {
		t.Errorf("it lets in %+v", narrow)
	}
	var test corev1.Pod
	if err := yaml.UnmarshalStrict([]byte(rendered(t, "")["ready.yaml"]), &test); err != nil {
		t.Fatal(err)
	}
	for key, value := range narrow[1].PodSelector.MatchLabels {
		if test.Labels[key] != value {
			t.Errorf("the Pod of helm test is not let in: it lacks %s=%s", key, value)
		}
	}
	if rendered(t, "networkPolicy: {create: false}")["networkpolicy.yaml"] != "" {
		t.Error("it cannot be switched off")
	}
}
