package hooks

import (
	"errors"
	"os/exec"
	"sync"
	"sync/atomic"
	"syscall"
)

// errKilled is the reason why no process starts any more.
var errKilled = errors.New("this operator must not act any more: it has lost the leadership, or crashed")

// groups are the process groups that run, so that all of them can be killed at once. may is
// Options.May.
//
// A number of a group must not be signalled after its leader was reaped, because it may belong to
// another program then. So a run calls remove before it reaps the process, and remove waits while
// kill is about to signal the group: whoever deletes the entry from running is first.
type groups struct {
	may     func() error
	killed  atomic.Bool
	running sync.Map // of *started
}

// started is a process from before its start until it is reaped.
type started struct {
	group  group         // 0 when it could not be started
	begun  chan struct{} // closed when group is known
	killed chan struct{} // closed when kill, which found it, has killed it
}

// start starts a process unless it must not. It stores the process before it looks at killed, and
// kill sets killed before it looks at the processes: at least one of the two notices the other.
func (g *groups) start(cmd *exec.Cmd, gated bool) (*started, error) {
	s := &started{begun: make(chan struct{}), killed: make(chan struct{})}
	g.running.Store(s, nil)
	defer close(s.begun) // also when may panics: kill waits for it
	err := g.begin(s, cmd, gated)
	if err != nil {
		g.running.Delete(s)
	}
	return s, err
}

// begin starts the process and registers its group. gated processes are those that act on the
// cluster; questions such as --config start also in a follower.
func (g *groups) begin(s *started, cmd *exec.Cmd, gated bool) error {
	if g.killed.Load() {
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
	s.group = group(cmd.Process.Pid)
	if gated && g.may != nil && g.may() != nil {
		// The operator was stopped in between, and continued after its time. The run reports the
		// kill.
		s.group.signal(syscall.SIGKILL)
	}
	return nil
}

// remove forgets a group whose leader has ended but is not reaped: until then its number cannot be
// that of another program. It returns when kill does not use the number any more.
func (g *groups) remove(s *started) {
	if _, mine := g.running.LoadAndDelete(s); !mine {
		<-s.killed
	}
}

// kill kills all groups. It returns when that is done; from then on nothing starts any more.
func (g *groups) kill() {
	g.killed.Store(true) // first: what is stored in running after this is not started
	for key := range g.running.Range {
		s, _ := key.(*started)
		<-s.begun
		if _, mine := g.running.LoadAndDelete(s); mine {
			if s.group != 0 {
				s.group.signal(syscall.SIGKILL)
			}
			close(s.killed)
		}
	}
}
