package addons

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"addon-operator/helm/charts"
	"addon-operator/values"
)

// commonPath is the path of the values.yaml of a root.
func commonPath(root string) string { return filepath.Join(root, "values.yaml") }

// sections are the layers of one key, lowest first.
func (s static) sections(key string) []values.Layer {
	var layers []values.Layer
	for _, root := range s {
		if section, ok := root.document.Sections[key]; ok {
			layers = append(layers, values.Layer{Source: root.shown, Value: section})
		}
	}
	return layers
}

// readValues parses a values.yaml, which errors name as shown; a file that does not exist is an
// empty document. In the file of a module only the keys of that module count: the rest belongs to
// the chart (D5). A file without content that is younger than a second is probably being written, so
// it is read again until it has content, or is older: at a start nothing is known of its values.
func readValues(path, shown string, only ...string) (doc values.Document, without string, err error) {
	data, err := readFile(path)
	for range unstableReads {
		if err != nil || charts.HasContent(data) || !justWritten(path) {
			break
		}
		time.Sleep(unstablePause)
		data, err = readFile(path)
	}
	if errors.Is(err, os.ErrNotExist) {
		return doc, noFile, nil
	}
	if err != nil {
		return doc, "", fmt.Errorf("values file %s: %w", shown, err)
	}
	if !charts.HasContent(data) {
		without = noContent
	}
	doc, err = values.ParseFile(shown, data, only...)
	return doc, without, err
}

// justWritten reports whether a file was changed in the time for which unstable files are read again.
func justWritten(path string) bool {
	info, err := os.Stat(path)
	return err == nil && time.Since(info.ModTime()) < unstableReads*unstablePause
}

// Why a values.yaml has no values at all; "" if it has content.
const noFile, noContent = "missing", "empty"

// emptied is the error for a values.yaml that had values and has none now. That is no order to
// remove them, which may disable modules and uninstall their releases: a file that is being written
// looks the same, for as long as its writer is slow (P8).
func emptied(shown, without string) error {
	return fmt.Errorf("values file %s is %s, but it had values; restore them before the operator restarts, or write {} to remove them", shown, without)
}

// hasValues reports whether a values.yaml had any, for modules or for the chart of its module.
func hasValues(d values.Document) bool {
	return len(d.Sections)+len(d.Flags)+len(d.Maintenance)+len(d.Others) > 0
}

// again reads the file once more, unless it is the same one.
func (r rootValues) again() (rootValues, error) {
	stamp := fileStamp(r.path)
	if stamp != "" && stamp == r.seen {
		return r, nil
	}
	doc, without, err := readValues(r.path, r.shown)
	if err == nil && without != "" && hasValues(r.document) {
		err = emptied(r.shown, without)
	}
	r.document, r.seen, r.empty = doc, stamp, without == noContent
	return r, err
}

// EmptyValues are the values.yaml files without content that might name a module: they may have had its
// flag, before the operator started.
func EmptyValues(t *Tree, module string) (files []string) {
	for _, root := range t.common {
		if root.empty {
			files = append(files, root.shown)
		}
	}
	if m := t.Module(module); m != nil && m.ownEmpty {
		files = append(files, m.Shown(m.valuesFile()))
	}
	return files
}

// fileStamp changes with the file that a path leads to; "" for a file that is missing, or so young
// that a second write may leave the stamp as it is.
func fileStamp(path string) string {
	info, err := os.Stat(path)
	if err != nil || time.Since(info.ModTime()) < settleTime {
		return ""
	}
	target, err := filepath.EvalSymlinks(path)
	if err != nil {
		return ""
	}
	return string(foundFile{target, info}.stamp())
}

// warnUnknownFlags reports sections and flags in the roots' values.yaml that belong to no module
// (E16), and those in a module's own file that are probably meant to be its own: other keys there
// are the chart's. It needs all modules, also those that are broken: their sections are not
// unknown.
func (t *Tree) warnUnknownFlags() {
	var keys, flags []string
	for _, m := range slices.Concat(t.Modules, t.Broken) {
		keys, flags = append(keys, m.Key), append(flags, values.FlagKey(m.Key))
	}
	for _, m := range slices.Concat(t.Modules, t.Broken) {
		for _, flag := range m.others {
			own := values.FlagKey(m.Key)
			if strings.HasSuffix(flag, values.FlagKey("")) && values.Nearest(flag, []string{own}) != "" && !slices.Contains(flags, flag) {
				t.warn("%s has the flag %s, which is not that of the module; it is ignored; did you mean %s?", m.Shown(m.valuesFile()), flag, own)
			}
		}
	}
	unknown := func(root rootValues, what, name, ignored string, known []string) {
		if meant := values.Nearest(name, known); meant != "" {
			ignored += "; did you mean " + meant + "?"
		}
		t.warn("%s has %s %s, but no such module exists; %s", root.shown, what, name, ignored)
	}
	for _, root := range t.common {
		for _, key := range slices.Sorted(maps.Keys(root.document.Sections)) {
			if key != values.GlobalKey && !slices.Contains(keys, key) {
				unknown(root, "values for", key, "they are ignored", keys)
			}
		}
		for _, flag := range slices.Sorted(maps.Keys(root.document.Flags)) {
			if !slices.Contains(flags, flag) {
				unknown(root, "the flag", flag, "it is ignored", flags)
			}
		}
	}
}

// loadGlobal reads the directory of global hooks: checksums of all files, and the schemas. Hooks
// are read later, by package hooks (A14).
func (t *Tree) loadGlobal(dir string) error {
	global, err := FindGlobal(dir)
	if err != nil {
		return err
	}
	dir, t.Global = global.Dir, global
	t.Global.Static = t.common.sections(values.GlobalKey)
	t.Global.Schemas, err = t.loadSchemas(dir, t.dirs.Shown)
	return err
}

// FindGlobal finds the directory of global hooks, and where hooks are searched in it (A14). It reads no file.
func FindGlobal(dir string) (Global, error) {
	dir, err := directory(dir, "global hooks directory", "GLOBAL_HOOKS_DIR")
	if err != nil {
		return Global{}, err
	}
	if info, err := os.Stat(filepath.Join(dir, "hooks")); err == nil && info.IsDir() {
		return Global{Dir: dir, HooksDir: filepath.Join(dir, "hooks")}, nil
	}
	return Global{Dir: dir, HooksDir: dir}, nil
}

// readModule reads the files of a module itself, as opposed to what the roots' values.yaml say of
// it (combine). It reports all mistakes, and m has what could be read.
func (t *Tree) readModule(m *Module) error {
	doc, without, err := readValues(m.valuesFile(), m.Shown(m.valuesFile()), m.Key)
	errs := []error{err}
	m.own, m.ownEmpty, m.others = doc, without == noContent, doc.Others
	m.Schemas, err = t.loadSchemas(m.Dir, m.Shown)
	errs = append(errs, err)
	t.chartProblems(m)
	m.EnabledScript, err = t.enabledScript(m)
	errs = append(errs, err)
	if m.File, err = readModuleFile(m.Dir, m.Shown); err == nil {
		err = checkChart(m)
	}
	errs = append(errs, err)
	if m.File.Waits {
		t.problem(&m.problems, "%s: waitFor has no effect any more; remove it: a module whose neighbour is late fails and is retried",
			m.Shown(filepath.Join(m.Dir, moduleFile)))
	}
	if innerChart(m.Dir) != "" {
		t.warnUnread(m, doc.Others)
		m.others = nil
	}
	return errors.Join(errs...)
}

// combine sets what the values.yaml files of the roots and the module's own say about it, lowest
// first (D5, E3). It is called again whenever the files of the roots have changed.
func (t *Tree) combine(m *Module) {
	file := m.Shown(m.valuesFile())
	m.Flags, m.Maintenance = nil, ""
	if m.stale == "" { // else its last values stay, because the new ones of the roots may be the reason
		m.Static = t.common.sections(m.Key)
		if section, ok := m.own.Sections[m.Key]; ok {
			m.Static = append(m.Static, values.Layer{Source: file, Value: section})
		}
	}
	flag := values.FlagKey(m.Key)
	maintenance := func(d values.Document) {
		if mode, ok := d.Maintenance[values.MaintenanceKey(m.Key)]; ok {
			m.Maintenance = mode
		}
	}
	for _, root := range t.common {
		if value, ok := root.document.Flags[flag]; ok {
			m.Flags = append(m.Flags, Flag{root.shown, value})
		}
		maintenance(root.document)
	}
	if value, ok := m.own.Flags[flag]; ok {
		m.Flags = append(m.Flags, Flag{file, value})
	}
	maintenance(m.own)
}

// loadSchemas compiles openapi/config-values.yaml and openapi/values.yaml (D29). shown names their
// paths in messages.
func (t *Tree) loadSchemas(dir string, shown func(path string) string) (*values.Schemas, error) {
	config, err1 := readSchema(filepath.Join(dir, "openapi", "config-values.yaml"), shown)
	merged, err2 := readSchema(filepath.Join(dir, "openapi", "values.yaml"), shown)
	if err := errors.Join(err1, err2); err != nil {
		return nil, err
	}
	schemas, err := values.CompileSchemas(config, merged)
	for _, warning := range schemas.Warnings() {
		t.warn("%s", warning)
	}
	return schemas, err
}

func readSchema(path string, shown func(path string) string) (values.SchemaFile, error) {
	data, err := readFile(path)
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return values.SchemaFile{}, fmt.Errorf("schema %s: %w", shown(path), err)
	}
	return values.SchemaFile{Path: shown(path), Data: data}, nil
}

// readFile reads a file of at most the size that values may have (D39). It refuses a named pipe,
// from which it would wait for a writer that does not exist in an image, and a device, which may
// never end. Errors do not name the file: their callers do, in a way that people know.
func readFile(path string) ([]byte, error) {
	file, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, withoutPath(err)
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return nil, withoutPath(err)
	}
	if !info.Mode().IsRegular() {
		return nil, errors.New("it is neither a regular file nor a link to one")
	}
	if err := values.CheckSize(info.Size()); err != nil {
		return nil, err
	}
	var data bytes.Buffer
	data.Grow(int(info.Size()) + bytes.MinRead) // or it would be read in small pieces
	_, err = data.ReadFrom(io.LimitReader(file, info.Size()))
	return data.Bytes(), withoutPath(err)
}

// withoutPath returns the cause of an error about a file; other errors as they are.
func withoutPath(err error) error {
	if about, ok := errors.AsType[*fs.PathError](err); ok {
		return about.Err
	}
	return err
}

// readYAML reads a file of one YAML document, which errors name as shown; nil when it does not
// exist.
func readYAML(path, shown string) (any, error) {
	data, err := readFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	var tree any
	if err == nil {
		tree, err = values.ParseYAML(data)
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", shown, err)
	}
	return tree, nil
}

// enabledScript finds the enabled script of a module (A18).
func (t *Tree) enabledScript(m *Module) (string, error) {
	path := filepath.Join(m.Dir, "enabled")
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return "", nil
	case err != nil:
		return "", fmt.Errorf("enabled script: %s: %w", m.Shown(path), withoutPath(err))
	case !info.Mode().IsRegular():
		t.problem(&m.problems, "%s is neither a file nor a link to one, and is ignored; make it an executable file, or rename it", m.Shown(path))
		return "", nil
	case info.Mode()&0o111 == 0:
		t.problem(&m.problems, "%s is not executable and is ignored; run chmod +x", m.Shown(path))
		return "", nil
	}
	return path, nil
}
