package e2e

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/creack/pty"
	"github.com/hinshun/vt10x"
)

// slowModules has a module that is quick and one whose hook waits for the file $OUT/go.
const slowModules = `
-- modules/values.yaml --
quickEnabled: true
slowEnabled: true
-- modules/010-quick/templates/cm.yaml --
apiVersion: v1
kind: ConfigMap
metadata: {name: quick}
-- modules/020-slow/hooks/wait.sh --
#!/bin/sh
if [ "$1" = --config ]; then echo '{configVersion: v1, beforeHelm: 1}'; exit; fi
echo the hook waits
until [ -e $OUT/go ]; do sleep 0.05; done
echo the hook goes on
`

// inTerminal starts a command of the program on a terminal of 100 columns; raw is all that it writes there.
func (h *fixture) inTerminal(more []string, args ...string) (s *terminal, raw *lines) {
	h.t.Helper()
	keys, tty, err := pty.Open()
	if err == nil {
		err = pty.Setsize(keys, &pty.Winsize{Rows: 40, Cols: 100})
	}
	if err != nil {
		h.t.Fatal(err)
	}
	s = &terminal{t: h.t, screen: vt10x.New(vt10x.WithSize(100, 40), vt10x.WithWriter(keys)), keys: keys, tty: tty, cmd: exec.Command(program(), args...), exited: make(chan struct{})}
	raw = &lines{}
	s.cmd.Env, s.cmd.Dir = append(append(h.environment(), "TERM=xterm-256color"), more...), h.dir
	s.cmd.Stdin, s.cmd.Stdout, s.cmd.Stderr = tty, tty, tty
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := s.cmd.Start(); err != nil {
		h.t.Fatal(err)
	}
	go func() { _, _ = io.Copy(io.MultiWriter(s.screen, raw), keys) }() // until it is closed
	go func() {
		_ = s.cmd.Wait() // exit has the result
		close(s.exited)
	}()
	h.t.Cleanup(func() {
		_ = s.cmd.Process.Signal(syscall.SIGTERM) // nothing of its hooks is left behind
		select {
		case <-s.exited:
		case <-time.After(patience):
			_ = s.cmd.Process.Kill()
			<-s.exited
		}
		_ = s.keys.Close()
		_ = s.tty.Close()
	})
	return s, raw
}

// addresses are the options of an operator that a test starts by itself, and of the commands that ask it.
func addresses(t *testing.T) []string {
	return []string{"ADDON_OPERATOR_LISTEN_ADDRESS=127.0.0.1", "ADDON_OPERATOR_LISTEN_PORT=" + freePort(t), "ADDON_OPERATOR_DEBUG_ADDRESS=127.0.0.1:" + freePort(t)}
}

// On a terminal the progress is one line below the log, which stays whole; it is gone when all has converged. The
// command progress shows the same of a running operator, also below a file.
func TestProgressOnATerminal(t *testing.T) {
	h := newFixture(t, slowModules)
	where := addresses(t)
	s, _ := h.inTerminal(where, "start")
	const line = "converging: 1/2 modules ready, "
	s.see("the hook waits", line, "| slow: 020-slow/hooks/wait.sh: beforeHelm")
	s.await("one line of progress, the last one", func() error {
		shown := strings.Split(strings.TrimSpace(s.screen.String()), "\n")
		if n := strings.Count(s.screen.String(), "converging:"); n != 1 || !strings.HasPrefix(shown[len(shown)-1], line) {
			return fmt.Errorf("%d of them:\n%s", n, s.screen)
		}
		return nil
	})

	h.write("operator.log", "the first line of a log\n")
	asking, _ := h.inTerminal(where, "progress")
	asking.see(line)
	following, _ := h.inTerminal(where, "progress", "--log", "operator.log")
	following.see("the first line of a log", line)
	log, err := os.OpenFile(h.path("operator.log"), os.O_APPEND|os.O_WRONLY, 0)
	if err == nil {
		_, err = log.WriteString("the second line\n")
	}
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	following.see("the first line of a log", "the second line", line)

	h.write("out/go", "")
	s.see("the hook goes on", "converged", "!converging:")
	asking.see("converged: 2 modules", "!converging:")
	if code := asking.exit(); code != 0 {
		t.Errorf("exit code %d of progress", code)
	}
	following.see("the second line", "!converging:")

	if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if code := s.exit(); code != 0 {
		t.Errorf("exit code %d", code)
	}
	s.see("addon-operator has stopped", "!converging:")
}

// Nothing commands a pipe or a file, whatever the form of the log, and no log of JSON is followed by a line.
func TestNoProgressElsewhere(t *testing.T) {
	h := newFixture(t, slowModules)
	h.write("out/go", "")
	controls := func(text string) bool {
		return strings.ContainsAny(text, "\x1b\r") || strings.Contains(text, "converging:")
	}
	for _, kind := range []string{"auto", "text"} {
		o := h.start("LOG_TYPE=" + kind).ready()
		cmd := exec.Command(program(), "progress")
		cmd.Env = o.env
		out, err := cmd.CombinedOutput()
		if err != nil || string(out) != "converged: 2 modules\n" {
			t.Errorf("progress: %v, %q", err, out)
		}
		o.terminate()
		if text := string(o.output.data); controls(text) {
			t.Errorf("LOG_TYPE=%s: control characters in a pipe: %q", kind, text)
		}
	}
	s, raw := h.inTerminal(addresses(t), "start", "--log-type", "json")
	s.see(`"msg":"converged"`)
	if text := strings.ReplaceAll(raw.String(), "\r\n", "\n"); controls(text) {
		t.Errorf("control characters between JSON: %q", text)
	}
}

func (s *terminal) await(what string, condition func() error) {
	s.t.Helper()
	deadline := time.Now().Add(patience)
	for err := condition(); err != nil; err = condition() {
		if time.Now().After(deadline) {
			s.t.Fatalf("%s: %v", what, err)
		}
		<-time.After(pollInterval)
	}
}
