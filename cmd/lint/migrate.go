package lint

import (
	"cmp"
	"fmt"
	"io/fs"
	"log/slog"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"addon-operator/actors/check"
	"addon-operator/addons"
	"addon-operator/cmd/cli"
	"addon-operator/helm/charts"
	"addon-operator/values"
)

// Migration makes a check look for what the existing addon-operator takes in another way. All paths
// count from the working directory, and were checked by flags.existing.
type Migration struct {
	// ConfigMap is the file with the ConfigMap that was written for it; empty: none.
	ConfigMap string
	// Deployment is the file with the manifest of its Pod; empty: none.
	Deployment string
	// Queries are files that ask for its metrics, such as alerts and dashboards, outside of the
	// modules.
	Queries []string
}

// migration is one check of a tree that was written for the existing addon-operator. It runs after
// the ordinary checks and works on their findings.
type migration struct {
	Migration
	tree   *addons.Tree
	found  *findings
	charts *charts.Cache
	// data is that of the ConfigMap; nil before configMap has read it, and when there is none.
	data       map[string]string
	dockerfile string // next to the modules; "" when there is none
}

// migrate keeps the errors of the ordinary checks, adds to some of them what the existing operator
// does instead, and adds findings that matter only to those who come from it. outside are findings
// in files that are not in the tree.
func (c *checks) migrate(from Migration) (outside []Finding) {
	m := &migration{Migration: from, tree: c.tree, found: c.found, charts: &c.Memory.charts}
	if data := readSource(m.docker()); data != nil {
		m.dockerfile = m.docker()
	}
	c.found.list = slices.DeleteFunc(c.found.list, func(f Finding) bool { return f.Severity == Warning && !strings.Contains(f.Message, notEvaluated) })
	// First: flag asks which flags the ConfigMap sets.
	config := m.configMap()
	for _, module := range slices.Concat(c.tree.Modules, c.tree.Broken) {
		if c.Only == "" || c.Only == module.Dir {
			m.flag(module)
			m.files(module.Dir)
		}
	}
	if c.Only == "" || c.Only == c.tree.Global.Dir {
		m.files(c.tree.Global.Dir)
	}
	for i := range c.found.list {
		m.explain(&c.found.list[i])
	}
	c.found.list = slices.DeleteFunc(c.found.list, func(f Finding) bool { return f.Message == "" })
	outside = slices.Concat(config, m.image(), m.deployment())
	for _, file := range from.Queries {
		outside = append(outside, m.metrics(file)...)
	}
	return outside
}

// docker is where the Dockerfile of an image with modules usually is: next to modules/.
func (m *migration) docker() string {
	return filepath.Join(filepath.Dir(m.found.roots[0]), "Dockerfile")
}

// These are parts of messages that other packages write, by which explain recognizes their
// findings. A test of a migrated tree fails when one of them changes.
const (
	notEvaluated  = "has rules that are not evaluated"
	notExecutable = "is not executable, so it is not a hook"
)

// explain adds to a finding of the ordinary checks what the existing operator does. It empties the
// message of a finding that a check of a migration reports better, and migrate drops these.
func (m *migration) explain(f *Finding) {
	base := filepath.Base(f.File)
	switch {
	case base == "module.yaml" && strings.HasSuffix(f.Message, " is unknown"):
		f.Fix = "the existing operator does not read module.yaml; here its keys are " + strings.TrimPrefix(f.Fix, "known keys are ") + "; remove the key, or rename the file if another tool reads it"
	case base == "values.yaml" && strings.Contains(f.Fix, "or the schema "):
		f.Fix += "; the existing operator checks only the ConfigMap against config-values.yaml, and this one also checks the files"
	case filepath.Ext(base) == ".go" && strings.HasPrefix(f.Message, notExecutable),
		strings.Contains(f.Message, shellLib) && strings.HasPrefix(f.Message, "--config: "):
		f.Message = "" // goHook and library say more
	case strings.Contains(f.Message, notEvaluated) && strings.Contains(f.Message, "x-deckhouse-validations"):
		f.Fix = "write them with keywords of OpenAPI v3, or have a hook check the values; the existing operator evaluates x-deckhouse-validations"
	}
}

// flag warns of a flag in the module's own values.yaml, which counts here (X4) and is ignored by
// the existing operator, if it changes whether the module is enabled.
func (m *migration) flag(module addons.Module) {
	key := values.FlagKey(module.Key)
	if _, ok := m.data[key]; ok {
		return // the ConfigMap decides in both
	}
	own, at := m.boolean(filepath.Join(module.Dir, "values.yaml"), key)
	common := "false"
	// Of several roots the later values.yaml wins (A13).
	for _, root := range m.found.roots[:len(m.found.roots)-1] {
		if text, _ := m.boolean(filepath.Join(root, "values.yaml"), key); text != "" {
			common = text
		}
	}
	if own == "" || own == common {
		return
	}
	state := map[string]string{"true": "enables", "false": "disables"}[own]
	m.found.add(Warning, filepath.Join(module.Dir, "values.yaml"), at,
		fmt.Sprintf("%s %s the module here, but the existing operator ignores it in this file; move it to the values.yaml next to the modules, or remove it", key, state))
}

// boolean is the text true or false that a YAML file has for a key, with its place; "" for anything
// else. Only the text is compared, so a quoted flag counts, too (E5).
func (m *migration) boolean(file, key string) (text string, at place) {
	src := m.found.src.of(file)
	node := src.document()
	if node == nil {
		return "", place{}
	}
	name, value := child(node, key)
	if name == nil || value.Value != "true" && value.Value != "false" {
		return "", place{}
	}
	return value.Value, place{name.Line, name.Column}
}

// files searches all files of a module, or of the global hooks, for what only the existing operator
// has. Not in hidden directories, such as .git, nor in Markdown, which only describes.
func (m *migration) files(dir string) {
	seen, clue := 0, regexp.MustCompile(`_operator_|d8_telemetry_|sdk\.Register|flant/|go_hook|/shell_lib|/framework|modules/|global-hooks/|crd-install`)
	_ = filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil || entry == nil:
			return nil //nolint:nilerr // loading reports the files that cannot be read
		case entry.IsDir() && strings.HasPrefix(entry.Name(), ".") && path != dir:
			return fs.SkipDir
		case entry.IsDir() || strings.EqualFold(filepath.Ext(path), ".md"):
			return nil
		}
		if seen++; seen > maxFiles {
			return fs.SkipAll
		}
		// clue contains a part of each expression below. The checks below read a file through
		// sources, which keeps it until the end of the check; a tree may be large, so files without
		// a clue stay out.
		if !clue.Match(readSource(path)) {
			return nil // it is not kept in memory
		}
		rel, _ := filepath.Rel(dir, path)
		inHooks := strings.HasPrefix(rel, "hooks/") || dir == m.tree.Global.Dir
		switch ext := filepath.Ext(path); {
		case ext == ".go":
			m.goHook(path)
		case inHooks || rel == "enabled":
			m.library(path)
			m.workingDir(path)
		}
		if strings.HasPrefix(rel, "templates/") {
			m.crdInstall(path)
		}
		// metrics returns its findings, because files outside of the tree are searched, too; add
		// bounds others.
		if len(m.found.list) < maxFindings {
			m.found.list = append(m.found.list, m.metrics(path)...)
		}
		return nil
	})
}

// match finds the first match of an expression in a file, in a line that is no comment of a shell
// or of Go.
func (m *migration) match(path string, form *regexp.Regexp) (place, bool) {
	for i, line := range m.found.src.of(path).lines {
		if strings.HasPrefix(strings.TrimSpace(line), "#") || strings.HasPrefix(strings.TrimSpace(line), "//") {
			continue
		}
		if text := form.FindString(line); text != "" {
			return m.found.src.of(path).word(i+1, text), true
		}
	}
	return place{}, false
}

// goHook finds hooks that register themselves in the program of the existing operator. No process
// can run them alone.
func (m *migration) goHook(path string) {
	at, ok := m.match(path, regexp.MustCompile(`\bsdk\.Register(Func)?\(|flant/addon-operator/sdk|pkg/module_manager/go_hook`))
	if ok {
		m.found.add(Error, path, at, "is a hook in Go that is compiled into the existing operator, and does not run here; build it as a batch (docs/hooks.md, Batches), or write it as a script")
	}
}

// shellLib is the library of shell functions at the root of the images of the existing operators.
// Scripts source it by its absolute path.
const shellLib = "shell_lib.sh"

// library finds scripts that need files of the image of the existing operator. With a Dockerfile
// that brings them it is only a warning: the check cannot run the scripts on this machine.
func (m *migration) library(path string) {
	at, ok := m.match(path, regexp.MustCompile(`/shell_lib\.sh|/frameworks?/shell\b`))
	switch {
	case !ok || len(readSource("/"+shellLib)) > 0: // this is the image
	case strings.Contains(string(readSource(m.dockerfile)), shellLib):
		m.found.add(Warning, path, at, "cannot run with --config, because /"+shellLib+" is not on this machine; run the check in the image that the Dockerfile builds")
	default:
		m.found.add(Error, path, at, "needs /"+shellLib+", which the image of this operator does not have; copy it, and the directory with its functions, from your present image into the new one")
	}
}

// workingDir finds commands with a path that is relative to the working directory of the existing
// operator, which all hooks share there. Here each has its own (X1).
func (m *migration) workingDir(path string) {
	at, ok := m.match(path, regexp.MustCompile(`(^|\s)(source|\.|bash|sh|cat)\s+"?(\./)?(modules|global-hooks)/`))
	if ok {
		m.found.add(Warning, path, at, "has a path relative to the working directory of the existing operator; here hooks start in their own directory, and enabled scripts in that of the module; begin the path with $WORKING_DIR in a hook, or make it absolute")
	}
}

// crdInstall finds definitions that Helm 2 installed before the chart, and that Helm 3 leaves out.
func (m *migration) crdInstall(path string) {
	at, ok := m.match(path, regexp.MustCompile(`helm\.sh/hook"?:\s*"?crd-install`))
	if ok {
		m.found.add(Error, path, at, "is a Helm hook of Helm 2, and Helm 3 ignores the object; move the CRD to crds/ of the module, without the annotation")
	}
}

// renamed maps the names of metrics that the existing operators serve or document and this one does
// not, without their prefix, to the name here; "" means that there is none. Names that are the same
// in both are not in it.
func renamed() map[string]string {
	return map[string]string{
		"global_hook_run_errors_total":         "global_hook_errors_total",
		"global_hook_run_allowed_errors_total": "global_hook_allowed_errors_total",
		"global_hook_run_success_total":        "global_hook_success_total",
		"module_hook_run_errors_total":         "module_hook_errors_total",
		"module_hook_run_allowed_errors_total": "module_hook_allowed_errors_total",
		"module_hook_run_success_total":        "module_hook_success_total",
		"module_discover_errors_total":         "modules_discover_errors_total",
		"kube_snapshot_bytes":                  "",

		"d8_telemetry_module_enabled":      "mm_module_enabled",
		"d8_telemetry_helm_fallback_total": "helm_fallback_total",

		// Of shell-operator, whose hooks are global hooks here.
		"hook_run_seconds":                             "global_hook_run_seconds",
		"hook_run_user_cpu_seconds":                    "global_hook_run_user_cpu_seconds",
		"hook_run_sys_cpu_seconds":                     "global_hook_run_sys_cpu_seconds",
		"hook_run_max_rss_bytes":                       "global_hook_run_max_rss_bytes",
		"hook_run_errors_total":                        "global_hook_errors_total",
		"hook_run_allowed_errors_total":                "global_hook_allowed_errors_total",
		"hook_run_success_total":                       "global_hook_success_total",
		"hook_enable_kubernetes_bindings_seconds":      "",
		"hook_enable_kubernetes_bindings_errors_total": "",
		"hook_enable_kubernetes_bindings_success":      "",
	}
}

// metrics finds names of metrics that this operator does not serve, in any text, such as a rule or
// a dashboard: each name once in a file, without the suffixes of a histogram.
func (m *migration) metrics(path string) (all []Finding) {
	named := regexp.MustCompile(`\b((?:addon|shell)_operator_)?(d8_telemetry_\w+|\w+)\b`)
	seen := map[string]bool{}
	for i, line := range m.found.src.of(path).lines {
		if !strings.Contains(line, "_operator_") && !strings.Contains(line, "d8_telemetry_") {
			continue
		}
		for _, found := range named.FindAllStringSubmatch(line, -1) {
			prefix, name := found[1], found[2]
			for _, of := range []string{"_bucket", "_sum", "_count"} {
				name = strings.TrimSuffix(name, of)
			}
			other, known := renamed()[name]
			switch {
			case prefix == "" && !strings.HasPrefix(name, "d8_telemetry_"):
				continue
			// The metric is served, under the prefix of this operator.
			case !known && prefix == "shell_operator_":
				other = name
			case !known:
				continue
			}
			if seen[prefix+name] || len(all) >= maxFindings {
				continue
			}
			seen[prefix+name] = true
			text := "queries the metric " + prefix + name + ", which is not served; "
			if other == "" {
				text += "there is no replacement (docs/metrics.md)"
			} else {
				text += "it is addon_operator_" + other + " here"
			}
			all = append(all, m.at(Warning, path, m.found.src.of(path).word(i+1, found[0]), text))
		}
	}
	return all
}

// at makes a finding in a file that need not be in the tree. One outside has no excerpt: it may
// hold secrets. What follows the last semicolon is what to do.
func (m *migration) at(severity, path string, at place, text string) Finding {
	abs, err := filepath.Abs(path)
	// A list of its own, so that the finding is returned and not collected twice.
	if err == nil && m.found.inside(abs) {
		list := findings{roots: m.found.roots, given: m.found.given, src: m.found.src}
		list.add(severity, abs, at, text)
		return list.list[0]
	}
	file := fromHere(cmp.Or(abs, path))
	one := Finding{Severity: severity, File: file, Path: file, Line: at.line, Column: at.column}
	one.Message, one.Fix = withFix(cut(text, maxMessage))
	return one
}

// configMap finds what this operator refuses or ignores in the ConfigMap. No line of the file is
// shown: it may hold secrets.
func (m *migration) configMap() (all []Finding) {
	if m.ConfigMap == "" {
		return nil
	}
	// Messages about a ConfigMap name its keys in words; the first word that is a key has the
	// place.
	say := func(severity, text string) {
		at := place{}
		for _, word := range regexp.MustCompile(`\w+`).FindAllString(text, -1) {
			if _, ok := m.data[word]; ok {
				at, _ = m.found.src.of(m.ConfigMap).at([]string{"data", word}, true)
				break
			}
		}
		all = append(all, m.at(severity, m.ConfigMap, at, m.found.short(text)))
	}
	data, err := cli.ReadConfigMap(m.ConfigMap)
	if err != nil {
		say(Error, err.Error())
		return all
	}
	m.data = data
	onDisk := map[string]bool{} // errors of files are no news: other checks report them
	for _, err := range joined(check.ConfigMap(m.tree, nil, nil, slog.New(slog.DiscardHandler), m.charts)) {
		onDisk[err.Error()] = true
	}
	var unread []string
	log := slog.New(recorder(func(r slog.Record) {
		text := r.Message
		r.Attrs(func(a slog.Attr) bool { text = a.Key + " " + a.Value.String() + ": " + text; return true })
		unread = append(unread, text)
	}))
	for _, err := range joined(check.ConfigMap(m.tree, data, nil, log, m.charts)) {
		if !onDisk[err.Error()] {
			say(Error, err.Error())
		}
	}
	for _, text := range unread {
		if !strings.Contains(text, "has no effect") { // it does not in the existing operator, either
			say(Warning, text)
		}
	}
	return all
}
