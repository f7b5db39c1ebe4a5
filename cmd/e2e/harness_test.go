package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// The tests of this package run the program itself against a real API server.
// This file starts it, watches its log and stops it; fixture_test.go makes what it
// needs around it.

const (
	// patience is for a machine that compiles at the same time; nothing measures it.
	patience     = 2 * time.Minute
	pollInterval = 25 * time.Millisecond
)

// operator is a running addon-operator.
type operator struct {
	fixture *fixture
	cmd     *exec.Cmd
	env     []string
	output  *output
	public  string // http://address of probes and metrics
	debug   string // host:port of the debug pages
	exited  chan struct{}
	seen    int // lines of the log that expect has passed
}

// output collects what the operator writes, line by line.
type output struct {
	mu   sync.Mutex
	data []byte
	// sieve says whether a line is kept; nil for all. It is for more output than a test
	// wants to search again and again. begun is where the last, incomplete line begins.
	sieve func(line []byte) bool
	begun int
	// flattened are the lines of data before the byte parsed: many look again and again.
	flattened []string
	parsed    int
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.data = append(o.data, p...)
	if o.sieve != nil {
		o.sift()
	}
	return len(p), nil
}

// sift forgets the complete lines that the sieve lets through.
func (o *output) sift() {
	rest := o.data[o.begun:]
	kept := o.data[:o.begun]
	for {
		end := bytes.IndexByte(rest, '\n') + 1
		if end == 0 {
			break
		}
		if o.sieve(rest[:end]) {
			kept = append(kept, rest[:end]...)
		}
		rest = rest[end:]
	}
	o.begun = len(kept)
	o.data = slices.Concat(kept, rest)
}

// lines are the complete lines so far, flat: "level msg key=value …".
func (o *output) lines() []string {
	o.mu.Lock()
	defer o.mu.Unlock()
	for {
		end := bytes.IndexByte(o.data[o.parsed:], '\n')
		if end < 0 {
			return slices.Clip(o.flattened)
		}
		o.flattened = append(o.flattened, flat(string(o.data[o.parsed:o.parsed+end])))
		o.parsed += end + 1
	}
}

// flat turns a JSON record into text that a person can search; other lines stay.
func flat(line string) string {
	record := map[string]any{}
	decoder := json.NewDecoder(strings.NewReader(line))
	decoder.UseNumber()
	if decoder.Decode(&record) != nil {
		return line
	}
	text := fmt.Sprint(record["level"], " ", record["msg"])
	for _, key := range slices.Sorted(maps.Keys(record)) {
		if key != "time" && key != "level" && key != "msg" {
			text += fmt.Sprintf(" %s=%v", key, record[key])
		}
	}
	return text
}

// start starts the operator; more are environment variables that win over the usual ones.
func (h *fixture) start(more ...string) *operator {
	h.t.Helper()
	o := h.launch(more...)
	h.t.Cleanup(o.cleanUp)
	return o
}

func command(prefix []string, name string) *exec.Cmd {
	all := append(slices.Clone(prefix), name)
	return exec.Command(all[0], all[1:]...)
}

// launch is start for those who end the operator themselves.
func (h *fixture) launch(more ...string) *operator {
	h.t.Helper()
	public, private := freePort(h.t), freePort(h.t)
	path := program()
	if slices.ContainsFunc(more, func(variable string) bool { return strings.HasPrefix(variable, limitsVariable+"=") }) {
		path = os.Args[0]
	}
	o := &operator{
		fixture: h, cmd: command(h.within, path), output: &output{sieve: h.sieve}, exited: make(chan struct{}),
		public: "http://127.0.0.1:" + public, debug: "127.0.0.1:" + private,
	}
	o.env = append(h.environment(),
		"ADDON_OPERATOR_LISTEN_ADDRESS=127.0.0.1", "ADDON_OPERATOR_LISTEN_PORT="+public, "DEBUG_HTTP_SERVER_ADDR="+o.debug)
	o.env = append(o.env, more...)
	o.cmd.Env, o.cmd.Dir, o.cmd.Stdout, o.cmd.Stderr = o.env, h.dir, o.output, o.output
	o.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} // a Ctrl-C at the test is not one at the operator
	must(h.t, o.cmd.Start())
	go func() {
		_ = o.cmd.Wait() // exit has the result
		close(o.exited)
	}()
	return o
}

// cleanUp ends the operator as a Pod ends and shows its log when the test has failed.
func (o *operator) cleanUp() {
	if o.running() {
		if code := o.terminate(); code != 0 {
			o.fixture.t.Errorf("exit code %d after SIGTERM, want 0", code)
		}
	}
	if log := strings.Join(o.output.lines(), "\n"); o.fixture.t.Failed() {
		o.fixture.t.Logf("log of the operator:\n%s", log)
	} else if strings.Contains(log, "please report this") || strings.Contains(log, "DATA RACE") || strings.Contains(log, "bug:") {
		o.fixture.t.Errorf("the log speaks of a bug:\n%s", log)
	}
}

func (o *operator) running() bool {
	select {
	case <-o.exited:
		return false
	default:
		return true
	}
}

// terminate sends SIGTERM and returns the exit code.
func (o *operator) terminate() int {
	_ = o.cmd.Process.Signal(syscall.SIGTERM) // it may be gone
	return o.exit()
}

// kill ends the operator as a power cut would.
func (o *operator) kill() {
	_ = o.cmd.Process.Kill() // it may be gone
	<-o.exited
}

// exit waits for the end of the operator and returns its exit code.
func (o *operator) exit() int {
	o.fixture.t.Helper()
	select {
	case <-o.exited:
	case <-time.After(patience):
		o.kill()
		o.fixture.t.Errorf("the operator did not end within %s", patience)
	}
	return o.cmd.ProcessState.ExitCode()
}

// expect waits for a line of the log that has all these parts, behind those that were
// expected before.
func (o *operator) expect(parts ...string) string {
	o.fixture.t.Helper()
	var found string
	o.fixture.eventually(fmt.Sprintf("a log line with %q", parts), func() error {
		lines := o.output.lines()
		for i := o.seen; i < len(lines); i++ {
			if containsAll(lines[i], parts) {
				o.seen, found = i+1, lines[i]
				return nil
			}
		}
		if !o.running() {
			o.fixture.t.Fatalf("the operator has ended; no log line with %q", parts)
		}
		return errNotYet
	})
	return found
}

// count is the number of lines of the log that have all these parts.
func (o *operator) count(parts ...string) (n int) {
	for _, line := range o.output.lines() {
		if containsAll(line, parts) {
			n++
		}
	}
	return n
}

func containsAll(line string, parts []string) bool {
	return !slices.ContainsFunc(parts, func(part string) bool { return !strings.Contains(line, part) })
}

// ready waits for the end of the first converge.
func (o *operator) ready() *operator {
	o.fixture.t.Helper()
	o.fixture.eventually("readiness", func() error {
		if !o.running() {
			o.fixture.t.Fatal("the operator has ended")
		}
		if status, body := get(o.public + "/readyz"); status != http.StatusOK {
			return fmt.Errorf("%d %s", status, body)
		}
		return nil
	})
	return o
}

// run runs a command of the program next to the operator, with an input. Its output is all that it printed.
func (o *operator) run(input string, args ...string) (output string, err error) {
	cmd := exec.Command(program(), args...)
	cmd.Env, cmd.Dir, cmd.Stdin = o.env, o.fixture.dir, strings.NewReader(input)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// body is what a path of the public address answers.
func (o *operator) body(path string) string {
	_, body := get(o.public + path)
	return body
}

// get returns status 0 and the error while nothing answers.
func get(url string) (status int, body string) {
	resp, err := http.Get(url) //nolint:noctx // a test on the loopback interface
	if err != nil {
		return 0, err.Error()
	}
	defer resp.Body.Close()
	var text bytes.Buffer
	if _, err := io.Copy(&text, resp.Body); err != nil {
		return 0, err.Error()
	}
	return resp.StatusCode, text.String()
}
