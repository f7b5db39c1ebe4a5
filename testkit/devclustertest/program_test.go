package devclustertest

import (
	"bufio"
	"context"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// What the program promises at its command line, beyond what Cluster uses.

func TestProgramFromItsStartToItsEnd(t *testing.T) {
	OnlyInFull(t)
	cluster := StartOwn(t)
	want := regexp.MustCompile(`^devcluster ready: KUBECONFIG=` + regexp.QuoteMeta(cluster.Kubeconfig()) +
		` server=https://127\.0\.0\.1:[0-9]+ version=v1\.[0-9]+\.[0-9]+$`)
	if line := cluster.process.ready; !want.MatchString(line) {
		t.Errorf("ready line %q does not match %s", line, want)
	}

	t.Run("a second one is refused the directory", func(t *testing.T) {
		out, err := devcluster(cluster, "--dir", cluster.dir).CombinedOutput()
		if code := exitCode(err); code != 1 || !strings.Contains(string(out), "in use by a running devcluster") {
			t.Errorf("exit code %d, message %q", code, out)
		}
	})
	t.Run("a taken port is refused", func(t *testing.T) {
		_, port, _ := net.SplitHostPort(address(cluster))
		out, err := devcluster(cluster, "--dir", t.TempDir(), "--port", port).CombinedOutput()
		if code := exitCode(err); code != 1 || !strings.Contains(string(out), "--port "+port) {
			t.Errorf("exit code %d, message %q", code, out)
		}
	})
	t.Run("its files are for the owner alone", func(t *testing.T) {
		err := filepath.WalkDir(cluster.dir, func(path string, entry os.DirEntry, err error) error {
			if err != nil || path == cluster.dir { // t.TempDir's own mode
				return err
			}
			info, err := entry.Info()
			if errors.Is(err, os.ErrNotExist) {
				return nil // etcd's temporary files
			}
			if err == nil && info.Mode().Perm()&0o077 != 0 {
				t.Errorf("%s has mode %v", path, info.Mode())
			}
			return err
		})
		must(t, err)
	})
	maps := clientFor(t, cluster.RESTConfig()).CoreV1().ConfigMaps("default") // one client through all of it
	object := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "kept"}, Data: map[string]string{"key": "value"}}
	must(t, second(maps.Create(t.Context(), object, metav1.CreateOptions{})))
	before := cluster.process.ready
	t.Run("stops on SIGTERM with 0", func(t *testing.T) {
		must(t, cluster.process.command.Process.Signal(syscall.SIGTERM))
		if err := cluster.process.command.Wait(); err != nil {
			t.Errorf("after SIGTERM: %v", err)
		}
	})
	cluster.process = nil
	shell := exec.Command("sh", "-c", `"$0" --dir "$1" --rm & wait`, filepath.Join(cluster.root, binDir, clusterProgram()), cluster.dir)
	stdout, err := shell.StdoutPipe()
	if err == nil {
		err = shell.Start()
	}
	must(t, err)
	t.Cleanup(func() { _ = shell.Process.Kill() }) // the program ends with it
	t.Run("comes back on its port with its data", func(t *testing.T) {
		if line, err := bufio.NewReader(stdout).ReadString('\n'); err != nil || strings.TrimSpace(line) != before {
			t.Fatalf("started again as %q, was %q: %v", line, before, err)
		}
		if kept, err := maps.Get(t.Context(), "kept", metav1.GetOptions{}); err != nil || kept.Data["key"] != "value" {
			t.Errorf("it has %v, %v", kept, err)
		}
	})
	// A shell that runs it and is killed does not ask for a signal.
	t.Run("ends with the shell that started it, and with --rm removes its directory", func(t *testing.T) {
		must(t, shell.Process.Kill())
		_ = shell.Wait() // says that it was killed
		eventually(t, "the program to end and remove its directory", func(context.Context) (bool, error) {
			_, err := os.Stat(cluster.dir)
			return errors.Is(err, os.ErrNotExist), nil
		})
	})
}

// devcluster is the program with arguments, for runs that end by themselves.
func devcluster(cluster *Cluster, args ...string) *exec.Cmd {
	return exec.Command(filepath.Join(cluster.root, binDir, clusterProgram()), args...)
}

func exitCode(err error) int {
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return exit.ExitCode()
	}
	return 0
}

func address(cluster *Cluster) string {
	return strings.TrimPrefix(cluster.config.Host, "https://")
}
