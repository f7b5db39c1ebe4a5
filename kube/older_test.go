package kube_test

import (
	"testing"

	"addon-operator/kube"
)

// D14: late news of the ConfigMap, from before an own write, is not taken for a change; a ConfigMap that does not
// exist has no version and is never late. Versions are compared as numbers.
func TestOlder(t *testing.T) {
	for c, want := range map[[2]string]bool{{"9", "10"}: true, {"10", "10"}: false, {"100", "99"}: false, {"11", ""}: false, {"", "10"}: false, {"abc", "10"}: false} {
		if got := kube.Older(c[0], c[1]); got != want {
			t.Errorf("seen %q, written %q: %v, want %v", c[0], c[1], got, want)
		}
	}
}
