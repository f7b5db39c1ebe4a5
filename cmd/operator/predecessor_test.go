package operator

import (
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// place is a directory that processes use one after another, or at the same time.
type place struct {
	t   *testing.T
	dir string
}

// process is a process in that place; what it hears of is in ended.
type process struct {
	*predecessor
	ended chan string
}

func (p place) process(boot string) process {
	p.t.Helper()
	one := newPredecessor(slog.New(slog.DiscardHandler), p.dir, "pod")
	if one == nil {
		p.t.Skip("no boot ID is known here")
	}
	if boot != "" {
		one.boot = boot
	}
	p.t.Cleanup(func() { _ = one.file.Close() }) // it may be closed
	return process{one, make(chan string, 1)}
}

func (p process) await() process {
	p.predecessor.await(func(identity string) { p.ended <- identity })
	return p
}

// ends is the end of the process: the kernel closes its files.
func (p process) ends(t *testing.T) {
	t.Helper()
	if err := p.file.Close(); err != nil {
		t.Fatal(err)
	}
}

func (p process) expect(t *testing.T, want string) {
	t.Helper()
	select {
	case got := <-p.ended:
		if got != want {
			t.Errorf("%q has ended, want %q", got, want)
		}
	case <-time.After(time.Minute):
		t.Fatalf("nobody says that %q has ended", want)
	}
}

func (p process) expectNothing(t *testing.T, why string) {
	t.Helper()
	select {
	case got := <-p.ended:
		t.Errorf("%q has ended: %s", got, why)
	default:
	}
}

// L4: who comes after a process in the same place knows whose Lease is free, when that process
// has ended and not before.
func TestPredecessor(t *testing.T) {
	p := place{t, filepath.Join(t.TempDir(), "made")}
	first := p.process("").await()
	first.leads("first")
	first.expectNothing(t, "there was nobody")

	second := p.process("").await()
	second.leads("second") // its Lease has expired meanwhile
	second.expectNothing(t, "it lives")
	first.ends(t)
	second.expect(t, "first")
	second.ends(t)

	third := p.process("").await()
	third.expect(t, "second") // it waited with the file, too
	third.ends(t)             // without having led

	fourth := p.process("").await()
	fourth.expect(t, "second")
	fourth.ends(t)

	elsewhere := p.process("another boot of the machine").await()
	elsewhere.expectNothing(t, "a lock of another machine, or of its last life, proves nothing")
	elsewhere.ends(t)
}

// What somebody else has put there proves nothing, and stops nothing.
func TestPredecessorOfAnotherKind(t *testing.T) {
	p := place{t, t.TempDir()}
	for name, text := range map[string]string{"empty": "", "no boot ID": "first\n", "no identity": "\n" + bootID() + "\n"} {
		if err := os.WriteFile(filepath.Join(p.dir, "lease-pod"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		one := p.process("").await()
		one.expectNothing(t, name)
		one.ends(t)
	}
	if err := os.Remove(filepath.Join(p.dir, "lease-pod")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("elsewhere", filepath.Join(p.dir, "lease-pod")); err != nil {
		t.Fatal(err)
	}
	if newPredecessor(slog.New(slog.DiscardHandler), p.dir, "pod") != nil {
		t.Error("a link was followed")
	}
	var none *predecessor
	none.await(func(string) { t.Error("nobody has ended") })
	none.leads("self")
	if none.open() != nil {
		t.Error("nothing is open")
	}
}
