package operator

import (
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
)

// predecessor proves that the process which ran here before, usually in the same Pod
// before its container was restarted, has ended. Then its Lease is free, and there is no wait
// until it expires (L4).
//
// The leader writes its identity into a file below the directory for temporary files, and
// keeps a lock on it. The kernel releases the lock when the process and its keeper, which
// kills the hooks, have both ended, and not before. So the process that gets the lock reads there
// whose Lease is free. A name, even the uid of a Pod, would only prove that the other process
// should have ended.
//
// Elsewhere nothing is proven: a new Pod has an empty directory. Where the directory is
// shared with other machines, the boot ID in the file differs; only the own kernel is
// trusted with the lock. A nil predecessor proves nothing.
type predecessor struct {
	log  *slog.Logger
	file *os.File
	boot string

	// The lock may be taken, and the leadership won, in either order and in two goroutines. The
	// file is written when both have happened.
	mu     sync.Mutex
	locked bool
	self   string // identity of this process; empty until it leads
}

// newPredecessor opens the file of this place; nil where there can be none, which only costs the
// wait for the expiry of a Lease. The name in the path keeps replicas apart that share the
// directory; NOFOLLOW, because others may write to /tmp.
func newPredecessor(log *slog.Logger, dir, name string) *predecessor {
	boot := bootID()
	if boot == "" {
		return nil
	}
	err := os.MkdirAll(dir, 0o700)
	var file *os.File
	if err == nil {
		file, err = os.OpenFile(filepath.Join(dir, "lease-"+filepath.Base(name)), os.O_RDWR|os.O_CREATE|syscall.O_NOFOLLOW, 0o600)
	}
	if err != nil {
		log.Warn("last leader is not recorded: after a crash this replica waits until its own Lease expires", "err", err)
		return nil
	}
	return &predecessor{log: log, file: file, boot: boot}
}

// bootID differs after each start of the kernel; "" where it is unknown. Without it a file that was
// written before a reboot, or on another machine, would look like a current one.
func bootID() string {
	text, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(text))
}

// open is the file that the keeper must inherit: the lock lasts until both processes have closed
// it.
func (p *predecessor) open() *os.File {
	if p == nil {
		return nil
	}
	return p.file
}

// await calls ended with the identity of the process that was here before, when that is known to
// have ended: at once or, while that still runs, later from another goroutine. It is called once.
func (p *predecessor) await(ended func(identity string)) {
	if p == nil {
		return
	}
	switch err := p.lock(syscall.LOCK_NB); {
	case err == nil:
		p.found(ended)
	case errors.Is(err, syscall.EWOULDBLOCK):
		go func() {
			if p.lock(0) == nil {
				p.found(ended)
			}
		}()
	default:
		p.log.Debug("the file of the last leader cannot be locked", "path", p.file.Name(), "err", err)
	}
}

// lock takes the lock on the file, with how == 0 waiting for it. Signals of the runtime interrupt
// the wait.
func (p *predecessor) lock(how int) error {
	for {
		if err := syscall.Flock(int(p.file.Fd()), syscall.LOCK_EX|how); !errors.Is(err, syscall.EINTR) {
			return err
		}
	}
}

// found is called with the lock. It reads the identity that the predecessor has left, and replaces
// it by the own one, if this process leads already. An identity of another boot is ignored: its
// Lease must expire.
func (p *predecessor) found(ended func(string)) {
	// An identity and a boot ID are shorter.
	const enough = 1 << 10
	text, err := io.ReadAll(io.NewSectionReader(p.file, 0, enough))
	identity, boot, _ := strings.Cut(strings.TrimSuffix(string(text), "\n"), "\n")
	p.mu.Lock()
	p.locked = true
	p.write()
	p.mu.Unlock()
	if err == nil && identity != "" && boot == p.boot {
		ended(identity)
	}
}

// leads writes down that the process with this identity leads.
func (p *predecessor) leads(identity string) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.self = identity
	p.write()
}

// write writes the identity once the lock is held and this process leads; before that the file
// belongs to another process. The caller holds the mutex. It overwrites before it truncates, so the
// file always begins with an identity.
func (p *predecessor) write() {
	if !p.locked || p.self == "" {
		return
	}
	text := p.self + "\n" + p.boot + "\n"
	_, err := p.file.WriteAt([]byte(text), 0)
	if err == nil {
		err = p.file.Truncate(int64(len(text)))
	}
	if err != nil {
		p.log.Warn("leader is not recorded: after a crash this replica waits until its own Lease expires", "err", err)
	}
}
