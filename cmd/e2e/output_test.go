package e2e

import (
	"bytes"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// noise counts the numbered lines of a noisy hook in the log.
type noise struct {
	mu     sync.Mutex
	lines  int
	bytes  int
	broken string // the first line that is not whole, or comes twice
	seen   map[string]bool
	// filling is what comes behind the number of a line.
	filling []byte
}

// What noisy.txtar prints in a line: noise-0000001, a space, and the filling.
const (
	noiseMark    = `"msg":"noise-`
	noiseDigits  = 7
	noiseFilling = 4000
)

func newNoise() *noise {
	return &noise{seen: map[string]bool{}, filling: []byte(" " + strings.Repeat("x", noiseFilling) + `"`)}
}

// sieve keeps all lines but those of the hook.
func (n *noise) sieve(line []byte) bool {
	if !bytes.Contains(line, []byte("noise-")) {
		return true
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.lines++
	n.bytes += len(line)
	_, rest, found := bytes.Cut(line, []byte(noiseMark))
	number := string(rest[:min(len(rest), noiseDigits)])
	whole := found && bytes.HasPrefix(rest[len(number):], n.filling)
	if n.broken == "" && (!whole || n.seen[number]) {
		n.broken = string(line)
	}
	n.seen[number] = true
	return false
}

func (n *noise) count() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.lines
}

// await waits as long as more and more lines come: how long that takes is up to the machine.
func (n *noise) await(t *testing.T, what string, done func() bool) {
	t.Helper()
	last, deadline := -1, time.Now()
	for !done() {
		if now := n.count(); now != last {
			last, deadline = now, time.Now().Add(patience)
		}
		if time.Now().After(deadline) {
			t.Fatalf("waited %s for %s; no line came after the first %d", patience, what, last)
		}
		select {
		case <-t.Context().Done():
			t.Fatalf("waiting for %s: %v", what, t.Context().Err())
		case <-time.After(pollInterval):
		}
	}
}

// A hook prints 100 MB, on both streams: each line is in the log, once and whole; the
// operator does not hold them in memory; and while the hook prints, one in another queue
// handles an event. C27, C28, issue 3 'bad input'.
func TestHookPrintsHundredMegabytes(t *testing.T) {
	h := newFixture(t, "noisy")
	noise := newNoise()
	h.sieve = noise.sieve
	o := h.start("LOG_TYPE=json").ready()
	peak := bounded(o)
	before := peak()
	h.createConfigMap("start", "x", map[string]string{"app": "noise"})
	noise.await(t, "the first lines", func() bool { return noise.count() > 0 })
	h.createConfigMap("probe", "x", map[string]string{"app": "watched"})
	h.awaitLine("out/good", "probe")
	if h.read("out/printed") != "" {
		t.Error("the event was handled only after the noisy hook")
	}
	noise.await(t, "all lines", func() bool {
		printed, err := strconv.Atoi(strings.TrimSpace(h.read("out/printed")))
		return err == nil && noise.count() >= printed
	})
	o.expect("INFO no-newline-at-the-end", "hook=010-noisy/hooks/noisy.sh")
	if noise.broken != "" || noise.bytes < 100_000_000 || noise.count() != len(noise.seen) {
		t.Errorf("%d lines of %d bytes, %d different ones; one that is not as it was printed: %.200s", noise.lines, noise.bytes, len(noise.seen), noise.broken)
	}
	const enough = 64 * overhead // MiB
	if grown := peak() - before; grown > enough {
		t.Errorf("the memory of the operator has grown by %d MiB while 100 MB passed through it", grown)
	}
	if n := o.count("ERROR"); n != 0 {
		t.Errorf("%d errors", n)
	}
}
