package builtin_test

import (
	"fmt"
	"testing"

	"addon-operator/kube/builtin"
)

func TestFind(t *testing.T) {
	for _, c := range []struct{ release, apiVersion, kind, want string }{
		{"v1.36", "apps/v1", "Deployment", "true  [apps/v1]"},
		{"v1.36", "", "Deployment", "true  [apps/v1]"},
		{"v1.36", "extensions/v1beta1", "Deployment", "false was removed in v1.16 [apps/v1]"},
		{"v1.15", "extensions/v1beta1", "Deployment", "true  [extensions/v1beta1 apps/v1 apps/v1beta2 apps/v1beta1]"},
		{"1.24.3", "policy/v1beta1", "PodDisruptionBudget", "true  [policy/v1 policy/v1beta1]"},
		{"v1.25", "policy/v1beta1", "PodDisruptionBudget", "false was removed in v1.25 [policy/v1]"},
		{"v1.36", "app/v1", "Deployment", "false  [apps/v1]"},
		{"v1.36", "v1", "Sercet", "false  []"},
		{"v1.36", "v1", "SecretList", "false  []"},
		{"v1.36", "v1", "DeleteOptions", "false  []"},
		{"v1.36", "apiextensions.k8s.io/v1", "CustomResourceDefinition", "true  [apiextensions.k8s.io/v1]"},
		{"v1.36", "apiextensions.k8s.io/v1beta1", "CustomResourceDefinition", "false was removed in v1.22 [apiextensions.k8s.io/v1]"},
		{"v1.36", "apiregistration.k8s.io/v1", "APIService", "true  [apiregistration.k8s.io/v1]"},
		{"v1.20", "batch/v1", "CronJob", "false was introduced in v1.21 [batch/v1beta1]"},
	} {
		release, err := builtin.ParseRelease(c.release)
		if err != nil {
			t.Fatal(err)
		}
		v := builtin.New(release).Find(c.apiVersion, c.kind)
		if got := fmt.Sprint(v.Served, " ", v.Reason, " ", v.Instead); got != c.want {
			t.Errorf("%s %s %s: %s, want %s", c.release, c.apiVersion, c.kind, got, c.want)
		}
	}
}

func TestReleases(t *testing.T) {
	if r, err := builtin.ParseRelease(builtin.Newest); err != nil || r.Major != 1 {
		t.Errorf("%v, %v", r, err)
	}
	for _, text := range []string{"", "1", "v1", "one.two", "1.31.4.5", "v1.999", "v2.0", "1.-3"} {
		if r, err := builtin.ParseRelease(text); err == nil {
			t.Errorf("%q is taken as %s", text, r)
		}
	}
}
