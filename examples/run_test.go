package examples_test

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// patience bounds each wait of these tests; a busy machine needs some seconds.
const patience = 2 * time.Minute

// play is a run of examples/run.sh, with a directory of its own in the place of .run.
type play struct {
	*testing.T
	dir  string
	cmd  *exec.Cmd
	done chan struct{} // closed when it has ended
	err  error

	mu     sync.Mutex
	output bytes.Buffer
	more   chan struct{} // something was printed
}

// built builds the programs once for all plays: Go takes seconds of a processor to find that
// nothing has changed. The build within the script is played by TestRunOfTheExamples.
var built = sync.OnceValue(func() error {
	out, err := exec.Command("bash", "../.ci/build", "operator", "tools").CombinedOutput()
	if err != nil {
		return fmt.Errorf("build: %w\n%s", err, out)
	}
	// go test remembers what a test has looked at, and plays it again when one of these files has changed.
	roots, err := filepath.Glob("../[a-z]*")
	for _, root := range slices.DeleteFunc(roots, func(root string) bool { return root == "../bin" || root == "../dist" }) {
		_ = filepath.WalkDir(root, func(string, fs.DirEntry, error) error { return nil })
	}
	return err
})

// ports belongs to the test that runs the script: the operator of make run listens on fixed ports.
var ports sync.Mutex //nolint:gochecknoglobals // they belong to this machine, not to a value

var full = flag.Bool("full", false, "play also what make test leaves to make test-full")

// aloneInFull is alone, for a test that make test leaves to make test-full.
func aloneInFull(t *testing.T) {
	t.Helper()
	if !*full {
		t.Skip("make test-full plays it")
	}
	alone(t)
}

// alone lets no two tests run the script at the same time.
func alone(t *testing.T) {
	t.Helper()
	t.Parallel()
	ports.Lock()
	t.Cleanup(ports.Unlock)
}

// begin starts the script with these environment variables, NAME=VALUE, in a process group
// of its own, as a terminal would.
func begin(t *testing.T, environment ...string) *play {
	t.Helper()
	return beginCommand(t, exec.Command("bash", "run.sh"), environment...)
}

// beginCommand begins a command that starts the script.
func beginCommand(t *testing.T, cmd *exec.Cmd, environment ...string) *play {
	t.Helper()
	if testing.Short() {
		t.Skip("builds and starts programs; -short is set")
	}
	if err := built(); err != nil {
		t.Fatal(err)
	}
	environment = append([]string{"BUILT=1"}, environment...)
	p := &play{T: t, dir: t.TempDir(), cmd: cmd, done: make(chan struct{}), more: make(chan struct{}, 1)}
	p.cmd.Env = append(os.Environ(), append([]string{"RUN_DIR=" + p.dir}, environment...)...)
	p.cmd.Stdout, p.cmd.Stderr = p, p
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		p.err = p.cmd.Wait()
		close(p.done)
	}()
	t.Cleanup(func() {
		_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL)
		p.nothingIsLeft()
	})
	return p
}

// Write implements io.Writer for the output of the script.
func (p *play) Write(data []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	select {
	case p.more <- struct{}{}:
	default:
	}
	return p.output.Write(data)
}

func (p *play) text() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.output.String()
}

// expect waits until the script has printed text.
func (p *play) expect(text string) {
	p.Helper()
	late := time.After(patience)
	for !strings.Contains(p.text(), text) {
		select {
		case <-p.more:
		case <-p.done:
			if !strings.Contains(p.text(), text) {
				p.Fatalf("ended (%v) without printing %q:\n%s", p.err, text, p.text())
			}
		case <-late:
			p.Fatalf("did not print %q:\n%s", text, p.text())
		}
	}
}

// interrupt is Ctrl-C: a terminal sends SIGINT to the group in the foreground.
func (p *play) interrupt() {
	p.Helper()
	if err := syscall.Kill(-p.cmd.Process.Pid, syscall.SIGINT); err != nil {
		p.Fatal(err)
	}
}

// ends waits for the end and wants an exit code.
func (p *play) ends(code int) {
	p.Helper()
	select {
	case <-p.done:
	case <-time.After(patience):
		p.Fatalf("does not end:\n%s", p.text())
	}
	got := 0
	if exit, ok := errors.AsType[*exec.ExitError](p.err); ok {
		got = exit.ExitCode()
	}
	if got != code {
		p.Errorf("exit code %d, want %d:\n%s", got, code, p.text())
	}
}

// nothingIsLeft looks for processes that still know the directory of this play.
func (p *play) nothingIsLeft() {
	p.Helper()
	late := time.After(patience)
	tick := time.NewTicker(50 * time.Millisecond) // other processes announce their end to their parents only
	defer tick.Stop()
	for {
		left := p.processes()
		if len(left) == 0 {
			return
		}
		select {
		case <-late:
			p.Errorf("processes are left: %q", left)
			return
		case <-tick.C:
		}
	}
}

func (p *play) processes() []string {
	var found []string
	files, _ := filepath.Glob("/proc/[0-9]*/environ")
	for _, file := range files {
		environment, err := os.ReadFile(file)
		if err == nil && bytes.Contains(environment, []byte("RUN_DIR="+p.dir)) {
			command, _ := os.ReadFile(filepath.Join(filepath.Dir(file), "cmdline"))
			found = append(found, strings.ReplaceAll(string(command), "\x00", " "))
		}
	}
	return found
}

// What a newcomer sees: a cluster in memory, the line for a second terminal before the first
// converge, the releases, and a clean end.
func TestRunOfTheExamples(t *testing.T) {
	alone(t)
	p := begin(t, "RUN_ONCE=1", "BUILT=")
	p.ends(0)
	text := p.text()
	last := 0
	for _, want := range []string{
		"API server ready, in memory", "export KUBECONFIG=" + p.dir + "/memory/kubeconfig", "converged", "the first converge is over",
		"prometheus   1          deployed", "deployment.apps/grafana", "stopping the operator",
	} {
		at := strings.Index(text[last:], want)
		if at < 0 {
			t.Fatalf("%q is missing, or too early:\n%s", want, text)
		}
		last += at
	}
	p.nothingIsLeft()

	other := filepath.Join(t.TempDir(), "modules")
	write(t, other, map[string]string{"values.yaml": "helloEnabled: true\n", "010-hello/templates/a.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: hello}\n"})
	others := begin(t, "RUN_ONCE=1", "RUN_DIR="+p.dir, "MODULES_DIR="+other)
	others.ends(0)
	if text := others.text(); !strings.Contains(text, "hello     1          deployed") || strings.Contains(text, "prometheus") {
		t.Errorf("other modules meet what the examples left:\n%s", text)
	}
}

// write makes a directory with these files.
func write(t *testing.T, dir string, files map[string]string) {
	t.Helper()
	for path, text := range files {
		path = filepath.Join(dir, path)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
}

// Ctrl-C while Go compiles, and while the operator runs, ends everything in order.
func TestInterrupts(t *testing.T) {
	aloneInFull(t)
	t.Run("during the build", func(t *testing.T) {
		bin := t.TempDir()
		slow := "#!/usr/bin/env bash\nif [[ $1 == list ]]; then printf '%s\\n' a b c d; exit; fi\necho example.com/a >&2\necho example.com/b >&2\necho x >$GOTMPDIR/go-build1\nexec sleep 1000\n"
		if err := os.WriteFile(filepath.Join(bin, "go"), []byte(slow), 0o755); err != nil {
			t.Fatal(err)
		}
		p := begin(t, "BUILT=", "PATH="+bin+string(os.PathListSeparator)+os.Getenv("PATH"))
		p.expect("building the operator")
		p.expect("0 %, package 1 of 4, ") // seconds
		p.expect("next: the cluster starts")
		p.interrupt()
		p.ends(0)
		if !strings.Contains(p.text(), "stopping the build") {
			t.Errorf("output:\n%s", p.text())
		}
		p.nothingIsLeft()
		if left, err := filepath.Glob(filepath.Join(p.dir, "build*")); err != nil || len(left) > 0 {
			t.Errorf("files of the build are left: %q, %v", left, err)
		}
	})
	t.Run("before the first converge", func(t *testing.T) {
		p := begin(t)
		p.expect("API server ready")
		p.interrupt()
		p.ends(0)
		p.nothingIsLeft()
	})
	t.Run("while the operator runs", func(t *testing.T) {
		p := begin(t)
		p.expect("Ctrl-C ends the operator and the cluster")
		p.interrupt()
		p.ends(0)
		if !strings.Contains(p.text(), "what to try next") || !strings.Contains(p.text(), "stopping the operator, then the cluster") {
			t.Errorf("output:\n%s", p.text())
		}
		p.nothingIsLeft()
	})
}

// As with 2>&1 | tee, which Ctrl-C ends, too, and with | head: when no one reads what the script prints, it still
// stops the operator and the cluster.
func TestRunWithoutAReader(t *testing.T) {
	aloneInFull(t)
	for last, end := range map[string]func(p *play){
		"Ctrl-C ends the operator": (*play).interrupt,
		"starting the operator":    func(*play) {}, // it ends at the next line
	} {
		t.Run(last, func(t *testing.T) {
			p := beginCommand(t, exec.Command("bash", "-c", `bash run.sh 2>&1 | sed -u "/$LAST/q"`), "LAST="+last)
			p.expect(last)
			end(p)
			p.nothingIsLeft()
		})
	}
}

// The kubeconfig and logs are for their owner alone; the programs that are built on the way have the modes that they
// have after make build.
func TestProgramsOfRunAreForAll(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	build := "mkdir -p bin; for p in addon-operator kubectl jq; do echo exit 1 >bin/$p; chmod +x bin/$p; done; exit 1\n"
	write(t, root, map[string]string{".ci/build": build, "examples/modules/values.yaml": "", "examples/global-hooks/none": ""})
	script, err := os.ReadFile("run.sh")
	if err != nil {
		t.Fatal(err)
	}
	write(t, root, map[string]string{"examples/run.sh": string(script)})
	out, err := exec.Command("bash", "-c", "umask 022; bash "+filepath.Join(root, "examples/run.sh")).CombinedOutput()
	if err == nil || !strings.Contains(string(out), "the build failed") {
		t.Fatalf("%v: %s", err, out)
	}
	for path, want := range map[string]os.FileMode{"bin": 0o755, "bin/kubectl": 0o755, ".run": 0o700} {
		info, err := os.Stat(filepath.Join(root, path))
		if err != nil {
			t.Fatal(err)
		}
		if got := info.Mode().Perm(); got != want {
			t.Errorf("%s has mode %o, want %o", path, got, want)
		}
	}
}

// A module that is broken does not withhold the line for the second terminal, and modules of
// somebody else come without the global hooks of the examples.
func TestRunOfABrokenModule(t *testing.T) {
	aloneInFull(t)
	modules := filepath.Join(t.TempDir(), "modules")
	write(t, modules, map[string]string{
		"values.yaml":                     "helloEnabled: true\n",
		"010-hello/templates/broken.yaml": "{{ fail \"broken on purpose\" }}\n",
	})
	p := begin(t, "MODULES_DIR="+modules)
	p.expect("broken on purpose")
	if text := p.text(); !strings.Contains(text, "export KUBECONFIG=") || strings.Contains(text, "discover-cluster.sh") {
		t.Errorf("output:\n%s", text)
	}
	p.interrupt()
	p.ends(0)
	p.nothingIsLeft()
}

// VIEW=1: the command dev is the operator; without a terminal it prints lines. It ends at Ctrl-C, and at a signal
// that only the script receives.
func TestRunWithAView(t *testing.T) {
	aloneInFull(t)
	for name, end := range map[string]func(p *play){
		"Ctrl-C": (*play).interrupt,
		"TERM":   func(p *play) { _ = p.cmd.Process.Signal(syscall.SIGTERM) },
	} {
		t.Run(name, func(t *testing.T) {
			p := begin(t, "VIEW=1")
			p.expect("against a cluster in memory")
			p.expect("converged")
			end(p)
			p.ends(0)
			p.nothingIsLeft()
			if strings.Contains(p.text(), "was installed stays") {
				t.Errorf("it speaks of somebody's cluster:\n%s", p.text())
			}
		})
	}
}

func TestTakenPortIsNamed(t *testing.T) {
	aloneInFull(t)
	if listener := take(t, "127.0.0.1:9650"); listener != nil {
		defer listener.Close()
		go func() {
			for {
				connection, err := listener.Accept()
				if err != nil {
					return
				}
				connection.Close()
			}
		}()
	}
	p := begin(t, "RUN_ONCE=1")
	p.ends(0)
	if !strings.Contains(p.text(), "port 9650 is taken") {
		t.Errorf("output:\n%s", p.text())
	}
}

// take listens on an address, also when a program that is about to end has it still; nil when another one keeps it.
func take(t *testing.T, address string) net.Listener {
	t.Helper()
	again, patience := time.NewTicker(100*time.Millisecond), time.After(30*time.Second)
	defer again.Stop()
	for {
		listener, err := net.Listen("tcp", address)
		if err == nil {
			return listener
		}
		select {
		case <-again.C:
		case <-patience:
			t.Logf("another program keeps the address: %v", err)
			return nil
		}
	}
}

// A second run with the same directory is refused before it writes there, and one of its own works.
func TestSecondRunIsRefused(t *testing.T) {
	aloneInFull(t)
	first := begin(t)
	first.expect("Ctrl-C ends the operator and the cluster")
	kubeconfig, err := os.ReadFile(filepath.Join(first.dir, "memory", "kubeconfig"))
	if err != nil {
		t.Fatal(err)
	}
	second := begin(t, "RUN_DIR="+first.dir)
	second.ends(1)
	if text := second.text(); !strings.Contains(text, fmt.Sprintf("process %d, uses %s", first.cmd.Process.Pid, first.dir)) {
		t.Errorf("output:\n%s", text)
	}
	if now, err := os.ReadFile(filepath.Join(first.dir, "memory", "kubeconfig")); err != nil || !bytes.Equal(now, kubeconfig) {
		t.Errorf("the second run wrote into the directory of the first: %v", err)
	}
	first.interrupt()
	first.ends(0)
	third := begin(t, "RUN_DIR="+first.dir, "RUN_ONCE=1")
	third.ends(0)
}

// CLUSTER=mine writes nothing before somebody has agreed, and a namespace of its own is used.
func TestRunInTheCurrentCluster(t *testing.T) {
	aloneInFull(t)
	cluster := begin(t) // plays the part of somebody's cluster
	cluster.expect("Ctrl-C ends the operator and the cluster")
	kubeconfig := "KUBECONFIG=" + filepath.Join(cluster.dir, "memory", "kubeconfig")

	asked := begin(t, "CLUSTER=mine", kubeconfig)
	asked.ends(1)
	if text := asked.text(); !strings.Contains(text, "context memory") || !strings.Contains(text, "YES=1") || strings.Contains(text, "created") {
		t.Errorf("output:\n%s", text)
	}

	agreed := begin(t, "CLUSTER=mine", "YES=1", "RUN_ONCE=1", kubeconfig)
	agreed.ends(0)
	if text := agreed.text(); !strings.Contains(text, "namespace/addon-operator-run created") || !strings.Contains(text, "prometheus   1          deployed") {
		t.Errorf("output:\n%s", text)
	}
	cluster.interrupt()
	cluster.ends(0)
}

// What cannot work is refused before anything is built.
func TestRunIsRefused(t *testing.T) {
	alone(t)
	for environment, want := range map[string]string{
		"CLUSTER=kind":                                  "use memory, real or mine",
		"MODULES_DIR=/does/not/exist":                   "MODULES_DIR: there is no directory /does/not/exist",
		"GLOBAL_HOOKS_DIR=/does/not/exist":              "GLOBAL_HOOKS_DIR: there is no directory /does/not/exist",
		"CLUSTER=mine KUBECONFIG=/does/not/exist YES=1": "CLUSTER=mine: there is no kubeconfig /does/not/exist",
		"VIEW=1 RUN_ONCE=1":                             "excludes RUN_ONCE=1",
	} {
		p := begin(t, append(strings.Fields(environment), "BUILT=")...)
		p.ends(1)
		if !strings.Contains(p.text(), want) || strings.Contains(p.text(), "building") {
			t.Errorf("%s: output:\n%s", environment, p.text())
		}
	}
}
