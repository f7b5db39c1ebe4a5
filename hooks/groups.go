package hooks

import (
	"errors"
	"os/exec"
	"sync"
	"syscall"
)

// errKilled is why nothing is started any more.
var errKilled = errors.New("this operator must not act any more: it has lost the leadership, or crashed")

// groups are the process groups that run now, so that all of them can be killed at once.
type groups struct {
	may    func() error
	keeper *Keeper

	mu      sync.Mutex
	running map[group]bool
	killed  bool
}

func newGroups(o Options) *groups {
	return &groups{may: o.May, keeper: o.Keeper, running: map[group]bool{}}
}

// start starts a process unless it must not: kill finds it, or it finds that it was too late.
func (g *groups) start(cmd *exec.Cmd, gated bool) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.killed {
		return errKilled
	}
	if gated && g.may != nil {
		if err := g.may(); err != nil {
			return err
		}
	}
	if err := cmd.Start(); err != nil {
		return err
	}
	offerToOOMKiller(cmd.Process.Pid)
	started := group(cmd.Process.Pid)
	g.running[started] = true
	g.keeper.guard(started)
	if gated && g.may != nil && g.may() != nil {
		// The process was stopped in between, and woken up after its time. The run reports the kill.
		started.signal(syscall.SIGKILL)
	}
	return nil
}

// remove forgets a group whose leader has ended, but is not reaped: until then its number cannot be a stranger's.
func (g *groups) remove(ended group) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.running, ended)
	g.keeper.release(ended)
}

func (g *groups) kill() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.killed = true
	for running := range g.running {
		running.signal(syscall.SIGKILL)
	}
}
