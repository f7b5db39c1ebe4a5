package operator

import (
	"os"
	"path/filepath"
	"slices"
	"strings"

	"addon-operator/cmd/cli"
	"addon-operator/hooks"
	"addon-operator/kube"
)

// PinCluster makes the operator, and kubectl in hooks, use one context and server, also when the kubeconfig has another current
// context, or gets one later. It writes its part into the new file. The result is $KUBECONFIG for hooks: kubectl takes the
// current context, and each cluster, from the first file that has it, and all else from the files behind it.
func PinCluster(c *cli.Config, target kube.Target, file string) (kubeconfig string, err error) {
	if c.Kubeconfig, err = absolute(target.Kubeconfig); err != nil {
		return "", err
	}
	c.KubeContext = target.Context
	return file + string(filepath.ListSeparator) + c.Kubeconfig, os.WriteFile(file, target.Pin, 0o600)
}

// absolute gives a list of files the absolute paths: hooks run in other directories.
func absolute(files string) (string, error) {
	list := slices.DeleteFunc(filepath.SplitList(files), func(file string) bool { return file == "" })
	for i, file := range list {
		var err error
		if list[i], err = filepath.Abs(file); err != nil {
			return "", err
		}
	}
	return strings.Join(list, string(filepath.ListSeparator)), nil
}

// shareCluster makes hooks use the cluster of the operator, if that comes from a kubeconfig: without this, one that is given by
// an option would be unknown to them, and so would a context or a server. In a Pod both use its service account. done removes
// what was written; the next operator does so for one that is killed.
func shareCluster(c *cli.Config, runner *hooks.Runner, setKubeconfig func(string) error) (done func(), err error) {
	done = func() {}
	if setKubeconfig == nil || c.Kubeconfig == "" {
		return done, nil
	}
	if c.KubeContext == "" && c.KubeServer == "" { // kubectl finds the rest in the files
		kubeconfig, err := absolute(c.Kubeconfig)
		if err != nil {
			return done, err
		}
		return done, setKubeconfig(kubeconfig)
	}
	target, err := kube.FindTarget(kube.Options{Kubeconfig: c.Kubeconfig, Context: c.KubeContext, Server: c.KubeServer})
	if err != nil {
		return done, err
	}
	dir, err := runner.MakeDir("kubeconfig")
	if err != nil {
		return done, err
	}
	done = func() { _ = os.RemoveAll(dir) } // what stays is removed at the next start
	kubeconfig, err := PinCluster(c, target, filepath.Join(dir, "context"))
	if err != nil {
		return done, err
	}
	return done, setKubeconfig(kubeconfig)
}
