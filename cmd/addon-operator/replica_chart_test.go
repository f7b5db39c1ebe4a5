package main

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
)

// Replicas take a lease, also a single one, say who they are, and are replaced one by one, each
// only when the next one is ready. L1, L6.
func TestReplicasTakeALease(t *testing.T) {
	for values, replicas := range map[string]int32{"": 1, "replicas: 3": 3} {
		d := deployment(t, values)
		cfg, err := configured(environmentOf(t, d))
		must(t, err)
		if !cfg.HA || cfg.PodName != "from-metadata.name" || cfg.PodUID != "from-metadata.uid" {
			t.Errorf("ha %v, name %q, uid %q", cfg.HA, cfg.PodName, cfg.PodUID)
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
	if d.Spec.Strategy.Type != appsv1.RecreateDeploymentStrategyType || environmentOf(t, d)["ADDON_OPERATOR_HA"] != "false" {
		t.Errorf("without the lease: %+v", d.Spec)
	}
}
