package cli

import (
	"os"
	"path/filepath"

	"addon-operator/addons"
)

// Directories finds out what a directory is: it has modules/, it has modules in it, or it is a
// module, which is then returned as only, with its parent as the directory of modules. Global hooks
// are expected next to the directory of modules. given has the other settings, such as the order of
// modules without a number.
func Directories(dir string, given addons.Dirs) (dirs addons.Dirs, only string, err error) {
	dir, err = filepath.Abs(dir)
	if err != nil {
		return given, "", err
	}
	if info, err := os.Stat(dir); err != nil {
		return given, "", err
	} else if !info.IsDir() {
		return given, "", Usagef("%s is not a directory", dir)
	}
	modules := dir
	switch {
	case IsDir(filepath.Join(dir, "modules")):
		modules = filepath.Join(dir, "modules")
	case isModule(dir):
		modules, only = filepath.Dir(dir), dir
	}
	given.Modules = []string{modules}
	given.Global = filepath.Join(filepath.Dir(modules), "global-hooks")
	return given, only, nil
}

// isModule reports whether a directory has something that only a module has. A directory with none
// of these is taken for one of modules.
func isModule(dir string) bool {
	for _, name := range []string{"Chart.yaml", "module.yaml", "enabled", "openapi", "hooks", "templates", "chart", "crds", "tests"} {
		if _, err := os.Stat(filepath.Join(dir, name)); err == nil {
			return true
		}
	}
	return false
}

// IsDir reports whether there is a directory.
func IsDir(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.IsDir()
}
