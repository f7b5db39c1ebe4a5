package local

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"addon-operator/cmd/cli"
	"addon-operator/kube/apiserver"
	"addon-operator/kube/fields"
)

// memoryVersion is the Kubernetes version that the API server in memory reports: the one
// whose libraries this program is built with.
const memoryVersion = fields.Newest

// memoryCluster are the flags of the command apiserver.
type memoryCluster struct {
	dir    string
	parent int // process ID; 0 for none
}

// APIServer serves a cluster in memory to kubectl and to another operator process.
func APIServer() *cobra.Command {
	m := &memoryCluster{}
	cmd := &cobra.Command{
		Use: "apiserver", Short: "Serve a Kubernetes API from memory, to try out modules", Args: cli.NoArgs,
		Long: `Serves the Kubernetes API on loopback from memory and writes DIR/kubeconfig. The objects end with it.
It stores, lists, watches and patches every kind. It has no admission, defaults, validation by schema, access control
or controllers: a Deployment gets no Pods, but counts as running. 'make run CLUSTER=real' starts a real API server.`,
		Example:           "  addon-operator apiserver --dir /tmp/cluster",
		PersistentPreRunE: func(*cobra.Command, []string) error { return nil }, // no option of the operator applies
		RunE:              func(cmd *cobra.Command, _ []string) error { return m.serve(cmd) },
	}
	f := cmd.Flags()
	f.StringVar(&m.dir, "dir", "", "directory for the kubeconfig (required)")
	f.IntVar(&m.parent, "parent-pid", 0, "exit when the process with this ID ends; 0: run until SIGTERM or SIGINT")
	return cmd
}

// serve runs the server until wait returns. It listens on loopback
// only, and requires the token in its kubeconfig: other users of the machine reach its port, too.
func (m *memoryCluster) serve(cmd *cobra.Command) error {
	if m.dir == "" {
		return cli.Usagef("--dir is required: the directory for the kubeconfig")
	}
	if err := os.MkdirAll(m.dir, 0o700); err != nil {
		return err
	}
	dir, err := filepath.Abs(m.dir)
	if err != nil {
		return err
	}
	server := apiserver.New(memoryVersion)
	// Without controllers no Deployment would ever be ready, and no module either.
	server.RunWorkloads()
	if err := server.Start(); err != nil {
		return err
	}
	defer server.Close()
	kubeconfig := filepath.Join(dir, "kubeconfig")
	if err := server.WriteKubeconfig(kubeconfig, "default"); err != nil {
		return err
	}
	fmt.Fprintf(cmd.OutOrStdout(), "API server ready, in memory: KUBECONFIG=%s server=%s version=%s\n", kubeconfig, server.URL(), memoryVersion)
	m.wait(cmd.Context())
	return nil
}

// wait returns when the context has ended or the parent process is gone. A process learns nothing
// of the end of another one that may not be its parent, so wait looks four times a second.
func (m *memoryCluster) wait(ctx context.Context) {
	tick := time.NewTicker(250 * time.Millisecond)
	defer tick.Stop()
	for m.parent == 0 || !errors.Is(syscall.Kill(m.parent, 0), syscall.ESRCH) {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}
