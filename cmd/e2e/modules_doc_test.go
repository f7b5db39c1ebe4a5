package e2e

import (
	"os/exec"
	"strings"
	"testing"
)

// The bash blocks of docs/modules.md, word by word in an empty directory: each recipe passes its tests, and lint.
func TestModulesPageIsTrue(t *testing.T) {
	t.Parallel()
	needs := map[string]string{"An API outside": "curl"}
	var script strings.Builder
	scenarios := 0
	for section := range strings.SplitSeq(page(t, "modules.md", ""), "\n### ") {
		title, _, _ := strings.Cut(section, "\n")
		if tool := needs[title]; tool != "" {
			if err := exec.Command(tool, "--version").Run(); err != nil {
				t.Logf("there is no %s: the recipe %q is not tried", tool, title)
				_, section, _ = strings.Cut(section, "\nAt last,")
			}
		}
		for _, block := range blocks(section, "bash") {
			script.WriteString(block)
			scenarios += strings.Count(block, "\ndescription: ")
		}
	}
	_, out := typed(t, script.String())
	if passed := strings.Count(out, "\nok ") + strings.Count(out[:3], "ok "); passed != scenarios || scenarios < 6 {
		t.Errorf("%d of %d scenarios passed:\n%s", passed, scenarios, out)
	}
	expectAll(t, out, "No findings in ")
}
