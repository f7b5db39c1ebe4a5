package decide

import (
	"errors"
	"fmt"

	"addon-operator/addons"
	"addon-operator/values"
)

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
