package hooks

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sync"
)

// shellFiles is the library that hooks in bash source as /shell_lib.sh, laid out as in the root of the image.
//
//go:embed shell
var shellFiles embed.FS

// shellLibrary serves the library where its files are not in the root directory: on the machine of a developer, or in
// an image of one's own. Nothing is written outside of the directory for temporary files, and nothing changes for
// hooks that do not name the library. Bash reads the file in BASH_ENV before a script; the one here makes source find
// it.
type shellLibrary struct {
	unpack func() (dir string, err error) // nil: nothing is to be served
}

func newShellLibrary(options Options) shellLibrary {
	_, missing := os.Stat(filepath.Join("/", options.Chroot, "shell_lib.sh"))
	if !errors.Is(missing, fs.ErrNotExist) || os.Getenv(envBash) != "" { // somebody else has a use for it
		return shellLibrary{}
	}
	return shellLibrary{sync.OnceValues(func() (string, error) { return unpackShell(options.TmpDir) })}
}

const envBash = "BASH_ENV"

// environment has the variable that makes bash find the library, if a hook or script names it in its first 64 KiB.
func (l shellLibrary) environment(path string) []string {
	if l.unpack == nil || !mentions(path, "/shell_lib.sh", "/frameworks/shell/") {
		return nil
	}
	dir, err := l.unpack()
	if err != nil {
		return nil // bash says that the file is not there
	}
	return []string{envBash + "=" + filepath.Join(dir, "source.sh")}
}

func mentions(path string, words ...string) bool {
	file, err := os.Open(path)
	if err != nil {
		return false
	}
	defer file.Close()
	start := make([]byte, 2)
	if _, err := io.ReadFull(file, start); err != nil || string(start) != "#!" { // a program is no script
		return false
	}
	text, _ := io.ReadAll(io.LimitReader(file, 64<<10))
	for _, word := range words {
		if bytes.Contains(text, []byte(word)) {
			return true
		}
	}
	return false
}

// unpackShell writes the library to a directory that is named by its content, so that it is written once, and other
// operators with the same directory for temporary files share it.
func unpackShell(tmpDir string) (string, error) {
	library, err := fs.Sub(shellFiles, "shell")
	if err != nil {
		return "", err
	}
	sum := sha256.New()
	err = fs.WalkDir(library, ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := fs.ReadFile(library, path)
		fmt.Fprintf(sum, "%s %d\n%s", path, len(text), text)
		return err
	})
	if err != nil {
		return "", err
	}
	dir := filepath.Join(tmpDir, fmt.Sprintf("shell-%x", sum.Sum(nil)[:8]))
	if _, err := os.Stat(dir); err == nil {
		return dir, nil
	}
	fresh, err := os.MkdirTemp(tmpDir, runPrefix+"shell-") // an operator that is killed now leaves it to the next
	if err == nil {
		err = os.CopyFS(fresh, library)
	}
	if err == nil {
		err = os.Rename(fresh, dir)
	}
	if _, there := os.Stat(dir); err != nil && there == nil { // another one was faster
		return dir, os.RemoveAll(fresh)
	}
	return dir, err
}
