package e2e

import (
	"bytes"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// devTree is what a person writes who begins.
type devTree struct {
	t    testing.TB
	dir  string // holds modules/
	tmp  string // TMPDIR of the program
	home string
}

const greeting = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: hello}\ndata: {text: \"hello {{ .Values.global.clusterName }}\"}\n"

func newDevTree(t testing.TB) *devTree {
	t.Helper()
	d := &devTree{t: t, dir: t.TempDir(), home: t.TempDir()}
	var err error
	if d.tmp, err = os.MkdirTemp("", "dev-e2e-"); err != nil { // short: a socket lies in it
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(d.tmp) })
	d.write("modules/values.yaml", "global: {clusterName: world}\nhelloEnabled: true\n")
	d.write("modules/010-hello/templates/configmap.yaml", greeting)
	d.write("modules/010-hello/hooks/say.sh", "#!/bin/sh\nif [ \"$1\" = --config ]; then echo '{configVersion: v1, beforeHelm: 1}'; exit; fi\n"+
		"echo said by the hook of $(jq -r '.hello.greeter' \"$VALUES_PATH\")\n")
	d.write("modules/010-hello/values.yaml", "hello: {greeter: me}\n") // no template reads it
	d.write("modules/010-hello/tests/greets.yaml", "description: it greets\ngiven: {fromGlobalHooks: {clusterName: x}}\nexpect:\n"+
		"  objects: [{apiVersion: v1, kind: ConfigMap, metadata: {name: hello}}]\n")
	return d
}

func (d *devTree) write(name, text string) {
	d.t.Helper()
	path := filepath.Join(d.dir, name)
	err := os.MkdirAll(filepath.Dir(path), 0o755)
	if err == nil {
		err = os.WriteFile(path, []byte(text), 0o755)
	}
	must(d.t, err)
}

// files are all files of the tree.
func (d *devTree) files() (all []string) {
	d.t.Helper()
	err := fs.WalkDir(os.DirFS(d.dir), ".", func(path string, _ fs.DirEntry, err error) error {
		all = append(all, path)
		return err
	})
	must(d.t, err)
	return all
}

func (d *devTree) command(args ...string) *exec.Cmd {
	cmd := exec.Command(program(), append([]string{"dev"}, args...)...)
	cmd.Dir = d.dir
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + d.home, "TMPDIR=" + d.tmp, "GORACE=" + noRaceSleep, "NO_COLOR=1",
		"ADDON_OPERATOR_LISTEN_PORT=" + freePort(d.t), "DEBUG_HTTP_SERVER_ADDR=127.0.0.1:" + freePort(d.t)}
	if slices.Contains(args, "--cluster") { // that of a shell in which people look at another operator
		cmd.Env = append(cmd.Env, "ADDON_OPERATOR_NAMESPACE=of-another-operator")
	}
	return cmd
}

// tidy checks that nothing is left behind: the program has written into no directory but its own, which is gone.
func (d *devTree) tidy(before []string) {
	d.t.Helper()
	if now := d.files(); !reflect.DeepEqual(now, before) {
		d.t.Errorf("the directory has %q, before it had %q", now, before)
	}
	if left, err := os.ReadDir(d.tmp); err != nil || len(left) > 0 {
		d.t.Errorf("left behind: %v, %v", left, err)
	}
}

// lines are the output of a command without a terminal.
type lines struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *lines) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// plainly starts the command without a terminal; expect waits for lines behind those that it has seen.
func (d *devTree) plainly(args ...string) (cmd *exec.Cmd, expect func(texts ...string)) {
	d.t.Helper()
	cmd = d.command(args...)
	out, seen := &lines{}, 0
	cmd.Stdout, cmd.Stderr = out, out
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	must(d.t, cmd.Start())
	d.t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return cmd, func(texts ...string) {
		d.t.Helper()
		deadline := time.Now().Add(patience)
		last := seen
		for _, text := range texts {
			for {
				if at := strings.Index(out.String()[seen:], text); at >= 0 {
					last = max(last, seen+at+len(text))
					break
				}
				if time.Now().After(deadline) {
					d.t.Fatalf("no %q behind byte %d of:\n%s", text, seen, out)
				}
				<-time.After(pollInterval)
			}
		}
		seen = last
	}
}

// Each fact is a line. A tree that does not load is waited for, a module that is alone is enabled, and its cluster
// has the kind Module. A save shows its difference; a mistake its file and line, until it is corrected; a module of which a
// hook was saved starts again. At the end nothing is left.
func TestDevPrintsLines(t *testing.T) {
	t.Parallel()
	d := newDevTree(t)
	d.write("modules/values.yaml", "global: [\n")
	before := d.files()
	cmd, expect := d.plainly("modules/010-hello")
	expect("the operator does not start", "values.yaml")
	d.write("modules/values.yaml", "global: {clusterName: one}\n")
	expect("saved: values.yaml", "hook  hello: 010-hello/hooks/say.sh | said by the hook", "hook  hello: 010-hello/hooks/say.sh beforeHelm took",
		"run   hello: installed, revision 1", "log   converged", "lint  hello: No findings; 1 test passed.")
	d.write("modules/values.yaml", "global: {clusterName: two}\n")
	expect("saved: values.yaml", "diff  hello: ConfigMap hello is changed", "-  text: hello one", "+  text: hello two", "lint  hello: No findings; 1 test passed.")

	d.write("modules/010-hello/templates/configmap.yaml", strings.Replace(greeting, ".Values.", ".Valuess.", 1))
	expect("! log   hello: task failed, will retry", "010-hello/templates/configmap.yaml:4: error", "its tests did not run")
	d.write("modules/010-hello/templates/configmap.yaml", greeting)
	expect("lint  hello: No findings; 1 test passed.")

	hook := filepath.Join(d.dir, "modules/010-hello/hooks/say.sh")
	text, err := os.ReadFile(hook)
	must(t, err)
	d.write("modules/010-hello/hooks/say.sh", strings.Replace(string(text), "said by", "said again by", 1))
	expect("said again by the hook", "010-hello/hooks/say.sh beforeHelm took")
	d.write("modules/010-hello/hooks/say.sh", "#!/bin/sh\necho '{configVersion: v1, beforeHelmm: 1}'\n")
	expect("lint  hello: 010-hello/hooks/say.sh:2:27: error: beforeHelmm: is not a known key; did you mean beforeHelm?")
	must(t, cmd.Process.Signal(syscall.SIGINT))
	if err := cmd.Wait(); err != nil {
		t.Errorf("after Ctrl-C: %v\n%s", err, cmd.Stdout)
	}
	for _, wrong := range []string{"the kind Module does not exist", "has no effect"} {
		if strings.Contains(cmd.Stdout.(*lines).String(), wrong) {
			t.Errorf("it says %q:\n%s", wrong, cmd.Stdout)
		}
	}
	d.tidy(before)
}

// --cluster says where it would write, and writes nothing; with --yes it uses that cluster.
func TestDevShowsTheClusterBeforeItUsesIt(t *testing.T) {
	t.Parallel()
	d := newDevTree(t)
	cluster := t.TempDir()
	server := exec.Command(program(), "apiserver", "--dir", cluster)
	ready, err := server.StdoutPipe()
	if err == nil {
		err = server.Start()
	}
	must(t, err)
	t.Cleanup(func() {
		_ = server.Process.Kill()
		_ = server.Wait()
	})
	must(t, second(ready.Read(make([]byte, 1))))
	kubeconfig := filepath.Join(cluster, "kubeconfig")

	out, err := d.command("--cluster", "--kube-config", kubeconfig, "--namespace", "mine").CombinedOutput()
	if err == nil {
		t.Error("it does not wait for --yes")
	}
	expectAll(t, string(out), "Your cluster: context memory, https://127.0.0.1:", "namespace mine", "confirm with --yes; nothing was written")

	cmd, expect := d.plainly("--cluster", "--yes", "--kube-config", kubeconfig)
	expect("context memory", "namespace addon-operator-dev", "hello: installed", "converged")
	out, err = d.command("--cluster", "--yes", "--kube-config", kubeconfig).CombinedOutput()
	if err == nil {
		t.Error("a second one uses the same namespace")
	}
	expectAll(t, string(out), "another operator runs in the namespace", "nothing was written")
	must(t, cmd.Process.Signal(syscall.SIGTERM))
	expect("kubectl delete namespace addon-operator-dev removes it")
	must(t, cmd.Wait())
	objects, err := exec.Command("../../bin/kubectl", "--kubeconfig", kubeconfig, "get", "namespaces,configmaps", "-A", "-o", "json").Output()
	if err != nil || strings.Contains(string(objects), `"mine"`) {
		t.Errorf("the refused namespace was written, or nothing was: %v", err)
	}
	expectAll(t, string(objects), `"addon-operator-dev"`, `"hello world"`)
}

// A pipe that no one reads any more ends it, as a closed terminal does, and nothing is left.
func TestDevEndsWithItsReader(t *testing.T) {
	t.Parallel()
	d := newDevTree(t)
	before := d.files()
	cmd := d.command()
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	must(t, err)
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	must(t, second(out.Read(make([]byte, 1))))
	_ = out.Close()
	_ = cmd.Wait() // a write has failed, which is not what is looked at
	d.tidy(before)
}
