package operator

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"addon-operator/cmd/cli"
	"addon-operator/kube"
)

// PinCluster makes the operator, and kubectl in hooks, use one context and server, also when the kubeconfig has another current
// context, or gets one later. It writes its part into the new file. The result is $KUBECONFIG for hooks: kubectl takes the
// current context, and each cluster, from the first file that has it, and all else from the files behind it.
func PinCluster(c *cli.Config, target kube.Target, file string) (kubeconfig string, err error) {
	own := slices.DeleteFunc(filepath.SplitList(target.Kubeconfig), func(file string) bool { return file == "" })
	for i, file := range own {
		if own[i], err = filepath.Abs(file); err != nil { // hooks run in other directories
			return "", err
		}
	}
	const and = string(filepath.ListSeparator)
	c.Kubeconfig, c.KubeContext = strings.Join(own, and), target.Context
	return strings.Join(append([]string{file}, own...), and), os.WriteFile(file, target.Pin, 0o600)
}

// shareCluster makes hooks use the cluster of the operator, if that comes from a kubeconfig: without this, one that is given by
// an option would be unknown to them, and so would a context. In a Pod both use its service account. done removes what was
// written.
func shareCluster(c *cli.Config) (done func(), err error) {
	done = func() {}
	if c.Kubeconfig == "" {
		return done, nil
	}
	target, err := kube.FindTarget(kube.Options{Kubeconfig: c.Kubeconfig, Context: c.KubeContext, Server: c.KubeServer})
	if err != nil {
		return done, err
	}
	dir, err := os.MkdirTemp("", "addon-operator-kubeconfig-")
	if err != nil {
		return done, err
	}
	done = func() { _ = os.RemoveAll(dir) } // it holds no credentials
	kubeconfig, err := PinCluster(c, target, filepath.Join(dir, "context"))
	if err != nil {
		return done, err
	}
	return done, os.Setenv("KUBECONFIG", kubeconfig)
}
