package main

import (
	"net"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

func TestPortIsThatOfThePreviousRun(t *testing.T) {
	dir := t.TempDir()
	first := listenIn(t, dir, 0)
	port := portOf(first)
	if port < firstPort || port > lastPort {
		t.Errorf("port %d: outgoing connections could take it", port)
	}
	first.Close()
	again := listenIn(t, dir, 0)
	if portOf(again) != port {
		t.Errorf("port %d, was %d", portOf(again), port)
	}

	// Somebody else has it now: there is no use in waiting for him.
	other := listenIn(t, dir, 0)
	if portOf(other) == port {
		t.Errorf("port %d twice", port)
	}
	if _, err := listen(dir, port); err == nil || !strings.Contains(err.Error(), "--port "+strconv.Itoa(port)) {
		t.Errorf("a taken port, asked for: %v", err)
	}
}

func TestPortIsTheOneAskedFor(t *testing.T) {
	dir := t.TempDir()
	free := listenIn(t, t.TempDir(), 0)
	free.Close()
	asked := listenIn(t, dir, portOf(free))
	if portOf(asked) != portOf(free) {
		t.Errorf("port %d, asked for %d", portOf(asked), portOf(free))
	}
	if got := recall(filepath.Join(dir, "port")); got != portOf(free) {
		t.Errorf("remembers %d", got)
	}
}

func TestDamagedMemoryOfThePortIsNone(t *testing.T) {
	for situation, text := range map[string]string{"empty": "", "text": "http\n", "negative": "-1", "too big": "65536"} {
		path := filepath.Join(t.TempDir(), "port")
		must(t, writeFile(path, []byte(text)))
		if got := recall(path); got != 0 {
			t.Errorf("%s: %d, want 0", situation, got)
		}
	}
}

func listenIn(t *testing.T, dir string, port int) net.Listener {
	t.Helper()
	listener, err := listen(dir, port)
	must(t, err)
	t.Cleanup(func() { listener.Close() })
	return listener
}

func portOf(listener net.Listener) int {
	return listener.Addr().(*net.TCPAddr).Port
}
