package values_test

import (
	"strings"
	"testing"

	"addon-operator/values"
)

func TestNearest(t *testing.T) {
	keys := []string{"allowFailure", "crontab", "group", "includeSnapshotsFrom", "kind", "name", "queue"}
	modules := []string{"certManager", "dns", "ingressNginx"}
	flags := []string{"dnsEnabled", "webEnabled"}
	for _, tc := range []struct {
		word, want string
		known      []string
	}{
		{"naem", "name", keys}, {"Crontab", "crontab", keys}, {"crontabs", "crontab", keys}, {"allow_failure", "allowFailure", keys},
		{"includeSnapshotFrom", "includeSnapshotsFrom", keys}, {"que", "queue", keys},
		{"", "", keys}, {"labels", "", keys}, {"schedule", "", keys}, {strings.Repeat("x", 1000), "", keys},
		{"ingress", "ingressNginx", modules}, {"certManger", "certManager", modules}, {"CERTMANAGER", "certManager", modules}, {"dsn", "dns", modules},
		{"web", "", modules}, {"", "", modules},
		{"dsnEnabled", "dnsEnabled", flags}, {"webbEnabled", "webEnabled", flags}, {"oxoEnabled", "", flags}, {"Enabled", "", flags},
		{"serverEnabled", "", []string{"dnsServerEnabled"}},
		{"dnsSeverMaintenance", "dnsServerMaintenance", []string{"dnsServerMaintenance"}},
	} {
		if got := values.Nearest(tc.word, tc.known); got != tc.want {
			t.Errorf("%.20q: got %q, want %q", tc.word, got, tc.want)
		}
	}
}
