package values_test

import (
	"strings"
	"testing"

	"addon-operator/values"
)

func TestNear(t *testing.T) {
	known := []string{"certManager", "dns", "ingressNginx"}
	for name, want := range map[string]string{
		"ingress":     "ingressNginx", // a part
		"certManger":  "certManager",
		"CERTMANAGER": "certManager",
		"dsn":         "dns",
		"web":         "",
		"":            "",
	} {
		if got := values.Near(name, known); got != want {
			t.Errorf("%q: got %q, want %q", name, got, want)
		}
	}
}

// The end that all flags have makes none of them like another.
func TestNearFlag(t *testing.T) {
	known := []string{"dnsEnabled", "webEnabled"}
	for flag, want := range map[string]string{"dsnEnabled": "dnsEnabled", "webbEnabled": "webEnabled", "oxoEnabled": "", "Enabled": ""} {
		if got := values.NearFlag(flag, known); got != want {
			t.Errorf("%q: got %q, want %q", flag, got, want)
		}
	}
}

func TestNearest(t *testing.T) {
	known := []string{"allowFailure", "crontab", "group", "includeSnapshotsFrom", "kind", "name", "queue"}
	tests := map[string]string{
		"naem": "name", "Crontab": "crontab", "crontabs": "crontab", "allow_failure": "allowFailure", "includeSnapshotFrom": "includeSnapshotsFrom",
		"": "", "labels": "", "schedule": "", strings.Repeat("x", 1000): "", "que": "queue",
	}
	for word, want := range tests {
		if got := values.Nearest(word, known); got != want {
			t.Errorf("%.20q: got %q, want %q", word, got, want)
		}
	}
}

// A flag of another module, or of a chart, is not taken for a misspelt one.
func TestNearestFlag(t *testing.T) {
	known := []string{"dnsServerEnabled"}
	for flag, want := range map[string]string{"dnsSeverEnabled": "dnsServerEnabled", "serverEnabled": "", "Enabled": ""} {
		if got := values.NearestFlag(flag, known); got != want {
			t.Errorf("%q: got %q, want %q", flag, got, want)
		}
	}
	if got := values.NearestMaintenance("dnsSeverMaintenance", []string{"dnsServerMaintenance"}); got != "dnsServerMaintenance" {
		t.Errorf("got %q", got)
	}
}
