package cli

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"addon-operator/actors/decide"
	"addon-operator/actors/metrics"
	"addon-operator/addons"
	"addon-operator/helm"
	"addon-operator/helm/charts"
	"addon-operator/hooks"
	"addon-operator/kube"
	"addon-operator/messages"
)

// Config is everything that can be set from outside. Each option is declared once, in the
// table of its concern, with its flag, its environment variables, its default and its help (B3).
type Config struct {
	Plugin bool // kubectl runs this program as a command of its own

	ModulesDir, GlobalHooksDir, WorkingDir string
	UnnumberedOrder                        int
	FailurePolicy                          string
	ParallelModules                        int
	WatchModules                           bool
	Namespace, ConfigMap, Secret           string
	StartWithLastValid                     bool
	TmpDir                                 string
	KeepTmpFiles                           bool

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

	Kubeconfig, KubeContext, KubeServer string
	KubeQPS, KubeBurst                  int
	PatchQPS, PatchBurst                int
	PatchTimeout                        time.Duration

	HookTimeout time.Duration
	HookSeries  int
	// SnapshotLimit is in MiB.
	SnapshotLimit int
	HookEnv       string
	ChrootDir     string
	JQLibrary     string

	HelmDriver                     helm.Driver
	HelmHistoryMax                 int
	HelmTimeout                    time.Duration
	HelmIgnoreRelease, ExtraLabels string
	CRDLabels, CRDSkip             string
	AllowPurge                     bool
	PurgeShare                     int

	Drift       string
	DriftPeriod time.Duration
	// ProgressDeadline is how long an object of a release may be in progress.
	ProgressDeadline time.Duration

	LogLevel, LogType             string
	LogNoTime, LogProxyHook, Loud bool
	GracePeriod                   time.Duration

	HA                                                  bool
	LeaseName                                           string
	LeaseDuration, LeaseRenewDeadline, LeaseRetryPeriod time.Duration
	PodName, AdvertiseAddress                           string

	// Dirs follow from the options, after Read.
	Dirs addons.Dirs
	// Version of the program.
	Version string

	declared []option
	flags    *pflag.FlagSet
	lookup   func(string) (string, bool)
}

// options are all options, in the order of the documentation.
func (c *Config) options() []option {
	return slices.Concat(c.moduleOptions(), c.valuesOptions(), c.addressOptions(), c.clusterOptions(), c.hookOptions(), c.releaseOptions(), c.processOptions(), c.replicaOptions())
}

func (c *Config) moduleOptions() []option {
	return []option{
		text(&c.ModulesDir, "modules-dir", "MODULES_DIR ADDON_OPERATOR_MODULES_DIR", "/modules", "directories of modules, separated by colons"),
		text(&c.GlobalHooksDir, "global-hooks-dir", "GLOBAL_HOOKS_DIR ADDON_OPERATOR_GLOBAL_HOOKS_DIR SHELL_OPERATOR_HOOKS_DIR", "/global-hooks", "directory of global hooks and of global openapi schemas"),
		text(&c.WorkingDir, "working-dir", "ADDON_OPERATOR_WORKING_DIR", "/addons", "directory that holds modules/ and global-hooks/; counts when it is given and the two above are not"),
		number(&c.UnnumberedOrder, "unnumbered-modules-order", "UNNUMBERED_MODULES_ORDER UNNUMBERED_MODULE_ORDER ADDON_OPERATOR_UNNUMBERED_MODULES_ORDER", 1, "order of modules whose directory has no number"),
		text(&c.FailurePolicy, "module-failure-policy", "ADDON_OPERATOR_MODULE_FAILURE_POLICY", "block", "block: a failing module holds the main queue; isolate: it is retried outside of it, the others go on"),
		yes(&c.WatchModules, "watch-modules", "ADDON_OPERATOR_WATCH_MODULES", "watch the directories of modules and of global hooks, so that what changes there is in force at once; without it they are compared at each reload of all modules. On with a kubeconfig, outside of a cluster, unless it is set"),
		number(&c.ParallelModules, "parallel-modules", "ADDON_OPERATOR_PARALLEL_MODULES", 1, "modules of the same order that may run side by side"),
	}
}

func (c *Config) valuesOptions() []option {
	return []option{
		text(&c.Namespace, "namespace", "ADDON_OPERATOR_NAMESPACE SHELL_OPERATOR_NAMESPACE", "", "namespace of the ConfigMap and of all releases (required)").named("n", ""),
		text(&c.ConfigMap, "config-map", "ADDON_OPERATOR_CONFIG_MAP", "addon-operator", "name of the ConfigMap with values"),
		yes(&c.StartWithLastValid, "start-with-last-valid-config", "ADDON_OPERATOR_START_WITH_LAST_VALID_CONFIG", "when the ConfigMap or the Secret with values is not valid at the start, or is deleted, start with the last valid content of both, which is kept in a Secret with the name of the ConfigMap and -last-valid; without it the start ends with exit code 1"),
		text(&c.Secret, "config-secret", "ADDON_OPERATOR_CONFIG_SECRET", "", "name of the Secret with values, a layer above the ConfigMap; without one, the name of the ConfigMap"),
		text(&c.TmpDir, "tmp-dir", "ADDON_OPERATOR_TMP_DIR SHELL_OPERATOR_TMP_DIR", "/tmp/addon-operator", "directory for the files that hooks read and write"),
		yes(&c.KeepTmpFiles, "debug-keep-tmp-files", "DEBUG_KEEP_TMP_FILES", "keep these files after the run; they hold values"),
	}
}

func (c *Config) addressOptions() []option {
	return []option{
		text(&c.ListenAddress, "prometheus-listen-address", "ADDON_OPERATOR_LISTEN_ADDRESS SHELL_OPERATOR_LISTEN_ADDRESS", "0.0.0.0", "address for probes and metrics"),
		number(&c.ListenPort, "prometheus-listen-port", "ADDON_OPERATOR_LISTEN_PORT SHELL_OPERATOR_LISTEN_PORT", 9650, "port for probes and metrics"),
		yes(&c.SecureMetrics, "secure-metrics", "ADDON_OPERATOR_SECURE_METRICS", "serve the address for probes and metrics with TLS, and ask the API server who may see its pages; only probes stay open to everybody"),
		text(&c.TLSCert, "metrics-tls-cert", "ADDON_OPERATOR_METRICS_TLS_CERT", "", "file with the certificate for it, read again when it changes; without one the operator makes a self-signed one"),
		text(&c.TLSKey, "metrics-tls-key", "ADDON_OPERATOR_METRICS_TLS_KEY", "", "file with the key of this certificate"),
		textOrNone(&c.DebugAddress, "debug-address", "DEBUG_HTTP_SERVER_ADDR ADDON_OPERATOR_DEBUG_ADDRESS", "127.0.0.1:9115", "address for debug pages, which may show values"),
		yes(&c.DebugAnyone, "debug-address-not-loopback", "DEBUG_HTTP_SERVER_ADDR_NOT_LOOPBACK", "let the debug address be another one than loopback: whoever reaches it reads values with their secrets and changes the operator, without being asked who that is"),
		textOrNone(&c.DebugSocket, "debug-unix-socket", "DEBUG_UNIX_SOCKET", "/var/run/addon-operator/debug.socket", "unix socket for the same pages"),
		text(&c.MetricsPrefix, "prometheus-metrics-prefix", "ADDON_OPERATOR_PROMETHEUS_METRICS_PREFIX SHELL_OPERATOR_PROMETHEUS_METRICS_PREFIX", metrics.DefaultPrefix, "prefix of the names of metrics"),
		yes(&c.OldMetrics, "prometheus-old-names", "ADDON_OPERATOR_PROMETHEUS_OLD_NAMES", "show the three metrics that had other names once under those, too: hook_errors, hook_allowed_errors, module_run_errors"),
	}
}

func (c *Config) clusterOptions() []option {
	return []option{
		text(&c.Kubeconfig, "kube-config", "KUBE_CONFIG KUBECONFIG", "", "kubeconfig file; without one the operator uses the service account of its Pod").named("", "kubeconfig"),
		text(&c.KubeContext, "kube-context", "KUBE_CONTEXT", "", "context in the kubeconfig").named("", "context"),
		text(&c.KubeServer, "kube-server", "KUBE_SERVER", "", "address of the API server, in place of the one in the kubeconfig"),
		number(&c.KubeQPS, "kube-client-qps", "KUBE_CLIENT_QPS", 100, "requests to the API server per second"),
		number(&c.KubeBurst, "kube-client-burst", "KUBE_CLIENT_BURST", 200, "requests to the API server in a burst"),
		number(&c.PatchQPS, "object-patcher-kube-client-qps", "OBJECT_PATCHER_KUBE_CLIENT_QPS", 100, "the same for what hooks write to KUBERNETES_PATCH_PATH"),
		number(&c.PatchBurst, "object-patcher-kube-client-burst", "OBJECT_PATCHER_KUBE_CLIENT_BURST", 200, "the same for what hooks write to KUBERNETES_PATCH_PATH, in a burst"),
		duration(&c.PatchTimeout, "object-patcher-kube-client-timeout", "OBJECT_PATCHER_KUBE_CLIENT_TIMEOUT", 10*time.Second, "time limit of one of these requests"),
	}
}

func (c *Config) hookOptions() []option {
	return []option{
		duration(&c.HookTimeout, "hook-timeout", "ADDON_OPERATOR_HOOK_TIMEOUT", 10*time.Minute, "time limit of hook runs that set none in their settings, and of enabled scripts; 0 means none"),
		text(&c.HookEnv, "hook-env", "ADDON_OPERATOR_HOOK_ENV", hooks.DefaultInherit, "variables that hooks and enabled scripts inherit from the operator: names, with asterisks, separated by commas; !NAME takes some away"),
		number(&c.HookSeries, "hook-metrics-series", "ADDON_OPERATOR_HOOK_METRICS_SERIES", metrics.DefaultSeries, "series of metrics that one hook may report; more are dropped"),
		number(&c.SnapshotLimit, "snapshot-limit", "ADDON_OPERATOR_SNAPSHOT_LIMIT", kube.DefaultSnapshotLimit>>20, "MiB that the snapshot of one binding may take, and those of all bindings one and a half times as much; a hook with a larger one does not run; 0 means no limit"),
		text(&c.ChrootDir, "shell-chroot-dir", "ADDON_OPERATOR_SHELL_CHROOT_DIR", "", "root directory of hooks and enabled scripts; the directories of modules, global hooks and temporary files must lie below it"),
		text(&c.JQLibrary, "jq-library-path", "JQ_LIBRARY_PATH", "", "directories of modules that jq expressions of hooks import, separated by colons"),
	}
}

func (c *Config) releaseOptions() []option {
	return []option{
		{name: "helm-driver", variables: "HELM_DRIVER", help: "where the records of releases are: secret or configmap; releases that the other one wrote are not found, and are installed again", declare: func(flags *pflag.FlagSet, name, help string) {
			flags.TextVar(&c.HelmDriver, name, helm.SecretDriver, help)
		}},
		number(&c.HelmHistoryMax, "helm-history-max", "HELM_HISTORY_MAX", 10, "revisions kept of each release; 0 keeps all"),
		duration(&c.HelmTimeout, "helm-timeout", "HELM_TIMEOUT", 20*time.Minute, "time limit of Helm hooks in charts"),
		text(&c.HelmIgnoreRelease, "helm-ignore-release", "HELM_IGNORE_RELEASE", "", "release that is never purged: the operator's own, if Helm deployed it into its namespace"),
		yes(&c.AllowPurge, "allow-purge", "ADDON_OPERATOR_ALLOW_PURGE", "purge every release without a module directory; without it a purge waits for a confirmation when a modules directory holds no module, or when it exceeds the share"),
		number(&c.PurgeShare, "purge-share", "ADDON_OPERATOR_PURGE_SHARE", decide.DefaultPurgeShare, "percentage of the releases that one reload may purge without a confirmation; a single one it may purge always"),
		text(&c.ExtraLabels, "helm-extra-labels", "ADDON_OPERATOR_HELM_EXTRA_LABELS", "heritage=addon-operator", "labels put on every object of a chart, key=value separated by commas"),
		text(&c.CRDLabels, "crd-extra-labels", "ADDON_OPERATOR_CRD_EXTRA_LABELS", "heritage=addon-operator", "labels put on every CRD of a module, key=value separated by commas"),
		text(&c.Drift, "drift", "ADDON_OPERATOR_DRIFT", "off", "fields of deployed objects that others have changed: off, report (log, metric, module drift), correct (put them back)"),
		duration(&c.ProgressDeadline, "progress-deadline", "ADDON_OPERATOR_PROGRESS_DEADLINE", 10*time.Minute, "how long an object of a release may be in progress before its module is unhealthy; whole seconds"),
		duration(&c.DriftPeriod, "drift-period", "ADDON_OPERATOR_DRIFT_PERIOD", 5*time.Minute, "time between two looks for drift at a module; one more comes after each of its runs"),
		text(&c.CRDSkip, "crd-filters", "ADDON_OPERATOR_CRD_FILTER_PREFIXES", "doc-,_", "files in crds/ that begin like one of these are no CRDs; separated by commas"),
	}
}

func (c *Config) processOptions() []option {
	return []option{
		text(&c.LogLevel, "log-level", "LOG_LEVEL RLOG_LOG_LEVEL", "info", "debug, info, warn or error"),
		text(&c.LogType, "log-type", "LOG_TYPE", "auto", "text, color, json, or auto: color on a terminal, json elsewhere"),
		yes(&c.LogNoTime, "log-no-time", "LOG_NO_TIME", "leave the time out of log lines"),
		yes(&c.LogProxyHook, "log-proxy-hook-json", "LOG_PROXY_HOOK_JSON", "merge JSON lines that hooks print into the log record"),
		yes(&c.Loud, "debug", "", "the same as --log-level=debug"),
		duration(&c.GracePeriod, "grace-period", "ADDON_OPERATOR_GRACE_PERIOD", 25*time.Second, "time to stop after SIGTERM; running hooks get TERM at once, Helm may finish"),
	}
}

func (c *Config) replicaOptions() []option {
	return []option{
		yes(&c.HA, "ha", "ADDON_OPERATOR_HA", "take the Lease before anything is written: of several replicas one leads, the others stand by, warm; the default is true in a cluster, which is without a kubeconfig or with the name of the Pod, and false elsewhere"),
		text(&c.LeaseName, "ha-lease-name", "ADDON_OPERATOR_HA_LEASE_NAME", "addon-operator-leader-election", "Lease in the operator's namespace by which the leader is elected"),
		duration(&c.LeaseDuration, "ha-lease-duration", "ADDON_OPERATOR_HA_LEASE_DURATION", 15*time.Second, "a leader that has not renewed the Lease for so long is followed by another replica; whole seconds"),
		duration(&c.LeaseRenewDeadline, "ha-renew-deadline", "ADDON_OPERATOR_HA_RENEW_DEADLINE", 10*time.Second, "a leader that could not renew the Lease for so long kills its hooks, writes nothing more and ends; shorter than the lease duration"),
		duration(&c.LeaseRetryPeriod, "ha-retry-period", "ADDON_OPERATOR_HA_RETRY_PERIOD", 2*time.Second, "time between two renewals of the leader, and two looks of a follower"),
		text(&c.PodName, "pod-name", "ADDON_OPERATOR_POD", "", "name of the Pod of the operator, on which it shows events; without one it shows all on the ConfigMap. Also its name in the Lease; without one, the host name"),
		text(&c.AdvertiseAddress, "advertise-address", "ADDON_OPERATOR_ADVERTISE_ADDRESS", "", "address of the probes of this replica, which followers show as that of their leader; without one, the listen address or the first of the machine"),
	}
}

// Complete derives what follows from other options and checks the whole.
func (c *Config) Complete() error {
	var errs []error
	errs = append(errs, refuseVariables(c.lookup))
	if c.Namespace == "" { // B8
		errs = append(errs, errors.New("no namespace is given; set ADDON_OPERATOR_NAMESPACE or --namespace to the namespace of the operator"))
	}
	if !c.Given("ha") {
		c.HA = c.HA || c.Kubeconfig == "" || c.PodName != "" // L1; 'dev --cluster' has set it
	}
	if !c.Given("watch-modules") {
		c.WatchModules = c.Kubeconfig != "" // P8
	}
	if c.FailurePolicy != "block" && c.FailurePolicy != "isolate" {
		errs = append(errs, fmt.Errorf("module-failure-policy must be block or isolate, not %q", c.FailurePolicy))
	}
	if c.ParallelModules < 1 {
		errs = append(errs, fmt.Errorf("parallel-modules must be 1 or more, not %d", c.ParallelModules))
	}
	if !slices.Contains([]string{messages.DriftOff, messages.DriftReport, messages.DriftCorrect}, c.Drift) {
		errs = append(errs, fmt.Errorf("drift must be off, report or correct, not %q", c.Drift))
	}
	if _, err := hooks.ParseInherit(c.HookEnv); err != nil {
		errs = append(errs, fmt.Errorf("hook-env: %w", err))
	}
	if (c.TLSCert == "") != (c.TLSKey == "") || c.TLSCert != "" && !c.SecureMetrics {
		errs = append(errs, errors.New("metrics-tls-cert and metrics-tls-key: give both, with secure-metrics, or none"))
	}
	errs = append(errs, c.checkNumbers(), c.checkTimes(), c.checkPrefix(), c.checkChroot(), c.checkLease())
	if c.Loud {
		c.LogLevel = "debug"
	}
	return errors.Join(append(errs, c.checkLabels())...)
}

func (c *Config) checkLabels() error {
	var errs []error
	if _, err := ParseLabels(c.ExtraLabels); err != nil {
		errs = append(errs, fmt.Errorf("helm-extra-labels: %w", err))
	}
	if _, err := ParseLabels(c.CRDLabels); err != nil {
		errs = append(errs, fmt.Errorf("crd-extra-labels: %w", err))
	}
	return errors.Join(errs...)
}

// checkTimes reports times with which nothing could be done.
func (c *Config) checkTimes() error {
	var errs []error
	if c.ProgressDeadline < time.Second {
		errs = append(errs, fmt.Errorf("progress-deadline must be 1s or more, not %s", c.ProgressDeadline))
	}
	if c.DriftPeriod < time.Second {
		errs = append(errs, fmt.Errorf("drift-period must be 1s or more, not %s", c.DriftPeriod))
	}
	if c.GracePeriod <= 0 {
		errs = append(errs, fmt.Errorf("grace-period must be above 0, not %s", c.GracePeriod))
	}
	if c.HookTimeout < 0 {
		errs = append(errs, fmt.Errorf("hook-timeout must not be negative, but is %s; 0 means none", c.HookTimeout))
	}
	if c.PatchTimeout < 0 {
		errs = append(errs, fmt.Errorf("object-patcher-kube-client-timeout must not be negative, but is %s; 0 means none", c.PatchTimeout))
	}
	return errors.Join(errs...)
}

// checkNumbers reports limits with which nothing could be done, or everything would fail.
func (c *Config) checkNumbers() error {
	var errs []error
	for _, n := range []struct {
		option       string
		value, least int
	}{
		{"kube-client-qps", c.KubeQPS, 1},
		{"kube-client-burst", c.KubeBurst, 1},
		{"object-patcher-kube-client-qps", c.PatchQPS, 1},
		{"object-patcher-kube-client-burst", c.PatchBurst, 1},
		{"helm-history-max", c.HelmHistoryMax, 0},
		{"hook-metrics-series", c.HookSeries, 0},
		{"snapshot-limit", c.SnapshotLimit, 0},
	} {
		if n.value < n.least {
			errs = append(errs, fmt.Errorf("%s must be %d or more, not %d", n.option, n.least, n.value))
		}
	}
	if c.PurgeShare < 0 || c.PurgeShare > 100 {
		errs = append(errs, fmt.Errorf("purge-share must be a percentage from 0 to 100, not %d", c.PurgeShare))
	}
	const ports = 1 << 16
	if c.ListenPort < 0 || c.ListenPort >= ports {
		errs = append(errs, fmt.Errorf("prometheus-listen-port must be a port below %d, not %d", ports, c.ListenPort))
	}
	if c.HelmTimeout <= 0 {
		errs = append(errs, fmt.Errorf("helm-timeout must be above 0, not %s", c.HelmTimeout))
	}
	return errors.Join(errs...)
}

// CheckDebugAddress refuses to show debug pages to others than this machine, unless that is wanted by name.
func (c *Config) CheckDebugAddress() error {
	if c.DebugAddress == "" || c.DebugAnyone {
		return nil
	}
	host, _, err := net.SplitHostPort(c.DebugAddress)
	if err != nil {
		return fmt.Errorf("debug-address: %w", err)
	}
	if ip := net.ParseIP(host); host == "localhost" || ip != nil && ip.IsLoopback() {
		return nil
	}
	return fmt.Errorf("debug-address %s is not on loopback: whoever reaches it reads values with their secrets and changes the operator; use 127.0.0.1, the unix socket and kubectl exec or port-forward, or say DEBUG_HTTP_SERVER_ADDR_NOT_LOOPBACK=true", c.DebugAddress)
}

// checkPrefix reports a prefix that makes no names of metrics. Without one all names would
// belong to the operator, and none to hooks.
func (c *Config) checkPrefix() error {
	if !regexp.MustCompile(`^[a-zA-Z_:][a-zA-Z0-9_:]*$`).MatchString(c.MetricsPrefix) {
		return fmt.Errorf("prometheus-metrics-prefix must be letters, digits and underscores and not begin with a digit, as %s, not %q", metrics.DefaultPrefix, c.MetricsPrefix)
	}
	return nil
}

// completeDirs derives the directories.
func (c *Config) completeDirs() {
	if c.Given("working-dir") { // A2
		if !c.Given("modules-dir") {
			c.ModulesDir = filepath.Join(c.WorkingDir, "modules")
		}
		if !c.Given("global-hooks-dir") {
			c.GlobalHooksDir = filepath.Join(c.WorkingDir, "global-hooks")
		}
	}
	c.Dirs = addons.Dirs{Modules: addons.SplitPath(c.ModulesDir), Global: c.GlobalHooksDir, UnnumberedOrder: c.UnnumberedOrder}
}

// checkChroot reports the directories that hooks could not see.
func (c *Config) checkChroot() error {
	if c.ChrootDir == "" {
		return nil
	}
	root, err := filepath.Abs(c.ChrootDir)
	if err != nil {
		return fmt.Errorf("shell-chroot-dir: %w", err)
	}
	below := map[string][]string{"modules-dir": addons.SplitPath(c.ModulesDir), "global-hooks-dir": {c.GlobalHooksDir}, "tmp-dir": {c.TmpDir}}
	var errs []error
	for _, option := range slices.Sorted(maps.Keys(below)) {
		for _, dir := range below[option] {
			if path, err := filepath.Abs(dir); err != nil || !hooks.Below(root, path) {
				errs = append(errs, fmt.Errorf("%s %s must lie below shell-chroot-dir %s, which hooks cannot leave", option, dir, root))
			}
		}
	}
	return errors.Join(errs...)
}

// checkLease reports times that do not fit together.
func (c *Config) checkLease() error {
	if !c.HA {
		return nil
	}
	if err := c.Lease("").Check(); err != nil {
		return fmt.Errorf("the lease: %w", err)
	}
	return nil
}

// Lease are the options of the Lease for the replica with an identity.
func (c *Config) Lease(identity string) kube.LeaseOptions {
	return kube.LeaseOptions{
		Namespace: c.Namespace, Name: c.LeaseName, Identity: identity,
		Duration: c.LeaseDuration, RenewDeadline: c.LeaseRenewDeadline, RetryPeriod: c.LeaseRetryPeriod,
	}
}

// JQDirs are the directories of JQLibrary.
func (c *Config) JQDirs() []string {
	return slices.DeleteFunc(filepath.SplitList(c.JQLibrary), func(dir string) bool { return dir == "" })
}

// CRDPrefixes are the beginnings of names of files in crds/ that are no definitions.
func (c *Config) CRDPrefixes() (prefixes []string) {
	for prefix := range strings.SplitSeq(c.CRDSkip, ",") {
		if prefix = strings.TrimSpace(prefix); prefix != "" {
			prefixes = append(prefixes, prefix)
		}
	}
	return prefixes
}

// SecretName is the name of the Secret with values.
func (c *Config) SecretName() string { return cmp.Or(c.Secret, c.ConfigMap) }

// CRDOptions are what the options say about the definitions of modules.
func (c *Config) CRDOptions() kube.CRDOptions {
	labels, _ := ParseLabels(c.CRDLabels) // Complete checks it
	return kube.CRDOptions{Labels: labels, SkipPrefixes: c.CRDPrefixes(), Ignored: charts.Ignored}
}

// ParseLabels reads key=value,key=value.
func ParseLabels(text string) (map[string]string, error) {
	labels := map[string]string{}
	for _, pair := range strings.Split(text, ",") {
		if strings.TrimSpace(pair) == "" {
			continue
		}
		key, value, ok := strings.Cut(pair, "=")
		if !ok || strings.TrimSpace(key) == "" {
			return nil, fmt.Errorf("%q is not key=value", pair)
		}
		labels[strings.TrimSpace(key)] = strings.TrimSpace(value)
	}
	return labels, nil
}
