package devclustertest

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"
)

// binDir is where programs lie, below the root of the repository.
const binDir = "bin"

// program says how a program of bin/ is built. The Makefile builds the same
// ones with the same flags: with others, Go would compile Kubernetes again.
type program struct {
	name    string
	module  string   // folder with the module that provides it
	sources string   // glob below module: a newer file makes the program stale
	args    []string // of go build
	ldflags string   // file below module with linker flags, or ""
}

func devclusterProgram() program {
	return program{name: "devcluster", module: "testkit/devcluster", sources: "*", args: []string{"."}, ldflags: "ldflags"}
}

func kubectlProgram() program {
	return program{name: "kubectl", module: "testkit/devcluster", sources: "go.*", args: []string{"k8s.io/kubernetes/cmd/kubectl"}, ldflags: "ldflags"}
}

func jqProgram() program {
	return program{name: "jq", module: "testkit/devcluster", sources: "go.*", args: []string{"github.com/itchyny/gojq/cmd/gojq"}, ldflags: "ldflags"}
}

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

// build makes bin/NAME when it is missing or older than its sources. Test
// binaries of several packages come here at the same time; a file lock lets
// one of them work and the others find the result.
func build(root string, p program) error {
	bin := filepath.Join(root, binDir)
	if err := os.MkdirAll(bin, 0o755); err != nil {
		return err
	}
	unlock, err := lockFile(filepath.Join(bin, "."+p.name+".lock"))
	if err != nil {
		return err
	}
	defer unlock()
	target := filepath.Join(bin, p.name)
	fresh, err := upToDate(target, filepath.Join(root, p.module, p.sources))
	if err != nil || fresh {
		return err
	}
	return goBuild(root, target, p)
}

func goBuild(root, target string, p program) error {
	module := filepath.Join(root, p.module)
	args := []string{"build", "-C", module, "-buildvcs=false", "-o", target}
	if p.ldflags != "" {
		flags, err := os.ReadFile(filepath.Join(module, p.ldflags))
		if err != nil {
			return err
		}
		args = append(args, "-ldflags", strings.TrimSpace(string(flags)))
	}
	command := exec.Command("go", append(args, p.args...)...)
	command.Env = append(os.Environ(), "CGO_ENABLED=0")
	if output, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("building bin/%s: %w\n%s", p.name, err, output)
	}
	// go build leaves a file alone that would not change; its time has to say
	// that it was looked at.
	now := time.Now()
	return os.Chtimes(target, now, now)
}

// upToDate tells whether target exists and no file of the glob is newer.
func upToDate(target, sources string) (bool, error) {
	built, err := os.Stat(target)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	paths, err := filepath.Glob(sources)
	if err != nil {
		return false, err
	}
	for _, path := range paths {
		info, err := os.Stat(path)
		if err != nil {
			return false, err
		}
		if info.ModTime().After(built.ModTime()) {
			return false, nil
		}
	}
	return true, nil
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
