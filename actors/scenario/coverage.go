package scenario

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"addon-operator/helm/charts"
	"addon-operator/hooks"
	"addon-operator/supervisor"
)

// part is something of a module that a test can exercise. Paths in names are relative to the
// directory of the module, or to its chart; a binding is named by its hook and its own name.
type part struct{ kind, name string }

// partKinds are the kinds of parts, in the order of reports.
func partKinds() []string { return []string{"hooks", "bindings", "templates"} }

// Coverage is how much of a module, or of the global hooks, tests have exercised.
type Coverage struct {
	Module string         `json:"module"` // name of the directory
	Parts  []CoveredParts `json:"parts"`
}

// CoveredParts are the parts of one kind.
type CoveredParts struct {
	Kind    string   `json:"kind"` // hooks, bindings or templates
	Covered int      `json:"covered"`
	Total   int      `json:"total"`
	Missing []string `json:"missing"`
}

// CoverageOf sums up what has been exercised in all results, which were played with
// Options.Coverage: one element for each module, or for the global hooks, in the order in which
// they occur. A module whose scenarios were not played has none.
func CoverageOf(results []Result) (all []Coverage) {
	modules := map[string]map[part]bool{}
	var dirs []string
	for _, r := range results {
		dir := r.Scenario.unit.dir
		if modules[dir] == nil {
			modules[dir] = map[part]bool{}
			dirs = append(dirs, dir)
		}
		for p, exercised := range r.parts {
			modules[dir][p] = modules[dir][p] || exercised
		}
	}
	for _, dir := range dirs {
		c := Coverage{Module: filepath.Base(dir)}
		for _, kind := range partKinds() {
			parts := CoveredParts{Kind: kind, Missing: []string{}}
			for p, exercised := range modules[dir] {
				switch {
				case p.kind != kind:
					continue
				case exercised:
					parts.Covered++
				default:
					parts.Missing = append(parts.Missing, p.name)
				}
				parts.Total++
			}
			slices.Sort(parts.Missing)
			c.Parts = append(c.Parts, parts)
		}
		all = append(all, c)
	}
	return all
}

// String is the coverage in lines.
func (c Coverage) String() string {
	text := "coverage of " + c.Module + ":"
	missing := ""
	for i, parts := range c.Parts {
		if i > 0 {
			text += ","
		}
		text += fmt.Sprintf(" %d of %d %s", parts.Covered, parts.Total, parts.Kind)
		for _, name := range parts.Missing {
			missing += "      not exercised: " + strings.TrimSuffix(parts.Kind, "s") + " " + name + "\n"
		}
	}
	return text + "\n" + missing
}

// exercised notes what a play exercises of the module of its test, or of the global hooks. Parts
// are added when they are found: hooks and bindings when a hook is configured (in the goroutine of
// a run), templates at an expect.
type exercised struct {
	unit  unit
	parts supervisor.Shared[map[part]bool] // all that were found; true for those that were exercised
}

// hooks notes the hooks of a file, and their bindings, if they are those that the test is about.
func (x *exercised) hooks(found []hooks.Hook, scope hooks.Scope) {
	if x.unit.module == "" && scope != hooks.Global {
		return // of a module that the test of global hooks names in given.modules
	}
	for _, hook := range found {
		name, ok := x.own(hook.Name)
		if !ok || hook.Config == nil {
			continue
		}
		x.note(part{"hooks", name}, false)
		for kind := range hook.Config.Orders {
			x.note(part{"bindings", name + " " + string(kind)}, false)
		}
		for _, s := range hook.Config.Schedules {
			x.note(part{"bindings", name + " " + cmp.Or(s.Group, s.Name)}, false)
		}
		for _, k := range hook.Config.Kubernetes {
			x.note(part{"bindings", name + " " + cmp.Or(k.Group, k.Name)}, false)
		}
	}
}

// own is the path of a hook in the directory of the test's module. In a test of global hooks every
// hook counts: see known.
func (x *exercised) own(name string) (string, bool) {
	own, ok := strings.CutPrefix(name, filepath.Base(x.unit.dir)+"/")
	return own, ok || x.unit.module == ""
}

// known reports whether a hook was configured as one of those that the test is about. Each hook is
// configured before it runs; the one that plays given.fromGlobalHooks never is, because it is no
// file of the author.
func (x *exercised) known(name string) bool {
	_, known := x.parts.Get()[part{"hooks", name}]
	return known
}

// note adds a part. One that was exercised stays so, also when its hook is configured again after a
// restart.
func (x *exercised) note(of part, exercised bool) {
	x.parts.Change(func(parts map[part]bool) map[part]bool {
		return with(parts, of, parts[of] || exercised)
	})
}

// ran notes which hooks ran, and which templates made objects. It is called at each expect, because
// a later step may uninstall the release, and with it its records.
func (x *exercised) ran(runs []hookRun, objects []map[string]any) error {
	for _, r := range runs {
		name, ok := x.own(r.hook)
		if !ok || !x.known(name) {
			continue
		}
		x.note(part{"hooks", name}, true)
		for _, c := range r.contexts {
			x.note(part{"bindings", name + " " + bindingOf(c)}, true)
		}
	}
	return errors.Join(x.templates(), x.rendered(objects))
}

// templates notes the templates of the module. What begins with _ and NOTES.txt make no objects.
func (x *exercised) templates() error {
	if x.unit.module == "" {
		return nil
	}
	root := cmp.Or(charts.Root(x.unit.dir), x.unit.dir)
	err := filepath.WalkDir(filepath.Join(root, "templates"), func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || strings.HasPrefix(entry.Name(), "_") || entry.Name() == "NOTES.txt" {
			return err
		}
		name, err := filepath.Rel(root, path)
		x.note(part{"templates", name}, false)
		return err
	})
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	return err
}

// rendered notes the templates of which the records of the release have objects. The cluster shows
// objects, but not which template made them; Helm's manifests have that in comments. All revisions
// count that are kept.
func (x *exercised) rendered(objects []map[string]any) error {
	for _, object := range objects {
		meta, _ := object["metadata"].(map[string]any)
		name, _ := meta["name"].(string)
		data, _ := object["data"].(map[string]any)
		record, ok := data["release"].(string)
		if !ok || !strings.HasPrefix(name, "sh.helm.release.v1."+nameOf(x.unit.module)+".v") {
			continue
		}
		sources, err := sourcesOf(record)
		if err != nil {
			return fmt.Errorf("read the release for its coverage: %w", err)
		}
		for _, source := range sources {
			if _, file, inChart := strings.Cut(source, "/"); inChart && strings.HasPrefix(file, "templates/") {
				x.note(part{"templates", file}, true)
			}
		}
	}
	return nil
}

// sourcesOf are the templates that a record of Helm names, as CHART/templates/FILE.
func sourcesOf(record string) (sources []string, err error) {
	data := []byte(record)
	for range 2 { // by Helm, and by the API
		if data, err = base64.StdEncoding.DecodeString(string(data)); err != nil {
			return nil, err
		}
	}
	reader, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	const most = 64 << 20 // bytes: a Secret of 1 MiB may expand to a gigabyte
	if data, err = io.ReadAll(io.LimitReader(reader, most)); err != nil {
		return nil, err
	}
	var release struct {
		Manifest string `json:"manifest"`
		Hooks    []struct {
			Path string `json:"path"`
		} `json:"hooks"`
	}
	if err := json.Unmarshal(data, &release); err != nil {
		return nil, err
	}
	for _, found := range regexp.MustCompile(`(?m)^# Source: (.+)$`).FindAllStringSubmatch(release.Manifest, -1) {
		sources = append(sources, found[1])
	}
	for _, hook := range release.Hooks {
		sources = append(sources, hook.Path)
	}
	return sources, nil
}
