package devclustertest

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
)

// process is one run of the program.
type process struct {
	command *exec.Cmd
	ready   string // the line that said so, without its end
}

// startProcess runs the program on dir and returns when it is ready. It ends
// with this process, or with that of the flag --parent-pid: it gets the process to
// watch, so that not even a kill between its fork and its first look leaves it
// behind.
func startProcess(root, dir string, flags ...string) (*process, error) {
	args := append([]string{"--dir", dir, "--parent-pid", strconv.Itoa(os.Getpid())}, flags...)
	command := exec.Command(filepath.Join(root, binDir, clusterProgram()), args...)
	// Its start leaves much garbage: a collector that works less saves a quarter of its processor
	// time.
	command.Env = append(os.Environ(), "GOGC=400", "GOMEMLIMIT=700MiB")
	// A pipe of our own, not ours to inherit: go test waits for every process that
	// holds the test's output open.
	stdout, err := command.StdoutPipe()
	if err != nil {
		return nil, err
	}
	// A file and no pipe: the program may outlive this process, and a write into a pipe
	// without a reader would end it.
	complaint, err := os.CreateTemp("", tempPrefix+"stderr-")
	if err != nil {
		return nil, err
	}
	defer complaint.Close()
	defer os.Remove(complaint.Name())
	command.Stderr = complaint
	if err := command.Start(); err != nil {
		return nil, fmt.Errorf("starting devcluster: %w", err)
	}
	// The program bounds its start itself and ends when it does not make it;
	// then the pipe closes.
	line, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil || !strings.HasPrefix(line, "devcluster ready:") {
		_ = command.Process.Kill()
		err = errors.Join(err, command.Wait())
		text, _ := os.ReadFile(complaint.Name()) // what it has said makes the error better
		return nil, fmt.Errorf("devcluster did not start: %w\n%s", err, text)
	}
	return &process{command: command, ready: strings.TrimSpace(line)}, nil
}

// kill ends the process without giving it a chance, and waits until it is
// gone. Its error says only that it was killed.
func (p *process) kill() {
	_ = p.command.Process.Kill()
	_ = p.command.Wait()
}
