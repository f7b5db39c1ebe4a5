package e2e

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// The rules for charts of others, those in CHARTS or ours, are found without a cluster: also the kinds that templates
// and subcharts define. Rules with a * come first, with the chart that asks for them. A chart that does not render
// without values of its owner costs no other its rules.
func TestRulesOfForeignCharts(t *testing.T) {
	t.Parallel()
	var all []*foreignChart
	if dir := os.Getenv(chartsVariable); dir != "" {
		all = foreignCharts(t, dir)
	} else {
		all = ownCharts(t)
	}
	dir := t.TempDir()
	write := func(name, text string) {
		path := filepath.Join(dir, name)
		must(t, os.MkdirAll(filepath.Dir(path), 0o755))
		must(t, os.WriteFile(path, []byte(text), 0o600))
	}
	write("global-hooks/values.yaml", "")
	write("modules/990-needy/templates/a.yaml", `{{ required "the password is missing" .Values.needy.password }}`)
	renders := map[string]bool{}
	for i, c := range all {
		if c.refused != "" {
			continue
		}
		root := "modules/" + strconv.Itoa(i+1) + "-" + c.name
		must(t, os.CopyFS(filepath.Join(dir, root, "chart"), os.DirFS(c.dir)))
		write(root+"/values.yaml", yamlOf(map[string]any{c.key: c.values}))
		renders[c.name] = len(objectsOf(c.rendered)) > 0
	}
	cmd := exec.Command(program(), "rbac", "generate", "--offline", "--partial", "--modules-dir", filepath.Join(dir, "modules"), "--global-hooks-dir", filepath.Join(dir, "global-hooks"))
	var out, problems bytes.Buffer
	cmd.Env, cmd.Stdout, cmd.Stderr = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + dir}, &out, &problems
	if err := cmd.Run(); err == nil || !strings.Contains(problems.String(), "module needy: ") {
		t.Errorf("%v: %s", err, &problems)
	}
	rules := out.String()
	head, _, _ := strings.Cut(rules, "\n---\n")
	if !strings.Contains(head, "# These rules are INCOMPLETE:\n") || !strings.Contains(head, "module needy: ") {
		t.Errorf("the head does not say what is missing:\n%s", head)
	}
	for name, has := range renders { // public charts grant so much in the whole cluster that others need no rules of their own
		if has && os.Getenv(chartsVariable) == "" && !strings.Contains(rules, "# chart of module "+name+"\n") && !strings.Contains(problems.String(), "module "+name+": ") {
			t.Errorf("no rules for module %s", name)
		}
	}
	if os.Getenv(chartsVariable) != "" {
		t.Logf("%s\n%s", head, &problems)
		return
	}
	if strings.Count(head, "module ") > 1 || strings.Count(rules, "apiGroups: [\"*\"]")+strings.Count(rules, "resources: [\"*\"]") > 1 {
		t.Errorf("more is missing, or wide, than should be:\n%s", rules)
	}
	expectAll(t, rules,
		"\nrules:\n# chart of module workloads grants it with ClusterRole addon-operator\n", // first
		`resources: ["probes", "rules"]`, `resources: ["bulks0`, // kinds of templates, and of a subchart of a subchart
	)
}
