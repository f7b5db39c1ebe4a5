package devclustertest

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
)

// binDir is where programs are built, below the root of the repository.
const binDir = "bin"

// What .ci/build can build.
const (
	buildCluster = "cluster"
	buildTools   = "tools" // kubectl and jq
)

// KubernetesEnv is the environment variable that names the minor version of Kubernetes, as 1.34,
// that clusters of tests run; without it they run the one that the operator's client library was
// made for.
const KubernetesEnv = "KUBERNETES"

// ofVersion adds the version of $KUBERNETES to the name of what is built or run.
func ofVersion(name string) string {
	if version := os.Getenv(KubernetesEnv); version != "" {
		return name + "-" + version
	}
	return name
}

// clusterProgram is the program of the cluster, below bin.
func clusterProgram() string { return ofVersion("devcluster") }

// repositoryRoot walks up from the working directory (a test's is its package)
// to the go.mod of the module addon-operator.
func repositoryRoot() (string, error) {
	start, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for dir := start; ; dir = filepath.Dir(dir) {
		data, err := os.ReadFile(filepath.Join(dir, "go.mod"))
		if err == nil && modulePath(data) == "addon-operator" {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			return "", fmt.Errorf("no go.mod of the module addon-operator in %s or above", start)
		}
	}
}

// modulePath returns the path on the module line of a go.mod.
func modulePath(gomod []byte) string {
	for line := range bytes.Lines(gomod) {
		if path, ok := strings.CutPrefix(strings.TrimSpace(string(line)), "module "); ok {
			return strings.TrimSpace(path)
		}
	}
	return ""
}

// build makes what is missing in bin/ or older than its sources, as `make devcluster` does,
// with the same flags. Test binaries of several packages come here at the same time; a file
// lock lets one of them work and the others find the result.
func build(root, what string) error {
	bin := filepath.Join(root, binDir)
	if err := os.MkdirAll(bin, 0o755); err != nil {
		return err
	}
	unlock, err := lockFile(filepath.Join(bin, ".build.lock"))
	if err != nil {
		return err
	}
	defer unlock()
	if output, err := exec.Command("bash", filepath.Join(root, ".ci", "build"), what).CombinedOutput(); err != nil {
		return fmt.Errorf("building the %s of tests: %w\n%s", what, err, output)
	}
	return nil
}

// lockFile waits for the lock of the file and takes it. It falls with the
// process, so a killed test leaves nothing behind that blocks the next.
func lockFile(path string) (unlock func(), err error) {
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	for {
		err = syscall.Flock(int(file.Fd()), syscall.LOCK_EX)
		if !errors.Is(err, syscall.EINTR) {
			break
		}
	}
	if err != nil {
		file.Close()
		return nil, fmt.Errorf("locking %s: %w", path, err)
	}
	return func() { file.Close() }, nil
}
