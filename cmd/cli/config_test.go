package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"log/slog"
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"addon-operator/helm"
)

// repository is the root of the repository, seen from the directory of this package.
const repository = "../../"

// variables is an environment that is not the one of this process.
type variables map[string]string

func (v variables) lookup(name string) (string, bool) {
	value, ok := v[name]
	return value, ok
}

// configured reads options as the program does.
func configured(env variables, args ...string) (*Config, error) {
	flags := pflag.NewFlagSet("test", pflag.ContinueOnError)
	cfg := New("test", flags, env.lookup)
	if err := flags.Parse(args); err != nil {
		return nil, err
	}
	if err := cfg.Read(); err != nil {
		return nil, err
	}
	return cfg, cfg.Complete()
}

// must adds what is required.
func must(t *testing.T, env variables, args ...string) *Config {
	t.Helper()
	cfg, err := configured(env, append(args, "--namespace=addons")...)
	if err != nil {
		t.Fatal(err)
	}
	return cfg
}

// B1: flag, then environment, then default.
func TestPrecedence(t *testing.T) {
	for name, c := range map[string]struct {
		env  variables
		args []string
		want string
	}{
		"default":                {nil, nil, "addon-operator"},
		"environment":            {variables{"ADDON_OPERATOR_CONFIG_MAP": "env"}, nil, "env"},
		"flag":                   {nil, []string{"--config-map=flag"}, "flag"},
		"both":                   {variables{"ADDON_OPERATOR_CONFIG_MAP": "env"}, []string{"--config-map", "flag"}, "flag"},
		"flag with the default":  {variables{"ADDON_OPERATOR_CONFIG_MAP": "env"}, []string{"--config-map=addon-operator"}, "addon-operator"},
		"empty variable: absent": {variables{"ADDON_OPERATOR_CONFIG_MAP": ""}, nil, "addon-operator"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := must(t, c.env, c.args...).ConfigMap; got != c.want {
				t.Errorf("got %q, want %q", got, c.want)
			}
		})
	}
}

// B3, B4, B5: all spellings of a variable count; the strongest is the first.
func TestAliases(t *testing.T) {
	field := func(name string) func(*Config) any {
		return func(c *Config) any { return reflect.ValueOf(c).Elem().FieldByName(name).Interface() }
	}
	for option, c := range map[string]struct {
		vars []string
		get  func(*Config) any
	}{
		"modules-dir":               {[]string{"MODULES_DIR", "ADDON_OPERATOR_MODULES_DIR"}, field("ModulesDir")},
		"global-hooks-dir":          {[]string{"GLOBAL_HOOKS_DIR", "ADDON_OPERATOR_GLOBAL_HOOKS_DIR", "SHELL_OPERATOR_HOOKS_DIR"}, field("GlobalHooksDir")},
		"namespace":                 {[]string{"ADDON_OPERATOR_NAMESPACE"}, field("Namespace")},
		"tmp-dir":                   {[]string{"ADDON_OPERATOR_TMP_DIR"}, field("TmpDir")},
		"listen address":            {[]string{"ADDON_OPERATOR_LISTEN_ADDRESS", "SHELL_OPERATOR_LISTEN_ADDRESS"}, field("ListenAddress")},
		"debug-address":             {[]string{"DEBUG_HTTP_SERVER_ADDR"}, field("DebugAddress")},
		"debug-unix-socket":         {[]string{"DEBUG_UNIX_SOCKET"}, field("DebugSocket")},
		"prometheus-metrics-prefix": {[]string{"ADDON_OPERATOR_PROMETHEUS_METRICS_PREFIX", "SHELL_OPERATOR_PROMETHEUS_METRICS_PREFIX"}, field("MetricsPrefix")},
		"kube-config":               {[]string{"KUBE_CONFIG", "KUBECONFIG"}, field("Kubeconfig")},
		"kube-context":              {[]string{"KUBE_CONTEXT"}, field("KubeContext")},
		"kube-server":               {[]string{"KUBE_SERVER"}, field("KubeServer")},
		"the Pod":                   {[]string{"ADDON_OPERATOR_POD"}, field("PodName")},
		"helm-ignore-release":       {[]string{"HELM_IGNORE_RELEASE"}, field("HelmIgnoreRelease")},
		"log-level":                 {[]string{"LOG_LEVEL", "RLOG_LOG_LEVEL"}, field("LogLevel")},
		"log-type":                  {[]string{"LOG_TYPE"}, field("LogType")},
	} {
		t.Run(option, func(t *testing.T) {
			env := variables{}
			for _, name := range slices.Backward(c.vars) { // from the weakest
				env[name] = "from-" + name
				cfg, err := configured(env)
				if err != nil && !strings.Contains(err.Error(), "namespace") {
					t.Fatal(err)
				}
				if got := c.get(cfg); got != env[name] {
					t.Errorf("with %q: got %v", slices.Sorted(maps.Keys(env)), got)
				}
			}
		})
	}
	for _, name := range []string{"UNNUMBERED_MODULES_ORDER", "ADDON_OPERATOR_UNNUMBERED_MODULES_ORDER"} { // A5
		if got := must(t, variables{name: "77"}).Dirs.UnnumberedOrder; got != 77 {
			t.Errorf("%s: order %d", name, got)
		}
	}
}

// B3, X10: what counts when nothing is given.
func TestDefaults(t *testing.T) {
	c := must(t, nil)
	want := []any{
		"/modules", "/global-hooks", "/tmp/addon-operator", "addon-operator",
		"0.0.0.0", 9650, "127.0.0.1:9115", "/var/run/addon-operator/debug.socket",
		"addon_operator_", 100, 200, 10, 20 * time.Minute,
		"info", "heritage=addon-operator", helm.Driver(""),
	}
	got := []any{
		c.ModulesDir, c.GlobalHooksDir, c.TmpDir, c.ConfigMap,
		c.ListenAddress, c.ListenPort, c.DebugAddress, c.DebugSocket,
		c.MetricsPrefix, c.KubeQPS, c.KubeBurst, c.HelmHistoryMax, c.HelmTimeout,
		c.LogLevel, c.CRDLabels, c.HelmDriver,
	}
	if !slices.Equal(got, want) {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
}

// A2: the old single root counts when it is given, and for what is not given itself.
func TestWorkingDir(t *testing.T) {
	for name, c := range map[string]struct {
		env             variables
		args            []string
		modules, global string
	}{
		"not given":         {nil, nil, "/modules", "/global-hooks"},
		"by flag":           {nil, []string{"--working-dir=/old"}, "/old/modules", "/old/global-hooks"},
		"by variable":       {variables{"ADDON_OPERATOR_WORKING_DIR": "/old/"}, nil, "/old/modules", "/old/global-hooks"},
		"its default given": {nil, []string{"--working-dir=/addons"}, "/addons/modules", "/addons/global-hooks"},
		"modules given":     {variables{"MODULES_DIR": "/m"}, []string{"--working-dir=/old"}, "/m", "/old/global-hooks"},
		"both given":        {variables{"MODULES_DIR": "/m", "SHELL_OPERATOR_HOOKS_DIR": "/g"}, []string{"--working-dir=/old"}, "/m", "/g"},
		"several roots":     {nil, []string{"--modules-dir=/a::/b"}, "/a /b", "/global-hooks"},
	} {
		t.Run(name, func(t *testing.T) {
			dirs := must(t, c.env, c.args...).Dirs
			if got := strings.Join(dirs.Modules, " "); got != c.modules || dirs.Global != c.global {
				t.Errorf("got %s and %s, want %s and %s", got, dirs.Global, c.modules, c.global)
			}
		})
	}
}

// B3: old deployments write yes and no.
func TestBooleans(t *testing.T) {
	for text, want := range map[string]bool{"yes": true, "Yes": true, "true": true, "1": true, "on": true, "no": false, "false": false, "0": false, "off": false} {
		if got := must(t, nil, "--debug-keep-tmp-files="+text).KeepTmpFiles; got != want {
			t.Errorf("flag %s: %v", text, got)
		}
		if got := must(t, variables{"DEBUG_KEEP_TMP_FILES": text}).KeepTmpFiles; got != want {
			t.Errorf("variable %s: %v", text, got)
		}
	}
	if !must(t, nil, "--log-no-time").LogNoTime {
		t.Error("a flag without a value means yes")
	}
	if got := must(t, nil, "--debug=yes", "--log-level=error").LogLevel; got != "debug" {
		t.Errorf("--debug=yes: log level %s", got)
	}
}

// Design 7: only these two are switched off by an empty variable.
func TestDebugPagesCanBeSwitchedOff(t *testing.T) {
	for name, c := range map[string]*Config{
		"by variable": must(t, variables{"DEBUG_HTTP_SERVER_ADDR": "", "DEBUG_UNIX_SOCKET": ""}),
		"by flag":     must(t, variables{"DEBUG_HTTP_SERVER_ADDR": "x:1"}, "--debug-address=", "--debug-unix-socket="),
	} {
		if c.DebugAddress != "" || c.DebugSocket != "" {
			t.Errorf("%s: %q, %q", name, c.DebugAddress, c.DebugSocket)
		}
	}
}

// A mistake is reported with the name of what was set.
func TestWrongValues(t *testing.T) {
	for name, c := range map[string]struct {
		env  variables
		args []string
		want []string
	}{
		"no namespace":                   {nil, []string{"--namespace="}, []string{"ADDON_OPERATOR_NAMESPACE", "--namespace"}},                       // B8
		"helm 2":                         {variables{"TILLER_NAMESPACE": "x", "HELM2": "yes"}, nil, []string{"TILLER_NAMESPACE", "HELM2", "Helm 2"}}, // B7
		"a name of a Lease":              {variables{"ADDON_OPERATOR_HA_LEASE_NAME": "mine"}, nil, []string{"ADDON_OPERATOR_HA_LEASE_NAME", "addon-operator-leader-election", "remove it when no operator is running"}},
		"hooks that inherit less":        {variables{"ADDON_OPERATOR_HOOK_ENV": "PATH"}, nil, []string{"ADDON_OPERATOR_HOOK_ENV", "its value is always *,!OTEL_EXPORTER_OTLP_*HEADERS"}},
		"another share of purges":        {variables{"ADDON_OPERATOR_PURGE_SHARE": "10"}, nil, []string{"ADDON_OPERATOR_PURGE_SHARE", "25"}},
		"unserved, and it matters":       {variables{"ADDON_OPERATOR_APPLIED_MODULE_EXTENDERS": "Static,KubeConfig"}, nil, []string{"ADDON_OPERATOR_APPLIED_MODULE_EXTENDERS", "remove it"}},
		"records in a database":          {variables{"HELM_DRIVER": "sql"}, nil, []string{`HELM_DRIVER="sql"`, "not supported", "configmap"}},
		"number":                         {variables{"ADDON_OPERATOR_LISTEN_PORT": "many"}, nil, []string{`ADDON_OPERATOR_LISTEN_PORT="many"`}},
		"duration":                       {variables{"HELM_TIMEOUT": "20"}, nil, []string{`HELM_TIMEOUT="20"`}},
		"boolean":                        {variables{"LOG_NO_TIME": "maybe"}, nil, []string{`LOG_NO_TIME="maybe"`, "true or false"}},
		"grace period":                   {nil, []string{"--grace-period=0s"}, []string{"grace-period"}},
		"requests, none at all":          {nil, []string{"--kube-client-burst=0"}, []string{"kube-client-burst must be 1 or more, not 0"}},
		"history":                        {nil, []string{"--helm-history-max=-1"}, []string{"helm-history-max must be 0 or more"}},
		"no time for Helm":               {nil, []string{"--helm-timeout=0s"}, []string{"helm-timeout must be 1s or more, not 0s"}},
		"prefix of metrics":              {nil, []string{"--prometheus-metrics-prefix=my-"}, []string{"prometheus-metrics-prefix", `"my-"`}},
		"no prefix of metrics":           {nil, []string{"--prometheus-metrics-prefix="}, []string{"prometheus-metrics-prefix"}},
		"labels":                         {nil, []string{"--crd-extra-labels=a=b,c"}, []string{"crd-extra-labels", "[c]"}},
		"everything is reported at once": {variables{"HELM2": "yes"}, []string{"--namespace=", "--grace-period=-1s"}, []string{"HELM2", "namespace", "grace-period"}},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := configured(c.env, append([]string{"--namespace=addons"}, c.args...)...)
			if err == nil {
				t.Fatal("no error")
			}
			for _, want := range c.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("got %v, want %s", err, want)
				}
			}
		})
	}
}

// A weaker variable that is wrong does no harm when a flag or a stronger one counts.
func TestOnlyWhatCountsIsRead(t *testing.T) {
	if got := must(t, variables{"HELM_HISTORY_MAX": "x"}, "--helm-history-max=3").HelmHistoryMax; got != 3 {
		t.Errorf("got %d", got)
	}
	if got := must(t, variables{"ADDON_OPERATOR_LISTEN_PORT": "1", "SHELL_OPERATOR_LISTEN_PORT": "x"}).ListenPort; got != 1 {
		t.Errorf("got %d", got)
	}
}

// Each option names its variables in the help, and no variable stands for two options.
func TestHelpOfOptions(t *testing.T) {
	flags := pflag.NewFlagSet("test", pflag.ContinueOnError)
	owner := map[string]string{}
	for _, o := range New("test", flags, nil).declared {
		if o.set != nil {
			continue // there is no flag
		}
		if o.help == "" {
			t.Errorf("--%s has no help", o.name)
		}
		for name := range strings.FieldsSeq(o.variables) {
			if !strings.Contains(flags.Lookup(o.name).Usage, "$"+name) {
				t.Errorf("the help of --%s does not name %s", o.name, name)
			}
			if other := owner[name]; other != "" {
				t.Errorf("%s stands for --%s and --%s", name, other, o.name)
			}
			owner[name] = o.name
		}
	}
	if len(owner) == 0 {
		t.Error("there are no options")
	}
}

// Other operators have names of their own. Those of one that has hooks but no modules
// stand in for a few of ours and change none of our defaults; nothing is built from the
// others. B4.
func TestVariablesOfOtherOperators(t *testing.T) {
	flags := pflag.NewFlagSet("test", pflag.ContinueOnError)
	var standIns []string
	for _, o := range New("test", flags, nil).declared {
		if o.set != nil {
			continue // there is no flag
		}
		name := o.name
		for i, variable := range strings.Fields(o.variables) {
			switch {
			case strings.HasPrefix(variable, "SHELL_OPERATOR_"):
				standIns = append(standIns, variable)
				if i == 0 {
					t.Errorf("%s is the strongest name of --%s", variable, name)
				}
			case strings.HasPrefix(variable, "D8_"), strings.HasPrefix(variable, "VALIDATING_WEBHOOK_"), strings.HasPrefix(variable, "CONVERSION_WEBHOOK_"):
				t.Errorf("--%s listens to %s", name, variable)
			}
		}
		if value := flags.Lookup(name).DefValue; strings.Contains(value, "shell") {
			t.Errorf("--%s is %s unless set", name, value)
		}
	}
	slices.Sort(standIns)
	want := []string{"SHELL_OPERATOR_HOOKS_DIR", "SHELL_OPERATOR_LISTEN_ADDRESS", "SHELL_OPERATOR_LISTEN_PORT", "SHELL_OPERATOR_PROMETHEUS_METRICS_PREFIX"}
	if !slices.Equal(standIns, want) {
		t.Errorf("stand-ins %q, want %q", standIns, want)
	}
	for name, want := range map[string]string{"prometheus-listen-port": "9650", "prometheus-metrics-prefix": "addon_operator_", "tmp-dir": "/tmp/addon-operator"} {
		if got := flags.Lookup(name).DefValue; got != want {
			t.Errorf("--%s is %s unless set, want %s", name, got, want)
		}
	}
}

// B3, C29, K6: the options of hooks.
func TestHookOptions(t *testing.T) {
	cfg := must(t, variables{
		"ADDON_OPERATOR_HOOK_TIMEOUT": "5m", "JQ_LIBRARY_PATH": "/jq::/more",
		"ADDON_OPERATOR_SHELL_CHROOT_DIR": "/root", "MODULES_DIR": "/root/a:/root/b", "GLOBAL_HOOKS_DIR": "/root/g", "ADDON_OPERATOR_TMP_DIR": "/root/tmp",
	})
	if cfg.HookTimeout != 5*time.Minute || cfg.ChrootDir != "/root" {
		t.Errorf("got %+v", cfg)
	}
	if got := cfg.JQDirs(); !slices.Equal(got, []string{"/jq", "/more"}) {
		t.Errorf("jq library %q", got)
	}
	if cfg := must(t, nil); cfg.HookTimeout != 10*time.Minute || len(cfg.JQDirs()) != 0 {
		t.Errorf("defaults: %+v", cfg)
	}
}

func TestHookOptionsAreRefused(t *testing.T) {
	for situation, test := range map[string]struct {
		args []string
		want string
	}{
		"a negative time limit":         {[]string{"--hook-timeout=-1s"}, "hook-timeout must be 0s or more, not -1s"},
		"modules outside the root":      {[]string{"--shell-chroot-dir=/root", "--modules-dir=/root/m:/m"}, "modules-dir /m must be below shell-chroot-dir /root"},
		"global hooks outside the root": {[]string{"--shell-chroot-dir=/root", "--global-hooks-dir=/rootless"}, "global-hooks-dir /rootless must be below"},
		"files outside the root":        {[]string{"--shell-chroot-dir=/root", "--tmp-dir=/root/../tmp"}, "tmp-dir /root/../tmp must be below"},
	} {
		t.Run(situation, func(t *testing.T) {
			if _, err := configured(nil, append(test.args, "--namespace=n")...); err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("error %v, want %q", err, test.want)
			}
		})
	}
}

// J7: pages with secrets are shown to other machines only when somebody wants it by name.
func TestDebugAddressIsOnLoopback(t *testing.T) {
	for address, ok := range map[string]bool{
		"127.0.0.1:9115": true, "127.1.2.3:0": true, "[::1]:9115": true, "localhost:9115": true, "": true,
		"0.0.0.0:9115": false, ":9115": false, "[::]:9115": false, "10.0.0.1:9115": false, "example.com:9115": false, "9115": false,
	} {
		c := must(t, variables{"DEBUG_HTTP_SERVER_ADDR": address}, "--debug-address="+address)
		if err := c.CheckDebugAddress(); (err == nil) != ok {
			t.Errorf("%q: %v", address, err)
		} else if err != nil && address != "9115" && !strings.Contains(err.Error(), "DEBUG_HTTP_SERVER_ADDR_NOT_LOOPBACK=true") {
			t.Errorf("%q: %v does not name the option", address, err)
		}
		c = must(t, variables{"DEBUG_HTTP_SERVER_ADDR_NOT_LOOPBACK": "true"}, "--debug-address="+address)
		if err := c.CheckDebugAddress(); err != nil {
			t.Errorf("%q, when it is wanted: %v", address, err)
		}
	}
}

// The name and the address in an identity come back whole, whatever they look like.
func TestIdentity(t *testing.T) {
	for _, c := range []struct{ name, address string }{
		{"operator-5d8f-x2x", "10.0.0.7:9650"},
		{"a_host_with_underscores", "[fd00::1]:9650"},
	} {
		identity := NewIdentity(c.name, c.address, "")
		name, address := ParseIdentity(identity)
		if name != c.name || address != c.address {
			t.Errorf("%s became %q, %q", identity, name, address)
		}
		if identity == NewIdentity(c.name, c.address, "") {
			t.Error("two processes have one identity")
		}
		if first, again := NewIdentity(c.name, c.address, "uid"), NewIdentity(c.name, c.address, "uid"); first != again {
			t.Errorf("a container that is restarted in its Pod has the identity %s, and then %s", first, again)
		}
	}
	for _, foreign := range []string{"", "somebody", "some_body"} {
		if name, address := ParseIdentity(foreign); name != foreign || address != "" {
			t.Errorf("%q became %q, %q", foreign, name, address)
		}
	}
}

// In a cluster the Lease is taken, also by a single replica, unless somebody says no. L1.
func TestLeaseIsTakenInACluster(t *testing.T) {
	for name, c := range map[string]struct {
		env  variables
		want bool
	}{
		"with the service account of its Pod":  {variables{}, true},
		"with the name of its Pod":             {variables{"KUBECONFIG": "f", "ADDON_OPERATOR_POD": "p"}, true},
		"on the machine of a person":           {variables{"KUBECONFIG": "f"}, false},
		"there, with several replicas":         {variables{"KUBECONFIG": "f", "ADDON_OPERATOR_HA": "true"}, true},
		"in a Pod, when somebody says no":      {variables{"ADDON_OPERATOR_POD": "p", "ADDON_OPERATOR_HA": "no"}, false},
		"in a Pod, when a template leaves out": {variables{"ADDON_OPERATOR_POD": "p", "ADDON_OPERATOR_HA": ""}, true},
	} {
		t.Run(name, func(t *testing.T) {
			c.env["ADDON_OPERATOR_NAMESPACE"] = "n"
			cfg, err := configured(c.env)
			if err != nil || cfg.HA != c.want {
				t.Errorf("got %v, %v, want %v", cfg.HA, err, c.want)
			}
		})
	}
}

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
		"webhooks":                             {"ADDON_OPERATOR_ADMISSION_SERVER_ENABLED=true", "as a library"},
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

func logged(t *testing.T, c Config) string {
	t.Helper()
	var out bytes.Buffer
	log, _, err := c.Logger(&out, strings.Clone)
	if err != nil {
		t.Fatal(err)
	}
	log.Debug("quiet")
	log.Info("release", "module", "dns", slog.Group("inner", "time", "kept"))
	return out.String()
}

// B3: LOG_TYPE, LOG_LEVEL, LOG_NO_TIME.
func TestLogTypes(t *testing.T) {
	for name, c := range map[string]struct {
		config            Config
		json, color, time bool
	}{
		"json":                    {Config{LogType: "json", LogLevel: "info"}, true, false, true},
		"json without time":       {Config{LogType: "json", LogLevel: "info", LogNoTime: true}, true, false, false},
		"text":                    {Config{LogType: "text", LogLevel: "info"}, false, false, true},
		"text without time":       {Config{LogType: "text", LogLevel: "info", LogNoTime: true}, false, false, false},
		"color":                   {Config{LogType: "color", LogLevel: "info"}, false, true, true},
		"auto without a terminal": {Config{LogType: "auto", LogLevel: "info"}, true, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			out := logged(t, c.config)
			if got := json.Valid([]byte(out)); got != c.json {
				t.Errorf("JSON %v: %s", got, out)
			}
			if got := strings.Contains(out, "\x1b["); got != c.color {
				t.Errorf("color %v: %q", got, out)
			}
			if c.json {
				if got := strings.HasPrefix(out, `{"time":`); got != c.time {
					t.Errorf("time %v: %s", got, out)
				}
			} else if got := !strings.HasPrefix(out, "INF"); got != c.time {
				t.Errorf("time %v: %s", got, out)
			}
			if !strings.Contains(out, "dns") || !strings.Contains(out, "kept") || strings.Contains(out, "quiet") {
				t.Errorf("logged: %s", out)
			}
		})
	}
}

func TestLogLevels(t *testing.T) {
	for level, want := range map[string]string{"debug": "quiet release", "Info": "release", "WARN": "", "error": ""} {
		var got []string
		out := logged(t, Config{LogType: "text", LogLevel: level})
		for _, word := range []string{"quiet", "release"} {
			if strings.Contains(out, word) {
				got = append(got, word)
			}
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%s: logged %q, want %q", level, got, want)
		}
	}
}

func TestWrongLogOptions(t *testing.T) {
	for want, c := range map[string]Config{"log-level": {LogType: "text", LogLevel: "loud"}, "log-type": {LogType: "xml", LogLevel: "info"}} {
		_, _, err := c.Logger(&bytes.Buffer{}, strings.Clone)
		var usage UsageError
		if !errors.As(err, &usage) || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}
