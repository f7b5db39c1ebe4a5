package hooks

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// Find lists the hooks below root in alphabetical order of their names: every executable regular
// file (A15). namePrefix is put before each name: "" for global hooks, "001-nginx-ingress/hooks"
// for the hooks of a module (A16). A root that does not exist has no hooks, and neither has "",
// which a tree has in place of global hooks that failed to load. unused are files that look like
// hooks but are none.
func Find(root, namePrefix string, scope Scope) (files []File, unused []Unused, err error) {
	if root == "" {
		return nil, nil, nil
	}
	root, err = filepath.Abs(root)
	if err != nil {
		return nil, nil, err
	}
	// The tree is opened through DirFS because that follows root itself when it is a link, as links
	// to whole modules are.
	err = fs.WalkDir(os.DirFS(root), ".", func(name string, entry fs.DirEntry, err error) error {
		file := File{Name: path.Join(namePrefix, name), Path: filepath.Join(root, filepath.FromSlash(name))}
		switch {
		case err != nil && name == "." && errors.Is(err, fs.ErrNotExist):
			return fs.SkipAll
		case err != nil:
			return err
		case name == ".":
			return nil
		case entry.IsDir() && skippedDirectory(entry.Name(), scope):
			return fs.SkipDir
		case !entry.IsDir() && skippedFile(entry.Name()):
			return nil
		case !utf8.ValidString(entry.Name()):
			// The name becomes a label of metrics, and the Prometheus client panics over one that is not UTF-8.
			file.Name = strconv.Quote(file.Name)
			unused = append(unused, Unused{file, "has a name that is not UTF-8, so it is not a hook; rename it"})
			return leaveOut(entry)
		case entry.IsDir():
			return nil
		}
		reason, err := whyNoHook(file.Path)
		if err != nil {
			return err
		}
		if reason != "" {
			unused = append(unused, Unused{file, reason})
			return nil
		}
		files = append(files, file)
		return nil
	})
	if err != nil {
		return nil, unused, &fs.PathError{Op: "hooks directory", Path: root, Err: err} // the caller may know it by another name
	}
	slices.SortFunc(files, func(x, y File) int { return strings.Compare(x.Name, y.Name) })
	return files, unused, nil
}

// leaveOut is what fs.WalkDir gets to continue behind an entry: behind all of a directory.
func leaveOut(entry fs.DirEntry) error {
	if entry.IsDir() {
		return fs.SkipDir
	}
	return nil
}

// Unused is a file that looks like a hook and is none. Reason follows its name or path.
type Unused struct {
	File
	Reason string
}

// String says why the file is no hook, and names it as hooks are named.
func (u Unused) String() string { return u.Name + " " + u.Reason }

// skippedDirectory reports whether a directory never contains hooks: hidden ones, libraries of
// shell functions, and the virtual environments of Python hooks.
func skippedDirectory(name string, scope Scope) bool {
	return strings.HasPrefix(name, ".") || name == "lib" || (name == "venv" && scope == Module)
}

// skippedFile reports whether a file is never a hook, so that no warning is due. Images built on
// systems without an executable bit often set it on every file.
func skippedFile(name string) bool {
	return strings.HasPrefix(name, ".") || slices.Contains([]string{".yaml", ".json", ".md", ".txt"}, filepath.Ext(name))
}

// whyNoHook returns why a file is no hook, or "". It follows links: a link to an executable file is
// a hook.
func whyNoHook(path string) (string, error) {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return "is a broken link, so it is not a hook", nil
	case err != nil:
		return "", err
	case info.IsDir():
		return "is a link to a directory, which is not searched for hooks; copy the directory or link its files", nil
	case !info.Mode().IsRegular():
		return "is not a regular file, so it is not a hook", nil
	case info.Mode()&0o111 == 0:
		return "is not executable, so it is not a hook; run chmod +x, or move it to a directory named lib", nil
	}
	return "", nil
}
