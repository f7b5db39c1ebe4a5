package addons_test

import (
	"slices"
	"strings"
	"testing"
)

// H26: modules that do not run before this one, or are not there, are not waited for, and that is a problem of the module.
func TestWaits(t *testing.T) {
	tree, _ := load(t, map[string]string{
		"modules/010-cert-manager/values.yaml": "",
		"modules/020-web/module.yaml":          "waitFor: [cert-manger, cert-manager, web, later, peer]\n",
		"modules/020-peer/values.yaml":         "",
		"modules/030-later/values.yaml":        "",
	})
	web := module(t, tree, "web")
	if !slices.Equal(web.Awaits, []string{"cert-manager"}) {
		t.Errorf("it waits for %q", web.Awaits)
	}
	problems := strings.Join(web.Problems(), "\n")
	for _, want := range []string{
		"020-web/module.yaml: waitFor names cert-manger, but no such module is loaded, so it is not waited for; did you mean cert-manager?",
		"waitFor names later, which does not run before web, so it is not waited for; give its directory a number below 20",
		"waitFor names peer, which does not run before web",
		"waitFor names web, which does not run before web",
	} {
		if !strings.Contains(problems, want) {
			t.Errorf("no %q in\n%s", want, problems)
		}
	}
}
