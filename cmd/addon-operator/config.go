package main

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"

	"addon-operator/actors"
	"addon-operator/actors/metrics"
	"addon-operator/addons"
	"addon-operator/helm"
	"addon-operator/hooks"
	"addon-operator/kube"
)

// Config is everything that can be set from outside. Each option is declared once, in
// declare, with its flag, its environment variables, its default and its help (B3).
type Config struct {
	ModulesDir, GlobalHooksDir, WorkingDir string
	UnnumberedOrder                        int
	FailurePolicy                          string
	ParallelModules                        int
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

	LogLevel, LogType             string
	LogNoTime, LogProxyHook, Loud bool
	GracePeriod                   time.Duration

	HA                                                  bool
	LeaseName                                           string
	LeaseDuration, LeaseRenewDeadline, LeaseRetryPeriod time.Duration
	PodName, AdvertiseAddress                           string

	dirs addons.Dirs
	// variables are the environment variables that options read.
	variables []string
	// overSocket: who asks a running operator has named the unix socket only.
	overSocket bool
	// level is that of the log, as it is now; newLogger makes it.
	level *slog.LevelVar
	// secrets are the texts that are never shown; newLogger makes them.
	secrets *actors.Secrets
	// changeable are the options that may change while the operator runs.
	changeable *parameters
}

func (c *Config) declare(flags *pflag.FlagSet) *options {
	o := newOptions(flags)
	duration := func(p *time.Duration, name, vars string, def time.Duration, help string) {
		o.add(name, vars, help, func(name, help string) { flags.DurationVar(p, name, def, help) })
	}
	o.text(&c.ModulesDir, "modules-dir", "MODULES_DIR ADDON_OPERATOR_MODULES_DIR", "/modules", "directories of modules, separated by colons")
	o.text(&c.GlobalHooksDir, "global-hooks-dir", "GLOBAL_HOOKS_DIR ADDON_OPERATOR_GLOBAL_HOOKS_DIR SHELL_OPERATOR_HOOKS_DIR", "/global-hooks", "directory of global hooks and of global openapi schemas")
	o.text(&c.WorkingDir, "working-dir", "ADDON_OPERATOR_WORKING_DIR", "/addons", "directory that holds modules/ and global-hooks/; counts when it is given and the two above are not")
	o.number(&c.UnnumberedOrder, "unnumbered-modules-order", "UNNUMBERED_MODULES_ORDER UNNUMBERED_MODULE_ORDER ADDON_OPERATOR_UNNUMBERED_MODULES_ORDER", 1, "order of modules whose directory has no number")
	o.text(&c.FailurePolicy, "module-failure-policy", "ADDON_OPERATOR_MODULE_FAILURE_POLICY", "block", "block: a failing module holds the main queue; isolate: it is retried outside of it, the others go on")
	o.number(&c.ParallelModules, "parallel-modules", "ADDON_OPERATOR_PARALLEL_MODULES", 1, "modules of the same order that may run side by side")
	o.text(&c.Namespace, "namespace", "ADDON_OPERATOR_NAMESPACE SHELL_OPERATOR_NAMESPACE", "", "namespace of the ConfigMap and of all releases (required)")
	o.text(&c.ConfigMap, "config-map", "ADDON_OPERATOR_CONFIG_MAP", "addon-operator", "name of the ConfigMap with values")
	o.yes(&c.StartWithLastValid, "start-with-last-valid-config", "ADDON_OPERATOR_START_WITH_LAST_VALID_CONFIG", "when the ConfigMap or the Secret with values is not valid at the start, or is deleted, start with the last valid content of both, which is kept in a Secret with the name of the ConfigMap and -last-valid; without it the start ends with exit code 1")
	o.text(&c.Secret, "config-secret", "ADDON_OPERATOR_CONFIG_SECRET", "", "name of the Secret with values, a layer above the ConfigMap; without one, the name of the ConfigMap")
	o.text(&c.TmpDir, "tmp-dir", "ADDON_OPERATOR_TMP_DIR SHELL_OPERATOR_TMP_DIR", "/tmp/addon-operator", "directory for the files that hooks read and write")
	o.yes(&c.KeepTmpFiles, "debug-keep-tmp-files", "DEBUG_KEEP_TMP_FILES", "keep these files after the run; they hold values")
	o.text(&c.ListenAddress, "prometheus-listen-address", "ADDON_OPERATOR_LISTEN_ADDRESS SHELL_OPERATOR_LISTEN_ADDRESS", "0.0.0.0", "address for probes and metrics")
	o.number(&c.ListenPort, "prometheus-listen-port", "ADDON_OPERATOR_LISTEN_PORT SHELL_OPERATOR_LISTEN_PORT", 9650, "port for probes and metrics")
	o.yes(&c.SecureMetrics, "secure-metrics", "ADDON_OPERATOR_SECURE_METRICS", "serve the address for probes and metrics with TLS, and ask the API server who may see its pages; only probes stay open to everybody")
	o.text(&c.TLSCert, "metrics-tls-cert", "ADDON_OPERATOR_METRICS_TLS_CERT", "", "file with the certificate for it, read again when it changes; without one the operator makes a self-signed one")
	o.text(&c.TLSKey, "metrics-tls-key", "ADDON_OPERATOR_METRICS_TLS_KEY", "", "file with the key of this certificate")
	o.textOrNone(&c.DebugAddress, "debug-address", "DEBUG_HTTP_SERVER_ADDR ADDON_OPERATOR_DEBUG_ADDRESS", "127.0.0.1:9115", "address for debug pages, which may show values")
	o.yes(&c.DebugAnyone, "debug-address-not-loopback", "DEBUG_HTTP_SERVER_ADDR_NOT_LOOPBACK", "let the debug address be another one than loopback: whoever reaches it reads values with their secrets and changes the operator, without being asked who that is")
	o.textOrNone(&c.DebugSocket, "debug-unix-socket", "DEBUG_UNIX_SOCKET", "/var/run/addon-operator/debug.socket", "unix socket for the same pages")
	o.text(&c.MetricsPrefix, "prometheus-metrics-prefix", "ADDON_OPERATOR_PROMETHEUS_METRICS_PREFIX SHELL_OPERATOR_PROMETHEUS_METRICS_PREFIX", metrics.DefaultPrefix, "prefix of the names of metrics")
	c.OldMetrics = true
	o.yes(&c.OldMetrics, "prometheus-old-names", "ADDON_OPERATOR_PROMETHEUS_OLD_NAMES", "show the three metrics that had other names once under those, too: hook_errors, hook_allowed_errors, module_run_errors")
	o.text(&c.Kubeconfig, "kube-config", "KUBE_CONFIG KUBECONFIG", "", "kubeconfig file; without one the operator uses the service account of its Pod")
	o.text(&c.KubeContext, "kube-context", "KUBE_CONTEXT", "", "context in the kubeconfig")
	o.text(&c.KubeServer, "kube-server", "KUBE_SERVER", "", "address of the API server, in place of the one in the kubeconfig")
	o.number(&c.KubeQPS, "kube-client-qps", "KUBE_CLIENT_QPS", 100, "requests to the API server per second")
	o.number(&c.KubeBurst, "kube-client-burst", "KUBE_CLIENT_BURST", 200, "requests to the API server in a burst")
	o.number(&c.PatchQPS, "object-patcher-kube-client-qps", "OBJECT_PATCHER_KUBE_CLIENT_QPS", 100, "the same for what hooks write to KUBERNETES_PATCH_PATH")
	o.number(&c.PatchBurst, "object-patcher-kube-client-burst", "OBJECT_PATCHER_KUBE_CLIENT_BURST", 200, "the same for what hooks write to KUBERNETES_PATCH_PATH, in a burst")
	duration(&c.PatchTimeout, "object-patcher-kube-client-timeout", "OBJECT_PATCHER_KUBE_CLIENT_TIMEOUT", 10*time.Second, "time limit of one of these requests")
	duration(&c.HookTimeout, "hook-timeout", "ADDON_OPERATOR_HOOK_TIMEOUT", 10*time.Minute, "time limit of hook runs that set none in their settings, and of enabled scripts; 0 means none")
	o.text(&c.HookEnv, "hook-env", "ADDON_OPERATOR_HOOK_ENV", hooks.DefaultInherit, "variables that hooks and enabled scripts inherit from the operator: names, with asterisks, separated by commas; !NAME takes some away")
	o.number(&c.HookSeries, "hook-metrics-series", "ADDON_OPERATOR_HOOK_METRICS_SERIES", metrics.DefaultSeries, "series of metrics that one hook may report; more are dropped")
	o.number(&c.SnapshotLimit, "snapshot-limit", "ADDON_OPERATOR_SNAPSHOT_LIMIT", actors.DefaultSnapshotLimit>>20, "MiB that the snapshot of one binding may take, and those of all bindings one and a half times as much; a hook with a larger one does not run; 0 means no limit")
	o.text(&c.ChrootDir, "shell-chroot-dir", "ADDON_OPERATOR_SHELL_CHROOT_DIR", "", "root directory of hooks and enabled scripts; the directories of modules, global hooks and temporary files must lie below it")
	o.text(&c.JQLibrary, "jq-library-path", "JQ_LIBRARY_PATH", "", "directories of modules that jq expressions of hooks import, separated by colons")
	o.add("helm-driver", "HELM_DRIVER", "where the records of releases are: secret or configmap; releases that the other one wrote are not found, and are installed again", func(name, help string) {
		flags.TextVar(&c.HelmDriver, name, helm.SecretDriver, help)
	})
	o.number(&c.HelmHistoryMax, "helm-history-max", "HELM_HISTORY_MAX", 10, "revisions kept of each release; 0 keeps all")
	duration(&c.HelmTimeout, "helm-timeout", "HELM_TIMEOUT", 20*time.Minute, "time limit of Helm hooks in charts")
	o.text(&c.HelmIgnoreRelease, "helm-ignore-release", "HELM_IGNORE_RELEASE", "", "release that is never purged: the operator's own, if Helm deployed it into its namespace")
	o.yes(&c.AllowPurge, "allow-purge", "ADDON_OPERATOR_ALLOW_PURGE", "purge every release without a module directory; without it a purge waits for a confirmation when a modules directory holds no module, or when it exceeds the share")
	o.number(&c.PurgeShare, "purge-share", "ADDON_OPERATOR_PURGE_SHARE", actors.DefaultPurgeShare, "percentage of the releases that one reload may purge without a confirmation; a single one it may purge always")
	o.text(&c.ExtraLabels, "helm-extra-labels", "ADDON_OPERATOR_HELM_EXTRA_LABELS", "heritage=addon-operator", "labels put on every object of a chart, key=value separated by commas")
	o.text(&c.CRDLabels, "crd-extra-labels", "ADDON_OPERATOR_CRD_EXTRA_LABELS", "heritage=addon-operator", "labels put on every CRD of a module, key=value separated by commas")
	o.text(&c.Drift, "drift", "ADDON_OPERATOR_DRIFT", "off", "fields of deployed objects that others have changed: off, report (log, metric, module drift), correct (put them back)")
	duration(&c.DriftPeriod, "drift-period", "ADDON_OPERATOR_DRIFT_PERIOD", 5*time.Minute, "time between two looks for drift at a module; one more comes after each of its runs")
	o.text(&c.CRDSkip, "crd-filters", "ADDON_OPERATOR_CRD_FILTER_PREFIXES", "doc-,_", "files in crds/ that begin like one of these are no CRDs; separated by commas")
	o.text(&c.LogLevel, "log-level", "LOG_LEVEL RLOG_LOG_LEVEL", "info", "debug, info, warn or error")
	o.text(&c.LogType, "log-type", "LOG_TYPE", "auto", "text, color, json, or auto: color on a terminal, json elsewhere")
	o.yes(&c.LogNoTime, "log-no-time", "LOG_NO_TIME", "leave the time out of log lines")
	o.yes(&c.LogProxyHook, "log-proxy-hook-json", "LOG_PROXY_HOOK_JSON", "merge JSON lines that hooks print into the log record")
	o.yes(&c.Loud, "debug", "", "the same as --log-level=debug")
	duration(&c.GracePeriod, "grace-period", "ADDON_OPERATOR_GRACE_PERIOD", 25*time.Second, "time to stop after SIGTERM; running hooks get TERM at once, Helm may finish")
	o.yes(&c.HA, "ha", "ADDON_OPERATOR_HA", "take the Lease before anything is written: of several replicas one leads, the others stand by, warm; the default is true in a cluster, which is without a kubeconfig or with the name of the Pod, and false elsewhere")
	o.text(&c.LeaseName, "ha-lease-name", "ADDON_OPERATOR_HA_LEASE_NAME", "addon-operator-leader-election", "Lease in the operator's namespace by which the leader is elected")
	duration(&c.LeaseDuration, "ha-lease-duration", "ADDON_OPERATOR_HA_LEASE_DURATION", 15*time.Second, "a leader that has not renewed the Lease for so long is followed by another replica; whole seconds")
	duration(&c.LeaseRenewDeadline, "ha-renew-deadline", "ADDON_OPERATOR_HA_RENEW_DEADLINE", 10*time.Second, "a leader that could not renew the Lease for so long kills its hooks, writes nothing more and ends; shorter than the lease duration")
	duration(&c.LeaseRetryPeriod, "ha-retry-period", "ADDON_OPERATOR_HA_RETRY_PERIOD", 2*time.Second, "time between two renewals of the leader, and two looks of a follower")
	o.text(&c.PodName, "pod-name", "ADDON_OPERATOR_POD", "", "name of the Pod of the operator, on which it shows events; without one it shows all on the ConfigMap. Also its name in the Lease; without one, the host name")
	o.text(&c.AdvertiseAddress, "advertise-address", "ADDON_OPERATOR_ADVERTISE_ADDRESS", "", "address of the probes of this replica, which followers show as that of their leader; without one, the listen address or the first of the machine")
	return o
}

// complete derives what follows from other options and checks the whole.
func (c *Config) complete(o *options, lookup func(string) (string, bool)) error {
	var errs []error
	errs = append(errs, refuseVariables(lookup))
	c.variables = o.variables()
	if c.Namespace == "" { // B8
		errs = append(errs, errors.New("no namespace is given; set ADDON_OPERATOR_NAMESPACE or --namespace to the namespace of the operator"))
	}
	c.completeDirs(o, lookup)
	if !o.given("ha", lookup) {
		c.HA = c.Kubeconfig == "" || c.PodName != "" // L1
	}
	if c.FailurePolicy != "block" && c.FailurePolicy != "isolate" {
		errs = append(errs, fmt.Errorf("module-failure-policy must be block or isolate, not %q", c.FailurePolicy))
	}
	if c.ParallelModules < 1 {
		errs = append(errs, fmt.Errorf("parallel-modules must be 1 or more, not %d", c.ParallelModules))
	}
	if !slices.Contains([]string{actors.DriftOff, actors.DriftReport, actors.DriftCorrect}, c.Drift) {
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
	if _, err := parseLabels(c.ExtraLabels); err != nil {
		errs = append(errs, fmt.Errorf("helm-extra-labels: %w", err))
	}
	if _, err := parseLabels(c.CRDLabels); err != nil {
		errs = append(errs, fmt.Errorf("crd-extra-labels: %w", err))
	}
	return errors.Join(errs...)
}

// checkTimes reports times with which nothing could be done.
func (c *Config) checkTimes() error {
	var errs []error
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

// checkDebugAddress refuses to show debug pages to others than this machine, unless that is wanted by name.
func (c *Config) checkDebugAddress() error {
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

// completeDirs derives the directories; commands that need no cluster need only them.
func (c *Config) completeDirs(o *options, lookup func(string) (string, bool)) {
	if o.given("working-dir", lookup) { // A2
		if !o.given("modules-dir", lookup) {
			c.ModulesDir = filepath.Join(c.WorkingDir, "modules")
		}
		if !o.given("global-hooks-dir", lookup) {
			c.GlobalHooksDir = filepath.Join(c.WorkingDir, "global-hooks")
		}
	}
	c.dirs = addons.Dirs{Modules: addons.SplitPath(c.ModulesDir), Global: c.GlobalHooksDir, UnnumberedOrder: c.UnnumberedOrder}
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
	if err := c.leaseOptions("").Check(); err != nil {
		return fmt.Errorf("the lease: %w", err)
	}
	return nil
}

func (c *Config) leaseOptions(identity string) kube.LeaseOptions {
	return kube.LeaseOptions{
		Namespace: c.Namespace, Name: c.LeaseName, Identity: identity,
		Duration: c.LeaseDuration, RenewDeadline: c.LeaseRenewDeadline, RetryPeriod: c.LeaseRetryPeriod,
	}
}

// jqLibrary are the directories of the option.
func (c *Config) jqLibrary() []string {
	return slices.DeleteFunc(filepath.SplitList(c.JQLibrary), func(dir string) bool { return dir == "" })
}

// crdSkip are the beginnings of names of files in crds/ that are no definitions.
func (c *Config) crdSkip() (prefixes []string) {
	for prefix := range strings.SplitSeq(c.CRDSkip, ",") {
		if prefix = strings.TrimSpace(prefix); prefix != "" {
			prefixes = append(prefixes, prefix)
		}
	}
	return prefixes
}

// parseLabels reads key=value,key=value.
func parseLabels(text string) (map[string]string, error) {
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
