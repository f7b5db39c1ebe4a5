package scenario

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"addon-operator/addons"
	"addon-operator/helm/charts"
	"addon-operator/helm/manifest"
	"addon-operator/values"
)

// files are the directories of one play, in a directory of its own:
//
//	modules/        the modules that play, and values.yaml with the given values and flags
//	global-hooks/   schemas, and hooks if the scenario wants them
//	kubeconfig      the API server of the play, for hooks that call kubectl
//	tmp/            the files of runs of hooks
//	commands/       stand-ins for programs (commands.go)
type files struct {
	scenario *Scenario
	dir      string // "" before the play has begun
}

// write copies what the scenario needs, so that hooks cannot change their sources and plays at the
// same time cannot disturb each other: the module with the others it names, values.yaml with the
// given values, schemas and hooks of the global hooks directory.
func (f *files) write() error {
	for _, dir := range []string{f.modulesDir(), f.globalDir()} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
	}
	return errors.Join(f.writeModules(), f.writeGlobal())
}

// definitions are those in crds/ of the modules that play. The operator reports files that are wrong.
func (f *files) definitions() (all []map[string]any) {
	for _, base := range subdirectories(f.modulesDir()) {
		found, _ := charts.Definitions(filepath.Join(f.modulesDir(), base))
		for _, file := range found {
			objects, _ := manifest.Parse(string(file.Data))
			for _, object := range objects {
				all = append(all, object.Object)
			}
		}
	}
	return all
}

// testsDir holds the scenarios of a module, or of the global hooks.
const testsDir = "tests"

func (f *files) modulesDir() string { return filepath.Join(f.dir, "modules") }
func (f *files) globalDir() string  { return filepath.Join(f.dir, "global-hooks") }
func (f *files) kubeconfig() string { return filepath.Join(f.dir, "kubeconfig") }

func (f *files) addonDirs() addons.Dirs {
	return addons.Dirs{Modules: []string{f.modulesDir()}, Global: f.globalDir(), UnnumberedOrder: 1}
}

// readable replaces the paths of the copies by those of the sources, which are the files that an
// author can edit, and which are the same in each play.
func (f *files) readable(text string) string {
	text = strings.ReplaceAll(text, f.modulesDir(), f.scenario.unit.modules)
	return strings.ReplaceAll(text, f.globalDir(), f.scenario.unit.global)
}

// nameOf is the name of the module in a directory: dns of 010-dns.
func nameOf(base string) string {
	_, name := addons.SplitNumber(base, 0)
	return name
}

// writeModules copies the modules that play, and enables them. Of the others it writes nothing, so
// that a scenario does not depend on modules that it does not name.
func (f *files) writeModules() error {
	u, flags := f.scenario.unit, map[string]any{}
	var foreign []string                             // keys of modules that are not there
	wanted := slices.Clone(f.scenario.Given.Modules) // those that were not found yet
	if u.module != "" {
		wanted = append(wanted, nameOf(u.module))
	}
	var errs []error
	for _, base := range subdirectories(u.modules) {
		name := nameOf(base)
		key, err := values.Key(name)
		if err != nil {
			continue // the operator says so when it is the module in question
		}
		i := slices.Index(wanted, name)
		if i < 0 && base != u.module {
			foreign = append(foreign, key)
			continue
		}
		// The module of the scenario is copied also when another directory had its name before it:
		// the operator then refuses to start, and says why.
		if i >= 0 {
			wanted = slices.Delete(wanted, i, i+1)
			flags[values.FlagKey(key)] = true
		}
		errs = append(errs, copyTree(filepath.Join(u.modules, base), filepath.Join(f.modulesDir(), base)))
	}
	for _, name := range wanted {
		errs = append(errs, fmt.Errorf("given.modules: there is no module %s in %s", name, u.modules))
	}
	return errors.Join(append(errs, f.writeValues(flags, foreign))...)
}

// writeValues writes values.yaml: the real one, without what belongs to modules that are
// not there, then the flags of those that are, then the given values. About sections and flags of
// modules that are not there the operator would log warnings, which expect.log would see. Other
// unknown keys stay, because they are mistakes of the author.
func (f *files) writeValues(flags map[string]any, foreign []string) error {
	var common any
	if f.scenario.unit.modules != "" {
		file := filepath.Join(f.scenario.unit.modules, "values.yaml")
		data, err := os.ReadFile(file)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if common, err = values.ParseYAML(data); err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
	}
	kept := map[string]any{}
	if all, ok := common.(map[string]any); ok {
		for key, value := range all {
			if !slices.Contains(foreign, key) && !slices.Contains(foreign, strings.TrimSuffix(key, "Enabled")) {
				kept[key] = value
			}
		}
	}
	merged := values.Merge(kept, flags, f.scenario.Given.Values)
	text, err := values.YAML(merged)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(f.modulesDir(), "values.yaml"), text, 0o644)
}

// givenHook is the name of a global hook that patches what given.fromGlobalHooks says. So these values are checked and
// merged as those of a real hook. Its run is not recorded.
const givenHook = "given.fromGlobalHooks"

const givenHookText = `#!/bin/sh
if [ "$1" = --config ]; then
  echo '{"configVersion": "v1", "onStartup": 0}'
else
  printf %%s %s >"$VALUES_JSON_PATCH_PATH"
fi
`

// writeGlobal copies the directory of global hooks if the scenario is about them or wants them, and
// else only its schemas, with which the operator checks the section global.
func (f *files) writeGlobal() error {
	from, to := f.scenario.unit.global, f.globalDir()
	hooksDir := filepath.Join(to, "hooks")
	var err error
	switch whole := f.scenario.unit.module == "" || f.scenario.Given.GlobalHooks; {
	case from == "":
	case whole:
		// Hooks may be at the top of the directory. A new directory hooks would hide them.
		if err = copyTree(from, to); existing(filepath.Join(from, "hooks")) == "" {
			hooksDir = to
		}
	case existing(filepath.Join(from, "openapi")) != "":
		err = copyTree(filepath.Join(from, "openapi"), filepath.Join(to, "openapi"))
	}
	if err != nil {
		return err
	}
	if len(f.scenario.Given.FromGlobalHooks) == 0 {
		return nil
	}
	if err := os.MkdirAll(hooksDir, 0o755); err != nil {
		return err
	}
	var patch []any
	for key, value := range f.scenario.Given.FromGlobalHooks {
		patch = append(patch, map[string]any{"op": "add", "path": values.JSONPointer(values.GlobalKey, key), "value": value})
	}
	text, err := values.JSON(patch)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(hooksDir, givenHook), fmt.Appendf(nil, givenHookText, quoted(string(text))), 0o755)
}

// subdirectories are the names of the directories, and of links to some, in a directory, without
// hidden ones. A directory that cannot be read has none: given.modules then says what is missing.
func subdirectories(dir string) (names []string) {
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		if existing(filepath.Join(dir, e.Name())) != "" && !strings.HasPrefix(e.Name(), ".") {
			names = append(names, e.Name())
		}
	}
	return names
}

// copyTree copies a directory with the modes of its files, except for its tests. It
// follows symbolic links: in the copy, a relative one would lead nowhere.
func copyTree(from, to string) error { return os.CopyFS(to, followed{os.DirFS(from)}) }

// followed is a directory in which links are what they lead to.
type followed struct{ fs.FS }

// ReadDir implements fs.ReadDirFS.
func (f followed) ReadDir(name string) (entries []fs.DirEntry, err error) {
	all, err := fs.ReadDir(f.FS, name)
	for _, e := range all {
		if name == "." && e.Name() == testsDir {
			continue
		}
		info, wrong := fs.Stat(f.FS, path.Join(name, e.Name()))
		if wrong != nil {
			return nil, wrong
		}
		entries = append(entries, fs.FileInfoToDirEntry(info))
	}
	return entries, err
}
