package cli

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"time"

	"addon-operator/actors/metrics"
	"addon-operator/helm"
	"addon-operator/messages"
)

// The options by their concerns: fields, the table that declares each option once, with its flag,
// its environment variables, its default and its help (B3), and a check of their values. The table
// in docs/running.md, the chart's values and the help of the command are made from these tables.

// ModuleOptions are the directories of modules, and how they run.
type ModuleOptions struct {
	ModulesDir, GlobalHooksDir, WorkingDir string
	UnnumberedOrder                        int
	FailurePolicy                          string
	ParallelModules                        int
	WatchModules                           bool
}

func (o *ModuleOptions) options() []option {
	return []option{
		text(&o.ModulesDir, "modules-dir", "MODULES_DIR ADDON_OPERATOR_MODULES_DIR", "/modules", "directories of modules, separated by colons"),
		text(&o.GlobalHooksDir, "global-hooks-dir", "GLOBAL_HOOKS_DIR ADDON_OPERATOR_GLOBAL_HOOKS_DIR SHELL_OPERATOR_HOOKS_DIR", "/global-hooks", "directory of global hooks and of global openapi schemas"),
		text(&o.WorkingDir, "working-dir", "ADDON_OPERATOR_WORKING_DIR", "", "directory that contains modules/ and global-hooks/; used if it is set and the options for the two directories are not"),
		number(&o.UnnumberedOrder, "unnumbered-modules-order", "UNNUMBERED_MODULES_ORDER ADDON_OPERATOR_UNNUMBERED_MODULES_ORDER", 1, "order of modules whose directory has no number"),
		text(&o.FailurePolicy, "module-failure-policy", "ADDON_OPERATOR_MODULE_FAILURE_POLICY", "block", "block: a failing module blocks the main queue; isolate: it is retried outside of the queue, and the others continue"),
		yes(&o.WatchModules, "watch-modules", "ADDON_OPERATOR_WATCH_MODULES", "watch the directories of modules and of global hooks, and apply changes at once; without it, the operator compares them at each reload of all modules. On by default with a kubeconfig outside of a cluster"),
		number(&o.ParallelModules, "parallel-modules", "ADDON_OPERATOR_PARALLEL_MODULES", 1, "number of modules of the same order that may run in parallel"),
	}
}

func (o *ModuleOptions) check() error {
	var errs []error
	if o.FailurePolicy != "block" && o.FailurePolicy != "isolate" {
		errs = append(errs, fmt.Errorf("module-failure-policy must be block or isolate, not %q", o.FailurePolicy))
	}
	return errors.Join(append(errs, atLeast(1, "parallel-modules", o.ParallelModules))...)
}

// ValuesOptions are the sources of values, those of the person and those that hooks read.
type ValuesOptions struct {
	Namespace, ConfigMap, Secret string
	StartWithLastValid           bool
	TmpDir                       string
	KeepTmpFiles                 bool
}

func (o *ValuesOptions) options() []option {
	return []option{
		text(&o.Namespace, "namespace", "ADDON_OPERATOR_NAMESPACE", "", "namespace of the ConfigMap and of all releases (required)").named("n", ""),
		text(&o.ConfigMap, "config-map", "ADDON_OPERATOR_CONFIG_MAP", "addon-operator", "name of the ConfigMap with values"),
		yes(&o.StartWithLastValid, "start-with-last-valid-config", "ADDON_OPERATOR_START_WITH_LAST_VALID_CONFIG", "if the ConfigMap or the Secret with values is invalid at the start, or was deleted, start with the last valid content of both, which is kept in a Secret named after the ConfigMap with the suffix -last-valid; without it, the start fails with exit code 1"),
		text(&o.Secret, "config-secret", "ADDON_OPERATOR_CONFIG_SECRET", "", "name of the Secret with values, a layer above the ConfigMap; empty means the name of the ConfigMap"),
		text(&o.TmpDir, "tmp-dir", "ADDON_OPERATOR_TMP_DIR", "/tmp/addon-operator", "directory for the files that hooks read and write"),
		yes(&o.KeepTmpFiles, "debug-keep-tmp-files", "DEBUG_KEEP_TMP_FILES", "keep these files after the run; they contain values"),
	}
}

func (o *ValuesOptions) check() error {
	if o.Namespace == "" { // B8
		return errors.New("no namespace is given; set ADDON_OPERATOR_NAMESPACE or --namespace to the namespace of the operator")
	}
	return nil
}

// AddressOptions are the addresses of the operator, and the pages that it serves there.
type AddressOptions struct {
	ListenAddress string
	ListenPort    int
	DebugAddress  string
	DebugAnyone   bool
	DebugSocket   string
	MetricsPrefix string
	SecureMetrics bool
}

func (o *AddressOptions) options() []option {
	return []option{
		text(&o.ListenAddress, "prometheus-listen-address", "ADDON_OPERATOR_LISTEN_ADDRESS SHELL_OPERATOR_LISTEN_ADDRESS", "0.0.0.0", "address for probes and metrics"),
		number(&o.ListenPort, "prometheus-listen-port", "ADDON_OPERATOR_LISTEN_PORT SHELL_OPERATOR_LISTEN_PORT", 9650, "port for probes and metrics"),
		yes(&o.SecureMetrics, "secure-metrics", "ADDON_OPERATOR_SECURE_METRICS", "serve probes and metrics with TLS, and authorize requests with the API server; only probes remain open to everyone"),
		textOrNone(&o.DebugAddress, "debug-address", "DEBUG_HTTP_SERVER_ADDR", "127.0.0.1:9115", "address for debug pages, which may show values"),
		yes(&o.DebugAnyone, "debug-address-not-loopback", "DEBUG_HTTP_SERVER_ADDR_NOT_LOOPBACK", "allow a debug address that is not on loopback: every client that reaches it can read values with their secrets and change the operator, without authentication"),
		textOrNone(&o.DebugSocket, "debug-unix-socket", "DEBUG_UNIX_SOCKET", "/var/run/addon-operator/debug.socket", "unix socket for the same pages"),
		text(&o.MetricsPrefix, "prometheus-metrics-prefix", "ADDON_OPERATOR_PROMETHEUS_METRICS_PREFIX SHELL_OPERATOR_PROMETHEUS_METRICS_PREFIX", metrics.DefaultPrefix, "prefix of the names of metrics"),
	}
}

func (o *AddressOptions) check() error {
	var errs []error
	// Port 0 lets the system choose one, for tests.
	const ports = 1 << 16
	if o.ListenPort < 0 || o.ListenPort >= ports {
		errs = append(errs, fmt.Errorf("prometheus-listen-port must be a port below %d, not %d", ports, o.ListenPort))
	}
	// Without a prefix all names would belong to the operator, and none to hooks.
	if !regexp.MustCompile(`^[a-zA-Z_:][a-zA-Z0-9_:]*$`).MatchString(o.MetricsPrefix) {
		errs = append(errs, fmt.Errorf("prometheus-metrics-prefix must consist of letters, digits and underscores and not begin with a digit, such as %s, not %q", metrics.DefaultPrefix, o.MetricsPrefix))
	}
	return errors.Join(errs...)
}

// ClusterOptions configure the connection to the API server.
type ClusterOptions struct {
	Kubeconfig, KubeContext, KubeServer string
	KubeQPS, KubeBurst                  int
	PatchTimeout                        time.Duration
}

func (o *ClusterOptions) options() []option {
	return []option{
		text(&o.Kubeconfig, "kube-config", "KUBE_CONFIG KUBECONFIG", "", "kubeconfig file, or several separated by colons, which are merged as kubectl does; without one the operator uses the service account of its Pod").named("", "kubeconfig"),
		text(&o.KubeContext, "kube-context", "KUBE_CONTEXT", "", "context in the kubeconfig").named("", "context"),
		text(&o.KubeServer, "kube-server", "KUBE_SERVER", "", "address of the API server, in place of the one in the kubeconfig"),
		number(&o.KubeQPS, "kube-client-qps", "KUBE_CLIENT_QPS", 100, "requests to the API server per second; what hooks write to KUBERNETES_PATCH_PATH is counted by itself, with the same limits"),
		number(&o.KubeBurst, "kube-client-burst", "KUBE_CLIENT_BURST", 200, "requests to the API server in a burst"),
	}
}

func (o *ClusterOptions) check() error {
	return errors.Join(
		atLeast(1, "kube-client-qps", o.KubeQPS), atLeast(1, "kube-client-burst", o.KubeBurst),
	)
}

// HookOptions are those of hooks.
type HookOptions struct {
	HookTimeout time.Duration
	ChrootDir   string
	JQLibrary   string
}

func (o *HookOptions) options() []option {
	return []option{
		duration(&o.HookTimeout, "hook-timeout", "ADDON_OPERATOR_HOOK_TIMEOUT", 10*time.Minute, "time limit of enabled scripts, and of hook runs without a timeout in their settings; 0 means no limit"),
		text(&o.ChrootDir, "shell-chroot-dir", "ADDON_OPERATOR_SHELL_CHROOT_DIR", "", "root directory of hooks and enabled scripts; the directories of modules, global hooks and temporary files must be below it"),
		text(&o.JQLibrary, "jq-library-path", "JQ_LIBRARY_PATH", "", "directories of modules that jq expressions of hooks import, separated by colons"),
	}
}

func (o *HookOptions) check() error {
	return notNegative("hook-timeout", o.HookTimeout)
}

// ReleaseOptions are those of releases and of the definitions of modules.
type ReleaseOptions struct {
	HelmDriver                            helm.Driver
	HelmHistoryMax                        int
	HelmTimeout                           time.Duration
	HelmIgnoreRelease, CRDLabels, CRDSkip string
	AllowPurge                            bool

	Drift string
}

func (o *ReleaseOptions) options() []option {
	return []option{
		// Helm has only the variable, too.
		{variables: "HELM_DRIVER", set: func(value string) error { return o.HelmDriver.UnmarshalText([]byte(value)) }},
		number(&o.HelmHistoryMax, "helm-history-max", "HELM_HISTORY_MAX", 10, "number of revisions kept for each release; 0 keeps all"),
		duration(&o.HelmTimeout, "helm-timeout", "HELM_TIMEOUT", 20*time.Minute, "time limit of Helm hooks in charts"),
		text(&o.HelmIgnoreRelease, "helm-ignore-release", "HELM_IGNORE_RELEASE", "", "name of a release that is never purged: that of the operator itself, if Helm installed it in the operator's namespace"),
		yes(&o.AllowPurge, "allow-purge", "ADDON_OPERATOR_ALLOW_PURGE", "purge every release without a module directory, with what holds data; without it, a purge leaves that, and waits for a confirmation if a modules directory contains no module, or if the purge exceeds a quarter of the releases"),
		text(&o.CRDLabels, "crd-extra-labels", "ADDON_OPERATOR_CRD_EXTRA_LABELS", "heritage=addon-operator", "labels added to every CRD of a module, key=value separated by commas"),
		text(&o.Drift, "drift", "ADDON_OPERATOR_DRIFT", "off", "what to do about fields of deployed objects that others have changed: off, report (log, metric, module drift), correct (restore them)"),
		text(&o.CRDSkip, "crd-filters", "ADDON_OPERATOR_CRD_FILTER_PREFIXES", "doc-,_", "prefixes of files in crds/ that are not CRDs, separated by commas"),
	}
}

func (o *ReleaseOptions) check() error {
	errs := []error{atLeast(0, "helm-history-max", o.HelmHistoryMax), above0("helm-timeout", o.HelmTimeout)}
	if !slices.Contains([]string{messages.DriftOff, messages.DriftReport, messages.DriftCorrect}, o.Drift) {
		errs = append(errs, fmt.Errorf("drift must be off, report or correct, not %q", o.Drift))
	}
	if _, err := ParseLabels(o.CRDLabels); err != nil {
		errs = append(errs, fmt.Errorf("crd-extra-labels: %w", err))
	}
	return errors.Join(errs...)
}

// ProcessOptions are those of the log and of the end.
type ProcessOptions struct {
	LogLevel, LogType             string
	LogNoTime, LogProxyHook, Loud bool
	GracePeriod                   time.Duration
}

func (o *ProcessOptions) options() []option {
	return []option{
		text(&o.LogLevel, "log-level", "LOG_LEVEL RLOG_LOG_LEVEL", "info", "log level: debug, info, warn or error"),
		text(&o.LogType, "log-type", "LOG_TYPE", "auto", "log format: text, color, json, or auto: color on a terminal, json elsewhere"),
		yes(&o.LogNoTime, "log-no-time", "LOG_NO_TIME", "omit the time from log lines"),
		yes(&o.LogProxyHook, "log-proxy-hook-json", "LOG_PROXY_HOOK_JSON", "merge JSON lines that hooks print into the log record"),
		yes(&o.Loud, "debug", "", "the same as --log-level=debug"),
		duration(&o.GracePeriod, "grace-period", "ADDON_OPERATOR_GRACE_PERIOD", 25*time.Second, "time to stop after SIGTERM; running hooks get SIGTERM at once, and Helm may finish"),
	}
}

func (o *ProcessOptions) check() error { return above0("grace-period", o.GracePeriod) }

// LeaseName is the name of the Lease of an operator in its namespace. Two operators in one namespace would purge each
// other's releases, so they must not both lead.
const LeaseName = "addon-operator-leader-election"

// ReplicaOptions are those of several replicas.
type ReplicaOptions struct {
	HA bool
	// PodName is the name of the operator's Pod, on which it records Events, and of the replica in the Lease. Without one,
	// all Events are on the ConfigMap, and the replica has the name of the host.
	PodName string
	// PodUID is the uid of that Pod. Empty: a container that is restarted waits until its own Lease expires.
	PodUID string
}

func (o *ReplicaOptions) options() []option {
	return []option{
		yes(&o.HA, "ha", "ADDON_OPERATOR_HA", "acquire the Lease before writing anything: one of several replicas leads, and the others wait; the default is true in a cluster, that is, without a kubeconfig or with the name of the Pod, and false elsewhere"),
		// The Pod says it of itself, and no person does.
		{variables: "ADDON_OPERATOR_POD", set: func(value string) error { o.PodName = value; return nil }},
		{variables: "ADDON_OPERATOR_POD_UID", set: func(value string) error { o.PodUID = value; return nil }},
	}
}

// atLeast, above0 and notNegative return an error that names the option; nil for a value
// that is in range.
func atLeast(least int, option string, value int) error {
	if value < least {
		return fmt.Errorf("%s must be %d or more, not %d", option, least, value)
	}
	return nil
}

func above0(option string, value time.Duration) error {
	if value <= 0 {
		return fmt.Errorf("%s must be above 0, not %s", option, value)
	}
	return nil
}

func notNegative(option string, value time.Duration) error {
	if value < 0 {
		return fmt.Errorf("%s must not be negative, but is %s; 0 means none", option, value)
	}
	return nil
}
