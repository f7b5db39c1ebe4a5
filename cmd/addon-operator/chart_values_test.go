package main

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"addon-operator/testkit/golden"

	"go.yaml.in/yaml/v3"
	corev1 "k8s.io/api/core/v1"
	sigsyaml "sigs.k8s.io/yaml"
)

// Each value of the chart that a Pod has in the same words arrives there.
func TestValuesOfThePod(t *testing.T) {
	digest := "sha256:" + strings.Repeat("0a", 32)
	for values, ok := range map[string]func(corev1.PodTemplateSpec) bool{
		"image: {repository: r, tag: \"2\"}":             func(p corev1.PodTemplateSpec) bool { return p.Spec.Containers[0].Image == "r:2" },
		"image: {repository: r, digest: " + digest + "}": func(p corev1.PodTemplateSpec) bool { return p.Spec.Containers[0].Image == "r@"+digest },
		"envFrom: [{prefix: C_, secretRef: {name: cloud}}]": func(p corev1.PodTemplateSpec) bool {
			from := p.Spec.Containers[0].EnvFrom
			return len(from) == 1 && from[0].Prefix == "C_" && from[0].SecretRef.Name == "cloud"
		},
		"commonLabels: {team: a}": func(p corev1.PodTemplateSpec) bool { return p.Labels["team"] == "a" },
		"hostNetwork: true": func(p corev1.PodTemplateSpec) bool {
			return p.Spec.HostNetwork && p.Spec.DNSPolicy == "ClusterFirstWithHostNet"
		},
		"hostNetwork: true\ndnsPolicy: Default": func(p corev1.PodTemplateSpec) bool {
			return p.Spec.HostNetwork && p.Spec.DNSPolicy == "Default"
		},
		"dnsPolicy: None\ndnsConfig: {nameservers: [10.0.0.10]}": func(p corev1.PodTemplateSpec) bool {
			return !p.Spec.HostNetwork && p.Spec.DNSPolicy == "None" && p.Spec.DNSConfig.Nameservers[0] == "10.0.0.10"
		},
		"topologySpreadConstraints: [{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: DoNotSchedule}]": func(p corev1.PodTemplateSpec) bool {
			spread := p.Spec.TopologySpreadConstraints
			return len(spread) == 1 && spread[0].TopologyKey == "zone" && maps.Equal(spread[0].LabelSelector.MatchLabels, map[string]string{"app.kubernetes.io/name": "addon-operator", "app.kubernetes.io/instance": "addon-operator"})
		},
		"topologySpreadConstraints: [{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: DoNotSchedule, labelSelector: {matchLabels: {a: b}}}]": func(p corev1.PodTemplateSpec) bool {
			return p.Spec.TopologySpreadConstraints[0].LabelSelector.MatchLabels["a"] == "b"
		},
		"probes: {startup: {failureThreshold: 300}, liveness: {periodSeconds: 30}}": func(p corev1.PodTemplateSpec) bool {
			c := p.Spec.Containers[0]
			return c.StartupProbe.FailureThreshold == 300 && c.StartupProbe.PeriodSeconds == 2 && c.LivenessProbe.PeriodSeconds == 30 && c.LivenessProbe.TimeoutSeconds == 5
		},
		"probes: {readiness: {periodSeconds: null, timeoutSeconds: null, failureThreshold: null}}": func(p corev1.PodTemplateSpec) bool {
			return p.Spec.Containers[0].ReadinessProbe.HTTPGet.Path == "/readyz"
		},
		"podSecurityContext: {runAsUser: 1000}\ncontainerSecurityContext: {readOnlyRootFilesystem: false}": func(p corev1.PodTemplateSpec) bool {
			return *p.Spec.SecurityContext.RunAsUser == 1000 && *p.Spec.SecurityContext.RunAsNonRoot && !*p.Spec.Containers[0].SecurityContext.ReadOnlyRootFilesystem
		},
		"openshift: true": func(p corev1.PodTemplateSpec) bool {
			s := p.Spec.SecurityContext
			return s.RunAsUser == nil && s.RunAsGroup == nil && s.FSGroup == nil && *s.RunAsNonRoot
		},
	} {
		t.Run(values, func(t *testing.T) {
			if pod := deployment(t, values).Spec.Template; !ok(pod) {
				t.Errorf("the Pod is %+v", pod)
			}
		})
	}
}

// On OpenShift no user and no group are asked for, unless a person says so.
func TestChartOnOpenShift(t *testing.T) {
	for values, want := range map[string]bool{"": false, "openshift: false": true} {
		files, err := renderOn("addon-operator", "addon-operator", values, "security.openshift.io/v1")
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range []string{"deployment.yaml", "ready.yaml"} {
			if got := strings.Contains(files[file], "runAsUser"); got != want {
				t.Errorf("%s with %q has runAsUser: %v, want %v", file, values, got, want)
			}
		}
	}
}

func TestNameOfTheChart(t *testing.T) {
	for values, want := range map[string]string{"": "addon-operator", "nameOverride: a": "a", "nameOverride: a\nfullnameOverride: b": "b"} {
		if got := deployment(t, values).Name; got != want {
			t.Errorf("%q: the Deployment is called %s, want %s", values, got, want)
		}
	}
}

// A name of digits is a name: unquoted, YAML would read a number, which the API server refuses.
func TestNamesOfDigits(t *testing.T) {
	if _, err := renderOn("123", "456", ""); err == nil || !strings.Contains(err.Error(), "123 is not a valid name for a Service: set fullnameOverride") {
		t.Error(err)
	}
	files, err := renderOn("123", "456", everything+`
fullnameOverride: operator
serviceAccount: {name: "456"}
priorityClassName: "789"
options: {ADDON_OPERATOR_CONFIG_MAP: "1011"}
initialConfig: {a: {}}`)
	if err != nil {
		t.Fatal(err)
	}
	var numbers func(at string, value any)
	numbers = func(at string, value any) {
		switch v := value.(type) {
		case map[string]any:
			for key, value := range v {
				numbers(at+"."+key, value)
			}
		case []any:
			for _, value := range v {
				numbers(at, value)
			}
		case int:
			if slices.Contains([]int{123, 456, 789, 1011}, v) {
				t.Errorf("%s is the number %d", at, v)
			}
		}
	}
	for file, text := range files {
		for text := range strings.SplitSeq(text, "\n---\n") {
			var object map[string]any
			if err := yaml.Unmarshal([]byte(text), &object); err == nil {
				numbers(file, object)
			}
		}
	}
}

// All objects have the labels that are common to them.
func TestCommonLabels(t *testing.T) {
	files := rendered(t, everything+"commonLabels: {team: a}\nsecureMetrics: {enabled: true}\ninitialConfig: {a: {}}")
	for _, file := range slices.Sorted(maps.Keys(files)) {
		for text := range strings.SplitSeq(files[file], "\n---\n") {
			var object struct {
				Kind     string
				Metadata struct {
					Name   string
					Labels map[string]string
				}
			}
			if err := sigsyaml.Unmarshal([]byte(text), &object); err != nil || object.Kind == "" {
				continue // the notes
			}
			if object.Kind != "CustomResourceDefinition" && file != "configmap.yaml" && object.Metadata.Labels["team"] != "a" { // these stay when the release is gone
				t.Errorf("%s: %s %s has labels %v", file, object.Kind, object.Metadata.Name, object.Metadata.Labels)
			}
		}
	}
}

// A label that two values set is there once, as the value says that is about fewer objects.
func TestLabelsOfSeveralValues(t *testing.T) {
	for values, file := range map[string]string{
		"podLabels: {team: b}":                                                                   "deployment.yaml",
		"podMonitor: {create: true, labels: {team: b}}":                                          "podmonitor.yaml",
		"serviceMonitor: {create: true, labels: {team: b}}":                                      "servicemonitor.yaml",
		"prometheusRule: {create: true, labels: {team: b}}":                                      "prometheusrule.yaml",
		"dashboard: {create: true, labels: {team: b}}":                                           "dashboard.yaml",
		"prometheusRule: {create: true, alertLabels: {severity: c, team: b}}":                    "prometheusrule.yaml",
		"podAnnotations: {kubectl.kubernetes.io/default-container: other}\npodLabels: {team: b}": "deployment.yaml",
	} {
		text := rendered(t, "commonLabels: {team: a}\n"+values)[file]
		var object any
		if err := yaml.Unmarshal([]byte(text), &object); err != nil || !strings.Contains(text, "team: b") {
			t.Errorf("%s: %v in\n%.1500s", values, err, text)
		}
	}
}

// What the chart cannot do is refused with the value that asks for it.
func TestValuesThatAreRefused(t *testing.T) {
	for values, want := range map[string]string{
		"podLabels: {app.kubernetes.io/name: a}":        "podLabels",
		"commonLabels: {app.kubernetes.io/instance: a}": "commonLabels",
		"probes: null":            "probes",
		"probes: {startup: null}": "startup",
		"openshift: \"true\"":     "openshift",
		"secureMetrics: null":     "secureMetrics",
		"modules: null":           "modules",
		"test: null":              "missing property 'test'",
		"fullnameOverride: \"-\"": "fullnameOverride",
	} {
		if _, err := render(values); err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "nil pointer") || strings.Contains(err.Error(), "wrong type") {
			t.Errorf("%s: %v", values, err)
		}
	}
}

// On the network of the node two Pods find no place on one node: the old one goes first.
func TestUpdateOnTheNetworkOfTheNode(t *testing.T) {
	for values, want := range map[string][2]string{"": {"0", "1"}, "hostNetwork: true": {"1", "0"}} {
		if u := deployment(t, values).Spec.Strategy.RollingUpdate; u.MaxUnavailable.String() != want[0] || u.MaxSurge.String() != want[1] {
			t.Errorf("%q: the update is %v", values, u)
		}
	}
}

// With the network of the node there is no debug address, unless a person wants it: loopback is that of the node.
func TestDebugAddressOnTheNode(t *testing.T) {
	const own = "options: {DEBUG_HTTP_SERVER_ADDR: \"127.0.0.1:9115\"}"
	for values, want := range map[string]string{"": "default", "hostNetwork: true": "", "hostNetwork: true\n" + own: "127.0.0.1:9115"} {
		got := "default"
		for _, v := range deployment(t, values).Spec.Template.Spec.Containers[0].Env {
			if v.Name == "DEBUG_HTTP_SERVER_ADDR" {
				got = v.Value
			}
		}
		if got != want {
			t.Errorf("%q: the debug address is %q, want %q", values, got, want)
		}
		if says := strings.Contains(rendered(t, values)["NOTES.txt"], "DEBUG_HTTP_SERVER_ADDR"); says != (want == "") {
			t.Errorf("%q: the notes say so: %v", values, says)
		}
	}
}

// Each of both monitors asks for the same, with the token of the same account.
func TestMonitors(t *testing.T) {
	const secure = "secureMetrics: {enabled: true}\n"
	pod, service := rendered(t, secure+"podMonitor: {create: true, interval: 5s}")["podmonitor.yaml"], rendered(t, secure+"serviceMonitor: {create: true, interval: 5s}")["servicemonitor.yaml"]
	_, ofPod, _ := strings.Cut(pod, "podMetricsEndpoints:")
	_, ofService, _ := strings.Cut(service, "endpoints:")
	if ofPod != ofService || !strings.Contains(ofPod, "interval: 5s") || !strings.Contains(ofPod, "name: addon-operator-metrics-reader") {
		t.Errorf("the PodMonitor asks%s\nthe ServiceMonitor asks%s", ofPod, ofService)
	}
	if !strings.Contains(rendered(t, secure+"serviceMonitor: {create: true}")["metricsreader.yaml"], "service-account-token") {
		t.Error("there is no token for the ServiceMonitor")
	}
}

// An alert can be switched off, or have other labels, and leads to its heading in docs/alerts.md.
func TestAlertsAreConfigured(t *testing.T) {
	rules := rendered(t, `prometheusRule:
  create: true
  runbookURL: https://docs.example.org/alerts
  alertLabels: {team: a}
  alerts:
    AddonOperatorHealFight: {enabled: false}
    AddonOperatorAway: {for: 1h, severity: page, labels: {team: b}}
`)["prometheusrule.yaml"]
	_, away, _ := strings.Cut(rules, "- alert: AddonOperatorAway\n")
	away, _, _ = strings.Cut(away, "- alert:")
	for _, want := range []string{"for: 1h\n", "severity: page\n", "team: b\n", `runbook_url: "https://docs.example.org/alerts#addonoperatoraway"`} {
		if !strings.Contains(away, want) {
			t.Errorf("the alert lacks %s:\n%s", want, away)
		}
	}
	if strings.Contains(rules, "AddonOperatorHealFight") || strings.Count(rules, "team: a\n") != len(chartAlerts(t))-2 {
		t.Errorf("the alerts are\n%s", rules)
	}
	if strings.Contains(rendered(t, everything)["prometheusrule.yaml"], "runbook_url") {
		t.Error("without an address there is a link")
	}
}

// Each alert has a part of docs/alerts.md, and each part is about an alert.
func TestAlertsHaveRunbooks(t *testing.T) {
	data, err := os.ReadFile(repository + "docs/alerts.md")
	if err != nil {
		t.Fatal(err)
	}
	parts := map[string]string{}
	for _, part := range strings.Split(string(data), "\n## ")[1:] {
		name, text, _ := strings.Cut(part, "\n")
		parts[name] = text
	}
	alerts := chartAlerts(t)
	for name := range alerts {
		for _, want := range []string{"**Means**", "**Look**", "**Fix**"} {
			if !strings.Contains(parts[name], want) {
				t.Errorf("docs/alerts.md, %s: there is no %s", name, want)
			}
		}
	}
	for name := range parts {
		if _, ok := alerts[name]; !ok {
			t.Errorf("docs/alerts.md: there is no alert %s", name)
		}
	}
}

// deploy/chart/README.md lists all values with what values.yaml says of them.
func TestReadmeOfTheChart(t *testing.T) {
	data, err := os.ReadFile(chartDir + "/values.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var document yaml.Node
	if err := yaml.Unmarshal(data, &document); err != nil {
		t.Fatal(err)
	}
	var rows strings.Builder
	listValues(t, &rows, "", "", false, document.Content[0])
	path := "deploy/chart/README.md"
	text, err := os.ReadFile(repository + path)
	if err != nil {
		t.Fatal(err)
	}
	const mark = "<!-- values -->\n"
	head, _, ok := strings.Cut(string(text), mark)
	if !ok {
		t.Fatalf("%s has no line %s", path, mark)
	}
	golden.File(t, repository+path, head+mark+"| value | default | meaning |\n|---|---|---|\n"+rows.String())
}

// listValues writes a row for each value below a mapping. The comment of the mapping describes the first one that has none
// of its own, and those after it.
func listValues(t *testing.T, rows *strings.Builder, prefix, about string, described bool, mapping *yaml.Node) {
	t.Helper()
	for i := 0; i < len(mapping.Content); i += 2 {
		key, value := mapping.Content[i], mapping.Content[i+1]
		comment := strings.Join(strings.Fields(strings.ReplaceAll(key.HeadComment+" "+key.LineComment+" "+value.LineComment, "#", "")), " ")
		name := prefix + key.Value
		described = described || comment != ""
		if comment == "" {
			comment, about = about, ""
		}
		if value.Kind == yaml.MappingNode && len(value.Content) > 0 && value.Style&yaml.FlowStyle == 0 && name != "options" {
			listValues(t, rows, name+".", comment, described, value)
			continue
		}
		if comment == "" && (prefix == "" || !described) {
			t.Errorf("values.yaml: %s has no comment", name)
		}
		fmt.Fprintf(rows, "| `%s` | `%s` | %s |\n", name, oneLine(t, value), strings.ReplaceAll(comment, "|", `\|`))
	}
}

// oneLine is a value as one line of YAML.
func oneLine(t *testing.T, value *yaml.Node) string {
	t.Helper()
	plain := *value
	plain.HeadComment, plain.LineComment, plain.FootComment = "", "", ""
	if len(plain.Content) > 0 {
		var tree any
		if err := plain.Decode(&tree); err != nil {
			t.Fatal(err)
		}
		if err := plain.Encode(tree); err != nil {
			t.Fatal(err)
		}
		plain.Style = yaml.FlowStyle
	}
	data, err := yaml.Marshal(&plain)
	if err != nil {
		t.Fatal(err)
	}
	return strings.Join(strings.Fields(string(data)), " ")
}
