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
		t.Error("one replica has a disruption budget")
	}
	own := deployment(t, "replicas: 2\naffinity: {nodeAffinity: {}}").Spec.Template.Spec.Affinity
	if own.PodAntiAffinity != nil || own.NodeAffinity == nil {
		t.Errorf("the affinity of the user is changed: %+v", own)
	}
}
