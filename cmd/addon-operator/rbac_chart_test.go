package main

import (
	"bytes"
	"encoding/json"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	"helm.sh/helm/v3/pkg/lint"
	"helm.sh/helm/v3/pkg/lint/support"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"sigs.k8s.io/yaml"

	"addon-operator/cmd/operator"
	"addon-operator/kube/webhooks"
	"addon-operator/testkit/golden"
)

const chartDir = repository + "deploy/chart"

// everything switches all parts of the chart on.
const everything = `
podMonitor: {create: true}
prometheusRule: {create: true}
dashboard: {create: true}
podDisruptionBudget: {create: true}
`

// rendered are the manifests of the chart by file, in a namespace and a release that are
// both called addon-operator.
func rendered(t *testing.T, values string) map[string]string {
	t.Helper()
	files, err := render(values)
	must(t, err)
	return files
}

func render(values string) (map[string]string, error) {
	chart, err := loader.LoadDir(chartDir)
	if err != nil {
		return nil, err
	}
	tree := map[string]any{}
	if err := yaml.Unmarshal([]byte(values), &tree); err != nil {
		return nil, err
	}
	release := chartutil.ReleaseOptions{Name: "addon-operator", Namespace: "addon-operator", IsInstall: true}
	cluster := chartutil.DefaultCapabilities.Copy() // which is older than what the chart asks for
	cluster.KubeVersion = chartutil.KubeVersion{Version: "v1.33.0", Major: "1", Minor: "33"}
	all, err := chartutil.ToRenderValues(chart, tree, release, cluster)
	if err != nil {
		return nil, err
	}
	files, err := engine.Render(chart, all)
	out := map[string]string{}
	for path, text := range files {
		if strings.TrimSpace(text) != "" {
			out[filepath.Base(path)] = strings.TrimSpace(text) + "\n"
		}
	}
	return out, err
}

// deploy/manifests is the chart, for people without Helm.
func TestManifestsAreTheChart(t *testing.T) {
	all := rendered(t, everything)
	plain, optional := "", ""
	needsPrometheus := []string{"podmonitor.yaml", "prometheusrule.yaml"}
	const head = "# Made from deploy/chart: go test ./cmd/addon-operator -update\n"
	delete(all, "NOTES.txt")
	delete(all, "ready.yaml") // of helm test
	for _, file := range slices.Sorted(maps.Keys(all)) {
		text := strings.ReplaceAll(all[file], "managed-by: Helm", "managed-by: kubectl")
		if slices.Contains(needsPrometheus, file) {
			optional += "---\n" + text
		} else {
			plain += "---\n" + text
		}
	}
	golden.File(t, repository+"deploy/manifests/addon-operator.yaml", head+plain)
	several := strings.ReplaceAll(rendered(t, "replicas: 3")["deployment.yaml"], "managed-by: Helm", "managed-by: kubectl")
	golden.File(t, repository+"deploy/manifests/high-availability.yaml", head+"# In place of the Deployment in addon-operator.yaml.\n---\n"+several)
	golden.File(t, repository+"deploy/manifests/prometheus.yaml", head+"# Needs the kinds of the Prometheus operator.\n"+optional)
}

func TestChartIsLinted(t *testing.T) {
	for _, values := range []string{"{}", everything} {
		var tree map[string]any
		must(t, yaml.Unmarshal([]byte(values), &tree))
		for _, m := range lint.All(chartDir, tree, "addon-operator", true).Messages {
			if m.Severity >= support.WarningSev {
				t.Errorf("with %s: %v", values, m)
			}
		}
	}
}

// What the chart's users may write under options is what the program declares, without
// what the chart sets itself.
func TestSchemaOfTheChartKnowsTheOptions(t *testing.T) {
	path := "deploy/chart/values.schema.json"
	data, err := os.ReadFile(repository + path)
	must(t, err)
	begin, end := bytes.Index(data, []byte(`    "options": {`)), bytes.Index(data, []byte(`    "gracePeriodSeconds": {`))
	if begin < 0 || end < begin {
		t.Fatal("the schema has no options before gracePeriodSeconds")
	}
	properties := map[string]any{
		"HELM_DRIVER": map[string]any{"type": []string{"string"}, "description": "where records of releases are stored: secret or configmap"}, // it has no flag
	}
	for _, flag := range declared() {
		if len(flag.variables) == 0 {
			continue
		}
		variable := flag.variables[0]
		if slices.Contains([]string{"ADDON_OPERATOR_NAMESPACE", "HELM_IGNORE_RELEASE", "ADDON_OPERATOR_LISTEN_PORT", "ADDON_OPERATOR_GRACE_PERIOD", "ADDON_OPERATOR_HA", "ADDON_OPERATOR_SECURE_METRICS",
			"ADDON_OPERATOR_WEBHOOK_ADDRESS", "ADDON_OPERATOR_WEBHOOK_SERVICE", "ADDON_OPERATOR_WEBHOOK_CERTS_DIR"}, variable) {
			continue
		}
		types := map[string][]string{"int": {"integer", "string"}, "bool": {"boolean", "string"}}[flag.Value.Type()]
		if types == nil {
			types = []string{"string"}
		}
		properties[variable] = map[string]any{"type": types, "description": sentence(flag.Flag)}
	}
	options, err := json.MarshalIndent(map[string]any{
		"type": "object", "description": "options of the operator by their environment variables", "additionalProperties": false, "properties": properties,
	}, "    ", "  ")
	must(t, err)
	golden.File(t, repository+path, string(data[:begin])+`    "options": `+string(options)+",\n"+string(data[end:]))
}

func TestSchemaOfTheChartRefuses(t *testing.T) {
	for name, c := range map[string]struct{ values, says string }{
		"two without the lease": {"replicas: 2\nlease: false", "several replicas need the lease"},
		"availability by hand":  {"options: {ADDON_OPERATOR_HA: true}", "ADDON_OPERATOR_HA"},
		"an unknown option":     {"options: {LOG_LEVL: debug}", "LOG_LEVL"},
		"an unknown value":      {"serviceAcount: {create: true}", "serviceAcount"},
		"an unknown alert":      {"prometheusRule: {create: true, alerts: {HealFight: {enabled: false}}}", "alerts.HealFight: there is no such alert; there are AddonOperatorQueueStuck"},
		"two monitors":          {"podMonitor: {create: true}\nserviceMonitor: {create: true}", "set create of one of them to false"},
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := render(c.values); err == nil || !strings.Contains(err.Error(), c.says) {
				t.Errorf("got %v, want it to name %s", err, c.says)
			}
		})
	}
}

func deployment(t *testing.T, values string) appsv1.Deployment {
	t.Helper()
	var d appsv1.Deployment
	must(t, yaml.UnmarshalStrict([]byte(rendered(t, values)["deployment.yaml"]), &d))
	return d
}

// environmentOf is the environment of the container; a field of the Pod is a text that names it. Nothing is set twice.
func environmentOf(t *testing.T, d appsv1.Deployment) variables {
	t.Helper()
	env := variables{}
	for _, e := range d.Spec.Template.Spec.Containers[0].Env {
		if _, twice := env[e.Name]; twice {
			t.Errorf("%s is set twice", e.Name)
		}
		env[e.Name] = e.Value
		if e.ValueFrom != nil {
			env[e.Name] = "from-" + e.ValueFrom.FieldRef.FieldPath
		}
	}
	return env
}

// What the restricted profile of Pod security asks for, and more.
func TestPodIsRestricted(t *testing.T) {
	pod := deployment(t, "").Spec.Template.Spec
	c := pod.Containers[0]
	for what, ok := range map[string]bool{
		"non-root":                   *pod.SecurityContext.RunAsNonRoot && *c.SecurityContext.RunAsNonRoot && *pod.SecurityContext.RunAsUser > 0,
		"seccomp":                    pod.SecurityContext.SeccompProfile.Type == "RuntimeDefault",
		"read-only root file system": *c.SecurityContext.ReadOnlyRootFilesystem,
		"no escalation":              !*c.SecurityContext.AllowPrivilegeEscalation,
		"no capabilities":            slices.Equal(c.SecurityContext.Capabilities.Drop, []corev1.Capability{"ALL"}) && len(c.SecurityContext.Capabilities.Add) == 0,
		"requests":                   !c.Resources.Requests.Cpu().IsZero() && !c.Resources.Requests.Memory().IsZero() && !c.Resources.Limits.Memory().IsZero(),
		"liveness":                   c.LivenessProbe.HTTPGet.Path == "/healthz",
		"readiness":                  c.ReadinessProbe.HTTPGet.Path == "/readyz",
		"start-up":                   c.StartupProbe.HTTPGet.Path == "/healthz",
	} {
		if !ok {
			t.Errorf("the Pod lacks: %s", what)
		}
	}
	writable := map[string]bool{}
	for _, m := range c.VolumeMounts {
		writable[m.MountPath] = true
	}
	flags := program().PersistentFlags()
	for _, option := range []string{"tmp-dir", "debug-unix-socket"} {
		path := flags.Lookup(option).DefValue
		if !writable[filepath.Dir(path)] {
			t.Errorf("%s is %s, which is in no writable volume", option, path)
		}
	}
}

// The environment of the container is a configuration that the operator accepts, and
// Kubernetes waits longer for the stop than the operator needs.
func TestEnvironmentOfThePod(t *testing.T) {
	for name, values := range map[string]string{
		"defaults": "",
		"changed":  "gracePeriodSeconds: 120\noptions: {KUBE_CLIENT_QPS: 7, LOG_NO_TIME: true, ADDON_OPERATOR_MODULE_FAILURE_POLICY: block}",
	} {
		t.Run(name, func(t *testing.T) {
			d := deployment(t, values)
			cfg, err := configured(environmentOf(t, d))
			must(t, err)
			if cfg.HelmIgnoreRelease != "addon-operator" || cfg.Namespace != "from-metadata.namespace" {
				t.Errorf("ignored release %q, namespace %q", cfg.HelmIgnoreRelease, cfg.Namespace)
			}
			if port := d.Spec.Template.Spec.Containers[0].Ports[0].ContainerPort; int(port) != cfg.ListenPort {
				t.Errorf("listens on %d, the container says %d", cfg.ListenPort, port)
			}
			if stop := *d.Spec.Template.Spec.TerminationGracePeriodSeconds; float64(stop) < cfg.GracePeriod.Seconds()+5 {
				t.Errorf("Kubernetes kills after %d s, the operator needs %s", stop, cfg.GracePeriod)
			}
			if name == "changed" && (cfg.KubeQPS != 7 || !cfg.LogNoTime || cfg.FailurePolicy != "block") {
				t.Errorf("options are lost: %+v", cfg)
			}
			if name == "defaults" && cfg.FailurePolicy != "isolate" {
				t.Errorf("the failure policy is %s: a Helm hook that waits holds the modules after it up", cfg.FailurePolicy)
			}
		})
	}
}

// The chart grants what 'rbac generate' says that the operator itself needs, and no more.
func TestChartGrantsTheBaseRules(t *testing.T) {
	for name, c := range map[string]struct {
		values string
		env    variables
	}{
		"defaults":                          {"", variables{}},
		"records of releases in ConfigMaps": {"options: {HELM_DRIVER: configmaps}", variables{"HELM_DRIVER": "configmaps"}},
		"other names":                       {"options: {ADDON_OPERATOR_CONFIG_MAP: mine}", variables{"ADDON_OPERATOR_CONFIG_MAP": "mine"}},
		"webhooks":                          {"webhooks: {enabled: true}", variables{"ADDON_OPERATOR_WEBHOOK_ADDRESS": ":9680", "ADDON_OPERATOR_WEBHOOK_SERVICE": "s"}},
		"secure metrics":                    {"secureMetrics: {enabled: true}", variables{"ADDON_OPERATOR_SECURE_METRICS": "true"}},
	} {
		t.Run(name, func(t *testing.T) {
			c.env["ADDON_OPERATOR_NAMESPACE"] = "addon-operator"
			none := t.TempDir()
			generated, err := commanded(c.env, "rbac", "generate", "--modules-dir", none, "--global-hooks-dir", none)
			must(t, err)
			if granted, want := grants(t, rendered(t, c.values)["rbac.yaml"]), grants(t, generated); !slices.Equal(granted, want) {
				t.Errorf("granted\n%s\nwant\n%s", strings.Join(granted, "\n"), strings.Join(want, "\n"))
			}
		})
	}
	extra := rendered(t, "rbac: {extraRules: [{apiGroups: [\"\"], resources: [nodes], verbs: [get]}], extraNamespaceRules: [{apiGroups: [\"\"], resources: [pods], verbs: [list]}]}")["rbac.yaml"]
	for _, want := range []string{"- nodes", "- pods"} {
		if strings.Count(extra, want) != 1 {
			t.Errorf("the extra rule with %q is there %d times", want, strings.Count(extra, want))
		}
	}
}

// grants are the permissions in manifests of roles: namespace, group, resource, name, verb.
func grants(t *testing.T, manifests string) (all []string) {
	t.Helper()
	for document := range strings.SplitSeq(manifests, "\n---\n") {
		var r rbacv1.Role
		must(t, yaml.Unmarshal([]byte(document), &r))
		for _, rule := range r.Rules {
			names := rule.ResourceNames
			if len(names) == 0 {
				names = []string{"*"}
			}
			for _, group := range rule.APIGroups {
				for _, resource := range rule.Resources {
					for _, name := range names {
						for _, verb := range rule.Verbs {
							all = append(all, strings.Join([]string{r.Namespace, group, resource, name, verb}, " "))
						}
					}
				}
			}
		}
	}
	slices.Sort(all)
	return all
}

// must ends the test over an error of what it needs only.
func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Replicas take a lease, also a single one, say who they are, and are replaced one by one, each
// only when the next one is ready. L1, L6.
func TestReplicasTakeALease(t *testing.T) {
	for values, replicas := range map[string]int32{"": 1, "replicas: 3": 3} {
		d := deployment(t, values)
		cfg, err := configured(environmentOf(t, d))
		must(t, err)
		if !cfg.HA || cfg.PodName != "from-metadata.name" || cfg.PodUID != "from-metadata.uid" {
			t.Errorf("ha %v, name %q, uid %q", cfg.HA, cfg.PodName, cfg.PodUID)
		}
		rolling := d.Spec.Strategy.RollingUpdate
		if *d.Spec.Replicas != replicas || d.Spec.Strategy.Type != appsv1.RollingUpdateDeploymentStrategyType || rolling.MaxUnavailable.IntValue() != 0 || rolling.MaxSurge.IntValue() != 1 {
			t.Errorf("strategy %+v of %d replicas", d.Spec.Strategy, *d.Spec.Replicas)
		}
	}
	if d := deployment(t, "strategy: {type: Recreate}"); d.Spec.Strategy.Type != appsv1.RecreateDeploymentStrategyType {
		t.Errorf("the strategy of the user is changed: %+v", d.Spec.Strategy)
	}
	// Without the lease nothing keeps two apart but their number.
	d := deployment(t, "lease: false")
	if d.Spec.Strategy.Type != appsv1.RecreateDeploymentStrategyType || environmentOf(t, d)["ADDON_OPERATOR_HA"] != "false" {
		t.Errorf("without the lease: %+v", d.Spec)
	}
}

// With webhooks the API server reaches the Pod that leads, also before it is ready, and a Job ends what is configured. O2
func TestChartServesWebhooks(t *testing.T) {
	if plain := rendered(t, everything); plain["webhooks.yaml"] != "" || strings.Contains(plain["networkpolicy.yaml"], "webhooks") {
		t.Error("there are parts of webhooks that were not asked for")
	}
	values := everything + "webhooks: {enabled: true, certificateSecret: of-cert-manager}"
	cfg, err := configured(environmentOf(t, deployment(t, values)))
	must(t, err)
	if cfg.WebhookAddress != "0.0.0.0:9680" || cfg.WebhookService != "addon-operator-webhooks" || cfg.WebhookCertsDir != "/etc/addon-operator/webhooks" {
		t.Errorf("address %s, Service %s, certificate in %s", cfg.WebhookAddress, cfg.WebhookService, cfg.WebhookCertsDir)
	}
	all := rendered(t, values)
	for _, want := range []string{"name: addon-operator-webhooks", webhooks.LeaderLabel + `: "true"`, "publishNotReadyAddresses: true", "helm.sh/hook: pre-delete", "args: [webhooks, delete]"} {
		if !strings.Contains(all["webhooks.yaml"], want) {
			t.Errorf("there is no %s in\n%s", want, all["webhooks.yaml"])
		}
	}
	if !strings.Contains(all["networkpolicy.yaml"], "port: webhooks") {
		t.Error("the NetworkPolicy keeps the API server away")
	}
	if alone := rendered(t, "lease: false\nwebhooks: {enabled: true}")["webhooks.yaml"]; strings.Contains(alone, webhooks.LeaderLabel) {
		t.Error("without a Lease no Pod has the label of the leader")
	}
}

// J11: with secure metrics the Pod serves TLS, kubelets ask by it, and the operator may ask who asks; otherwise it
// may not.
func TestChartSecuresMetrics(t *testing.T) {
	const asks = "tokenreviews"
	if plain := rendered(t, everything); strings.Contains(plain["rbac.yaml"], asks) || plain["metricsreader.yaml"] != "" || strings.Contains(plain["podmonitor.yaml"], "https") {
		t.Error("there are parts of secure metrics that were not asked for")
	}
	values := everything + "secureMetrics: {enabled: true, certificateSecret: of-cert-manager}"
	d := deployment(t, values)
	c := d.Spec.Template.Spec.Containers[0]
	cfg, err := configured(environmentOf(t, d))
	must(t, err)
	mounted := false
	for _, m := range c.VolumeMounts {
		mounted = mounted || m.ReadOnly && m.MountPath == operator.CertificateDir
	}
	if !cfg.SecureMetrics || !mounted || c.LivenessProbe.HTTPGet.Scheme != "HTTPS" || c.ReadinessProbe.HTTPGet.Scheme != "HTTPS" {
		t.Errorf("secure %t, certificate mounted %t, probes %s and %s", cfg.SecureMetrics, mounted, c.LivenessProbe.HTTPGet.Scheme, c.ReadinessProbe.HTTPGet.Scheme)
	}
	all := rendered(t, values)
	for _, want := range []string{"nonResourceURLs: [/metrics, /metrics/hooks]", "kubernetes.io/service-account-token"} {
		if !strings.Contains(all["metricsreader.yaml"], want) {
			t.Errorf("no %s for Prometheus", want)
		}
	}
	if monitor := all["podmonitor.yaml"]; !strings.Contains(monitor, "scheme: https") || !strings.Contains(monitor, "name: addon-operator-metrics-reader") {
		t.Errorf("the PodMonitor asks without a token:\n%s", monitor)
	}
	if c := deployment(t, "secureMetrics: {enabled: true}").Spec.Template.Spec; len(c.Volumes) != 2 {
		t.Errorf("without a Secret there are %d volumes", len(c.Volumes))
	}
}
