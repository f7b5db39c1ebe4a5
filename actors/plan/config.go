package plan

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"addon-operator/addons"
	"addon-operator/helm/charts"
	"addon-operator/hooks"
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
	return doc, s.CheckDocument(doc)
}

// CheckDocument is the part of Check after the texts were parsed.
func (s Schemas) CheckDocument(doc values.Document) error {
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
	return errors.Join(errs...)
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

// Change is the difference between two contents of ConfigMap and Secret.
type Change struct {
	Keys    []string // of the sections that differ
	Global  bool     // the section of global is one of them
	Modules []string // the names of the modules whose sections differ
	// Flags and Maintenance report whether any flag, or any maintenance mode, differs.
	Flags, Maintenance bool
}

// Any reports whether there is a difference other than comments and the order of keys.
func (c Change) Any() bool { return len(c.Keys) > 0 || c.Flags || c.Maintenance }

// Change compares two contents. Sections that belong to no module do not count.
func (s Schemas) Change(before, after values.Document) Change {
	change := Change{Flags: !maps.Equal(before.Flags, after.Flags), Maintenance: !maps.Equal(before.Maintenance, after.Maintenance)}
	for _, key := range slices.Sorted(maps.Keys(s.Sections)) {
		if values.Checksum(before.Sections[key]) == values.Checksum(after.Sections[key]) &&
			values.Checksum(before.Secrets[key]) == values.Checksum(after.Secrets[key]) {
			continue
		}
		if change.Keys = append(change.Keys, key); key == values.GlobalKey {
			change.Global = true
		} else {
			change.Modules = append(change.Modules, s.ModuleName(key))
		}
	}
	return change
}

// ModuleName is the name of the module with a key.
func (s Schemas) ModuleName(key string) string {
	for _, m := range s.Modules {
		if m.Key == key {
			return m.Name
		}
	}
	return key
}

// Misplaced returns the paths of the values that a schema marks as secrets while they are in the
// ConfigMap (D41).
func (s Schemas) Misplaced(doc values.Document) []string {
	var paths []string
	for _, key := range slices.Sorted(maps.Keys(s.Sections)) {
		paths = append(paths, s.Section(key, doc).Secrets().Misplaced()...)
	}
	return paths
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
	return charts.Module{Name: m.Name, Key: m.Key, Dir: m.Dir, Shown: m.Shown(m.Dir), Version: m.Version()}
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
