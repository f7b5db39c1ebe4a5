package values

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Document is one parsed values.yaml, or the ConfigMap. Documents share their trees with the
// sections that are made of them, so nothing may write into them.
type Document struct {
	// Sections maps "global" and the camelCase keys of modules to maps or lists. A section without
	// content is absent.
	Sections map[string]any
	// Secrets are the sections of the Secret (D40), parsed by ParseSecret. ParseFile and
	// ParseConfigMap leave it nil.
	Secrets map[string]any
	// Flags maps keys like someModuleEnabled to their value. A section that is the text "false" is
	// the flag false of its module (X12), unless the document has the flag itself.
	Flags map[string]bool
	// Maintenance maps keys like someModuleMaintenance to NoResourceReconciliation, or to "" for
	// none (H15).
	Maintenance map[string]string
	// Strange are keys of a module's own file that look like flags but are not its own: keys of the
	// chart, or misspelled ones. Both lists hold at most maxProblems keys, because a file of 4 MiB
	// may have nothing else.
	Strange []string
	// Others are all keys of a module's own file that are not its own. The caller decides whether
	// they are values of the chart or mistakes (A20).
	Others []string
}

// Stored is what ConfigMap and Secret together hold of a section (D40); nil for nothing.
func (d Document) Stored(key string) any {
	section, secret := d.Sections[key], d.Secrets[key]
	switch {
	case secret == nil:
		return section
	case section == nil:
		return secret
	}
	return Merge(section, secret)
}

func newDocument() Document {
	return Document{Sections: map[string]any{}, Flags: map[string]bool{}, Maintenance: map[string]string{}}
}

// ParseFile parses a values.yaml (A19, E5). In the common file of a modules directory every key
// counts. With only, as for a module's own file, it reads nothing but these sections and their
// flags, because the rest belongs to the chart (D5). Errors name the path and every bad key; the
// document is then empty, so a file takes effect as a whole or not at all.
func ParseFile(path string, data []byte, only ...string) (Document, error) {
	tree, err := ParseYAML(data)
	if err != nil {
		return Document{}, fmt.Errorf("values file %s: %w", path, err)
	}
	content, ok := tree.(map[string]any)
	if !ok && tree != nil {
		return Document{}, fmt.Errorf("values file %s: must be a map of sections, is %s", path, describe(tree))
	}
	document := newDocument()
	var problems []error
	for _, key := range sortedKeys(content) {
		if len(only) > 0 && !concerns(key, only) {
			if len(document.Others) < maxProblems {
				document.Others = append(document.Others, key)
			}
			if _, isFlag := flagOwner(key); isFlag && len(document.Strange) < maxProblems {
				document.Strange = append(document.Strange, key)
			}
			continue
		}
		if err := document.add(key, content[key]); err != nil {
			problems = append(problems, fmt.Errorf("values file %s: key %s: %w", path, key, err))
		}
	}
	return document.finish(problems)
}

// concerns reports whether a key is one of the sections, or the flag or the maintenance mode of
// one.
func concerns(key string, sections []string) bool {
	return slices.ContainsFunc(sections, func(section string) bool {
		return key == section || key == FlagKey(section) || key == MaintenanceKey(section)
	})
}

// ParseConfigMap parses the data of the ConfigMap (D10–D12): sections are YAML texts, flags are the
// texts true and false. The error names every bad key, and the document is then empty: a ConfigMap
// is refused as a whole (D16).
func ParseConfigMap(data map[string]string) (Document, error) {
	document := newDocument()
	var problems []error
	for _, key := range sortedKeys(data) {
		if err := document.addText(key, data[key]); err != nil {
			problems = append(problems, fmt.Errorf("ConfigMap key %s: %w", key, err))
		}
	}
	return document.finish(problems)
}

// addText reads one key of the ConfigMap. Flags and modes are not parsed as YAML, which would
// accept yes and on for true.
func (d Document) addText(key, text string) error {
	_, isFlag := flagOwner(key)
	_, isMaintenance := maintenanceOwner(key)
	if isFlag || isMaintenance {
		return d.add(key, strings.TrimSpace(text))
	}
	tree, err := ParseYAML([]byte(text))
	if err != nil {
		return err
	}
	return d.add(key, tree)
}

// add dispatches on the name of a key. Flags and modes come first, because isKey refuses names with
// their endings.
func (d Document) add(key string, value any) error {
	if _, ok := flagOwner(key); ok {
		return d.addFlag(key, value)
	}
	if _, ok := maintenanceOwner(key); ok {
		return d.addMaintenance(key, value)
	}
	if key != GlobalKey && !isKey(key) {
		return keyError(key)
	}
	return d.addSection(key, value)
}

// addSection accepts the text false for a section that is not global (X12). It refuses true with a
// hint, because people write it to enable a module.
func (d Document) addSection(key string, value any) error {
	switch {
	case value == nil:
		return nil
	case key != GlobalKey && (value == false || value == "false"):
		// X12: "false" instead of a section switches the module off.
		d.Sections[key] = false // finish turns it into a flag, when the flag itself is not there
		return nil
	case key != GlobalKey && (value == true || value == "true"):
		return fmt.Errorf("must be a map or a list, is %s; to enable the module, write %s: true", describe(value), FlagKey(key))
	}
	if err := checkSection(key, value); err != nil {
		return err
	}
	d.Sections[key] = value
	return nil
}

// checkSection refuses values that cannot be a section (D1) and values that only the operator may
// compute (D9).
func checkSection(key string, value any) error {
	if key != GlobalKey {
		if !isContainer(value) {
			return fmt.Errorf("must be a map or a list, is %s", describe(value))
		}
		return nil
	}
	global, ok := value.(map[string]any)
	if !ok {
		return fmt.Errorf("must be a map, is %s", describe(value))
	}
	if _, ok := global[enabledModulesKey]; ok {
		return fmt.Errorf("%s.%s is computed by the operator and cannot be set; remove it", GlobalKey, enabledModulesKey)
	}
	return nil
}

func (d Document) addFlag(key string, value any) error {
	flag, ok := flagValue(value)
	if !ok {
		return fmt.Errorf("must be true or false, is %s", describe(value))
	}
	d.Flags[key] = flag
	return nil
}

// flagValue accepts booleans and the texts true and false (E5, D25).
func flagValue(value any) (flag, ok bool) {
	switch value {
	case true, "true":
		return true, true
	case false, "false":
		return false, true
	}
	return false, false
}

// finish turns sections that are false into flags. This has to wait until all keys are read: a flag
// in the same document is more explicit and wins.
func (d Document) finish(problems []error) (Document, error) {
	if len(problems) > 0 {
		return Document{}, errors.Join(problems...)
	}
	for key, value := range d.Sections {
		if value != false {
			continue
		}
		delete(d.Sections, key)
		if _, explicit := d.Flags[FlagKey(key)]; !explicit {
			d.Flags[FlagKey(key)] = false
		}
	}
	return d, nil
}

// keyError explains what the key of a section looks like, and proposes the right one when it can be
// guessed.
func keyError(key string) error {
	const rule = "keys are %q, the camelCase name of a module, and that name with Enabled or Maintenance"
	if proposal, err := Key(kebab(key)); err == nil && proposal != key {
		return fmt.Errorf(rule+"; did you mean %s?", GlobalKey, proposal)
	}
	return fmt.Errorf(rule, GlobalKey)
}
