package main

import (
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// A port that the cluster picks is below the range from which kernels take
// the local ports of outgoing connections. Else, while the cluster is down,
// any client on the machine could take its port away.
const (
	firstPort = 20000
	lastPort  = 29999
)

// listen opens the API server's port on the loopback interface: the port
// asked for, else the one of the previous run, else a free one. It remembers
// the port in dir.
func listen(dir string, port int) (net.Listener, error) {
	memory := filepath.Join(dir, "port")
	listener, err := choosePort(port, recall(memory))
	if err != nil {
		return nil, err
	}
	chosen := listener.Addr().(*net.TCPAddr).Port
	if err := writeFile(memory, fmt.Appendf(nil, "%d\n", chosen)); err != nil {
		listener.Close()
		return nil, fmt.Errorf("remembering the port: %w", err)
	}
	return listener, nil
}

// recall returns the port of the previous run, 0 when there is none.
func recall(path string) int {
	data, err := os.ReadFile(path)
	if err != nil {
		return 0
	}
	port, err := strconv.Atoi(strings.TrimSpace(string(data)))
	if err != nil || port < 0 || port > 65535 {
		return 0
	}
	return port
}

// choosePort opens a port. One that was asked for is opened or the start fails: clients have its
// number. The previous one is only preferred, so that old kubeconfigs stay valid. If a hundred
// draws find no free port below the range of the kernel, any one must do.
func choosePort(asked, previous int) (net.Listener, error) {
	if asked != 0 {
		listener, err := listenOn(asked)
		if err != nil {
			return nil, fmt.Errorf("--port %d: %w", asked, err)
		}
		return listener, nil
	}
	if previous != 0 {
		if listener, err := listenOn(previous); err == nil {
			return listener, nil
		}
	}
	for range 100 {
		if listener, err := listenOn(firstPort + rand.IntN(lastPort-firstPort+1)); err == nil {
			return listener, nil
		}
	}
	return listenOn(0)
}

func listenOn(port int) (net.Listener, error) {
	return net.Listen("tcp", net.JoinHostPort(loopback, strconv.Itoa(port)))
}
