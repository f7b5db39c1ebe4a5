package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
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
