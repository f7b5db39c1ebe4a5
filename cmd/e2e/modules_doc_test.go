package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// The bash blocks of docs/modules.md, word by word in an empty directory: each recipe passes its tests, and lint.
func TestModulesPageIsTrue(t *testing.T) {
	t.Parallel()
	const repository = "../../"
	text, err := os.ReadFile(repository + "docs/modules.md")
	if err != nil {
		t.Fatal(err)
	}
	needs := map[string]string{"A hook in Python": "python3", "An API outside": "curl"}
	var script strings.Builder
	scenarios := 0
	for _, section := range strings.Split(string(text), "\n### ") {
		title, _, _ := strings.Cut(section, "\n")
		if tool := needs[title]; tool != "" {
			if err := exec.Command(tool, "--version").Run(); err != nil {
				t.Logf("there is no %s: the recipe %q is not tried", tool, title)
				_, section, _ = strings.Cut(section, "\nAt last,")
			}
		}
		for _, block := range regexp.MustCompile("(?s)```bash\n(.*?)```").FindAllStringSubmatch(section, -1) {
			script.WriteString(block[1])
			scenarios += strings.Count(block[1], "\ndescription: ")
		}
	}
	bin, err := filepath.Abs(repository + "bin")
	if err != nil {
		t.Fatal(err)
	}
	tools := filepath.Dir(program())
	cmd := exec.Command("bash", "-euo", "pipefail", "-c", script.String())
	cmd.Dir = t.TempDir()
	cmd.Env = append(os.Environ(), "PATH="+tools+":"+bin+":"+os.Getenv("PATH"))
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if passed := strings.Count(string(out), "\nok ") + strings.Count(string(out[:3]), "ok "); passed != scenarios || scenarios < 6 {
		t.Errorf("%d of %d scenarios passed:\n%s", passed, scenarios, out)
	}
	if !strings.Contains(string(out), "No findings in ") {
		t.Errorf("lint:\n%s", out)
	}
}
