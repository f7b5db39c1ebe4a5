package e2e

import (
	"os/exec"
	"strings"
	"testing"
)

// What people have written into the ConfigMap of the cluster is among the values that a new version of a chart must accept.
// It is shown where it stands, and no cluster is needed. Issue 16.2.
func TestUpgradeChartWithConfigMap(t *testing.T) {
	const chart = "{apiVersion: v2, name: web, version: VERSION}\n"
	h := newFixture(t, `
-- modules/010-web/chart/values.yaml --
size: 1
color: red
-- modules/010-web/chart/templates/a.yaml --
{apiVersion: v1, kind: ConfigMap, metadata: {name: web}, data: {color: {{ .Values.color | quote }}}}
-- new/values.yaml --
size: 1
-- new/values.schema.json --
{"properties": {"color": {"enum": ["red"]}, "size": {"maximum": 5}}}
-- new/templates/a.yaml --
{apiVersion: v1, kind: ConfigMap, metadata: {name: web}, data: {color: {{ .Values.color | default "red" | quote }}, size: {{ .Values.size | quote }}}}
`)
	h.write("modules/010-web/chart/Chart.yaml", strings.Replace(chart, "VERSION", "1.0.0", 1))
	h.write("new/Chart.yaml", strings.Replace(chart, "VERSION", "2.0.0", 1))
	upgrade := func(more ...string) (string, error) {
		cmd := exec.Command(program(), append([]string{"module", "upgrade-chart", "web", "--from-chart", h.path("new"), "--dry-run"}, more...)...)
		cmd.Env, cmd.Dir = h.environment(), h.dir
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	inCluster := "the values on disk and in ConfigMap " + h.namespace + "/addon-operator"
	for _, c := range []struct {
		config string
		flags  []string
		fails  bool
		says   []string
	}{
		{"size: 3", nil, false, []string{"Objects, with " + inCluster, `size: "3"`}},
		{"size: 9", nil, true, []string{"nothing is written", inCluster, "web.size", "5"}},
		{"color: blue", []string{"--from", "cluster"}, true, []string{"web.color in the ConfigMap", "web.color: must be"}},
		{"color: blue", []string{"--from", "files"}, false, []string{"Objects, with the values on disk:"}},
		{"color: blue", []string{"--kube-context", "none"}, false, []string{"no cluster was read", "Objects, with the values on disk:"}},
	} {
		h.setConfig(map[string]string{"web": c.config})
		out, err := upgrade(c.flags...)
		if (err != nil) != c.fails || !containsAll(out, c.says) {
			t.Errorf("%s %q: %v\n%s", c.config, c.flags, err, out)
		}
	}
}
