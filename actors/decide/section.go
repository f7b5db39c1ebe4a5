package decide

import (
	"addon-operator/addons"
	"addon-operator/values"
)

// SectionFor makes the section of a module from what lies on disk.
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
