package hooks

import (
	"fmt"
	"path/filepath"
	"strings"
)

// checkChroot makes the option absolute and checks that hooks find their files with it: later, a hook
// would only report "no such file".
func checkChroot(options *Options) error {
	if options.Chroot == "" {
		return nil
	}
	root, err := filepath.Abs(options.Chroot)
	if err != nil {
		return fmt.Errorf("root directory of hooks: %w", err)
	}
	options.Chroot = root
	if !Below(root, options.TmpDir) {
		return fmt.Errorf("root directory of hooks %s: the directory for temporary files, %s, is not below it, so no hook could read or write there", root, options.TmpDir)
	}
	if found, err := filepath.EvalSymlinks(root); err != nil {
		return fmt.Errorf("root directory of hooks: %w", err)
	} else if found != root {
		return fmt.Errorf("root directory of hooks %s: is a symbolic link; use %s", root, found)
	}
	return nil
}

// Below reports whether a path is root or below it. It compares texts only; symbolic links may lead
// elsewhere.
func Below(root, path string) bool {
	rest, err := filepath.Rel(root, path)
	return err == nil && rest != ".." && !strings.HasPrefix(rest, ".."+string(filepath.Separator))
}

// inside returns a path as a process sees it whose root directory is root; "" for none.
func inside(root, path string) string {
	if root == "" {
		return path
	}
	rest, err := filepath.Rel(root, path)
	if err != nil || !Below(root, path) {
		return path // the process will say that it is not there
	}
	return filepath.Join("/", rest)
}

// environment returns the variables of the process with paths as it sees them. Values that are no
// paths below the root stay as they are.
func (p process) environment() []string {
	env := make([]string, len(p.env))
	for i, variable := range p.env {
		name, path, _ := strings.Cut(variable, "=")
		env[i] = name + "=" + inside(p.root, path)
	}
	return env
}
