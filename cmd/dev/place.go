package dev

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"addon-operator/addons"
	"addon-operator/cmd/cli"
	"addon-operator/cmd/operator"
	"addon-operator/deploy"
	"addon-operator/kube"
	"addon-operator/kube/apiserver"
	"addon-operator/kube/fields"
	"addon-operator/kube/objectpatch"

	"addon-operator/values"
)

// The operator uses these namespaces unless one is given. The one for a real cluster is no name
// that an installed operator has by default.
const (
	memoryNamespace  = "addon-operator"
	clusterNamespace = "addon-operator-dev"
)

// place is where the operator runs: its directories, its cluster, and a directory for all that is
// removed at the end. It is prepared before the session starts, and not changed afterwards.
type place struct {
	tmp     string
	what    string      // the directory, for people
	cluster string      // the same
	only    string      // the name of the one module; empty for all below the directory
	written addons.Dirs // where people write; the operator has links to a module that is alone
	// kubeconfig is $KUBECONFIG for hooks and for a second terminal, which may be a list of files.
	kubeconfig string
	// memory is the cluster in memory; nil for a real one.
	memory *apiserver.Server
	done   func() // removes global hooks that stand for missing ones
}

// prepare makes a place and sets the options that depend on the directory in args. The caller closes
// the place.
func prepare(c *cli.Config, args []string) (p *place, err error) {
	p = &place{done: func() {}}
	if p.tmp, err = os.MkdirTemp("", "addon-operator-dev-"); err != nil {
		return nil, err
	}
	if err := p.directories(c, args); err != nil {
		return nil, errors.Join(err, p.close())
	}
	p.options(c)
	return p, nil
}

// close ends the cluster in memory, and removes all that is temporary.
func (p *place) close() error {
	if p.memory != nil {
		_ = p.memory.Close() // of a cluster that is gone
	}
	p.done()
	return os.RemoveAll(p.tmp)
}

// directories sets the directories of modules and global hooks to those of the argument.
func (p *place) directories(c *cli.Config, args []string) error {
	only, done, err := c.UseDirectory(args)
	p.what, p.written, p.done = strings.Join(c.Dirs.Modules, ":"), c.Dirs, done
	if err == nil && only != "" {
		p.what = only
		err = p.link(c, only)
	}
	return err
}

// link makes a directory of modules that holds only a link to one module, and the values for all
// modules next to it. The operator then has no other module, and writes nothing into the
// directory of the author.
func (p *place) link(c *cli.Config, module string) error {
	root := filepath.Join(p.tmp, "modules")
	err := os.Mkdir(root, 0o700)
	if err == nil {
		err = os.Symlink(module, filepath.Join(root, filepath.Base(module)))
	}
	// A link, so that an edit of the file counts; one that is made later is not noticed.
	common := filepath.Join(filepath.Dir(module), "values.yaml")
	if _, there := os.Stat(common); err == nil && there == nil {
		err = os.Symlink(common, filepath.Join(root, "values.yaml"))
	}
	p.only, c.Dirs.Modules, c.ModulesDir = moduleName(module), []string{root}, root
	return err
}

// real replaces the temporary path of a single module by its path in the directory of the author.
func (p *place) real(text string) string {
	if p.only == "" {
		return text
	}
	return strings.ReplaceAll(text, filepath.Join(p.tmp, "modules"), p.written.Modules[0])
}

// options sets defaults for a session; what a flag or variable gives stays. Files of a session are
// temporary, ports are closed to other machines, and one failing module does not stop the others.
func (p *place) options(c *cli.Config) {
	set := func(option string, set func()) {
		if !c.Given(option) {
			set()
		}
	}
	set("tmp-dir", func() { c.TmpDir = filepath.Join(p.tmp, "hooks") })
	set("debug-unix-socket", func() { c.DebugSocket = filepath.Join(p.tmp, "debug.socket") })
	set("prometheus-listen-address", func() { c.ListenAddress = "127.0.0.1" })
	set("module-failure-policy", func() { c.FailurePolicy = "isolate" })
	c.WatchModules = true // whatever a variable sets: that is the purpose of the command
	set("grace-period", func() { c.GracePeriod = 5 * time.Second })
	c.LogType, c.LogNoTime, c.LogProxyHook = "json", false, false // it is read here
}

// withPorts returns a copy of the configuration with ports that are free at this moment, so that
// several sessions run at once. Another process may take them before the operator listens; the
// session then tries again. Given ports stay.
func withPorts(c *cli.Config) *cli.Config {
	now := *c
	if !c.Given("prometheus-listen-port") {
		now.ListenPort = freePort(c.ListenPort)
	}
	if !c.Given("debug-address") {
		now.DebugAddress = net.JoinHostPort("127.0.0.1", strconv.Itoa(freePort(debugPort)))
	}
	return &now
}

// debugPort is the port of the debug address that commands ask by default (X10), so that they find
// the first session of a machine without an option.
const debugPort = 9115

// freePort returns a port of this machine that is free: the wanted one, if it is.
func freePort(wanted int) int {
	for _, port := range []int{wanted, 0} {
		l, err := net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		if err == nil {
			port = l.Addr().(*net.TCPAddr).Port
			_ = l.Close()
			return port
		}
	}
	return wanted // the start reports the mistake
}

// inMemory starts a cluster in memory, on a port with TLS and a token, and writes a kubeconfig for
// it.
func (p *place) inMemory(c *cli.Config) error {
	c.Namespace = cmp.Or(c.Namespace, memoryNamespace)
	p.memory = apiserver.New(fields.Newest)
	p.memory.RunWorkloads() // else no module with a Deployment gets ready
	// Modules are shown, and take requests, as in a cluster with the chart of the operator.
	definition, err := values.ParseYAML(deploy.ModuleCRD)
	if err != nil {
		return err
	}
	if err := p.memory.Apply(definition.(map[string]any)); err != nil {
		return err
	}
	if err := p.memory.Start(); err != nil {
		return err
	}
	c.WebhookAddress = cmp.Or(c.WebhookAddress, "127.0.0.1:0") // modules with webhooks run; this cluster calls none
	c.Kubeconfig, c.KubeContext, c.KubeServer = filepath.Join(p.tmp, "kubeconfig"), "", ""
	p.kubeconfig = c.Kubeconfig
	p.cluster = "a cluster in memory, without admission or defaults; workloads count as running"
	return p.memory.WriteKubeconfig(c.Kubeconfig, c.Namespace)
}

// current uses the cluster of the kubeconfig, if a person agrees (yes), and shows which one it is. It
// only reads from the cluster. named: the namespace was given on the command line.
func (p *place) current(ctx context.Context, c *cli.Config, out io.Writer, yes, named bool) error {
	if !named { // a variable of another operator does not name the place where this one writes
		c.Namespace = clusterNamespace
	}
	target, err := kube.FindTarget(kube.Options{Kubeconfig: c.Kubeconfig, Context: c.KubeContext, Server: c.KubeServer})
	if err != nil {
		return fmt.Errorf("--cluster: %w", err)
	}
	if !c.Given("ha") {
		c.HA = true // the next one sees this one by its Lease
	}
	p.cluster = fmt.Sprintf("context %s, %s", target.Context, target.Server)
	if p.kubeconfig, err = operator.PinCluster(c, target, filepath.Join(p.tmp, "context")); err != nil {
		return err
	}
	fmt.Fprintf(out, `Your cluster: %s
The operator runs on this machine, with your permissions. It writes its ConfigMap and releases into the
namespace %s, and whatever the modules of %s write elsewhere.
`, p.cluster, c.Namespace, p.what)
	if err := look(ctx, c, out); err != nil {
		return err
	}
	if !yes {
		return errors.New("--cluster writes to that cluster: confirm with --yes; nothing was written")
	}
	return nil
}

// lookLimit is the timeout of the check whether another operator uses the namespace.
const lookLimit = 30 * time.Second

// look refuses a namespace in which another operator runs, because two operators undo each other's
// work, and prints what this one would take over.
func look(ctx context.Context, c *cli.Config, out io.Writer) error {
	client, err := kube.Connect(kube.Options{Kubeconfig: c.Kubeconfig, Context: c.KubeContext, Server: c.KubeServer})
	if err != nil {
		return err
	}
	limited, cancel := context.WithTimeout(ctx, lookLimit)
	defer cancel()
	holder, left, err := client.LeaseHolder(limited, c.Namespace, cli.LeaseName)
	if err != nil {
		return fmt.Errorf("--cluster: %w; nothing was written", err)
	}
	if holder != "" {
		return fmt.Errorf("--cluster: another operator runs in the namespace %s: %s holds the Lease %s; stop it, name another namespace with --namespace or, if it was killed, wait %s; nothing was written",
			c.Namespace, holder, cli.LeaseName, left.Round(time.Second))
	}
	now, err := client.ConfigMap(c.Namespace, c.ConfigMap).Read(limited)
	if err != nil {
		return fmt.Errorf("--cluster: %w; nothing was written", err)
	}
	if len(now.Data) > 0 {
		fmt.Fprintf(out, "The ConfigMap %s exists already, and the operator continues with it. Releases without a module here may be purged.\n", c.ConfigMap)
	}
	return nil
}

// setUp makes the namespace and the ConfigMap, and enables a module that is alone, whose flag may
// be in no file: modules are disabled by default (E2). What the ConfigMap holds stays.
func (p *place) setUp(ctx context.Context, c *cli.Config) error {
	client, err := kube.Connect(kube.Options{Kubeconfig: c.Kubeconfig, Context: c.KubeContext, Server: c.KubeServer})
	if err != nil {
		return err
	}
	text := fmt.Appendf(nil, `{"operation": "CreateIfNotExists", "object": {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": %[1]q}}}
{"operation": "CreateIfNotExists", "object": {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"namespace": %[1]q, "name": %[2]q}}}
`, c.Namespace, c.ConfigMap)
	if p.only != "" {
		key, err := values.Key(p.only)
		if err != nil {
			return err
		}
		text = fmt.Appendf(text, `{"operation": "MergePatch", "kind": "ConfigMap", "namespace": %q, "name": %q, "mergePatch": {"data": {%q: "true"}}}`,
			c.Namespace, c.ConfigMap, values.FlagKey(key))
	}
	patches, err := objectpatch.Parse(text)
	if err == nil {
		_, err = client.ApplyObjectPatches(ctx, patches)
	}
	if err != nil {
		return fmt.Errorf("prepare the namespace %s: %w", c.Namespace, err)
	}
	return nil
}
