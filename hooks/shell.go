package hooks

import (
	"bytes"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
)

// shellFiles is the library that hooks in bash source as /shell_lib.sh, laid out as in the root of the image.
//
//go:embed shell
var shellFiles embed.FS

// shellLibrary serves the library where its files are not in the root directory: on the machine of a developer, or in
// an image of one's own. Nothing is written outside of the directory for temporary files, and nothing changes for hooks
// that do not name the library. Bash reads the file in BASH_ENV before a script; the one here makes source find it.
type shellLibrary struct {
	wanted bool
	tmpDir string
	log    *slog.Logger

	mu     sync.Mutex
	dir    string // where it was unpacked, in a directory that no one else can write to
	failed string // the error that was logged last
}

func newShellLibrary(options Options) *shellLibrary {
	_, missing := os.Stat(filepath.Join("/", options.Chroot, "shell_lib.sh"))
	return &shellLibrary{
		wanted: errors.Is(missing, fs.ErrNotExist) && os.Getenv(envBash) == "", // else it has another use
		tmpDir: options.TmpDir, log: options.Log,
	}
}

const envBash = "BASH_ENV"

// environment has the variable that makes bash find the library, if a hook or script names it in its first 64 KiB.
func (l *shellLibrary) environment(path string) []string {
	if !l.wanted || !namesLibrary(path) {
		return nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	file, err := l.unpacked()
	if err != nil { // bash says that the file does not exist; the reason is logged once
		if l.failed != err.Error() {
			l.log.Warn("hooks do not find /shell_lib.sh; copy it into the image, or set ADDON_OPERATOR_TMP_DIR to another directory", "err", err)
			l.failed = err.Error()
		}
		return nil
	}
	return []string{envBash + "=" + file}
}

// library is how scripts name it, outside of comments; /deckhouse/shell_lib.sh and lib/shell_lib.sh are others.
var library = regexp.MustCompile(`(?m)^([^#\n]*([\s"'=]|\$FRAMEWORK_DIR))?(/shell_lib\.sh|/frameworks/shell)\b`)

// namesLibrary reports whether a file is a script that names the library.
func namesLibrary(path string) bool {
	const enough = 64 << 10
	text := readStart(path, enough)
	return bytes.HasPrefix(text, []byte("#!")) && bytes.Contains(text, []byte("/shell")) && library.Match(text) // in the order of their cost
}

// unpacked returns the file for BASH_ENV. It is written again when it was removed. The caller holds the lock.
func (l *shellLibrary) unpacked() (string, error) {
	const first = "source.sh"
	if _, err := os.Stat(filepath.Join(l.dir, first)); l.dir != "" && err == nil {
		return filepath.Join(l.dir, first), nil
	}
	if strings.ContainsAny(l.tmpDir, "$`\\") { // bash expands the value of the variable
		return "", fmt.Errorf("%s has a character that bash expands", l.tmpDir)
	}
	library, err := fs.Sub(shellFiles, "shell")
	if err != nil {
		return "", err
	}
	dir, err := makeRunDir(l.tmpDir, "shell", 0) // the next operator removes it
	if err != nil {
		return "", err
	}
	if err := os.CopyFS(dir.path, library); err != nil {
		return "", errors.Join(err, os.RemoveAll(dir.path))
	}
	l.dir = dir.path
	return filepath.Join(l.dir, first), nil
}
