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
	"addon-operator/values"
)

// files are the directories of one play, in a directory of its own.
type files struct {
	scenario *Scenario
	dir      string
	keys     []string // of the modules that are there
	names    []string
}

// write copies what the scenario needs to a directory of its own, so that hooks
// cannot change their sources: the module with the others it names, values.yaml with the
// given values, schemas and hooks of the global hooks directory.
func (f *files) write() error {
	for _, dir := range []string{f.modulesDir(), f.globalDir()} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
	}
	return errors.Join(f.writeModules(), f.writeGlobal())
}

// testsDir holds the scenarios of a module, or of the global hooks.
const testsDir = "tests"

func (f *files) modulesDir() string { return filepath.Join(f.dir, "modules") }
func (f *files) globalDir() string  { return filepath.Join(f.dir, "global-hooks") }
func (f *files) kubeconfig() string { return filepath.Join(f.dir, "kubeconfig") }

func (f *files) addonDirs() addons.Dirs {
	return addons.Dirs{Modules: []string{f.modulesDir()}, Global: f.globalDir(), UnnumberedOrder: 1}
}

// readable puts the places of the sources in the place of those of the copies.
func (f *files) readable(text string) string {
	text = strings.ReplaceAll(text, f.modulesDir(), f.scenario.unit.modules)
	return strings.ReplaceAll(text, f.globalDir(), f.scenario.unit.global)
}

// nameOf is the name of the module in a directory: dns of 010-dns.
func nameOf(base string) string {
	number, rest, ok := strings.Cut(base, "-")
	if ok && number != "" && strings.Trim(number, "0123456789") == "" {
		return rest
	}
	return base
}

func (f *files) writeModules() error {
	u, flags := f.scenario.unit, map[string]any{}
	var foreign []string // keys of modules that are not there
	wanted := slices.Clone(f.scenario.Given.Modules)
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
// not there, then the flags of those that are, then the given values.
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
// given.fromGlobalHooks says.
const givenHook = "given.fromGlobalHooks"

func (f *files) writeGlobal() error {
	from, to := f.scenario.unit.global, f.globalDir()
	hooksDir := filepath.Join(to, "hooks")
	if from != "" {
		whole := f.scenario.unit.module == "" || f.scenario.Given.GlobalHooks
		err := copyTree(filepath.Join(from, "openapi"), filepath.Join(to, "openapi"))
		if whole {
			err = copyTree(from, to, testsDir)
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

// copyTree copies a directory with its modes, through symbolic links, but for what is named
// at its top. What does not exist is no error.
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

func copyFile(from, to string, mode fs.FileMode) error {
	data, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return os.WriteFile(to, data, mode.Perm()|0o600)
}
