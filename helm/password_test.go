package helm

import (
	"strings"
	"testing"
)

// guarded makes a password once, and wants it back at an upgrade.
const guarded = `
-- templates/secret.yaml --
{{- $known := (lookup "v1" "ConfigMap" .Release.Namespace "guarded").data }}
{{- if and .Release.IsUpgrade (not $known) }}{{ fail "PASSWORDS ERROR: give the current password" }}{{ end }}
apiVersion: v1
kind: ConfigMap
metadata: {name: guarded}
data: {password: {{ $known | default dict | dig "password" (randAlphaNum 10) | quote }}}
`

// A chart that makes a password once, and wants it at an upgrade, can be installed, and is left alone from then on.
func TestApplyPasswordOfTheInstallation(t *testing.T) {
	f := start(t)
	m := moduleOf(t, "guarded", guarded)
	if shown, err := f.client.Show(t.Context(), m); err != nil || len(shown) != 1 {
		t.Errorf("shown are %v, %v", shown, err)
	}
	f.apply(m, Installed, 1)
	password := f.configMap("guarded")["password"]
	f.apply(m, Skipped, 1)
	f.restart()
	f.apply(m, Skipped, 1)
	if got := f.configMap("guarded")["password"]; got != password {
		t.Errorf("password %q, then %q", password, got)
	}
	f.deleteConfigMap("guarded")
	f.restart()
	wantError(t, f.refuse(m, Render), "PASSWORDS ERROR")
}

// H8, H9: a chart that refuses upgrades without the password of its installation is installed after one that did not
// come to the password, and after one that was uninstalled, also by an operator that starts again.
func TestApplyPasswordOfAnInstallationThatNeverWas(t *testing.T) {
	for _, status := range []string{"pending-install", "failed", "uninstalled"} {
		for name, again := range map[string]func(*fixture){"restarted": (*fixture).restart, "known": (*fixture).caughtUp} {
			t.Run(status+" and "+name, func(t *testing.T) {
				f := start(t)
				m := moduleOf(t, "guarded", guarded)
				f.apply(m, Installed, 1)
				f.setStatus("guarded", 1, status)
				f.deleteConfigMap("guarded")
				again(f)
				want := 1
				if status == "uninstalled" {
					want = 2
				}
				f.apply(m, Installed, want)
				f.apply(m, Skipped, want)
				if f.configMap("guarded")["password"] == "" {
					t.Error("there is no password")
				}
			})
		}
	}
}

// A deployed release remains one while its records are not known, or doubted: it is not rendered as for an
// installation, with another password.
func TestShowPasswordOfADoubtedRelease(t *testing.T) {
	f := start(t)
	m := moduleOf(t, "guarded", guarded)
	f.apply(m, Installed, 1)
	f.deleteConfigMap("guarded")
	for name, doubt := range map[string]func(){
		"not listed": func() { f.blind = true; f.restart() },
		"doubted":    func() { f.client.root.records.doubt("guarded") },
	} {
		doubt()
		if shown, err := f.client.Show(t.Context(), m); err == nil || !strings.Contains(err.Error(), "PASSWORDS ERROR") {
			t.Errorf("%s: shown are %v, %v", name, shown, err)
		}
	}
}
