// Program casts records what docs/ shows of a terminal: it plays the scripts of script.go in a terminal of its own, against an
// API server in memory, and writes each as a picture that moves without a script. 'make casts' runs it.
package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/creack/pty"
	"github.com/hinshun/vt10x"
)

const (
	columns, rows = 90, 30
	patience      = 2 * time.Minute
	settled       = 150 * time.Millisecond // what has not changed for so long is a frame
	reading       = 1500 * time.Millisecond
)

func main() {
	out := flag.String("out", "docs/.vitepress/public/casts", "`directory` of the pictures")
	flag.Parse()
	if err := record(*out); err != nil {
		fmt.Fprintln(os.Stderr, "casts:", err)
		os.Exit(1)
	}
}

func record(out string) error {
	root, err := os.Getwd()
	if err != nil {
		return err
	}
	home, err := os.MkdirTemp("", "casts")
	if err != nil {
		return err
	}
	defer os.RemoveAll(home)
	r := &recorder{root: root, home: home}
	defer r.end()
	for _, c := range casts() {
		if err := r.play(c); err != nil {
			return fmt.Errorf("%s: %w", c.name, err)
		}
		picture := r.picture(c)
		if len(picture) > maxBytes {
			return fmt.Errorf("%s: the picture has %d bytes, more than %d", c.name, len(picture), maxBytes)
		}
		if err := os.WriteFile(filepath.Join(out, c.name+".svg"), picture, 0o644); err != nil {
			return err
		}
		fmt.Fprintf(os.Stderr, "%s: %d frames, %d bytes\n", c.name, len(r.frames), len(picture))
	}
	return nil
}

// recorder has one terminal at a time, and the frames of the cast that it plays.
type recorder struct {
	root, home string
	running    []process // goes on after its cast
	frames     []frame

	mu      sync.Mutex
	screen  vt10x.Terminal
	held    string // may be the begin of a path
	changed time.Time
	last    frame
	over    bool // what follows is not shown
}

type process struct {
	cmd   *exec.Cmd
	ended <-chan struct{}
}

// play plays a cast on a new screen.
func (r *recorder) play(c cast) error {
	r.mu.Lock()
	r.frames, r.held, r.last, r.over = nil, "", frame{}, false
	r.screen = vt10x.New(vt10x.WithSize(columns, rows))
	r.mu.Unlock()
	for _, s := range c.steps {
		if s.file != "" {
			path := filepath.Join(r.home, s.file)
			if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(s.text), 0o755)); err != nil {
				return err
			}
			continue
		}
		if err := r.step(s); err != nil {
			return fmt.Errorf("%s: %w", s.command, err)
		}
	}
	return nil
}

// step types a command, and looks at the screen until the command has ended, or shows what the step waits for.
func (r *recorder) step(s step) error {
	r.write("\x1b[1m$ " + s.command + "\x1b[m")
	r.keep()
	r.write("\r\n")
	keys, tty, err := pty.Open()
	if err != nil {
		return err
	}
	if err := pty.Setsize(keys, &pty.Winsize{Rows: rows, Cols: columns}); err != nil {
		return err
	}
	cmd := exec.Command("bash", "-c", s.command)
	cmd.Dir = r.home
	home := "HOME=" + r.home
	if s.inRoot {
		cmd.Dir, home = r.root, "HOME="+os.Getenv("HOME") // which has what Go has compiled
	}
	cmd.Env = slices.DeleteFunc(os.Environ(), func(v string) bool { // nor does make say that it runs within make
		return strings.HasPrefix(v, "ADDON_OPERATOR_") || strings.HasPrefix(v, "MAKE")
	})
	cmd.Env = append(cmd.Env, "TERM=xterm-256color", home, "TMPDIR="+r.home, "PATH="+filepath.Join(r.root, "bin")+":"+os.Getenv("PATH"),
		"KUBECONFIG="+filepath.Join(r.root, ".run/memory/kubeconfig"), "ADDON_OPERATOR_NAMESPACE=addon-operator")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = tty, tty, tty
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := cmd.Start(); err != nil {
		return err
	}
	_ = tty.Close()
	ended := make(chan struct{})
	screen := r.screen
	go func() {
		_, _ = io.Copy(output{r, screen}, keys)
		_ = cmd.Wait() // what a person sees is what counts
		close(ended)
	}()
	if s.keepsRunning {
		r.running = append(r.running, process{cmd, ended})
	}
	for _, a := range s.then {
		if err := r.await(a.shows, ended); err != nil {
			return err
		}
		if a.keys != "" {
			r.over = true
		}
		if a.file != "" {
			if err := os.WriteFile(filepath.Join(r.home, a.file), []byte(a.text), 0o755); err != nil {
				return err
			}
		}
		if _, err := keys.WriteString(a.keys); err != nil {
			return err
		}
	}
	if s.keepsRunning {
		return nil
	}
	return r.await("", ended)
}

// await makes frames until the screen shows a text, or, for "", until the command has ended.
func (r *recorder) await(text string, ended <-chan struct{}) error {
	late, tick := time.After(patience), time.NewTicker(settled/3)
	defer tick.Stop()
	var read <-chan time.Time // a person has read it
	for {
		r.keepSettled()
		if read == nil && text != "" && strings.Contains(r.text(), text) {
			read = time.After(reading)
		}
		select {
		case <-read:
			r.keep()
			return nil
		case <-tick.C:
		case <-late:
			return fmt.Errorf("%q does not appear:\n%s", text, r.text())
		case <-ended:
			r.keep()
			if text == "" {
				return nil
			}
			return fmt.Errorf("ended without %q:\n%s", text, r.text())
		}
	}
}

// output is what a command prints on the screen of its cast; while others are played, nobody reads it.
type output struct {
	*recorder
	screen vt10x.Terminal
}

func (o output) Write(data []byte) (int, error) {
	o.mu.Lock()
	shown := o.screen == o.recorder.screen
	o.mu.Unlock()
	if shown {
		o.write(string(data))
	}
	return len(data), nil
}

// write shows a text. Paths of this machine become those of a reader.
func (r *recorder) write(data string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	text := r.held + data
	text = strings.ReplaceAll(strings.ReplaceAll(text, r.root, "~/addon-operator"), r.home, "~")
	r.held = ""
	for n := min(len(text), max(len(r.root), len(r.home))); n > 0; n-- {
		if tail := text[len(text)-n:]; strings.HasPrefix(r.root, tail) || strings.HasPrefix(r.home, tail) {
			r.held = tail
			text = text[:len(text)-n]
			break
		}
	}
	_, _ = r.screen.Write([]byte(text)) // in memory
	r.changed = time.Now()
}

func (r *recorder) text() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.screen.String()
}

func (r *recorder) keepSettled() {
	r.mu.Lock()
	quiet := time.Since(r.changed) > settled
	r.mu.Unlock()
	if quiet {
		r.keep()
	}
}

// keep makes a frame of the screen, unless it is the last one.
func (r *recorder) keep() {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := frameOf(r.screen)
	if r.over || now.rows == r.last.rows {
		return
	}
	now.at = time.Now()
	r.last = now
	r.frames = append(r.frames, now)
}

// end ends what goes on, as Ctrl-C does.
func (r *recorder) end() {
	for _, p := range r.running {
		_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGINT)
		select {
		case <-p.ended:
		case <-time.After(patience):
			_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL)
		}
	}
}
