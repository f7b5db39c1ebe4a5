package e2e

import (
	"bytes"
	"errors"
	"io"
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

	"github.com/creack/pty"
)

// devTree is what a person writes who begins.
type devTree struct {
	t    testing.TB
	dir  string // holds modules/
	tmp  string // TMPDIR of the program
	out  string // where the hook writes its contexts
	home string
	env  []string // more variables of the program
}

const greeting = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: hello}\ndata: {text: \"hello {{ .Values.global.clusterName }}\"}\n"

func newDevTree(t testing.TB) *devTree {
	t.Helper()
	d := &devTree{t: t, dir: t.TempDir(), out: filepath.Join(t.TempDir(), "journal"), home: t.TempDir()}
	var err error
	if d.tmp, err = os.MkdirTemp("", "dev-e2e-"); err != nil { // short: a socket lies in it
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(d.tmp) })
	d.write("modules/values.yaml", "global: {clusterName: world}\nhelloEnabled: true\n")
	d.write("modules/010-hello/templates/configmap.yaml", greeting)
	d.write("modules/010-hello/hooks/say.sh", "#!/bin/sh\nif [ \"$1\" = --config ]; then echo '{configVersion: v1, beforeHelm: 1}'; exit; fi\n"+
		"echo said by the hook\ntr -d ' \\n' <$BINDING_CONTEXT_PATH >>$OUT; echo >>$OUT\n")
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
	if err != nil {
		d.t.Fatal(err)
	}
}

// files are all files of the tree.
func (d *devTree) files() (all []string) {
	d.t.Helper()
	err := fs.WalkDir(os.DirFS(d.dir), ".", func(path string, _ fs.DirEntry, err error) error {
		all = append(all, path)
		return err
	})
	if err != nil {
		d.t.Fatal(err)
	}
	return all
}

func (d *devTree) runs() int {
	journal, _ := os.ReadFile(d.out) // none yet
	return bytes.Count(journal, []byte(`"beforeHelm"`))
}

func (d *devTree) command(args ...string) *exec.Cmd {
	cmd := exec.Command(program(), append([]string{"dev"}, args...)...)
	cmd.Dir = d.dir
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + d.home, "TMPDIR=" + d.tmp, "TERM=xterm-256color", "OUT=" + d.out, "GORACE=" + noRaceSleep, "NO_COLOR=1",
		"ADDON_OPERATOR_LISTEN_PORT=" + freePort(d.t), "DEBUG_HTTP_SERVER_ADDR=127.0.0.1:" + freePort(d.t)}
	cmd.Env = append(cmd.Env, d.env...)
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
	if err := cmd.Start(); err != nil {
		d.t.Fatal(err)
	}
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

// Each fact is a line. A tree that does not load is waited for, a module that is alone is enabled, and its cluster has the
// kind Module. A save shows its difference; a mistake its file and line, until it is corrected; a hook whose code was
// saved runs again. At the end nothing is left.
func TestDevPrintsLines(t *testing.T) {
	t.Parallel()
	d := newDevTree(t)
	d.write("modules/values.yaml", "global: [\n")
	before := d.files()
	cmd, expect := d.plainly("modules/010-hello")
	expect("the operator does not start", "values.yaml")
	d.write("modules/values.yaml", "global: {clusterName: one}\n")
	expect("saved: values.yaml", "hook  hello: 010-hello/hooks/say.sh | said by the hook", "hook  hello: 010-hello/hooks/say.sh (beforeHelm) took",
		"run   hello: installed, revision 1", "state hello: ready", "the first converge is over", "test  hello: 1 test passed")
	d.write("modules/values.yaml", "global: {clusterName: two}\n")
	expect("saved: values.yaml", "diff  hello: ConfigMap hello is changed", "-  text: hello one", "+  text: hello two", "test  hello: 1 test passed")

	d.write("modules/010-hello/templates/configmap.yaml", strings.Replace(greeting, ".Values.", ".Valuess.", 1))
	expect("! state hello: RunModule", "010-hello/templates/configmap.yaml:4:24: error", "4 | data: {text: \"hello {{ .Valuess.global", "1 of 1 test failed")
	d.write("modules/010-hello/templates/configmap.yaml", greeting)
	expect("its problem is gone", "no longer reported", "1 test passed")

	hook := filepath.Join(d.dir, "modules/010-hello/hooks/say.sh")
	text, err := os.ReadFile(hook)
	if err != nil {
		t.Fatal(err)
	}
	d.write("modules/010-hello/hooks/say.sh", strings.Replace(string(text), "said by", "said again by", 1))
	expect("was saved, and runs again (beforeHelm)", "said again by the hook")
	d.write("modules/010-hello/hooks/say.sh", "#!/bin/sh\necho '{configVersion: v1, beforeHelmm: 1}'\n")
	expect("lint  hello: 010-hello/hooks/say.sh:2:27: error: beforeHelmm: is unknown", "= did you mean beforeHelm?")
	if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("after Ctrl-C: %v\n%s", err, cmd.Stdout)
	}
	if strings.Contains(cmd.Stdout.(*lines).String(), "the kind Module does not exist") {
		t.Errorf("its cluster lacks the kind Module:\n%s", cmd.Stdout)
	}
	d.tidy(before)
}

// A second signal does not wait for hooks that go on: it ends the command at once, and nothing is left.
func TestDevEndsAtASecondSignal(t *testing.T) {
	t.Parallel()
	d := newDevTree(t)
	d.env = []string{"ADDON_OPERATOR_GRACE_PERIOD=10m"} // else it may end in good order before the second one, on a busy machine
	d.write("modules/010-hello/hooks/say.sh", "#!/bin/sh\nif [ \"$1\" = --config ]; then echo '{configVersion: v1, beforeHelm: 1}'; exit; fi\n"+
		"exec 9>$OUT.pipe; trap '' TERM; echo '\"beforeHelm\"' >>$OUT; (while [ -e $OUT ]; do sleep 1; done)\n")
	before := d.files()
	err := syscall.Mkfifo(d.out+".pipe", 0o600)
	if err != nil {
		t.Fatal(err)
	}
	held, err := os.OpenFile(d.out+".pipe", os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer held.Close()
	over := func() {
		t.Helper()
		err := held.SetReadDeadline(time.Now().Add(patience / 4))
		if err == nil {
			_, err = held.Read(make([]byte, 1))
		}
		if !errors.Is(err, io.EOF) {
			t.Errorf("what the hook started goes on: %v", err)
		}
	}
	began := func() {
		t.Helper()
		for deadline := time.Now().Add(patience); d.runs() == 0; <-time.After(pollInterval) {
			if time.Now().After(deadline) {
				t.Fatal("the hook does not run")
			}
		}
	}
	signal := func(cmd *exec.Cmd) {
		t.Helper()
		if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
	}
	const first = "stopping: no new tasks" // until then a second one could be the same
	cmd, expect := d.plainly()
	expect("modules of ")
	began()
	signal(cmd)
	expect(first)
	signal(cmd)
	_ = cmd.Wait() // it ends with a code
	if code := cmd.ProcessState.ExitCode(); code != 130 {
		t.Errorf("exit code %d", code)
	}
	over()
	d.tidy(before)
}

// --cluster says where it would write and asks; without an answer nothing is written. With --yes it uses that cluster.
func TestDevAsksBeforeItUsesACluster(t *testing.T) {
	t.Parallel()
	d := newDevTree(t)
	cluster := t.TempDir()
	server := exec.Command(program(), "apiserver", "--dir", cluster)
	ready, err := server.StdoutPipe()
	if err == nil {
		err = server.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = server.Process.Kill()
		_ = server.Wait()
	})
	if _, err := ready.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	kubeconfig := filepath.Join(cluster, "kubeconfig")

	out, err := d.command("--cluster", "--kube-config", kubeconfig).CombinedOutput()
	if err == nil {
		t.Error("it does not refuse without a terminal")
	}
	expectAll(t, string(out), "Your cluster: context memory, https://127.0.0.1:", "namespace addon-operator-dev", "confirm with --yes; nothing was written")

	asked := d.command("--cluster", "--kube-config", kubeconfig, "--namespace", "mine")
	terminal, err := pty.Start(asked)
	if err != nil {
		t.Fatal(err)
	}
	_, err = terminal.WriteString("n\r")
	shown, _ := io.ReadAll(terminal) // the end of a terminal is an error
	if err := errors.Join(err, asked.Wait()); err == nil || asked.ProcessState.ExitCode() != 1 {
		t.Errorf("after no: %v", err)
	}
	expectAll(t, string(shown), "context memory", "namespace mine", "Continue? [y/N]", "nothing was written")

	cmd, expect := d.plainly("--cluster", "--yes", "--kube-config", kubeconfig)
	expect("context memory", "hello: ready", "the first converge is over")
	out, err = d.command("--cluster", "--yes", "--kube-config", kubeconfig).CombinedOutput()
	if err == nil {
		t.Error("a second one uses the same namespace")
	}
	expectAll(t, string(out), "another operator runs in the namespace", "nothing was written")
	if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	expect("kubectl delete namespace addon-operator-dev removes it")
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
	_ = server.Process.Signal(syscall.SIGTERM) // it saves what it has
	_ = server.Wait()
	objects, err := os.ReadFile(filepath.Join(cluster, "objects.json"))
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
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	if _, err := out.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	_ = out.Close()
	_ = cmd.Wait() // a write has failed, which is not what is looked at
	d.tidy(before)
}
