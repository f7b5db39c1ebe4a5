package hooks

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
)

// The variables that carry the paths of the files between operator and hook (C23).
const (
	envContext     = "BINDING_CONTEXT_PATH"
	envValues      = "VALUES_PATH"
	envConfig      = "CONFIG_VALUES_PATH"
	envValuesPatch = "VALUES_JSON_PATCH_PATH"
	envConfigPatch = "CONFIG_VALUES_JSON_PATCH_PATH"
	envMetrics     = "METRICS_PATH"
	envObjectPatch = "KUBERNETES_PATCH_PATH"
	envEnabled     = "MODULE_ENABLED_RESULT"
	envReason      = "MODULE_ENABLED_REASON"
	envWorkingDir  = "WORKING_DIR"
)

// runPrefix begins the names of all directories of runs.
const runPrefix = "run-"

var notInFileNames = regexp.MustCompile(`[^\w.-]`)

// runDir is the directory of one run. Only the operator and the hook can read it (mode 0700 of
// MkdirTemp), because values may hold secrets.
type runDir struct {
	path string
	env  []string // VARIABLE=path of each file
	max  int64    // largest result file that is read, in bytes
}

// makeRunDir makes a new directory. Its name contains that of the hook, for people who keep the
// files (DEBUG_KEEP_TMP_FILES).
func makeRunDir(tmpDir, hook string, maxResult int64) (*runDir, error) {
	slug := notInFileNames.ReplaceAllString(hook, "-")
	// The end of a long name distinguishes hooks better than its beginning, the module.
	if len(slug) > 100 {
		slug = slug[len(slug)-100:]
	}
	path, err := os.MkdirTemp(tmpDir, runPrefix+slug+"-")
	if err != nil {
		return nil, fmt.Errorf("directory for the exchange of files: %w", err)
	}
	return &runDir{path: path, max: maxResult}, nil
}

// MakeDir makes a directory for files of the operator that hooks read. The next operator removes it if this one is
// killed.
func (r *Runner) MakeDir(name string) (path string, err error) {
	dir, err := makeRunDir(r.options.TmpDir, name, 0)
	if err != nil {
		return "", err
	}
	return dir.path, nil
}

// fileName returns the name of the file for a variable: values.json for VALUES_PATH.
func fileName(variable string) string {
	name := strings.TrimSuffix(variable, "_PATH")
	return strings.ToLower(strings.ReplaceAll(name, "_", "-")) + ".json"
}

// add makes a file with some content, which is empty for the files that the hook writes, and adds
// its variable to env.
func (d *runDir) add(variable string, content []byte) error {
	return d.write(variable, func(w io.Writer) error {
		_, err := w.Write(content)
		return err
	})
}

// write is add for content that is produced while it is written.
func (d *runDir) write(variable string, content func(io.Writer) error) error {
	path := filepath.Join(d.path, fileName(variable))
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return fmt.Errorf("%s: %w", variable, err)
	}
	if err := errors.Join(content(file), file.Close()); err != nil {
		return fmt.Errorf("%s: %w", variable, err)
	}
	d.name(variable, variable)
	return nil
}

// name adds a variable with the path of the file of another one, or its own, which the hook makes.
func (d *runDir) name(variable, of string) {
	d.env = append(d.env, variable+"="+filepath.Join(d.path, fileName(of)))
}

// result reads what the hook wrote. A file that is gone counts as empty. The hook may have replaced
// it by anything, so it is opened without blocking: a named pipe would stop the run. A link is not followed: the
// operator may read files that a hook in a chroot may not, and errors quote what they contain.
func (d *runDir) result(variable string) ([]byte, error) {
	file, err := os.OpenFile(filepath.Join(d.path, fileName(variable)), os.O_RDONLY|syscall.O_NONBLOCK|syscall.O_NOFOLLOW, 0)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if errors.Is(err, syscall.ELOOP) {
		return nil, notRegular(variable)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", variable, err)
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", variable, err)
	}
	if !info.Mode().IsRegular() {
		return nil, notRegular(variable)
	}
	data, err := io.ReadAll(io.LimitReader(file, d.max+1))
	if err != nil {
		return nil, fmt.Errorf("%s: %w", variable, err)
	}
	if int64(len(data)) > d.max {
		return nil, fmt.Errorf("%s: the hook wrote more than %d bytes", variable, d.max)
	}
	return data, nil
}

func notRegular(variable string) error {
	return fmt.Errorf("%s: the hook has put something there that is not a regular file; write into the file that is there", variable)
}

func (d *runDir) remove() error {
	return os.RemoveAll(d.path)
}

// checkOwner refuses a directory in which another user could replace our files: its owner, or
// anyone who may write to it, can rename the files of a run and read or write others in their
// place. Root is trusted; with the sticky bit, as in /tmp, others cannot rename what is ours.
func checkOwner(path string) error {
	if err := checkOwned(os.Lstat(path)); err != nil { // of a symbolic link
		return err
	}
	info, err := os.Stat(path)
	if err := checkOwned(info, err); err != nil {
		return err
	}
	const othersWrite = 0o022
	if info.Mode().Perm()&othersWrite != 0 && info.Mode()&os.ModeSticky == 0 {
		return fmt.Errorf("others may write to it (mode %04o), and could replace the files of hooks; run chmod go-w, or set a directory in it, which the operator creates", info.Mode().Perm())
	}
	return nil
}

// checkWritable makes and removes a directory of a run.
func checkWritable(path string) error {
	probe, err := makeRunDir(path, "probe", 0)
	if err != nil {
		return fmt.Errorf("it cannot be written to: %w", err)
	}
	return probe.remove()
}

func checkOwned(info os.FileInfo, err error) error {
	if err != nil {
		return err
	}
	stat, ok := info.Sys().(*syscall.Stat_t)
	if us := os.Geteuid(); ok && stat.Uid != 0 && int(stat.Uid) != us {
		return fmt.Errorf("it belongs to user %d, who could replace the files of hooks; the operator is user %d: give it a directory of its own", stat.Uid, us)
	}
	return nil
}

// claim removes what an operator that was killed has left in the directory for temporary files, and
// marks the directory as used. The mark is a lock that all operators on a directory share and that
// ends with its process: whoever gets it exclusively knows that no other operator has runs there.
// The files hold values, so they must not stay for the next reader. claim returns the open
// directory, which must stay open as long as runs lie in it; failures are only logged.
func claim(options Options) *os.File {
	dir, err := os.Open(options.TmpDir)
	if err != nil {
		options.Log.Warn("files of earlier runs cannot be listed", "path", options.TmpDir, "err", err)
		return nil
	}
	lock := func(how int) error { return syscall.Flock(int(dir.Fd()), how) }
	if lock(syscall.LOCK_EX|syscall.LOCK_NB) == nil && !options.KeepFiles {
		removeRuns(options)
	}
	if err := lock(syscall.LOCK_SH); err != nil { // a file system without locks: then nothing is removed
		options.Log.Debug("the directory for temporary files cannot be locked", "path", options.TmpDir, "err", err)
	}
	return dir
}

// removeRuns removes the directories of all runs.
func removeRuns(options Options) {
	left, _ := filepath.Glob(filepath.Join(options.TmpDir, runPrefix+"*"))
	for _, path := range left {
		if err := os.RemoveAll(path); err != nil {
			options.Log.Warn("files of an earlier run cannot be removed", "path", path, "err", err)
			continue
		}
		options.Log.Info("files of a run that an earlier operator could not finish are removed", "path", path)
	}
}
