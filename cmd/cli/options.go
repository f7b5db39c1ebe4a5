package cli

import (
	"cmp"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/labels"

	"addon-operator/messages"
	"addon-operator/messages/view"
)

// option is one option of the operator. Precedence is flag, environment, default (B1). It is a
// value that points to the field of Config that it sets.
type option struct {
	name, variables, help string // variables are separated by spaces, the strongest first
	// orNone: an empty variable switches the option off. For all other options it counts as absent,
	// because templates of manifests leave a variable out by setting it to nothing.
	orNone bool
	// short is a one-letter flag, also is a second name, that of kubectl; both may be
	// empty.
	short, also string
	// declare adds the flag, with its default, to a set. The default of a switch is what its field
	// holds at that time.
	declare func(flags *pflag.FlagSet, name, help string)
	// set takes the place of the flag of an option that has only a variable, and no name.
	set func(value string) error
}

// text is an option with a text; number, duration and yes make the other types.
func text(p *string, name, variables, def, help string) option {
	return option{name: name, variables: variables, help: help, declare: func(flags *pflag.FlagSet, name, help string) { flags.StringVar(p, name, def, help) }}
}

// textOrNone is an option that is switched off by an empty text.
func textOrNone(p *string, name, variables, def, help string) option {
	o := text(p, name, variables, def, help+"; empty disables it")
	o.orNone = true
	return o
}

func number(p *int, name, variables string, def int, help string) option {
	return option{name: name, variables: variables, help: help, declare: func(flags *pflag.FlagSet, name, help string) { flags.IntVar(p, name, def, help) }}
}

func duration(p *time.Duration, name, variables string, def time.Duration, help string) option {
	return option{name: name, variables: variables, help: help, declare: func(flags *pflag.FlagSet, name, help string) { flags.DurationVar(p, name, def, help) }}
}

// yes is a switch. Its default is what the field holds when it is declared; --name without a value
// means true.
func yes(p *bool, name, variables, help string) option {
	return option{name: name, variables: variables, help: help, declare: func(flags *pflag.FlagSet, name, help string) {
		flags.Var((*boolean)(p), name, help)
		flags.Lookup(name).NoOptDefVal = "true"
	}}
}

// New declares the options; lookup reads environment variables. In the help text of an option its
// variables follow the sentence. Nothing is read until Read.
func New(version string, flags *pflag.FlagSet, lookup func(string) (string, bool)) *Config {
	c := &Config{Version: version, flags: flags, lookup: lookup}
	c.declared = c.options()
	for _, o := range c.declared {
		if o.set != nil {
			continue
		}
		help := o.help
		if names := strings.Fields(o.variables); len(names) > 0 {
			help += " [$" + strings.Join(names, ", $") + "]"
		}
		o.add(flags, help)
	}
	return c
}

// add declares the flag of the option, and a hidden one for its other name. Both share one Value,
// so the last one on the command line wins.
func (o option) add(flags *pflag.FlagSet, help string) {
	own := pflag.NewFlagSet("", pflag.ContinueOnError)
	o.declare(own, o.name, help)
	flag := own.Lookup(o.name)
	flag.Shorthand = o.short
	flags.AddFlag(flag)
	if o.also != "" {
		flags.AddFlag(&pflag.Flag{Name: o.also, Usage: "the same as --" + o.name, Value: flag.Value, DefValue: flag.DefValue, Hidden: true})
	}
}

// named returns the option with a letter, or with another name; either may be empty.
func (o option) named(short, also string) option {
	o.short, o.also = short, also
	return o
}

// flagged reports whether a flag has set the option, by either of its names.
func (o option) flagged(flags *pflag.FlagSet) bool {
	return flags.Changed(o.name) || o.also != "" && flags.Changed(o.also)
}

// Read sets the options that no flag gave from the environment, and derives the directories. Root
// calls it before each command; an error names the variable.
func (c *Config) Read() error {
	defer c.completeDirs()
	for _, o := range c.declared {
		if o.flagged(c.flags) {
			continue
		}
		variable, value, ok := o.variable(c.lookup)
		if !ok {
			continue
		}
		set := o.set
		if set == nil {
			set = c.flags.Lookup(o.name).Value.Set
		}
		if err := set(value); err != nil {
			return UsageError{fmt.Errorf("environment variable %s=%q: %w", variable, value, err)}
		}
	}
	return nil
}

// variable finds the strongest environment variable that is set for an option, and its value.
func (o option) variable(lookup func(string) (string, bool)) (variable, value string, ok bool) {
	for variable := range strings.FieldsSeq(o.variables) {
		if value, ok := lookup(variable); ok && (value != "" || o.orNone) {
			return variable, value, true
		}
	}
	return "", "", false
}

// variables are all environment variables that stand for an option.
func (c *Config) variables() (all []string) {
	for _, o := range c.declared {
		all = append(all, strings.Fields(o.variables)...)
	}
	return all
}

// Given reports whether an option was set by flag or environment, so that a default may depend on
// other options. An unknown name is a bug and panics.
func (c *Config) Given(name string) bool {
	_, _, ok := c.option(name).variable(c.lookup)
	return ok || c.Flagged(name)
}

// Flagged reports whether an option was set by flag.
func (c *Config) Flagged(name string) bool { return c.option(name).flagged(c.flags) }

func (c *Config) option(name string) option {
	return c.declared[slices.IndexFunc(c.declared, func(o option) bool { return o.name == name })]
}

// boolean also accepts yes, no, on and off, as deployments of older operators write them.
type boolean bool

// String implements pflag.Value.
func (b *boolean) String() string { return fmt.Sprint(bool(*b)) }

// Type implements pflag.Value.
func (b *boolean) Type() string { return "bool" }

// Set implements pflag.Value.
func (b *boolean) Set(text string) error {
	switch strings.ToLower(text) {
	case "true", "yes", "on", "1":
		*b = true
	case "false", "no", "off", "0":
		*b = false
	default:
		return fmt.Errorf("must be true or false, not %q", text)
	}
	return nil
}

// LeaseName is the name of the Lease of an operator in its namespace. Two operators in one namespace would purge each
// other's releases, so they must not both lead.
const LeaseName = "addon-operator-leader-election"

// options declares each option once, with its flag, its environment variables, its default and its help (B3), in
// the order of help texts and of the documentation. The table in docs/running.md and the chart's values are made
// from this one.
func (c *Config) options() []option {
	return []option{
		text(&c.ModulesDir, "modules-dir", "MODULES_DIR ADDON_OPERATOR_MODULES_DIR", "/modules", "directories of modules, separated by colons"),
		text(&c.GlobalHooksDir, "global-hooks-dir", "GLOBAL_HOOKS_DIR ADDON_OPERATOR_GLOBAL_HOOKS_DIR SHELL_OPERATOR_HOOKS_DIR", "/global-hooks", "directory of global hooks and of global openapi schemas"),
		text(&c.WorkingDir, "working-dir", "ADDON_OPERATOR_WORKING_DIR", "", "directory that contains modules/ and global-hooks/; used if it is set and the options for the two directories are not"),
		number(&c.UnnumberedOrder, "unnumbered-modules-order", "UNNUMBERED_MODULES_ORDER ADDON_OPERATOR_UNNUMBERED_MODULES_ORDER", 1, "order of modules whose directory has no number"),
		text(&c.FailurePolicy, "module-failure-policy", "ADDON_OPERATOR_MODULE_FAILURE_POLICY", "block", "block: a failing module blocks the main queue; isolate: one that fails, or takes a minute, goes on outside of the queue, and the others continue"),
		yes(&c.WatchModules, "watch-modules", "ADDON_OPERATOR_WATCH_MODULES", "watch the directories of modules and of global hooks, and apply changes at once; without it, the operator compares them at each reload of all modules. On by default with a kubeconfig outside of a cluster"),
		number(&c.ParallelModules, "parallel-modules", "ADDON_OPERATOR_PARALLEL_MODULES", 1, "number of modules of the same order that may run in parallel"),
		text(&c.Namespace, "namespace", "ADDON_OPERATOR_NAMESPACE", "", "namespace of the ConfigMap and of all releases (required)").named("n", ""),
		text(&c.ConfigMap, "config-map", "ADDON_OPERATOR_CONFIG_MAP", "addon-operator", "name of the ConfigMap with values"),
		yes(&c.StartWithLastValid, "start-with-last-valid-config", "ADDON_OPERATOR_START_WITH_LAST_VALID_CONFIG", "if the ConfigMap or the Secret with values is invalid at the start, or was deleted, start with the last valid content of both, which is kept in a Secret named after the ConfigMap with the suffix -last-valid; without it, the start fails with exit code 1"),
		text(&c.Secret, "config-secret", "ADDON_OPERATOR_CONFIG_SECRET", "", "name of the Secret with values, a layer above the ConfigMap; empty means the name of the ConfigMap"),
		text(&c.TmpDir, "tmp-dir", "ADDON_OPERATOR_TMP_DIR", "/tmp/addon-operator", "directory for the files that hooks read and write"),
		yes(&c.KeepTmpFiles, "debug-keep-tmp-files", "DEBUG_KEEP_TMP_FILES", "keep the files that hooks read and write after the run; they contain values"),
		text(&c.ListenAddress, "prometheus-listen-address", "ADDON_OPERATOR_LISTEN_ADDRESS SHELL_OPERATOR_LISTEN_ADDRESS", "0.0.0.0", "address for probes and metrics"),
		number(&c.ListenPort, "prometheus-listen-port", "ADDON_OPERATOR_LISTEN_PORT SHELL_OPERATOR_LISTEN_PORT", 9650, "port for probes and metrics"),
		yes(&c.SecureMetrics, "secure-metrics", "ADDON_OPERATOR_SECURE_METRICS", "serve probes and metrics with TLS, and authorize requests with the API server; only probes remain open to everyone"),
		text(&c.WebhookAddress, "webhook-address", "ADDON_OPERATOR_WEBHOOK_ADDRESS", "", "address, HOST:PORT, at which the API server asks hooks (webhooks); without one, hooks with webhooks are refused"),
		text(&c.WebhookService, "webhook-service", "ADDON_OPERATOR_WEBHOOK_SERVICE", "", "name of the Service that leads there; without one, the API server calls the address itself, which it must reach"),
		text(&c.WebhookCertsDir, "webhook-certs-dir", "ADDON_OPERATOR_WEBHOOK_CERTS_DIR", "", "directory with tls.crt, tls.key and ca.crt of another issuer for webhooks; without one, the operator makes and renews its own certificate, in the Secret addon-operator-webhooks"),
		text(&c.WebhookClientCA, "webhook-client-ca", "ADDON_OPERATOR_WEBHOOK_CLIENT_CA", "", "file with CAs; only clients with a certificate of one of them may ask hooks"),
		textOrNone(&c.DebugAddress, "debug-address", "DEBUG_HTTP_SERVER_ADDR", "127.0.0.1:9115", "address for debug pages, which may show values"),
		yes(&c.DebugAnyone, "debug-address-not-loopback", "DEBUG_HTTP_SERVER_ADDR_NOT_LOOPBACK", "allow a debug address that is not on loopback: every client that reaches it can read values with their secrets and change the log level, without authentication"),
		textOrNone(&c.DebugSocket, "debug-unix-socket", "DEBUG_UNIX_SOCKET", "/var/run/addon-operator/debug.socket", "unix socket for the same pages"),
		text(&c.MetricsPrefix, "prometheus-metrics-prefix", "ADDON_OPERATOR_PROMETHEUS_METRICS_PREFIX SHELL_OPERATOR_PROMETHEUS_METRICS_PREFIX", view.MetricsPrefix, "prefix of the names of metrics"),
		text(&c.Kubeconfig, "kube-config", "KUBE_CONFIG KUBECONFIG", "", "kubeconfig file, or several separated by colons, which are merged as kubectl does; without one the operator uses the service account of its Pod").named("", "kubeconfig"),
		text(&c.KubeContext, "kube-context", "KUBE_CONTEXT", "", "context in the kubeconfig").named("", "context"),
		text(&c.KubeServer, "kube-server", "KUBE_SERVER", "", "address of the API server, in place of the one in the kubeconfig"),
		number(&c.KubeQPS, "kube-client-qps", "KUBE_CLIENT_QPS", 100, "requests to the API server per second; what hooks write to KUBERNETES_PATCH_PATH is counted by itself, with the same limits"),
		number(&c.KubeBurst, "kube-client-burst", "KUBE_CLIENT_BURST", 200, "requests to the API server in a burst"),
		duration(&c.HookTimeout, "hook-timeout", "ADDON_OPERATOR_HOOK_TIMEOUT", 10*time.Minute, "time limit of enabled scripts, and of hook runs without a timeout in their settings; 0 means no limit"),
		text(&c.ChrootDir, "shell-chroot-dir", "ADDON_OPERATOR_SHELL_CHROOT_DIR", "", "root directory of hooks and enabled scripts; the directories of modules, global hooks and temporary files must be below it"),
		text(&c.JQLibrary, "jq-library-path", "JQ_LIBRARY_PATH", "", "directories of modules that jq expressions of hooks import, separated by colons"),
		// Helm has only the variable, too.
		{variables: "HELM_DRIVER", set: func(value string) error { return c.HelmDriver.UnmarshalText([]byte(value)) }},
		number(&c.HelmHistoryMax, "helm-history-max", "HELM_HISTORY_MAX", 10, "number of revisions kept for each release; 0 keeps all"),
		duration(&c.HelmTimeout, "helm-timeout", "HELM_TIMEOUT", 20*time.Minute, "time limit of Helm hooks in charts"),
		text(&c.HelmIgnoreRelease, "helm-ignore-release", "HELM_IGNORE_RELEASE", "", "name of a release that is never purged: that of the operator itself, if Helm installed it in the operator's namespace"),
		yes(&c.AllowPurge, "allow-purge", "ADDON_OPERATOR_ALLOW_PURGE", "purge every release without a module directory, with what holds data; without it, a purge leaves that, and waits for a confirmation if a modules directory contains no module, or if the purge exceeds a quarter of the releases"),
		text(&c.CRDLabels, "crd-extra-labels", "ADDON_OPERATOR_CRD_EXTRA_LABELS", "heritage=addon-operator", "labels added to every CRD of a module, key=value separated by commas"),
		text(&c.Drift, "drift", "ADDON_OPERATOR_DRIFT", "off", "what to do about fields of deployed objects that others have changed: off, report (log, metric, module drift), correct (restore them)"),
		text(&c.CRDSkip, "crd-filters", "ADDON_OPERATOR_CRD_FILTER_PREFIXES", "doc-,_", "prefixes of files in crds/ that are not CRDs, separated by commas"),
		text(&c.LogLevel, "log-level", "LOG_LEVEL RLOG_LOG_LEVEL", "info", "log level: debug, info, warn or error"),
		text(&c.LogType, "log-type", "LOG_TYPE", "auto", "log format: text, color, json, or auto: color on a terminal, json elsewhere"),
		yes(&c.LogNoTime, "log-no-time", "LOG_NO_TIME", "omit the time from log lines"),
		yes(&c.LogProxyHook, "log-proxy-hook-json", "LOG_PROXY_HOOK_JSON", "merge JSON lines that hooks print into the log record"),
		yes(&c.Loud, "debug", "", "the same as --log-level=debug"),
		duration(&c.GracePeriod, "grace-period", "ADDON_OPERATOR_GRACE_PERIOD", 25*time.Second, "time to stop after SIGTERM; running hooks get SIGTERM at once, and Helm may finish"),
		yes(&c.HA, "ha", "ADDON_OPERATOR_HA", "acquire the Lease before writing anything: one of several replicas leads, and the others wait; the default is true in a cluster, that is, without a kubeconfig or with the name of the Pod, and false elsewhere"),
		// The Pod says it of itself, and no person does.
		{variables: "ADDON_OPERATOR_POD", set: func(value string) error { c.PodName = value; return nil }},
		{variables: "ADDON_OPERATOR_POD_UID", set: func(value string) error { c.PodUID = value; return nil }},
	}
}

// check finds all mistakes in the values of options.
func (c *Config) check() error {
	errs := []error{
		refuseVariables(c.lookup), c.checkChroot(),
		atLeast("parallel-modules", c.ParallelModules, 1), atLeast("helm-history-max", c.HelmHistoryMax, 0),
		atLeast("kube-client-qps", c.KubeQPS, 1), atLeast("kube-client-burst", c.KubeBurst, 1),
		atLeast("hook-timeout", c.HookTimeout, 0), atLeast("helm-timeout", c.HelmTimeout, time.Second),
		atLeast("grace-period", c.GracePeriod, time.Second),
		oneOf("module-failure-policy", c.FailurePolicy, "block", "isolate"),
		c.checkWebhooks(),
		oneOf("drift", c.Drift, messages.DriftOff, messages.DriftReport, messages.DriftCorrect),
	}
	if c.Namespace == "" { // B8
		errs = append(errs, errors.New("no namespace is given; set ADDON_OPERATOR_NAMESPACE or --namespace to the namespace of the operator"))
	}
	// Without a prefix all names would belong to the operator, and none to hooks.
	if !regexp.MustCompile(`^[a-zA-Z_:][a-zA-Z0-9_:]*$`).MatchString(c.MetricsPrefix) {
		errs = append(errs, fmt.Errorf("prometheus-metrics-prefix must consist of letters, digits and underscores and not begin with a digit, such as %s, not %q", view.MetricsPrefix, c.MetricsPrefix))
	}
	if _, err := labels.ConvertSelectorToLabelsMap(c.CRDLabels); err != nil {
		errs = append(errs, fmt.Errorf("crd-extra-labels: %w", err))
	}
	return errors.Join(errs...)
}

// atLeast and oneOf return an error that names the option; nil for a value that is in range.
func atLeast[T cmp.Ordered](option string, value, least T) error {
	if value < least {
		return fmt.Errorf("%s must be %v or more, not %v", option, least, value)
	}
	return nil
}

func oneOf(option, value string, choices ...string) error {
	if !slices.Contains(choices, value) {
		return fmt.Errorf("%s must be one of %s, not %q", option, strings.Join(choices, ", "), value)
	}
	return nil
}
