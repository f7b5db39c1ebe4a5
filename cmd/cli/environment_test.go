package cli

import (
	"bytes"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
)

// A variable that is not served, or not read, is named once with the way out; nothing else is.
func TestUnservedVariablesAreNamed(t *testing.T) {
	config := must(t, variables{})
	for situation, test := range map[string]struct{ variable, want string }{
		"not served":                           {"STRICT_CHECK_VALUES_MODE_ENABLED=true", "always checked"},
		"not served, by its long name":         {"ADDON_OPERATOR_STRICT_CHECK_VALUES_MODE_ENABLED=yes", "always checked"},
		"not needed":                           {"HELM_MONITOR_KUBE_CLIENT_QPS=5", "remove it"},
		"requests":                             {"DEBUG_KUBERNETES_API=true", "LOG_LEVEL=debug"},
		"metrics of queues off":                {"QUEUE_ACTIONS_METRICS=no", "always served"},
		"another engine":                       {"USE_NELM=true", "the Helm library"},
		"webhooks":                             {"ADDON_OPERATOR_ADMISSION_SERVER_ENABLED=true", "webhooks"},
		"a constant now":                       {"ADDON_OPERATOR_DRIFT_PERIOD=1m", "its value is always 5m"},
		"a constant now, and of that value":    {"ADDON_OPERATOR_SNAPSHOT_LIMIT=128", ""},
		"the name of a Lease":                  {"ADDON_OPERATOR_HA_LEASE_NAME=addon-operator-leader-election", ""},
		"the share of purges":                  {"ADDON_OPERATOR_PURGE_SHARE=25", ""},
		"another name of an option":            {"SHELL_OPERATOR_TMP_DIR=/tmp", "set ADDON_OPERATOR_TMP_DIR"},
		"misspelt":                             {"ADDON_OPERATOR_LISTENPORT=1", "did you mean ADDON_OPERATOR_LISTEN_PORT?"},
		"ours, and nothing like it":            {"ADDON_OPERATOR_FLUX_CAPACITOR=1", "not an option"},
		"asks for what happens anyway":         {"STRICT_CHECK_VALUES_MODE_ENABLED=false", ""},
		"every rule":                           {"ADDON_OPERATOR_APPLIED_MODULE_EXTENDERS=Static,DynamicallyEnabled,KubeConfig,ScriptEnabled", ""},
		"metrics of queues on":                 {"QUEUE_ACTIONS_METRICS=yes", ""},
		"empty":                                {"USE_NELM=", ""},
		"read":                                 {"HELM_TIMEOUT=1m", ""},
		"set by Kubernetes for a Service":      {"ADDON_OPERATOR_METRICS_SERVICE_PORT_HTTP=9650", ""},
		"set by Kubernetes for a Service, too": {"ADDON_OPERATOR_PORT_9650_TCP_ADDR=10.0.0.1", ""},
		"of another program":                   {"HELM_NAMESPACE=x", ""},
		"of nobody we know":                    {"PATH=/bin", ""},
	} {
		t.Run(situation, func(t *testing.T) {
			var out bytes.Buffer
			config.WarnOfVariables(slog.New(slog.NewTextHandler(&out, nil)), []string{test.variable})
			name, value, _ := strings.Cut(test.variable, "=")
			switch text := out.String(); {
			case test.want == "" && text != "":
				t.Errorf("logged %s", text)
			case test.want != "" && (!strings.Contains(text, "variable="+name) || !strings.Contains(text, test.want) || strings.Count(text, "\n") != 1):
				t.Errorf("logged %q, want one line with %q", text, test.want)
			case strings.Contains(text, "="+value+" "):
				t.Errorf("the value is logged: %s", text)
			}
		})
	}
}

// Each is in the table for users; those of Helm 2 share a line.
func TestUnservedVariablesAreDocumented(t *testing.T) {
	text, err := os.ReadFile(repository + "docs/running.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(text), "### Variables of existing installations")
	for name := range unservedVariables() {
		short := strings.TrimPrefix(name, "HELM_MONITOR_KUBE_CLIENT")
		short = strings.TrimPrefix(short, "ADDON_OPERATOR_STRICT")
		if !strings.HasPrefix(name, "TILLER_") && !strings.Contains(table, short) {
			t.Errorf("docs/running.md does not name %s", name)
		}
	}
}

// Every variable that a page of docs or the chart names belongs to an option, or is one
// of those that hooks get.
func TestDocumentedVariablesExist(t *testing.T) {
	known := slices.Collect(maps.Keys(unservedVariables()))
	known = append(known, must(t, nil).variables()...)
	for _, path := range []string{"docs/running.md", "docs/troubleshooting.md", "docs/high-availability.md", "deploy/chart/values.yaml", "deploy/chart/templates/deployment.yaml", "Dockerfile"} {
		text, err := os.ReadFile(repository + path)
		if err != nil {
			t.Fatal(err)
		}
		words := strings.FieldsFunc(string(text), func(r rune) bool { return r != '_' && (r < 'A' || r > 'Z') && (r < '0' || r > '9') })
		for _, word := range words {
			ours := strings.HasPrefix(word, "ADDON_OPERATOR_") || strings.HasPrefix(word, "HELM_") || strings.HasPrefix(word, "KUBE_")
			if ours && !slices.Contains(known, word) {
				t.Errorf("%s names %s, which no option has", path, word)
			}
		}
	}
}
