// Package charts reads the charts of modules from their directories, and keeps each until one of
// its files changes. It also answers what can be known of a chart without rendering it: its definitions, its
// values with those of subcharts, whether they fit its schemas. Rendering does not belong here.
package charts

import (
	"cmp"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log"
	"log/slog"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"text/template/parse"

	"golang.org/x/tools/txtar"
	"helm.sh/helm/v3/pkg/chart"
	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/ignore"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"
)

// synthesisedVersion is the version of a chart that has no Chart.yaml (A17).
const synthesisedVersion = "0.2.0"

// maxDepth stops a walk through symbolic links that point upwards, which would never end. A
// subchart of a subchart takes two levels.
const maxDepth = 32

// Exists reports whether a module directory holds a chart: a Chart.yaml, at
// least a templates directory (A17), or a directory chart (A20).
func Exists(dir string) bool { return Root(dir) != dir || isChart(dir) }

// HasSubcharts reports whether the chart of a module may have subcharts. It reads one directory, so
// that callers need not load a chart that has none.
func HasSubcharts(dir string) bool {
	entries, err := os.ReadDir(filepath.Join(Root(dir), "charts"))
	return err == nil && len(entries) > 0 && Exists(dir)
}

// Module identifies the module of a chart.
type Module struct {
	Name string // of the module, and of a chart without Chart.yaml
	Key  string // of the module's section in the values
	Dir  string // of the module; its chart is in Root
	// Shown is Dir as messages name it; empty for Dir itself.
	Shown string
	// Files is the checksum of the files that the values of the module come from. The chart is that of these: as
	// it was used last, or as it is on disk, if Current allows that. Empty: as it is on disk.
	Files string
	// Current returns why what is on disk now must not be used with the values of the module; nil
	// if it may. Optional.
	Current func() error
}

// ErrRefused is an error of Module.Current: the files on disk are of a version that was refused. The chart that was
// used before may be used.
var ErrRefused = errors.New("the files are not in force")

// Shows names a path in Dir in a message.
func (m Module) Shows(path string) string {
	if below, ok := strings.CutPrefix(path, m.Dir); ok && m.Shown != "" {
		return m.Shown + below
	}
	return path
}

// Where is Root as messages name it.
func (m Module) Where() string { return m.Shows(Root(m.Dir)) }

// unread is the error for a chart that cannot be read.
func (m Module) unread(what string, err error) error {
	if about, ok := err.(*fs.PathError); ok { //nolint:errorlint // one that is wrapped keeps its own words
		err = &fs.PathError{Op: about.Op, Path: m.Shows(about.Path), Err: about.Err}
	}
	return fmt.Errorf("%s %s: %w", what, m.Where(), err)
}

// Chart is a chart in the cache. All modules and goroutines that use it share it: nothing of it
// changes after Load. Helm gets copies.
type Chart struct {
	stamp  [sha256.Size]byte // of sizes and times, see stampOf
	digest [sha256.Size]byte // of contents, see digestOf
	chart  *chart.Chart
	module Module
	inner  bool // it is in chart/ (A20)
}

// Metadata is the content of Chart.yaml. Callers must not change it.
func (c *Chart) Metadata() *chart.Metadata { return c.chart.Metadata }

// Digest is the checksum of the files of the chart, wherever and whenever they were written.
func (c *Chart) Digest() [sha256.Size]byte { return c.digest }

// Copy makes a chart to give to Helm, whose actions and renders change what they
// are given: disabled subcharts disappear for good.
func (c *Chart) Copy() *chart.Chart { return copyOf(c.chart) }

// Any reports whether there is a template or another file that templates may print, here or in a
// subchart, with some content. Files in crds/ are applied, and not printed.
func (c *Chart) Any(content func([]byte) bool) (found bool) {
	visit(c.chart, "", func(name string, data []byte) {
		found = found || !inCRDs.MatchString(name) && content(data)
	})
	return found
}

// visit calls each for the files of a chart and its subcharts, with their paths; above ends with a slash.
func visit(c *chart.Chart, above string, each func(name string, data []byte)) {
	for _, f := range c.Raw {
		if !strings.HasPrefix(f.Name, "charts/") {
			each(above+f.Name, f.Data)
		}
	}
	for _, sub := range c.Dependencies() {
		visit(sub, above+"charts/"+sub.Name()+"/", each)
	}
}

// File is a file of a chart.
type File struct {
	Name string // below Root, with the charts above it: charts/sub/crds/things.yaml
	Data []byte
}

// SubchartCRDs returns the definitions in crds/ of the subcharts that the merged values of the
// module enable, at any depth (M1). Their names begin in Root. Those of the chart itself are Definitions.
func (c *Chart) SubchartCRDs(merged map[string]any) (files []File, err error) {
	values, err := c.Values(merged)
	if err != nil {
		return nil, err
	}
	use := c.Copy()
	if err := chartutil.ProcessDependenciesWithMerge(use, values); err != nil {
		return nil, fmt.Errorf("dependencies of the chart: %w", err)
	}
	visit(use, "", func(name string, data []byte) {
		if strings.HasPrefix(name, "charts/") && definition.MatchString(name) {
			files = append(files, File{name, data})
		}
	})
	return files, nil
}

// definition is the name of a file that may hold definitions, and inCRDs of any in crds/.
var (
	definition = regexp.MustCompile(`^(charts/[^/]+/)*crds/.*\.(?i:ya?ml|json)$`)
	inCRDs     = regexp.MustCompile(`^(charts/[^/]+/)*crds/`)
)

// Cache keeps every loaded chart until one of its files changes. The zero Cache is empty. It is
// safe for concurrent use. The lock is not held while a chart is read: if two goroutines load the
// same one, both get it, and the cache keeps that of the second.
type Cache struct {
	mu     sync.Mutex
	loaded map[string]*Chart    // by Module.key; charts of removed modules stay
	used   map[string]versioned // those of them that were current last (Module.Current)
}

// versioned is a chart with the Files of the module that it was used with.
type versioned struct {
	files string
	chart *Chart
}

// key is the module, which may get another directory.
func (m Module) key() string { return cmp.Or(m.Name, m.Dir) }

// Load returns the chart of a module, the same pointer while no file of it changes. A chart that
// cannot be loaded is read again each time, until its files change. For files with which it was used
// before, it is that of then (P8).
//
// The default values of a chart that is the module lack the module's own section and flag:
// those values reach the chart merged and patched already, and a key that a hook removed
// would come back through the defaults (H2). A chart in chart/ has its own defaults; the section global
// in the values.yaml of the module overrides them.
func (c *Cache) Load(m Module) (*Chart, error) {
	c.mu.Lock()
	known := c.loaded[m.key()]
	used := c.used[m.key()]
	c.mu.Unlock()
	if used.chart != nil && used.files == m.Files && m.Files != "" && used.chart.module.Dir == m.Dir {
		if m.Current != nil {
			if err := m.Current(); err != nil && !errors.Is(err, ErrRefused) {
				return nil, err
			}
		}
		return used.chart, nil
	}
	fresh, err := load(m, known)
	if err == nil && m.Current != nil {
		err = m.Current()
	}
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.loaded == nil {
		c.loaded, c.used = map[string]*Chart{}, map[string]versioned{}
	}
	c.loaded[m.key()] = fresh
	if m.Current != nil {
		c.used[m.key()] = versioned{m.Files, fresh}
	}
	return fresh, nil
}

// load reads a chart, unless it is the known one. One whose files change meanwhile is read again: it
// would be half of the old and half of the new chart.
func load(m Module, known *Chart) (*Chart, error) {
	const most = 10 // reads
	var wrong error
	var read [sha256.Size]byte // the stamp before the last read
	for range most {
		stamp, err := stampOf(m)
		switch {
		case err != nil:
			return nil, m.unread("read chart directory", err)
		case known != nil && known.stamp == stamp:
			return known, nil
		case wrong != nil && read == stamp:
			return nil, wrong
		}
		if known, wrong = readOnce(m); known != nil {
			known.stamp = stamp
		}
		read = stamp
	}
	return nil, m.unread("load chart in", errors.New("its files keep changing; write them at once, for example by moving "+
		"a directory into place"))
}

// readOnce is load without a stamp.
func readOnce(m Module) (*Chart, error) {
	loaded, err := Read(m)
	if err == nil {
		err = checkDependencies(loaded, m.Where())
	}
	if _, ok := errors.AsType[chart.ValidationError](err); ok {
		err = fmt.Errorf("file Chart.yaml: %w", err)
	}
	if err != nil {
		return nil, m.unread("load chart in", err)
	}
	fresh := &Chart{chart: loaded, module: m, inner: m.isInner()}
	fresh.module.Current = nil // it is of this call
	var global map[string]any
	switch {
	case fresh.inner:
		if global, err = globalNextTo(m); err != nil {
			return nil, err
		}
		if len(global) > 0 {
			loaded.Values = chartutil.MergeTables(map[string]any{globalKey: copyValues(global)}, loaded.Values)
		}
	case m.Key != "":
		delete(loaded.Values, m.Key)
		delete(loaded.Values, m.Key+"Enabled")
	}
	if fresh.digest, err = digestOf(loaded, global); err != nil {
		return nil, err
	}
	return fresh, nil
}

// digestOf is the checksum of the files of a chart, and of the module's section global. Unlike
// the stamp it does not depend on times or paths, so it is equal after a restart from another
// image.
func digestOf(c *chart.Chart, global map[string]any) (digest [sha256.Size]byte, err error) {
	files := slices.SortedFunc(slices.Values(c.Raw), func(a, b *chart.File) int { return strings.Compare(a.Name, b.Name) })
	sum := sha256.New()
	for _, f := range files {
		fmt.Fprintf(sum, "%d %s\x00%d\x00", len(f.Name), f.Name, len(f.Data))
		sum.Write(f.Data)
	}
	if len(global) > 0 {
		text, err := json.Marshal(global)
		if err != nil {
			return digest, err
		}
		sum.Write(text)
	}
	sum.Sum(digest[:0])
	return digest, nil
}

// Read reads a chart within the limits of its files. It does not check whether its
// declared dependencies are there: package fetch reads charts to download these. A module without
// Chart.yaml gets one here (A17), because Helm's loader insists on it.
func Read(m Module) (*chart.Chart, error) {
	_, err := os.Stat(filepath.Join(Root(m.Dir), "Chart.yaml"))
	synthesised := err != nil && !m.isInner()
	files, err := readFiles(m, synthesised)
	if err != nil {
		return nil, err
	}
	if synthesised {
		metadata, err := yaml.Marshal(&chart.Metadata{APIVersion: chart.APIVersionV2, Name: m.Name, Version: synthesisedVersion})
		if err != nil {
			return nil, err
		}
		files = append(files, &loader.BufferedFile{Name: "Chart.yaml", Data: metadata})
	}
	return loader.LoadFiles(files)
}

// isForeign reports the directories of a module that are not part of a
// synthesised chart (A17): they can be large, and templates never read them.
func isForeign(name string) bool {
	return slices.Contains([]string{"crds", "docs", "hooks", "images", "lib"}, name)
}

// ignoreRules reads .helmignore like Helm's loader, which adds its defaults, too. The file must be
// a regular one: the read of a named pipe would not return. Errors name dir as shown.
func ignoreRules(dir, shown string) (*ignore.Rules, error) {
	file := filepath.Join(dir, ignore.HelmIgnore)
	info, err := os.Stat(file)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		rules := ignore.Empty()
		rules.AddDefaults()
		return rules, nil
	case err == nil && !info.Mode().IsRegular():
		return nil, irregular(ignore.HelmIgnore)
	}
	rules, err := ignore.ParseFile(file)
	if err != nil {
		if about, ok := errors.AsType[*fs.PathError](err); ok {
			err = about.Err
		}
		return nil, fmt.Errorf("read %s: %w", filepath.Join(shown, ignore.HelmIgnore), err)
	}
	rules.AddDefaults()
	return rules, nil
}

// stampOf changes when a file of the chart, or the values.yaml next to chart/, appears, disappears,
// or changes its size or time. It reads no content, so it is cheap enough to be computed for each
// run. Files that no chart has, such as hooks in the module, count as well: that costs one load.
func stampOf(m Module) (stamp [sha256.Size]byte, err error) {
	sum := sha256.New()
	note := func(name string, info fs.FileInfo) error {
		if info.IsDir() {
			return nil
		}
		numbers := binary.BigEndian.AppendUint64(nil, uint64(info.Size()))
		numbers = binary.BigEndian.AppendUint64(numbers, uint64(info.ModTime().UnixNano()))
		sum.Write(append(numbers, name...))
		return nil
	}
	root := Root(m.Dir)
	if root != m.Dir {
		if info, err := os.Stat(filepath.Join(m.Dir, "values.yaml")); err == nil {
			_ = note("../values.yaml", info)
		}
	}
	// Reproducible archives give all files the same time, so a link to another tree may show in its
	// target only.
	if target, err := filepath.EvalSymlinks(root); err == nil {
		fmt.Fprintf(sum, "%s\x00", target)
	}
	err = walk(root, "", note)
	sum.Sum(stamp[:0])
	return stamp, err
}

// walk visits files and directories below dir in order, with slashes in their names, and follows
// symbolic links as Helm's own loader does: directories mounted from a ConfigMap consist of them. A
// link to nothing is visited as the link that it is: what it led to was not removed on purpose (P8).
// visit leaves out a directory by fs.SkipDir; any other error ends the walk. What disappears
// meanwhile is left out.
func walk(dir, below string, visit func(name string, info fs.FileInfo) error) error {
	if strings.Count(below, "/") > maxDepth {
		return fmt.Errorf("%s: more than %d directories deep; does a symbolic link point upwards?", below, maxDepth)
	}
	entries, err := os.ReadDir(filepath.Join(dir, filepath.FromSlash(below)))
	if err != nil {
		return err
	}
	for _, entry := range entries {
		name := path.Join(below, entry.Name())
		info, err := os.Stat(filepath.Join(dir, filepath.FromSlash(name)))
		link := entry.Type() == fs.ModeSymlink && !strings.HasPrefix(entry.Name(), ".") // editors make hidden ones
		if link && errors.Is(err, fs.ErrNotExist) {
			info, err = entry.Info()
		}
		if errors.Is(err, fs.ErrNotExist) {
			continue // just deleted
		}
		if err != nil {
			return err
		}
		err = visit(name, info)
		if err == nil && info.IsDir() {
			err = walk(dir, name, visit)
		}
		if err != nil && !errors.Is(err, fs.SkipDir) {
			return err
		}
	}
	return nil
}

// skip is what visit returns to leave out a file or a directory.
func skip(info fs.FileInfo) error {
	if info.IsDir() {
		return fs.SkipDir
	}
	return nil
}

// copyOf copies what Helm changes in a chart: the list of subcharts, their metadata, and the
// values. Templates and files, which are most of a chart, are shared.
func copyOf(c *chart.Chart) *chart.Chart {
	n := *c
	if c.Metadata != nil {
		metadata := *c.Metadata
		metadata.Dependencies = slices.Clone(c.Metadata.Dependencies)
		for i, d := range metadata.Dependencies {
			if d != nil {
				dependency := *d
				metadata.Dependencies[i] = &dependency
			}
		}
		n.Metadata = &metadata
	}
	n.Values = copyValues(c.Values)
	subcharts := make([]*chart.Chart, len(c.Dependencies()))
	for i, sub := range c.Dependencies() {
		subcharts[i] = copyOf(sub)
	}
	n.SetDependencies(subcharts...)
	return &n
}

func copyValues(values map[string]any) map[string]any {
	if values == nil {
		return map[string]any{}
	}
	return runtime.DeepCopyJSON(values)
}

// Check reports whether the chart of a module can be read: its files and dependencies, and the
// syntax of its own templates, with the functions that they call. Values are not needed for that,
// so it can refuse what is on disk before it is in force (P8). Templates of subcharts, which the
// values may disable, are not checked. A module without a chart has nothing to check. The error
// names each file.
func Check(m Module) error {
	if !Exists(m.Dir) {
		return nil
	}
	read, err := readOnce(m)
	if err != nil {
		return err
	}
	var errs []error
	where := m.Where()
	for _, t := range read.chart.Templates {
		tree := parse.New(filepath.Join(where, t.Name))
		tree.Mode = parse.SkipFuncCheck // Helm's functions are not exported: a name that is none of them fails the run
		if _, err := tree.Parse(string(t.Data), "", "", map[string]*parse.Tree{}); err != nil {
			errs = append(errs, fmt.Errorf("template %s", strings.TrimPrefix(err.Error(), "template: ")))
		}
	}
	return errors.Join(errs...)
}

// checkDependencies refuses, as helm install does, a chart that declares a subchart which is not in
// charts/ (H21): without it the release would be another one than the author meant, and perhaps
// empty. Like Helm it checks only the chart itself, not its subcharts, and does so whether the
// dependency is enabled or not. dir is for the advice in the error.
func checkDependencies(c *chart.Chart, dir string) error {
	var missing []string
	for _, d := range c.Metadata.Dependencies {
		if d == nil || slices.ContainsFunc(c.Dependencies(), func(sub *chart.Chart) bool { return sub.Name() == d.Name }) {
			continue
		}
		missing = append(missing, d.Name)
	}
	if len(missing) == 0 {
		return nil
	}
	file := "Chart.yaml"
	if c.Metadata.APIVersion == chart.APIVersionV1 {
		file = "requirements.yaml"
	}
	slices.Sort(missing)
	return fmt.Errorf("%s declares the dependency %s, which is not in charts/; run 'helm dependency build %s', "+
		"or remove what is not needed from %s", file, strings.Join(slices.Compact(missing), ", "), dir, file)
}

// Sections are the keys under which a chart has the values of a subchart: one for each alias in
// Chart.yaml, and the name of the subchart when Chart.yaml does not declare it.
func Sections(ch, sub *chart.Chart) []string {
	var names []string
	for _, d := range ch.Metadata.Dependencies {
		if d != nil && d.Name == sub.Name() {
			names = append(names, cmp.Or(d.Alias, d.Name))
		}
	}
	if len(names) == 0 {
		names = []string{sub.Name()}
	}
	return names
}

// Write writes the files of a chart, unchanged, into a directory, which it creates. Their names may be
// of a stranger: none leads out of the directory. One that exists is an error: a second file of the same
// name, or one of another chart.
func Write(dir string, files []*chart.File) error {
	all := &txtar.Archive{}
	for _, f := range files {
		all.Files = append(all.Files, txtar.File{Name: f.Name, Data: f.Data})
	}
	tree, err := txtar.FS(all)
	if err == nil {
		err = os.CopyFS(dir, tree)
	}
	if err != nil {
		return fmt.Errorf("write the files of the chart: %w", err)
	}
	return nil
}

// RedirectLog redirects what Helm's library writes to Go's global logger, such as warnings about values that do not
// fit those of the chart, to log, as warnings.
//
// The logger is global to the process: call this from main, before the first goroutine.
func RedirectLog(to *slog.Logger) {
	log.SetFlags(0)
	log.SetOutput(redirected{to})
}

// redirected is the writer of the global logger.
type redirected struct{ to *slog.Logger }

// Write implements io.Writer. Some lines end with a value, which may be a secret.
func (r redirected) Write(line []byte) (int, error) {
	surplus := regexp.MustCompile(`(with non table for \S+|Ignoring non-table value) (?s:.*)|^(?i:info|warning): `)
	r.to.Warn("Helm's library returned a warning", "err", surplus.ReplaceAllString(strings.TrimSpace(string(line)), "$1"))
	return len(line), nil
}
