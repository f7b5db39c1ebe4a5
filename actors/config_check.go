package actors

import (
	"log/slog"
	"maps"
	"slices"

	"addon-operator/addons"
	"addon-operator/values"
)

// check validates a content of the ConfigMap: keys, YAML, and the schemas of global and
// of the modules that it, or their files, enable (D16, D37).
func (c *config) check(data map[string]string) (values.Document, error) {
	return checkStored(data, c.state.secret.known, c.state.sections, c.state.modules)
}

// CheckConfigMap says what is wrong with the contents of the ConfigMap and of the Secret with
// values, or with the static values below them, without a cluster: every violation at once.
// Warnings name keys that belong to no module.
func CheckConfigMap(tree *addons.Tree, data, secret map[string]string, warn *slog.Logger) error {
	b := &boot{tree: tree, sections: map[string]*values.Section{}}
	if err := b.makeSections(); err != nil {
		return err
	}
	doc, err := checkStored(data, secret, b.sections, tree.Modules)
	warnUnknownKeys(warn, doc, values.Document{}, b.sections)
	return err
}

// MarkedSecrets tells which paths of the ConfigMap the schemas of a tree mark as secrets (D41), without a cluster.
func MarkedSecrets(tree *addons.Tree) (marked func(path []string) bool, err error) {
	b := &boot{tree: tree, sections: map[string]*values.Section{}}
	if err := b.makeSections(); err != nil {
		return nil, err
	}
	return func(path []string) bool {
		section := b.sections[path[0]]
		return section != nil && section.Marked(path[1:])
	}, nil
}

func checkConfigMap(data map[string]string, sections map[string]*values.Section, modules []addons.Module) (values.Document, error) {
	return checkStored(data, nil, sections, modules)
}

// warnUnknownKeys names keys that belong to no module (D12); those in before were named
// already.
func warnUnknownKeys(log *slog.Logger, doc, before values.Document, sections map[string]*values.Section) {
	for _, key := range slices.Sorted(maps.Keys(doc.Sections)) {
		if _, told := before.Sections[key]; !told && sections[key] == nil {
			log.Warn("the ConfigMap has values for a module that does not exist; they are ignored", "key", key)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(doc.Secrets)) {
		if _, told := before.Secrets[key]; !told && sections[key] == nil {
			log.Warn("the Secret has values for a module that does not exist; they are ignored", "key", key)
		}
	}
	known := make(map[string]bool, len(sections))
	var flags []string
	for _, key := range slices.Sorted(maps.Keys(sections)) {
		known[values.FlagKey(key)], known[values.MaintenanceKey(key)] = true, true
		flags = append(flags, values.FlagKey(key))
	}
	for _, key := range slices.Sorted(maps.Keys(doc.Maintenance)) {
		if _, told := before.Maintenance[key]; !told && !known[key] {
			log.Warn("the ConfigMap has a maintenance mode for a module that does not exist; a release of that name is not purged", "key", key)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(doc.Flags)) {
		if _, told := before.Flags[key]; !told && !known[key] {
			about := []any{"key", key}
			if meant := values.NearFlag(key, flags); meant != "" {
				about = append(about, "didYouMean", meant)
			}
			log.Warn("the ConfigMap has a flag for a module that does not exist; it is ignored", about...)
		}
	}
}
