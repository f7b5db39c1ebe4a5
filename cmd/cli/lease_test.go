package cli

import "testing"

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
