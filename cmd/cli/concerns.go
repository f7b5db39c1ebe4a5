package cli

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"time"

	"github.com/spf13/pflag"

	"addon-operator/actors/decide"
	"addon-operator/actors/metrics"
	"addon-operator/helm"
	"addon-operator/hooks"
	"addon-operator/kube"
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
		number(&o.UnnumberedOrder, "unnumbered-modules-order", "UNNUMBERED_MODULES_ORDER UNNUMBERED_MODULE_ORDER ADDON_OPERATOR_UNNUMBERED_MODULES_ORDER", 1, "order of modules whose directory has no number"),
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
		text(&o.Namespace, "namespace", "ADDON_OPERATOR_NAMESPACE SHELL_OPERATOR_NAMESPACE", "", "namespace of the ConfigMap and of all releases (required)").named("n", ""),
		text(&o.ConfigMap, "config-map", "ADDON_OPERATOR_CONFIG_MAP", "addon-operator", "name of the ConfigMap with values"),
		yes(&o.StartWithLastValid, "start-with-last-valid-config", "ADDON_OPERATOR_START_WITH_LAST_VALID_CONFIG", "if the ConfigMap or the Secret with values is invalid at the start, or was deleted, start with the last valid content of both, which is kept in a Secret named after the ConfigMap with the suffix -last-valid; without it, the start fails with exit code 1"),
		text(&o.Secret, "config-secret", "ADDON_OPERATOR_CONFIG_SECRET", "", "name of the Secret with values, a layer above the ConfigMap; empty means the name of the ConfigMap"),
		text(&o.TmpDir, "tmp-dir", "ADDON_OPERATOR_TMP_DIR SHELL_OPERATOR_TMP_DIR", "/tmp/addon-operator", "directory for the files that hooks read and write"),
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
	TLSCert       string
	TLSKey        string
	OldMetrics    bool
}

func (o *AddressOptions) options() []option {
	return []option{
		text(&o.ListenAddress, "prometheus-listen-address", "ADDON_OPERATOR_LISTEN_ADDRESS SHELL_OPERATOR_LISTEN_ADDRESS", "0.0.0.0", "address for probes and metrics"),
		number(&o.ListenPort, "prometheus-listen-port", "ADDON_OPERATOR_LISTEN_PORT SHELL_OPERATOR_LISTEN_PORT", 9650, "port for probes and metrics"),
		yes(&o.SecureMetrics, "secure-metrics", "ADDON_OPERATOR_SECURE_METRICS", "serve probes and metrics with TLS, and authorize requests with the API server; only probes remain open to everyone"),
		text(&o.TLSCert, "metrics-tls-cert", "ADDON_OPERATOR_METRICS_TLS_CERT", "", "file with the certificate for TLS, reloaded when it changes; without one, the operator creates a self-signed certificate"),
		text(&o.TLSKey, "metrics-tls-key", "ADDON_OPERATOR_METRICS_TLS_KEY", "", "file with the key of this certificate"),
		textOrNone(&o.DebugAddress, "debug-address", "DEBUG_HTTP_SERVER_ADDR ADDON_OPERATOR_DEBUG_ADDRESS", "127.0.0.1:9115", "address for debug pages, which may show values"),
		yes(&o.DebugAnyone, "debug-address-not-loopback", "DEBUG_HTTP_SERVER_ADDR_NOT_LOOPBACK", "allow a debug address that is not on loopback: every client that reaches it can read values with their secrets and change the operator, without authentication"),
		textOrNone(&o.DebugSocket, "debug-unix-socket", "DEBUG_UNIX_SOCKET", "/var/run/addon-operator/debug.socket", "unix socket for the same pages"),
		text(&o.MetricsPrefix, "prometheus-metrics-prefix", "ADDON_OPERATOR_PROMETHEUS_METRICS_PREFIX SHELL_OPERATOR_PROMETHEUS_METRICS_PREFIX", metrics.DefaultPrefix, "prefix of the names of metrics"),
		yes(&o.OldMetrics, "prometheus-old-names", "ADDON_OPERATOR_PROMETHEUS_OLD_NAMES", "also serve three renamed metrics under their old names: hook_errors, hook_allowed_errors, module_run_errors"),
	}
}

func (o *AddressOptions) check() error {
	var errs []error
	if (o.TLSCert == "") != (o.TLSKey == "") || o.TLSCert != "" && !o.SecureMetrics {
		errs = append(errs, errors.New("metrics-tls-cert and metrics-tls-key: set both, with secure-metrics, or neither"))
	}
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
	PatchQPS, PatchBurst                int
	PatchTimeout                        time.Duration
}

func (o *ClusterOptions) options() []option {
	return []option{
		text(&o.Kubeconfig, "kube-config", "KUBE_CONFIG KUBECONFIG", "", "kubeconfig file, or several separated by colons, which are merged as kubectl does; without one the operator uses the service account of its Pod").named("", "kubeconfig"),
		text(&o.KubeContext, "kube-context", "KUBE_CONTEXT", "", "context in the kubeconfig").named("", "context"),
		text(&o.KubeServer, "kube-server", "KUBE_SERVER", "", "address of the API server, in place of the one in the kubeconfig"),
		number(&o.KubeQPS, "kube-client-qps", "KUBE_CLIENT_QPS", 100, "requests to the API server per second"),
		number(&o.KubeBurst, "kube-client-burst", "KUBE_CLIENT_BURST", 200, "requests to the API server in a burst"),
		number(&o.PatchQPS, "object-patcher-kube-client-qps", "OBJECT_PATCHER_KUBE_CLIENT_QPS", 100, "requests per second for what hooks write to KUBERNETES_PATCH_PATH"),
		number(&o.PatchBurst, "object-patcher-kube-client-burst", "OBJECT_PATCHER_KUBE_CLIENT_BURST", 200, "requests in a burst for what hooks write to KUBERNETES_PATCH_PATH"),
		duration(&o.PatchTimeout, "object-patcher-kube-client-timeout", "OBJECT_PATCHER_KUBE_CLIENT_TIMEOUT", 10*time.Second, "time limit of one request for what hooks write to KUBERNETES_PATCH_PATH"),
	}
}

func (o *ClusterOptions) check() error {
	return errors.Join(
		atLeast(1, "kube-client-qps", o.KubeQPS), atLeast(1, "kube-client-burst", o.KubeBurst),
		atLeast(1, "object-patcher-kube-client-qps", o.PatchQPS), atLeast(1, "object-patcher-kube-client-burst", o.PatchBurst),
		notNegative("object-patcher-kube-client-timeout", o.PatchTimeout),
	)
}

// HookOptions are those of hooks.
type HookOptions struct {
	HookTimeout time.Duration
	HookSeries  int
	// SnapshotLimit is in MiB; 0 means no limit.
	SnapshotLimit int
	HookEnv       string
	ChrootDir     string
	JQLibrary     string
}

func (o *HookOptions) options() []option {
	return []option{
		duration(&o.HookTimeout, "hook-timeout", "ADDON_OPERATOR_HOOK_TIMEOUT", 10*time.Minute, "time limit of enabled scripts, and of hook runs without a timeout in their settings; 0 means no limit"),
		text(&o.HookEnv, "hook-env", "ADDON_OPERATOR_HOOK_ENV", hooks.DefaultInherit, "variables that hooks and enabled scripts inherit from the operator: names, with asterisks, separated by commas; !NAME excludes names"),
		number(&o.HookSeries, "hook-metrics-series", "ADDON_OPERATOR_HOOK_METRICS_SERIES", metrics.DefaultSeries, "number of metric series that one hook may report; further series are dropped"),
		number(&o.SnapshotLimit, "snapshot-limit", "ADDON_OPERATOR_SNAPSHOT_LIMIT", kube.DefaultSnapshotLimit>>20, "maximum size in MiB of the snapshot of one binding; all snapshots together may take one and a half times as much; a hook with a larger snapshot does not run; 0 means no limit"),
		text(&o.ChrootDir, "shell-chroot-dir", "ADDON_OPERATOR_SHELL_CHROOT_DIR", "", "root directory of hooks and enabled scripts; the directories of modules, global hooks and temporary files must be below it"),
		text(&o.JQLibrary, "jq-library-path", "JQ_LIBRARY_PATH", "", "directories of modules that jq expressions of hooks import, separated by colons"),
	}
}

func (o *HookOptions) check() error {
	errs := []error{notNegative("hook-timeout", o.HookTimeout), atLeast(0, "hook-metrics-series", o.HookSeries), atLeast(0, "snapshot-limit", o.SnapshotLimit)}
	if _, err := hooks.ParseInherit(o.HookEnv); err != nil {
		errs = append(errs, fmt.Errorf("hook-env: %w", err))
	}
	return errors.Join(errs...)
}

// ReleaseOptions are those of releases and of the definitions of modules.
type ReleaseOptions struct {
	HelmDriver                     helm.Driver
	HelmHistoryMax                 int
	HelmTimeout                    time.Duration
	HelmIgnoreRelease, ExtraLabels string
	CRDLabels, CRDSkip             string
	AllowPurge                     bool
	PurgeShare                     int

	Drift       string
	DriftPeriod time.Duration
	// ProgressDeadline is how long an object of a release may be in progress before its module is
	// unhealthy.
	ProgressDeadline time.Duration
}

func (o *ReleaseOptions) options() []option {
	return []option{
		// The only option with a type of its own, so pflag checks its values.
		{name: "helm-driver", variables: "HELM_DRIVER", help: "where records of releases are stored: secret or configmap; releases recorded with the other driver are not found, and are installed again", declare: func(flags *pflag.FlagSet, name, help string) {
			flags.TextVar(&o.HelmDriver, name, helm.SecretDriver, help)
		}},
		number(&o.HelmHistoryMax, "helm-history-max", "HELM_HISTORY_MAX", 10, "number of revisions kept for each release; 0 keeps all"),
		duration(&o.HelmTimeout, "helm-timeout", "HELM_TIMEOUT", 20*time.Minute, "time limit of Helm hooks in charts"),
		text(&o.HelmIgnoreRelease, "helm-ignore-release", "HELM_IGNORE_RELEASE", "", "name of a release that is never purged: that of the operator itself, if Helm installed it in the operator's namespace"),
		yes(&o.AllowPurge, "allow-purge", "ADDON_OPERATOR_ALLOW_PURGE", "purge every release without a module directory, with what holds data; without it, a purge leaves that, and waits for a confirmation if a modules directory contains no module, or if the purge exceeds purge-share"),
		number(&o.PurgeShare, "purge-share", "ADDON_OPERATOR_PURGE_SHARE", decide.DefaultPurgeShare, "percentage of the releases that one reload may purge without a confirmation; a single release may always be purged"),
		text(&o.ExtraLabels, "helm-extra-labels", "ADDON_OPERATOR_HELM_EXTRA_LABELS", "heritage=addon-operator", "labels added to every object of a chart, key=value separated by commas"),
		text(&o.CRDLabels, "crd-extra-labels", "ADDON_OPERATOR_CRD_EXTRA_LABELS", "heritage=addon-operator", "labels added to every CRD of a module, key=value separated by commas"),
		text(&o.Drift, "drift", "ADDON_OPERATOR_DRIFT", "off", "what to do about fields of deployed objects that others have changed: off, report (log, metric, module drift), correct (restore them)"),
		duration(&o.ProgressDeadline, "progress-deadline", "ADDON_OPERATOR_PROGRESS_DEADLINE", 10*time.Minute, "how long an object of a release may be in progress before its module is unhealthy; whole seconds"),
		duration(&o.DriftPeriod, "drift-period", "ADDON_OPERATOR_DRIFT_PERIOD", 5*time.Minute, "time between two drift checks of a module; each run of the module is also followed by a check"),
		text(&o.CRDSkip, "crd-filters", "ADDON_OPERATOR_CRD_FILTER_PREFIXES", "doc-,_", "prefixes of files in crds/ that are not CRDs, separated by commas"),
	}
}

func (o *ReleaseOptions) check() error {
	errs := []error{atLeast(0, "helm-history-max", o.HelmHistoryMax), above0("helm-timeout", o.HelmTimeout), oneSecond("progress-deadline", o.ProgressDeadline), oneSecond("drift-period", o.DriftPeriod)}
	if o.PurgeShare < 0 || o.PurgeShare > 100 {
		errs = append(errs, fmt.Errorf("purge-share must be a percentage from 0 to 100, not %d", o.PurgeShare))
	}
	if !slices.Contains([]string{messages.DriftOff, messages.DriftReport, messages.DriftCorrect}, o.Drift) {
		errs = append(errs, fmt.Errorf("drift must be off, report or correct, not %q", o.Drift))
	}
	if _, err := ParseLabels(o.ExtraLabels); err != nil {
		errs = append(errs, fmt.Errorf("helm-extra-labels: %w", err))
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

// ReplicaOptions are those of several replicas.
type ReplicaOptions struct {
	HA                                                  bool
	LeaseName                                           string
	LeaseDuration, LeaseRenewDeadline, LeaseRetryPeriod time.Duration
	PodName, AdvertiseAddress                           string
}

func (o *ReplicaOptions) options() []option {
	return []option{
		yes(&o.HA, "ha", "ADDON_OPERATOR_HA", "acquire the Lease before writing anything: one of several replicas leads, and the others stand by with modules and snapshots loaded; the default is true in a cluster, that is, without a kubeconfig or with the name of the Pod, and false elsewhere"),
		text(&o.LeaseName, "ha-lease-name", "ADDON_OPERATOR_HA_LEASE_NAME", "addon-operator-leader-election", "name of the Lease for leader election, in the operator's namespace"),
		duration(&o.LeaseDuration, "ha-lease-duration", "ADDON_OPERATOR_HA_LEASE_DURATION", 15*time.Second, "time after which another replica replaces a leader that has not renewed the Lease; whole seconds"),
		duration(&o.LeaseRenewDeadline, "ha-renew-deadline", "ADDON_OPERATOR_HA_RENEW_DEADLINE", 10*time.Second, "time after which a leader that could not renew the Lease kills its hooks, stops writing and exits; shorter than the lease duration"),
		duration(&o.LeaseRetryPeriod, "ha-retry-period", "ADDON_OPERATOR_HA_RETRY_PERIOD", 2*time.Second, "time between two renewals by the leader, and between two checks by a follower"),
		text(&o.PodName, "pod-name", "ADDON_OPERATOR_POD", "", "name of the operator's Pod, on which it records Events; without one, it records all of them on the ConfigMap. Also the name of the replica in the Lease; without one, the host name"),
		text(&o.AdvertiseAddress, "advertise-address", "ADDON_OPERATOR_ADVERTISE_ADDRESS", "", "address of the probes of this replica, which followers show as the address of their leader; without one, the listen address or the first address of the machine"),
	}
}

// atLeast, above0, oneSecond and notNegative return an error that names the option; nil for a value
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

func oneSecond(option string, value time.Duration) error {
	if value < time.Second {
		return fmt.Errorf("%s must be 1s or more, not %s", option, value)
	}
	return nil
}

func notNegative(option string, value time.Duration) error {
	if value < 0 {
		return fmt.Errorf("%s must not be negative, but is %s; 0 means none", option, value)
	}
	return nil
}
