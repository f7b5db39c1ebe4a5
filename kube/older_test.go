package kube_test

import (
	"testing"

	"addon-operator/kube"
)

// D14: late news of the ConfigMap, from before an own write, is not taken for a change; a
// ConfigMap that does not exist has no version and is never late.
func TestOlder(t *testing.T) {
	for name, c := range map[string]struct {
		seen, written string
		want          bool
	}{
		"before the own write":          {"9", "10", true},
		"the own write itself":          {"10", "10", false},
		"after it":                      {"11", "10", false},
		"nothing was written":           {"11", "", false},
		"the ConfigMap does not exist":  {"", "10", false},
		"a version that is no number":   {"abc", "10", false},
		"compared as numbers, not text": {"100", "99", false},
	} {
		if got := kube.Older(c.seen, c.written); got != c.want {
			t.Errorf("%s: got %v, want %v", name, got, c.want)
		}
	}
}
