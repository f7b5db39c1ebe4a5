package addons

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"addon-operator/helm/charts"
	"addon-operator/values"
)

// Dirs are the directories with modules and global hooks.
type Dirs struct {
	// Modules are the roots of modules, as MODULES_DIR lists them (A3).
	Modules []string
	// Global is the directory of global hooks and global schemas (A14).
	Global string
	// UnnumberedOrder is the order of a module whose directory has no number (A5).
	UnnumberedOrder int
	// FullPaths makes messages name files by their absolute paths, for lint, which opens the files
	// that messages name.
	FullPaths bool
}

// Shown returns a path as messages name it: relative to the directory of modules, as hooks are
// named, such as 010-dns/values.yaml; files of a global directory next to it as lint names them,
// such as ../global-hooks/openapi/values.yaml. All other paths are absolute, and so are all paths if
// there are several directories of modules: each of them may have a values.yaml, and the
// directories may have the same name. Files are opened by their absolute paths only.
func (d Dirs) Shown(path string) string {
	path = absolute(path)
	if d.FullPaths || len(d.Modules) != 1 {
		return path
	}
	root, global := absolute(d.Modules[0]), absolute(d.Global)
	relative, err := filepath.Rel(root, path)
	switch {
	case err != nil || relative == ".":
		return path
	case filepath.IsLocal(relative):
	case path == global || !strings.HasPrefix(path, global+string(filepath.Separator)) || filepath.Dir(global) != filepath.Dir(root):
		return path
	}
	return filepath.ToSlash(relative)
}

// absolute returns the absolute path; the path itself if the working directory is gone.
func absolute(path string) string {
	if abs, err := filepath.Abs(path); err == nil {
		return abs
	}
	return path
}

// SplitPath splits a list of directories that is separated by colons; empty parts are skipped (A3).
func SplitPath(list string) []string {
	return slices.DeleteFunc(strings.Split(list, ":"), func(dir string) bool { return strings.TrimSpace(dir) == "" })
}

// Tree is everything that was found. Its owner changes it until it is in force (Keep, Drop); then
// it is immutable and shared.
type Tree struct {
	Global  Global
	Modules []Module // by order, then by name (A8, X23)
	// Warnings name what was skipped and why. Problems are those warnings that name mistakes: a
	// check before a roll-out fails because of them, an operator works in spite of them (J12).
	Warnings, Problems []string
	// Broken are modules that are not among Modules because one of their files is wrong. Load
	// returns an error for each; Refresh makes a problem of each.
	Broken []Module
	// Unreachable are the names of modules whose link leads to nothing. That is no order to purge their
	// releases (P1).
	Unreachable []string
	// Empty are the roots without any module. A root may be empty because a volume is not mounted,
	// so nothing is purged then (P1).
	Empty []string

	dirs Dirs // that were searched
	// common are the values.yaml of the roots, from which each module gets its part (combine).
	common static
}

// Global is what belongs to all modules.
type Global struct {
	// Dir is the root of the global hooks, and HooksDir where hooks are searched (A14).
	Dir, HooksDir string
	Static        []values.Layer
	Schemas       *values.Schemas
	// Problems are those of Tree.Problems that are about global hooks, values and schemas, or about
	// a module that is not in force.
	Problems []string

	files   contents
	refused *Global // the version on disk, when another one stays in force; see Refused
}

// Module is one module on disk.
type Module struct {
	// Name is the name of the directory without its number; Key its camelCase form (A6).
	Name, Key string
	Order     int
	// Dir is the absolute path of the module, Root of the directory it was found in. Base
	// is the name of the directory with its number; names of hooks begin with it (A16).
	Dir, Root, Base string
	shown           string // see Shown
	// EnabledScript is the absolute path of the executable enabled script, or empty (A18).
	EnabledScript string
	// File is what module.yaml says (A21).
	File ModuleFile
	// Static are the sections of the module in values.yaml files, lowest first (D5: 1, 2).
	Static []values.Layer
	// Flags are the opinions of values.yaml files on <key>Enabled, lowest first (E3).
	Flags []Flag
	// Maintenance is the mode of maintenance that values.yaml files ask for, empty for none;
	// the module's own file wins (H15).
	Maintenance string
	// Schemas of the module; nil-safe.
	Schemas *values.Schemas

	// What was found when its own files were read stays until they change: problems, others and
	// own. doubles and stale depend on other files, and are set at each refresh.
	doubles, problems []string // see Problems
	others            []string // keys of its values.yaml that are not its own
	own               values.Document
	ownEmpty          bool // its values.yaml exists and has no content
	files             contents
	stale             string // see Stale
}

// Flag is what one values.yaml says about whether a module is enabled.
type Flag struct {
	Source string
	Value  bool
}

// Problems are those of Tree.Problems that are about the module, including other directories of its
// name (A11).
func (m Module) Problems() []string {
	var stale []string
	if m.stale != "" {
		stale = []string{m.stale}
	}
	return slices.Concat(stale, m.doubles, m.problems)
}

// Shown returns the path of a file in Dir, or Dir itself, as messages name it ([Dirs.Shown]).
func (m Module) Shown(path string) string {
	if below, ok := strings.CutPrefix(path, m.Dir); ok && m.shown != "" {
		return m.shown + below
	}
	return path
}

// HooksDir is the directory with the hooks of the module. It may not exist.
func (m Module) HooksDir() string { return filepath.Join(m.Dir, "hooks") }

// valuesFile is the path of the module's own values.yaml. It may not exist.
func (m Module) valuesFile() string { return filepath.Join(m.Dir, "values.yaml") }

// Gone reports whether the directory was removed since the module was found. Any other error of the
// look is no proof of that (P1).
func (m Module) Gone() bool {
	_, err := os.Stat(m.Dir)
	return errors.Is(err, os.ErrNotExist)
}

// static are the values.yaml files in the roots, in their order; a root without one has an empty
// document.
type static []rootValues

// rootValues are the values.yaml of one root, with its path, and as messages name it.
type rootValues struct {
	path, shown string
	document    values.Document
	empty       bool   // it exists and has no content
	seen        string // the stamp of the file before it was read; "" when an equal one would prove nothing
}

// Load reads all directories. It reports the errors of all files together; each names its file.
// After an error the tree has what could be read, for checks; an operator does not start with it
// (A19).
func Load(dirs Dirs) (*Tree, error) {
	r := refresh{before: &Tree{}, next: &Tree{dirs: dirs}, first: true}
	unread := r.read()
	return r.next, errors.Join(append(r.errs, unread)...)
}

// find lists the modules of all roots in the order in which they run (A8). misnamed are directories
// that cannot be modules; the last error is about roots that cannot be read.
func (t *Tree) find() (all []Module, misnamed []error, _ error) {
	if len(t.dirs.Modules) == 0 {
		return nil, nil, errors.New("no modules directory is given; set MODULES_DIR")
	}
	var errs []error
	byName := map[string]int{}
	for _, root := range t.dirs.Modules {
		found, wrong, err := t.findIn(root)
		errs, misnamed = append(errs, err), append(misnamed, wrong...)
		if len(found) == 0 && err == nil {
			t.Empty = append(t.Empty, root)
		}
		for _, m := range found {
			if first, ok := byName[m.Name]; ok { // A11
				t.problem(&all[first].doubles, "module %q in %s is ignored: %s has a module of the same name", m.Name, m.shown, all[first].shown)
				continue
			}
			byName[m.Name] = len(all) // keys need no check: values.Key is one-to-one (A6)
			all = append(all, m)
		}
	}
	slices.SortStableFunc(all, func(a, b Module) int {
		return cmp.Or(cmp.Compare(a.Order, b.Order), cmp.Compare(a.Name, b.Name))
	})
	return all, misnamed, errors.Join(errs...)
}

func (t *Tree) warn(format string, args ...any) {
	t.Warnings = append(t.Warnings, fmt.Sprintf(format, args...))
}

// problem is a warning that a check fails because of; it is added to those of the module, or of
// Global, that it is about.
func (t *Tree) problem(of *[]string, format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	t.Warnings, t.Problems = append(t.Warnings, text), append(t.Problems, text)
	*of = append(*of, text)
}

// findIn lists the modules of one root. ReadDir sorts, so warnings have a fixed order.
func (t *Tree) findIn(root string) (found []Module, misnamed []error, err error) {
	root, err = directory(root, "modules directory", "MODULES_DIR")
	if err != nil {
		return nil, nil, err
	}
	entries, err := os.ReadDir(root)
	if err != nil {
		return nil, nil, fmt.Errorf("read modules directory: %w", err)
	}
	for _, e := range entries {
		m, ok, err := t.entry(root, e)
		if err != nil {
			misnamed = append(misnamed, err)
		} else if ok {
			found = append(found, m)
		}
	}
	return found, misnamed, nil
}

// entry reports whether a directory entry is a module (A4, A9, A10). It only looks at names: the
// files of the module are read later.
func (t *Tree) entry(root string, e os.DirEntry) (Module, bool, error) {
	path := filepath.Join(root, e.Name())
	shown := t.dirs.Shown(path)
	if strings.HasPrefix(e.Name(), ".") || e.Name() == "values.yaml" {
		return Module{}, false, nil
	}
	if !e.IsDir() {
		info, err := os.Stat(path) // through symbolic links: a link to a directory is a module
		switch {
		case err != nil:
			_, name := SplitNumber(e.Name(), t.dirs.UnnumberedOrder)
			t.Unreachable = append(t.Unreachable, name)
			t.warn("%s is ignored: %v; a release of its name stays", shown, withoutPath(err))
			return Module{}, false, nil
		case !info.IsDir():
			t.warn("%s is ignored: a module is a directory", shown)
			return Module{}, false, nil
		}
	}
	order, name := SplitNumber(e.Name(), t.dirs.UnnumberedOrder)
	key, err := values.Key(name)
	if err != nil {
		return Module{}, false, fmt.Errorf("module directory %s: %w", shown, err)
	}
	return Module{Name: name, Key: key, Order: order, Dir: path, Root: root, Base: e.Name(), shown: shown}, true, nil
}

// SplitNumber splits "010-dns" into 10 and "dns"; without a number the order is the given one (A4,
// A5). A number that does not fit into 31 bits is part of the name, which is then refused.
func SplitNumber(base string, unnumbered int) (order int, name string) {
	number, rest, ok := strings.Cut(base, "-")
	if !ok {
		return unnumbered, base
	}
	n, err := strconv.ParseUint(number, 10, 31)
	if err != nil {
		return unnumbered, base
	}
	return int(n), rest
}

// directory returns the absolute path of a directory that must exist.
func directory(dir, what, option string) (string, error) {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return "", fmt.Errorf("%s %s: %w", what, dir, err)
	}
	info, err := os.Stat(abs)
	switch {
	case errors.Is(err, os.ErrNotExist):
		return "", fmt.Errorf("%s %s does not exist; create it or set %s", what, abs, option)
	case err != nil:
		return "", fmt.Errorf("%s: %w", what, err)
	case !info.IsDir():
		return "", fmt.Errorf("%s %s is not a directory; set %s to one", what, abs, option)
	}
	return abs, nil
}

// ModuleFile is the content of module.yaml in a module (A21). The zero value is that of a module
// without one.
type ModuleFile struct {
	// Namespace is that of the release, and of its objects that name none; empty for that of the
	// operator.
	Namespace string
	// Waits: it has the field waitFor of earlier versions, which has no effect.
	Waits bool `json:"-"`
	// Chart is the source of the chart in chart/. It is for people and for the commands that fetch
	// charts; a running operator fetches nothing.
	Chart ChartSource
}

// ChartSource is where a chart was taken from. All fields may be empty.
type ChartSource struct {
	Repository string // https://… of a repository, or oci://… of a registry
	Name       string // of the chart there
	Version    string
	Digest     string // sha256:… of the archive
}

// moduleFile is the name of the file with a ModuleFile.
const moduleFile = "module.yaml"

// moduleFileFormat is what it may contain.
var moduleFileFormat = sync.OnceValues(func() (*values.Format, error) {
	return values.NewFormat("module.yaml", []byte(`{
		"type": "object", "additionalProperties": false, "properties": {
			"waitFor": {},
			"namespace": {"type": "string", "maxLength": 63, "pattern": "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$"},
			"chart": {"type": "object", "additionalProperties": false, "properties": {
				"repository": {"type": "string"}, "name": {"type": "string"}, "version": {"type": "string"}, "digest": {"type": "string"}}}}}`))
})

// ReadModuleFile reads module.yaml in the directory of a module; one that does not exist is empty.
// Errors name the file and the field, and report all mistakes.
func ReadModuleFile(dir string) (f ModuleFile, err error) {
	return readModuleFile(dir, func(path string) string { return path })
}

// readModuleFile is ReadModuleFile for a directory whose paths messages name as shown.
func readModuleFile(dir string, shown func(path string) string) (f ModuleFile, err error) {
	path := filepath.Join(dir, moduleFile)
	tree, err := readYAML(path, shown(path))
	if err != nil || tree == nil {
		return f, err
	}
	format, err := moduleFileFormat()
	if err != nil {
		return f, err
	}
	var errs []error
	for _, v := range format.Violations(tree) {
		errs = append(errs, fmt.Errorf("%s: %s %s", shown(path), cmp.Or(v.Path, "the file"), v.Message))
	}
	if err := errors.Join(errs...); err != nil {
		return f, err
	}
	content, _ := tree.(map[string]any)
	_, f.Waits = content["waitFor"]
	text, err := values.JSON(tree)
	if err != nil {
		return f, err
	}
	return f, json.Unmarshal(text, &f)
}

// innerChart returns the directory of a chart that another author has published, in the directory
// of its module; "" when there is none (A20).
func innerChart(dir string) string {
	if root := charts.Root(dir); root != dir {
		return root
	}
	return ""
}

// checkChart refuses a module that has two charts, or half of one. A chart in chart/ is that of the
// module, so nothing next to it may look like a part of one (A20).
func checkChart(m *Module) error {
	inner := innerChart(m.Dir)
	if inner == "" {
		if m.File.Chart != (ChartSource{}) {
			return fmt.Errorf("%s: the key chart describes the origin of the chart in %s, which does not exist; restore the chart, or remove the key", m.Shown(filepath.Join(m.Dir, moduleFile)), m.Shown(filepath.Join(m.Dir, "chart")))
		}
		return nil
	}
	if _, err := os.Stat(filepath.Join(inner, "Chart.yaml")); err != nil {
		return fmt.Errorf("%s is the directory of an unchanged chart, but it has no Chart.yaml; copy the whole chart there, or rename the directory", m.Shown(inner))
	}
	var errs []error
	for _, name := range []string{"Chart.yaml", "templates", "crds", "charts"} {
		if _, err := os.Lstat(filepath.Join(m.Dir, name)); err == nil {
			errs = append(errs, fmt.Errorf("%s is not used, because the chart of the module is in %s; remove it, or move it to a module of its own", m.Shown(filepath.Join(m.Dir, name)), m.Shown(inner)))
		}
	}
	return errors.Join(errs...)
}

// chartProblems reports charts that are never installed (A17). charts/ has the dependencies of the
// chart next to it, and a library chart has no objects.
func (t *Tree) chartProblems(m *Module) {
	root := cmp.Or(innerChart(m.Dir), m.Dir)
	file := filepath.Join(root, "Chart.yaml")
	_, errFile := os.Stat(file)
	_, errTemplates := os.Stat(filepath.Join(root, "templates"))
	if errFile != nil && errTemplates != nil {
		if found, err := os.ReadDir(filepath.Join(m.Dir, "charts")); err == nil && len(found) > 0 {
			t.problem(&m.problems, "%s has charts/, but neither Chart.yaml nor templates/, so nothing in charts/ is installed; add a Chart.yaml that names the chart, or remove charts/", m.Shown(m.Dir))
		}
		return
	}
	metadata, _ := readYAML(file, "") // what is wrong with it is for the loader of the chart to say
	if fields, _ := metadata.(map[string]any); fields["type"] == "library" {
		t.problem(&m.problems, "%s has type library, so nothing is installed; write type: application, or remove the module and add the chart to the dependencies of others", m.Shown(file))
	}
}

// warnUnread reports keys in the values.yaml of a module that nothing reads. Without a chart in
// chart/ it must not be called: such keys are values of the chart.
func (t *Tree) warnUnread(m *Module, keys []string) {
	for _, key := range keys {
		if key == values.GlobalKey {
			continue
		}
		fix := values.DidYouMean(key, []string{m.Key, values.FlagKey(m.Key), values.MaintenanceKey(m.Key), values.GlobalKey},
			"the values of the chart belong under "+m.Key+"; move it there")
		t.problem(&m.problems, "%s: key %s is not read, because the chart of the module is in chart/; %s", m.Shown(m.valuesFile()), key, fix)
	}
}

// Defaults returns what the chart in chart/ itself says about values that no layer sets: how
// messages name its values.yaml, and a function that reads it, whose result is nil when there is no
// such file. Without such a chart both are empty. The file is read on each call, because only
// explanations need it.
func (m Module) Defaults() (shown string, read func() (any, error)) {
	inner := innerChart(m.Dir)
	if inner == "" {
		return "", nil
	}
	path := filepath.Join(inner, "values.yaml")
	shown = m.Shown(path)
	return shown, func() (any, error) { return readYAML(path, shown) }
}

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
