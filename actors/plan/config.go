package plan

import (
	"errors"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strings"

	"addon-operator/addons"
	"addon-operator/helm/charts"
	"addon-operator/hooks"
	"addon-operator/messages"
	"addon-operator/values"
)

// Enabling is what decides, in addition to files and ConfigMap, which modules are enabled.
type Enabling struct {
	Dynamic map[string]bool // flags of global hooks, by key (E4)
	// Scripts are the answers of the enabled scripts at the last discovery, by module; nil
	// before the first one. A script that is not in it may say true.
	Scripts map[string]bool
}

// Concerns reports whether the section of a module must be valid, because something enables the
// module. Before the first discovery the answer of a script is unknown. What was accepted while
// it said false must not end a start, so the run of the module decides then (D37).
func (e Enabling) Concerns(m addons.Module, flags map[string]bool) bool {
	if !SwitchedOn(m, e.Dynamic, flags).Enabled {
		return false
	}
	on, asked := e.Scripts[m.Name]
	return m.EnabledScript == "" || on || !asked && e.Scripts != nil
}

// Parse takes ConfigMap and Secret apart. The errors of both are returned together.
func Parse(config, secret map[string]string) (values.Document, error) {
	doc, err := values.ParseConfigMap(config)
	sections, secretErr := values.ParseSecret(secret)
	doc.Secrets = sections
	return doc, errors.Join(err, secretErr)
}

// Schemas are what contents of ConfigMap and Secret are checked against.
type Schemas struct {
	// Sections are static values and schemas by key, without ConfigMap and Secret.
	Sections map[string]*values.Section
	Modules  []addons.Module
	Enabling Enabling
}

// Check validates ConfigMap and Secret together: keys, YAML, and the schemas of global and of the modules that they,
// their files or anything else enables (D16, D37, D40).
func (s Schemas) Check(config, secret map[string]string) (values.Document, error) {
	doc, err := Parse(config, secret)
	if err != nil {
		return doc, err
	}
	keys := []string{values.GlobalKey}
	for _, m := range s.Modules {
		if s.Enabling.Concerns(m, doc.Flags) {
			keys = append(keys, m.Key)
		}
	}
	var errs []error
	for _, key := range keys {
		if section, ok := s.Sections[key]; ok {
			errs = append(errs, Fits(section, doc))
		}
	}
	return doc, errors.Join(errs...)
}

// Fits validates a section with its parts of ConfigMap and Secret.
func Fits(section *values.Section, doc values.Document) error {
	next, err := Stored(section, doc, values.Origin{}, values.Origin{})
	if err != nil {
		return err
	}
	return next.ValidateConfig()
}

// Section is a section with its parts of ConfigMap and Secret, or without them when they are not valid (D37); nil
// when there is no such section.
func (s Schemas) Section(key string, doc values.Document) *values.Section {
	section := s.Sections[key]
	if section == nil {
		return nil
	}
	if stored, err := Stored(section, doc, values.Origin{}, values.Origin{}); err == nil {
		return stored
	}
	return section
}

// Stored gives a section its parts of ConfigMap and Secret.
func Stored(section *values.Section, doc values.Document, by, secretBy values.Origin) (*values.Section, error) {
	return section.WithStored(doc.Sections[section.Key()], doc.Secrets[section.Key()], by, secretBy)
}

// Change compares two contents: the keys that differ, and what converge must know of that. Comments, the order of keys
// within a section, and sections that belong to no module do not count. The cause names what has another value; values
// that a section has got, and that were in force already, by their section.
func (s Schemas) Change(before, after values.Document) (keys []string, change messages.ConfigChanged) {
	flags, modes := differing(before.Flags, after.Flags), differing(before.Maintenance, after.Maintenance)
	change = messages.ConfigChanged{Flags: after.Flags, FlagsChanged: len(flags) > 0, Maintenance: after.Maintenance}
	var paths []string
	where := "Secret"
	for _, key := range slices.Sorted(maps.Keys(s.Sections)) {
		inConfigMap := values.Checksum(before.Sections[key]) != values.Checksum(after.Sections[key])
		if !inConfigMap && values.Checksum(before.Secrets[key]) == values.Checksum(after.Secrets[key]) {
			continue
		}
		if keys = append(keys, key); key == values.GlobalKey {
			change.Global = true
		} else {
			change.Modules = append(change.Modules, values.NameOf(key))
		}
		found := s.Section(key, after).Diff(s.Section(key, before))
		if paths = append(paths, found...); len(found) == 0 {
			paths = append(paths, key)
		}
		if inConfigMap {
			where = "ConfigMap"
		}
	}
	if switches := slices.Concat(flags, modes); len(switches) > 0 {
		keys, paths, where = append(keys, switches...), append(paths, switches...), "ConfigMap"
	}
	change.Cause = messages.Cause{Activation: messages.ByConfigMap, Detail: messages.Few(3, paths) + " in " + where}
	return keys, change
}

// differing are the keys that have another value, in their order.
func differing[V comparable](before, after map[string]V) []string {
	all := map[string]V{}
	maps.Copy(all, before)
	maps.Copy(all, after)
	maps.DeleteFunc(all, func(key string, _ V) bool {
		was, had := before[key]
		is, has := after[key]
		return was == is && had == has
	})
	return slices.Sorted(maps.Keys(all))
}

// maxUnknown is how many unknown keys are named: the ConfigMap may have thousands.
const maxUnknown = 100

// Unknown names the keys that belong to no module (D12), and such flags of global hooks (E16), each in a sentence.
// They are accepted, because the ConfigMap may be edited before the directory of the module comes.
func (s Schemas) Unknown(doc values.Document) (found []string) {
	look := func(who string, keys iter.Seq[string]) {
		for _, key := range slices.Sorted(keys) {
			if text := s.NoModule(key); text != "" && len(found) < maxUnknown {
				found = append(found, fmt.Sprintf("%s has %s, but there is %s", who, key, text))
			}
		}
	}
	look("the ConfigMap", maps.Keys(doc.Sections))
	look("the ConfigMap", maps.Keys(doc.Flags))
	look("the ConfigMap", maps.Keys(doc.Maintenance))
	look("the Secret with values", maps.Keys(doc.Secrets))
	look("a global hook", maps.Keys(s.Enabling.Dynamic))
	return found
}

// NoModule says that a key, of a section or a flag, belongs to no module, and which was probably meant; empty if it
// does.
func (s Schemas) NoModule(key string) string {
	owner := strings.TrimSuffix(strings.TrimSuffix(key, values.FlagKey("")), values.MaintenanceKey(""))
	if _, ok := s.Sections[owner]; ok {
		return ""
	}
	var names []string
	for known := range s.Sections {
		names = append(names, values.NameOf(known))
	}
	slices.Sort(names)
	name := values.NameOf(owner)
	return strings.TrimSuffix("no module "+name+"; "+values.DidYouMean(name, names, ""), "; ")
}

// WithKeys is what the keys of a ConfigMap or Secret are after some are set; nil removes a key.
func WithKeys(before map[string]string, set map[string]*string) map[string]string {
	after := map[string]string{}
	maps.Copy(after, before)
	for key, text := range set {
		if text == nil {
			delete(after, key)
		} else {
			after[key] = *text
		}
	}
	return after
}

// ChartModule is a module as package charts gets it.
func ChartModule(m addons.Module) charts.Module {
	return charts.Module{Name: m.Name, Key: m.Key, Dir: m.Dir, Shown: m.Shown(m.Dir), Files: m.Files()}
}

// Hookless reports whether no hook can change the section with a key.
func Hookless(global addons.Global, modules []addons.Module, key string) bool {
	dir, prefix, scope := global.HooksDir, "", hooks.Global
	if key != values.GlobalKey {
		i := slices.IndexFunc(modules, func(m addons.Module) bool { return m.Key == key })
		if i < 0 {
			return false
		}
		dir, prefix, scope = modules[i].HooksDir(), modules[i].Base+"/hooks", hooks.Module
	}
	found, _, err := hooks.Find(dir, prefix, scope)
	return err == nil && len(found) == 0
}

// Sections makes the sections of global and of all modules from files, by key; nil where these are
// not valid, which the error says: it names all of them, because a person who starts an operator
// wants to repair them at once. The sections of a tree that loads are in force only with their
// parts of ConfigMap and Secret (Stored).
func Sections(tree *addons.Tree) (map[string]*values.Section, error) {
	var errs []error
	global, err := values.NewSection(values.GlobalKey, tree.Global.Schemas, tree.Global.Static...)
	if err != nil {
		errs = append(errs, fmt.Errorf("global values: %w", err))
	}
	sections := map[string]*values.Section{values.GlobalKey: global}
	for _, m := range tree.Modules {
		section, err := SectionFor(m)
		if err != nil {
			errs = append(errs, fmt.Errorf("module %s: %w", m.Name, err))
		}
		sections[m.Key] = section
	}
	return sections, errors.Join(errs...)
}

// SectionFor makes the section of a module from its files. The values.yaml of a chart as it was
// published (A20) is no layer of it, because Helm merges that itself; it is only explained.
func SectionFor(m addons.Module) (*values.Section, error) {
	section, err := values.NewSection(m.Key, m.Schemas, m.Static...)
	if err != nil {
		return nil, err
	}
	if path, read := m.Defaults(); read != nil {
		section = section.OverChart(path, read)
	}
	return section, nil
}
