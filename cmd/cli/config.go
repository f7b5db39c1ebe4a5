package cli

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/labels"

	"addon-operator/addons"
	"addon-operator/helm"
	"addon-operator/hooks"
	"addon-operator/kube"
	"addon-operator/values"
)

// Config is everything that can be set from outside. It has three stages. New declares
// the flags. Read, after the command line was parsed, takes the environment for options without a
// flag, and derives directories; from then on all commands may use it. Complete derives the rest
// and checks all of it, for commands that act as the operator would.
type Config struct {
	Plugin bool // kubectl runs this program as a command of its own

	// The directories of modules, and how they run.
	ModulesDir, GlobalHooksDir, WorkingDir string
	UnnumberedOrder, ParallelModules       int
	FailurePolicy                          string
	WatchModules                           bool
	// The sources of values, and the files that hooks read and write.
	Namespace, ConfigMap, Secret, TmpDir string
	StartWithLastValid, KeepTmpFiles     bool
	// The addresses of the operator, and what it serves there.
	ListenAddress, DebugAddress, DebugSocket, MetricsPrefix string
	ListenPort                                              int
	DebugAnyone, SecureMetrics                              bool
	// Where the API server asks hooks.
	WebhookAddress, WebhookService, WebhookCertsDir, WebhookClientCA string
	// The API server.
	Kubeconfig, KubeContext, KubeServer string
	KubeQPS, KubeBurst                  int
	// Hooks.
	HookTimeout          time.Duration
	ChrootDir, JQLibrary string
	// Releases and the definitions of modules.
	HelmDriver                                   helm.Driver
	HelmHistoryMax                               int
	HelmTimeout                                  time.Duration
	HelmIgnoreRelease, CRDLabels, CRDSkip, Drift string
	AllowPurge                                   bool
	// The log and the end.
	LogLevel, LogType             string
	LogNoTime, LogProxyHook, Loud bool
	GracePeriod                   time.Duration
	// Several replicas. PodName is the name of the operator's Pod, on which it records Events, and of the replica in the
	// Lease. Without one, all Events are on the ConfigMap, and the replica has the name of the host. Without PodUID a
	// container that is restarted waits until its own Lease expires.
	HA              bool
	PodName, PodUID string

	// Dirs follow from the options; set by Read.
	Dirs addons.Dirs
	// Version of the program.
	Version string

	declared []option // made once: each points to a field of this Config
	flags    *pflag.FlagSet
	lookup   func(string) (string, bool) // reads an environment variable
}

// Program is how people call this program, for commands that are proposed to them.
func (c *Config) Program() string {
	if c.Plugin {
		return "kubectl addon"
	}
	return "addon-operator"
}

// Complete derives what follows from other options and checks the whole. The error joins all
// mistakes, so that a person can correct them at once. Calling it twice does no harm.
func (c *Config) Complete() error {
	if !c.Given("ha") {
		c.HA = c.HA || c.Kubeconfig == "" || c.PodName != "" // L1; 'dev --cluster' has set it
	}
	if !c.Given("watch-modules") {
		c.WatchModules = c.Kubeconfig != "" // P8
	}
	if c.Loud {
		c.LogLevel = "debug"
	}
	return c.check()
}

// CheckDebugAddress refuses to show debug pages to others than this machine, unless an option
// allows that by name (J7). It is no part of Complete: commands may ask an operator at any address.
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
	return fmt.Errorf("debug-address %s is not on loopback: every client that reaches it can read values with their secrets and change the log level; use 127.0.0.1, the unix socket and kubectl exec or port-forward, or set DEBUG_HTTP_SERVER_ADDR_NOT_LOOPBACK=true", c.DebugAddress)
}

// completeDirs derives the directories. A directory that is given itself wins over working-dir.
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

// checkWebhooks refuses an address that no API server can call, and options without one.
func (c *Config) checkWebhooks() error {
	if c.WebhookAddress == "" {
		if c.WebhookService+c.WebhookCertsDir+c.WebhookClientCA != "" {
			return errors.New("webhook-service, webhook-certs-dir and webhook-client-ca need webhook-address")
		}
		return nil
	}
	host, _, err := net.SplitHostPort(c.WebhookAddress)
	if ip := net.ParseIP(host); err == nil && c.WebhookService == "" && (host == "" || ip != nil && ip.IsUnspecified()) {
		return fmt.Errorf("webhook-address %s: the API server calls it, so name a host, or a Service with webhook-service", c.WebhookAddress)
	}
	if err != nil {
		return fmt.Errorf("webhook-address: %w", err)
	}
	return nil
}

// checkChroot reports the directories that hooks need and could not see below their root directory.
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
				errs = append(errs, fmt.Errorf("%s %s must be below shell-chroot-dir %s, which hooks cannot leave", option, dir, root))
			}
		}
	}
	return errors.Join(errs...)
}

// JQDirs are the directories of JQLibrary, without empty elements.
func (c *Config) JQDirs() []string {
	return slices.DeleteFunc(filepath.SplitList(c.JQLibrary), func(dir string) bool { return dir == "" })
}

// CRDPrefixes are how names of files in crds/ begin that are no definitions.
func (c *Config) CRDPrefixes() []string {
	return strings.FieldsFunc(c.CRDSkip, func(r rune) bool { return r == ',' || r == ' ' })
}

// SecretName is the name of the Secret with values.
func (c *Config) SecretName() string { return cmp.Or(c.Secret, c.ConfigMap) }

// CRDOptions are the options for the definitions of modules. Call it after Complete.
func (c *Config) CRDOptions() kube.CRDOptions {
	labels, _ := labels.ConvertSelectorToLabelsMap(c.CRDLabels) // Complete checks it
	return kube.CRDOptions{Labels: labels, SkipPrefixes: c.CRDPrefixes()}
}

// UseDirectory sets the directories of modules and of global hooks to those of the argument of a
// command for authors; without one to those of the options, or the current directory: the default
// of the options, /modules, is meant where it exists, in the image of an operator. Loading needs a
// directory of global hooks (B8), but many repositories have only modules: if no option names one, and
// it does not exist, an empty one takes its place, which done removes. only is the directory of a module
// that is checked alone; empty for all.
func (c *Config) UseDirectory(args []string) (only string, done func(), err error) {
	done = func() {}
	if len(args) == 0 && !c.Given("modules-dir") && !c.Given("working-dir") && !IsDir(c.Dirs.Modules[0]) {
		args = []string{"."}
	}
	if len(args) > 0 {
		given := c.Dirs
		if c.Dirs, only, err = Directories(args[0], given); err != nil {
			return "", done, err
		}
		if c.Given("global-hooks-dir") {
			c.Dirs.Global = given.Global
		}
	}
	if !c.Given("global-hooks-dir") && !IsDir(c.Dirs.Global) {
		empty, err := os.MkdirTemp("", "addon-operator-global-hooks-")
		if err != nil {
			return "", done, err
		}
		c.Dirs.Global, done = empty, func() { _ = os.Remove(empty) } // a directory in the temporary one is no reason to fail
	}
	c.ModulesDir, c.GlobalHooksDir = strings.Join(c.Dirs.Modules, ":"), c.Dirs.Global
	return only, done, nil
}

// ReadValues reads the files of an option --values: trees with the sections as keys, in their order.
func ReadValues(files []string) (all []any, err error) {
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("--values: %w", err)
		}
		tree, err := values.ParseYAML(data)
		if err != nil {
			return nil, fmt.Errorf("--values: %s: %w", file, err)
		}
		all = append(all, tree)
	}
	return all, nil
}

// Directories finds out what a directory is: it has modules/, it has modules in it, or it is a
// module, which is then returned as only, with its parent as the directory of modules. Global hooks
// are expected next to the directory of modules. given has the other settings, such as the order of
// modules without a number.
func Directories(dir string, given addons.Dirs) (dirs addons.Dirs, only string, err error) {
	dir, err = filepath.Abs(dir)
	if err != nil {
		return given, "", err
	}
	if info, err := os.Stat(dir); err != nil {
		return given, "", err
	} else if !info.IsDir() {
		return given, "", Usagef("%s is not a directory", dir)
	}
	modules := dir
	switch {
	case IsDir(filepath.Join(dir, "modules")):
		modules = filepath.Join(dir, "modules")
	case isModule(dir):
		modules, only = filepath.Dir(dir), dir
	}
	given.Modules = []string{modules}
	given.Global = filepath.Join(filepath.Dir(modules), "global-hooks")
	return given, only, nil
}

// isModule reports whether a directory has something that only a module has. A directory with none
// of these is taken for one of modules.
func isModule(dir string) bool {
	for _, name := range []string{"Chart.yaml", "module.yaml", "enabled", "openapi", "hooks", "templates", "chart", "crds", "tests"} {
		if _, err := os.Stat(filepath.Join(dir, name)); err == nil {
			return true
		}
	}
	return false
}

// IsDir reports whether there is a directory.
func IsDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}

// ReadConfigMap reads the data of a ConfigMap from a manifest, or from a file that holds only the
// data. An empty path, and a manifest without data, give nil.
func ReadConfigMap(path string) (map[string]string, error) {
	if path == "" {
		return nil, nil
	}
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read the proposed ConfigMap: %w", err)
	}
	tree, err := values.ParseYAML(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	content, ok := tree.(map[string]any)
	if _, isMap := content["data"].(map[string]any); isMap && content["kind"] == nil {
		return nil, fmt.Errorf("%s: it looks like a manifest without kind; add \"kind: ConfigMap\", or write only what is below data", path)
	}
	if kind, isManifest := content["kind"]; ok && isManifest {
		if kind != "ConfigMap" {
			return nil, fmt.Errorf("%s: kind is %v, not ConfigMap", path, kind)
		}
		data := content["data"]
		if data == nil {
			return nil, nil
		}
		content, ok = data.(map[string]any)
	}
	if !ok {
		return nil, fmt.Errorf("%s: it must be the manifest of a ConfigMap, or its data: a map of keys to strings", path)
	}
	// YAML makes numbers and maps of texts that look like them, which the API server would refuse, too.
	data := make(map[string]string, len(content))
	var errs []error
	for key, value := range content {
		text, ok := value.(string)
		if !ok {
			errs = append(errs, fmt.Errorf("%s: data.%s is not a string; write a vertical bar after the colon (%s: |) or quotes", path, key, key))
			continue
		}
		data[key] = text
	}
	return data, errors.Join(errs...)
}
