// Program casts records what docs/ shows of a terminal: it plays the scripts of script.go in a
// terminal of its own, against an API server in memory, and writes each as a picture that moves
// without a script. 'make casts' runs it.
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

// columns and rows are the size of the terminal; patience is how long a step may take. A screen
// that has not changed for settled is a frame: programs draw a screen in several writes, and what
// is between is not to be seen. reading is how long a person needs to notice what an action waits
// for.
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

// record plays all casts and writes their pictures to a directory. One that fails ends it, and what
// still runs is ended, too.
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
		// Pages load all pictures, so one that grows must be noticed here.
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

// recorder plays casts, one after another. Each command has a terminal of its own, and all commands
// of a cast share one screen. Goroutines that copy the output of commands write to the screen, so
// it and the fields below mu are guarded.
type recorder struct {
	root, home string
	// running are commands that go on after their cast, until end.
	running []process
	frames  []frame

	mu     sync.Mutex
	screen vt10x.Terminal
	// held is the end of the output that may be the beginning of a path; see write.
	held string
	// changed is when the screen was written to; last is the newest frame, and over says that no
	// more are made.
	changed time.Time
	last    frame
	over    bool // what follows is not shown
}

// process is a command that goes on; ended is closed when it has ended and its output is copied.
type process struct {
	cmd   *exec.Cmd
	ended <-chan struct{}
}

// play plays a cast on a new screen, and leaves its frames in r.frames. What earlier casts still
// print goes to their own screens, which no one sees.
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

// step shows a command as if it were typed, runs it in bash, and makes frames until it has ended,
// or, for one that goes on, until its last action is done. The exit code does not count: a picture
// may show a failure.
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
	// A new home, so that no configuration of this machine is seen.
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
	// A session of its own, with the terminal that controls it: Ctrl-C and the size reach all of
	// its processes.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Setctty: true}
	if err := cmd.Start(); err != nil {
		return err
	}
	// The command has its own copy. Without this one the copy below ends when the command does.
	_ = tty.Close()
	ended := make(chan struct{})
	// The goroutine writes to this screen, also when the next cast has another one.
	screen := r.screen
	go func() {
		// Reading fails when the last process that has the terminal is gone.
		_, _ = io.Copy(output{r, screen}, keys)
		_ = cmd.Wait() // what a person sees is what counts
		close(ended)
	}()
	if s.keepsRunning {
		r.running = append(r.running, process{cmd, ended})
	}
	// Files are saved and keys are pressed while the command runs.
	for _, a := range s.then {
		if err := r.await(a.shows, ended); err != nil {
			return err
		}
		// From here on, not after the keys: the program may react before this goroutine goes on.
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

// await makes frames until the screen shows a text and a person has had the time to read it, or,
// for "", until the command has ended. It fails when the text does not appear within patience.
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

// output copies the output of a command to the screen of its cast. When another cast is played, it
// is dropped, but still read: a full terminal would stop the command.
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

// write shows a text, with the paths of this machine replaced by those of a reader. A path may be
// split between two writes, so an end that may be its beginning is held back until the next one.
func (r *recorder) write(data string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	text := r.held + data
	text = strings.ReplaceAll(strings.ReplaceAll(text, r.root, "~/addon-operator"), r.home, "~")
	r.held = ""
	// The longest end that begins one of the paths.
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

// text is what the screen shows, without colours.
func (r *recorder) text() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.screen.String()
}

// keepSettled makes a frame if the screen has not changed for a moment.
func (r *recorder) keepSettled() {
	r.mu.Lock()
	quiet := time.Since(r.changed) > settled
	r.mu.Unlock()
	if quiet {
		r.keep()
	}
}

// keep makes a frame of the screen, unless it looks like the last one, or what follows is not to be
// seen.
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

// end ends the commands that go on, with all of their processes, as Ctrl-C does.
func (r *recorder) end() {
	for _, p := range r.running {
		// The whole process group, which is the session of the command.
		_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGINT)
		select {
		case <-p.ended:
		case <-time.After(patience):
			_ = syscall.Kill(-p.cmd.Process.Pid, syscall.SIGKILL)
		}
	}
}
