package actors_test

import (
	"strings"
	"testing"

	"addon-operator/testkit"
)

// The random test is worth something only if its scripts do to the operator what they are
// meant to: it is killed, and module f causes loops and failures.
func TestRandomScriptsInjectFaults(t *testing.T) {
	drawn := map[string]int{}
	for seed := range uint64(2000) {
		for _, f := range testkit.NewRandom(seed + 1).Archive.Files {
			if f.Name != "script" {
				continue
			}
			for line := range strings.Lines(string(f.Data)) {
				drawn[strings.TrimSpace(line)]++
			}
		}
	}
	wanted := []string{
		"kill", "forbid Service", "object ConfigMap d/touched", "object ConfigMap d/unneeded", "slow-crds 10s", "write modules/050-f/templates/usual.yaml by-chance", "write modules/050-f/crds/thing.yaml wrong-crd", "refuse g.sh 1 delete", "refuse 050-f/hooks/grow.sh 1 namespace", "look",
		"delete-kind Rule", "stick-helm g", "vanish h-a", "configmap-set hEnabled false", "uses g Rule",
	}
	for _, step := range wanted {
		if drawn[step] == 0 {
			t.Errorf("no random script has the step %q", step)
		}
	}
}
