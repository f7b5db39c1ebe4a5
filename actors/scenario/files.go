package scenario

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"addon-operator/addons"
	"addon-operator/helm/charts"
	"addon-operator/kube"
	"addon-operator/values"
)

// files are the directories of one play, in a directory of its own:
//
//	modules/        the modules that play, and values.yaml with the given values and flags
//	global-hooks/   schemas, and hooks if the scenario wants them
//	kubeconfig      the API server of the play, for hooks that call kubectl
//	tmp/            the files of runs of hooks
//	commands/       stand-ins for programs (standins.go)
type files struct {
	scenario *Scenario
	dir      string   // "" before the play has begun
	keys     []string // sections of the modules that are there, by the index of their names
	names    []string
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
		found, _ := kube.CRDFiles(charts.Root(filepath.Join(f.modulesDir(), base)), kube.CRDOptions{Ignored: charts.Ignored})
		for _, file := range found {
			definitions, _ := kube.Definitions(file)
			all = append(all, definitions...)
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
			f.keys = append(f.keys, key)
			f.names = append(f.names, name)
		}
		errs = append(errs, copyTree(filepath.Join(u.modules, base), filepath.Join(f.modulesDir(), base), testsDir))
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
		path := filepath.Join(f.scenario.unit.modules, "values.yaml")
		data, err := os.ReadFile(path)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if common, err = values.ParseYAML(data); err != nil {
			return fmt.Errorf("%s: %w", path, err)
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
	merged := values.Merge(kept, flags, map[string]any(f.scenario.Given.Values))
	text, err := values.YAML(merged)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(f.modulesDir(), "values.yaml"), text, 0o644)
}

// givenHook is the name of a global hook that is no program: it patches what
// given.fromGlobalHooks says. Its file is empty, and only makes the operator find it: the recorder
// answers in its place. So these values are checked and merged as those of a real hook.
const givenHook = "given.fromGlobalHooks"

// writeGlobal copies the directory of global hooks if the scenario is about them or wants them, and
// else only its schemas, with which the operator checks the section global.
func (f *files) writeGlobal() error {
	from, to := f.scenario.unit.global, f.globalDir()
	hooksDir := filepath.Join(to, "hooks")
	if from != "" {
		whole := f.scenario.unit.module == "" || f.scenario.Given.GlobalHooks
		err := copyTree(filepath.Join(from, "openapi"), filepath.Join(to, "openapi"))
		if whole {
			err = copyTree(from, to, testsDir)
			// Hooks may be at the top of the directory. A new directory hooks would hide them.
			if existing(filepath.Join(from, "hooks")) == "" {
				hooksDir = to
			}
		}
		if err != nil {
			return err
		}
	}
	if len(f.scenario.Given.FromGlobalHooks) == 0 {
		return nil
	}
	if err := os.MkdirAll(hooksDir, 0o755); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(hooksDir, givenHook), nil, 0o755)
}

// subdirectories are the names of the directories, and of links to some, in a directory, without
// hidden ones. A directory that cannot be read has none: given.modules then says what is missing.
func subdirectories(dir string) []string {
	if dir == "" {
		return nil
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil
	}
	var names []string
	for _, e := range entries {
		if existing(filepath.Join(dir, e.Name())) != "" && !strings.HasPrefix(e.Name(), ".") {
			names = append(names, e.Name())
		}
	}
	return names
}

// copyTree copies a directory with the modes of its files, except what is named at its top. It
// follows symbolic links: in the copy, a relative one would lead nowhere. A directory that does not
// exist is no error.
func copyTree(from, to string, without ...string) error {
	entries, err := os.ReadDir(from)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if err := os.MkdirAll(to, 0o755); err != nil {
		return err
	}
	for _, e := range entries {
		source, target := filepath.Join(from, e.Name()), filepath.Join(to, e.Name())
		info, err := os.Stat(source)
		switch {
		case err != nil:
			return err
		case slices.Contains(without, e.Name()):
		case info.IsDir():
			err = copyTree(source, target)
		default:
			err = copyFile(source, target, info.Mode())
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// copyFile copies a file with its mode; the copy can always be read, written and removed.
func copyFile(from, to string, mode fs.FileMode) error {
	data, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, data, mode.Perm()|0o600)
}
