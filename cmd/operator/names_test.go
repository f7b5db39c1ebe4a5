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
		"global values -o text":                        "PATH",
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
		"get modules -o name": "ingress\n",
		"get modules -o jsonpath={.modules[?(@.enabled==true)].name}": "ingress",
		"get modules -o jsonpath={.modules[0].order}":                 "10\n",
		"get modules -o jsonpath={.nothing.here}":                     "\n",
		"get modules -o wide":                                         "NAME",
		"get hooks -o name":                                           "010-ingress/hooks/h.sh\n",
		"get queues":                                                  "NAME  TASKS",
		"get queues -o name":                                          "main\n",
		"get queues main -o jsonpath={.tasksCount}":                   "0\n",
		"get tasks": "No task waits.\n",
		"get values ingress -o jsonpath={.replicas}": "2\n",
		"history ingress -o name":                    "3\n",
	} {
		if out, err := r.run(strings.Fields(line)...); err != nil || !strings.Contains(out, want) {
			t.Errorf("%s: %v, no %q in\n%s", line, err, want, out)
		}
	}
	for _, line := range []string{"get modules --no-headers", "get hooks --no-headers", "get queues --no-headers", "get tasks --no-headers", "module list --no-headers"} {
		out, err := r.run(strings.Fields(line)...)
		if err != nil || strings.Contains(out, "NAME") || strings.Contains(out, "MODULE") || strings.Contains(out, "No task") || strings.Contains(out, "\n\n") {
			t.Errorf("%s: %v\n%s", line, err, out)
		}
	}
	for line, want := range map[string]string{
		"get modules -o jsonpath=":           "needs a template",
		"get modules -o jsonpath={.modules[": "cannot be parsed",
		"module values ingress -o name":      "is not one of",
		"get modules -o xml":                 "is not one of table, json, yaml, name",
		"module render ingress -o wide":      "",
	} {
		if out, err := r.run(strings.Fields(line)...); want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q\n%s", line, err, want, out)
		}
	}
}
