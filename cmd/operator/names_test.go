package operator

import (
	"strings"
	"testing"
)

// J6: command lines of existing installations work as they are written there.
func TestCommandLinesOfExistingInstallations(t *testing.T) {
	r := startRunning(t)
	for line, want := range map[string]string{
		"queue list":                                   "is empty",
		"queue list -o json -e":                        `"empty"`,
		"queue list --show-empty -o yaml":              "summary:",
		"queue list -t 2s":                             "is empty",
		"queue list --watchInterval 2s -o text":        "is empty",
		"queue main -o text":                           "is empty",
		"config list -o text":                          "log.level",
		"config set log.level debug":                   "debug",
		"config set log.level info 10m":                "info",
		"raw /queue/list.json":                         "summary",
		"raw queue/main.text":                          "is empty",
		"raw":                                          "/module/list",
		"hook list":                                    "h.sh",
		"hook snapshot 010-ingress/hooks/h.sh -o yaml": "state: complete",
		"global list -o json":                          "globalHooks",
		"global values -o text":                        "clusterName",
		"global config -o yaml":                        "",
		"global patches":                               "",
		"global snapshots -o json":                     "{",
		"module list -o yaml":                          "enabledModules:",
		"module list -o text":                          "ingress",
		"module values ingress -g":                     "global:",
		"module values ingress --global -o json":       `"global"`,
		"module config ingress":                        "replicas: 2",
		"module config ingress -g -o text":             "replicas",
		"module patches ingress":                       "",
		"module render ingress --debug --diff":         "",
		"module render ingress":                        "kind: Secret",
		"module resource-monitor":                      "ingress",
		"module resource-monitor ingress -o json":      `"ingress"`,
		"module snapshots ingress -o yaml":             "hooks/h.sh",
	} {
		out, err := r.run(strings.Fields(line)...)
		if err != nil || !strings.Contains(out, want) {
			t.Errorf("%s: %v, no %q in\n%s", line, err, want, out)
		}
	}
}

// J6: lists are printed in the formats that kubectl has.
func TestFormatsAsKubectlHasThem(t *testing.T) {
	r := startRunning(t)
	for line, want := range map[string]string{
		"module list -o name": "ingress\n",
		"module list -o jsonpath={.modules[?(@.enabled==true)].name}": "ingress",
		"module list -o jsonpath={.modules[0].order}":                 "10\n",
		"module list -o jsonpath={.nothing.here}":                     "\n",
		"module list -o wide":                                         "NAME",
		"hook list -o name":                                           "010-ingress/hooks/h.sh\n",
		"queue list -o name":                                          "main\n",
		"queue list main -o jsonpath={.tasksCount}":                   "0\n",
		"module values ingress -o jsonpath={.replicas}":               "2\n",
		"status -o jsonpath={.namespace}":                             "addons",
		"module render ingress -o wide":                               "kind: Secret",
	} {
		if out, err := r.run(strings.Fields(line)...); err != nil || !strings.Contains(out, want) {
			t.Errorf("%s: %v, no %q in\n%s", line, err, want, out)
		}
	}
	for _, line := range []string{"module list --no-headers", "hook list --no-headers", "config list --no-headers", "module drift ingress --no-headers"} {
		out, err := r.run(strings.Fields(line)...)
		if err != nil || strings.Contains(out, "NAME") || strings.Contains(out, "MODULE") || strings.Contains(out, "Drift") || strings.Contains(out, "\n\n") {
			t.Errorf("%s: %v\n%s", line, err, out)
		}
	}
	for line, want := range map[string]string{
		"module list -o jsonpath=":           "is not one of",
		"module list -o jsonpath={.modules[": "cannot be parsed",
		"module values ingress -o name":      "lists nothing that has a name",
		"module list -o xml":                 "is not one of text, wide, yaml, json, name",
	} {
		if out, err := r.run(strings.Fields(line)...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q\n%s", line, err, want, out)
		}
	}
}
