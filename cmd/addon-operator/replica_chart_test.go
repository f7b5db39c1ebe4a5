package main

import (
	"slices"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	"sigs.k8s.io/yaml"
)

// Replicas take a lease, also a single one, say who they are, and are replaced one by one, each
// only when the next one is ready. L1, L6.
func TestReplicasTakeALease(t *testing.T) {
	for values, replicas := range map[string]int32{"": 1, "replicas: 3": 3} {
		d := deployment(t, values)
		env := variables{}
		for _, e := range d.Spec.Template.Spec.Containers[0].Env {
			if _, twice := env[e.Name]; twice {
				t.Errorf("%s is set twice", e.Name)
			}
			env[e.Name] = e.Value
			if e.ValueFrom != nil {
				env[e.Name] = "from-" + e.ValueFrom.FieldRef.FieldPath
			}
		}
		cfg, err := configured(env)
		if err != nil {
			t.Fatal(err)
		}
		if !cfg.HA || cfg.PodName != "from-metadata.name" || cfg.AdvertiseAddress != "from-status.podIP" {
			t.Errorf("ha %v, name %q, address %q", cfg.HA, cfg.PodName, cfg.AdvertiseAddress)
		}
		rolling := d.Spec.Strategy.RollingUpdate
		if *d.Spec.Replicas != replicas || d.Spec.Strategy.Type != appsv1.RollingUpdateDeploymentStrategyType || rolling.MaxUnavailable.IntValue() != 0 || rolling.MaxSurge.IntValue() != 1 {
			t.Errorf("strategy %+v of %d replicas", d.Spec.Strategy, *d.Spec.Replicas)
		}
	}
	if d := deployment(t, "strategy: {type: Recreate}"); d.Spec.Strategy.Type != appsv1.RecreateDeploymentStrategyType {
		t.Errorf("the strategy of the user is changed: %+v", d.Spec.Strategy)
	}
	// Without the lease nothing keeps two apart but their number.
	d := deployment(t, "lease: false")
	if d.Spec.Strategy.Type != appsv1.RecreateDeploymentStrategyType || !slices.ContainsFunc(d.Spec.Template.Spec.Containers[0].Env, func(e corev1.EnvVar) bool {
		return e.Name == "ADDON_OPERATOR_HA" && e.Value == "false"
	}) {
		t.Errorf("without the lease: %+v", d.Spec)
	}
}

// Several replicas are spread over nodes and not evicted all at once.
func TestSeveralReplicas(t *testing.T) {
	d := deployment(t, "replicas: 3")
	terms := d.Spec.Template.Spec.Affinity.PodAntiAffinity.PreferredDuringSchedulingIgnoredDuringExecution
	if len(terms) != 1 || terms[0].PodAffinityTerm.LabelSelector.MatchLabels["app.kubernetes.io/instance"] != "addon-operator" {
		t.Errorf("anti-affinity %+v", terms)
	}
	var budget policyv1.PodDisruptionBudget
	if err := yaml.UnmarshalStrict([]byte(rendered(t, "replicas: 2")["pdb.yaml"]), &budget); err != nil || budget.Spec.MaxUnavailable.IntValue() != 1 {
		t.Errorf("disruption budget %+v, %v", budget.Spec, err)
	}
	// One whose first converge fails is not ready (L3): its node must be drained all the same.
	if policy := budget.Spec.UnhealthyPodEvictionPolicy; policy == nil || *policy != policyv1.AlwaysAllow {
		t.Errorf("Pods that are not ready may be evicted: %v", policy)
	}

	one := rendered(t, "")
	if text := one["deployment.yaml"]; strings.Contains(text, "ffinity") {
		t.Errorf("one replica has parts of several:\n%s", text)
	}
	if one["pdb.yaml"] != "" {
		t.Error("one replica has a disruption budget nobody asked for")
	}
	own := deployment(t, "replicas: 2\naffinity: {nodeAffinity: {}}").Spec.Template.Spec.Affinity
	if own.PodAntiAffinity != nil || own.NodeAffinity == nil {
		t.Errorf("the affinity of the user is changed: %+v", own)
	}
}

// In a cluster the Lease is taken, also by a single replica, unless somebody says no. L1.
func TestLeaseIsTakenInACluster(t *testing.T) {
	for name, c := range map[string]struct {
		env  variables
		want bool
	}{
		"with the service account of its Pod":  {variables{}, true},
		"with the name of its Pod":             {variables{"KUBECONFIG": "f", "ADDON_OPERATOR_POD": "p"}, true},
		"on the machine of a person":           {variables{"KUBECONFIG": "f"}, false},
		"there, with several replicas":         {variables{"KUBECONFIG": "f", "ADDON_OPERATOR_HA": "true"}, true},
		"in a Pod, when somebody says no":      {variables{"ADDON_OPERATOR_POD": "p", "ADDON_OPERATOR_HA": "no"}, false},
		"in a Pod, when a template leaves out": {variables{"ADDON_OPERATOR_POD": "p", "ADDON_OPERATOR_HA": ""}, true},
	} {
		t.Run(name, func(t *testing.T) {
			c.env["ADDON_OPERATOR_NAMESPACE"] = "n"
			cfg, err := configured(c.env)
			if err != nil || cfg.HA != c.want {
				t.Errorf("got %v, %v, want %v", cfg.HA, err, c.want)
			}
		})
	}
}

// The name and the address in an identity come back whole, whatever they look like.
func TestIdentity(t *testing.T) {
	for _, c := range []struct{ name, address string }{
		{"operator-5d8f-x2x", "10.0.0.7:9650"},
		{"a_host_with_underscores", "[fd00::1]:9650"},
	} {
		identity := identityOf(c.name, c.address)
		name, address := nameAndAddress(identity)
		if name != c.name || address != c.address {
			t.Errorf("%s became %q, %q", identity, name, address)
		}
		if identity == identityOf(c.name, c.address) {
			t.Error("two processes have one identity")
		}
	}
	for _, foreign := range []string{"", "somebody", "some_body"} {
		if name, address := nameAndAddress(foreign); name != foreign || address != "" {
			t.Errorf("%q became %q, %q", foreign, name, address)
		}
	}
}

func TestAdvertisedAddress(t *testing.T) {
	for name, c := range map[string]struct {
		config Config
		want   string
	}{
		"given":                 {Config{AdvertiseAddress: "10.0.0.7", ListenAddress: "0.0.0.0", ListenPort: 1}, "10.0.0.7:1"},
		"given, IPv6":           {Config{AdvertiseAddress: "fd00::1", ListenPort: 1}, "[fd00::1]:1"},
		"the one it listens on": {Config{ListenAddress: "127.0.0.1", ListenPort: 2}, "127.0.0.1:2"},
	} {
		t.Run(name, func(t *testing.T) {
			if got, err := c.config.advertised(); err != nil || got != c.want {
				t.Errorf("got %q, %v, want %q", got, err, c.want)
			}
		})
	}
	got, err := (&Config{ListenAddress: "0.0.0.0", ListenPort: 3}).advertised()
	if err != nil || strings.HasPrefix(got, "0.0.0.0") || !strings.HasSuffix(got, ":3") {
		t.Errorf("everywhere became %q, %v", got, err)
	}
}

// Times that do not fit together stop the start, but only where they are used.
func TestLeaseTimesAreChecked(t *testing.T) {
	env := variables{"ADDON_OPERATOR_NAMESPACE": "n", "ADDON_OPERATOR_HA_RENEW_DEADLINE": "15s", "ADDON_OPERATOR_HA": "false"}
	if _, err := configured(env); err != nil {
		t.Errorf("without a Lease: %v", err)
	}
	env["ADDON_OPERATOR_HA"] = "true"
	if _, err := configured(env); err == nil || !strings.Contains(err.Error(), "renew deadline must be shorter than the lease duration") {
		t.Errorf("got %v", err)
	}
}
