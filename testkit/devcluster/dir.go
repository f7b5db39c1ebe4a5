package main

import (
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
)

// Everything in the directory is as secret as the admin's token.
const (
	dirMode  fs.FileMode = 0o700
	fileMode fs.FileMode = 0o600
)

// lockDir makes dir and takes it for this process. The lock belongs to the
// open file, so the kernel drops it with the process, however that ends.
func lockDir(dir string) (unlock func(), err error) {
	if err := os.MkdirAll(dir, dirMode); err != nil {
		return nil, fmt.Errorf("making the cluster's directory: %w", err)
	}
	path := filepath.Join(dir, "lock")
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, fileMode)
	if err != nil {
		return nil, fmt.Errorf("locking %s: %w", dir, err)
	}
	err = syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if err != nil {
		defer file.Close()
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, fmt.Errorf("locking %s: %w", path, err)
		}
		holder, _ := os.ReadFile(path) // only for the message
		return nil, fmt.Errorf("%s is in use by a running devcluster (process %s): stop it or choose another --dir", dir, strings.TrimSpace(string(holder)))
	}
	if err := writePID(file); err != nil {
		file.Close()
		return nil, fmt.Errorf("locking %s: %w", path, err)
	}
	return func() { file.Close() }, nil
}

// removeDir removes what the cluster put into dir, and dir when nothing else is
// left: it may be a user's home.
func removeDir(dir string) {
	for _, name := range []string{"etcd", "pki", "kubeconfig", "controllers.kubeconfig", "tokens.csv", "port", "devcluster.log", "devcluster.log.old", "lock"} {
		_ = os.RemoveAll(filepath.Join(dir, name)) // at worst a file stays in a temporary directory
	}
	_ = os.Remove(dir)
}

// writePID puts this process into the lock file, for the message of another one that finds it
// locked.
func writePID(file *os.File) error {
	if err := file.Truncate(0); err != nil {
		return err
	}
	_, err := file.WriteAt(fmt.Appendf(nil, "%d\n", os.Getpid()), 0)
	return err
}

// writeFile puts data under path in one step: a reader sees the old text or
// the new one, and a kill in between leaves no half-written key.
func writeFile(path string, data []byte) error {
	temp, err := os.CreateTemp(filepath.Dir(path), ".new-*") // 0600
	if err != nil {
		return err
	}
	_, err = temp.Write(data)
	if err = errors.Join(err, temp.Close()); err == nil {
		err = os.Rename(temp.Name(), path)
	}
	if err != nil {
		os.Remove(temp.Name())
	}
	return err
}

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
