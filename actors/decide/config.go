package decide

import (
	"errors"

	"addon-operator/addons"
	"addon-operator/values"
)

// Enabling is what decides, besides files and ConfigMap, which modules are enabled, and what must hold for these.
type Enabling struct {
	Dynamic map[string]bool // flags of global hooks, by key (E4)
	// Scripts are the answers of the enabled scripts at the last discovery, by module; nil
	// before the first one. A script that is not in it may say true.
	Scripts map[string]bool
	// Charts says what the schemas in the chart of an enabled module refuse of a content that is valid by all other rules
	// (H22). Nil: nobody asks.
	Charts func(m addons.Module, doc values.Document) error
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

// Parse takes ConfigMap and Secret apart.
func Parse(config, secret map[string]string) (values.Document, error) {
	doc, err := values.ParseConfigMap(config)
	sections, secretErr := values.ParseSecret(secret)
	doc.Secrets = sections
	return doc, errors.Join(err, secretErr)
}

// Check validates ConfigMap and Secret together: keys, YAML, and the schemas of global and of the modules that they,
// their files or anything else enables (D16, D37, D40).
func Check(config, secret map[string]string, sections map[string]*values.Section, modules []addons.Module, by Enabling) (values.Document, error) {
	doc, err := Parse(config, secret)
	if err != nil {
		return doc, err
	}
	keys := []string{values.GlobalKey}
	for _, m := range modules {
		if by.Concerns(m, doc.Flags) {
			keys = append(keys, m.Key)
		}
	}
	var errs []error
	for _, key := range keys {
		section, ok := sections[key]
		if !ok {
			continue
		}
		if err := CheckSection(section, doc); err != nil {
			errs = append(errs, err)
		}
	}
	if len(errs) > 0 || by.Charts == nil {
		return doc, errors.Join(errs...)
	}
	for _, m := range modules {
		if by.Concerns(m, doc.Flags) {
			errs = append(errs, by.Charts(m, doc))
		}
	}
	return doc, errors.Join(errs...)
}

// CheckSection validates a section with its parts of ConfigMap and Secret.
func CheckSection(section *values.Section, doc values.Document) error {
	next, err := Stored(section, doc, values.Origin{}, values.Origin{})
	if err != nil {
		return err
	}
	return next.ValidateConfig()
}

// Stored gives a section its parts of ConfigMap and Secret.
func Stored(section *values.Section, doc values.Document, by, secretBy values.Origin) (*values.Section, error) {
	next, err := section.WithConfig(doc.Sections[section.Key()], by)
	if err != nil {
		return nil, err
	}
	return next.WithSecret(doc.Secrets[section.Key()], secretBy)
}

// Changed reports whether two contents of ConfigMap and Secret differ in the section with a key.
func Changed(before, after values.Document, key string) bool {
	return values.Checksum(before.Sections[key]) != values.Checksum(after.Sections[key]) || values.Checksum(before.Secrets[key]) != values.Checksum(after.Secrets[key])
}
