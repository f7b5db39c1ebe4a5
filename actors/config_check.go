package actors

import (
	"cmp"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"strconv"

	"addon-operator/actors/decide"
	"addon-operator/actors/plan"
	"addon-operator/addons"
	"addon-operator/helm/charts"
	"addon-operator/hooks"
	"addon-operator/messages"
	"addon-operator/values"
)

// CheckConfigMap says what is wrong with the contents of the ConfigMap and of the Secret with
// values, or with the static values below them, without a cluster: every violation at once. What
// is broken in the tree itself is not checked further. Warnings name keys that belong to no module. cache has charts that
// were loaded before; nil for none.
func CheckConfigMap(tree *addons.Tree, data, secret map[string]string, warn *slog.Logger, cache *charts.Cache) error {
	b := &boot{tree: tree, sections: map[string]*values.Section{}}
	staticErr := b.makeSections()
	for _, m := range tree.Broken {
		b.sections[m.Key] = nil
	}
	for key, section := range b.sections {
		if section == nil {
			b.sections[key], _ = values.NewSection(key, nil) // fails for layers only, and there are none
		}
	}
	rules := b.chartRules(cmp.Or(cache, &charts.Cache{}))
	rules.static = true
	doc, err := b.schemas(decide.Enabling{Scripts: map[string]bool{}, Charts: rules.check}).Check(data, secret) // each script may say true
	warnUnknownKeys(warn, doc, values.Document{}, b.sections)
	if err == nil {
		global := stored(b.sections[values.GlobalKey], doc)
		section := func(m addons.Module) *values.Section { return stored(b.sections[m.Key], doc) }
		for _, text := range plan.UnreadGlobal(rules.charts, tree, global, section) {
			warn.Warn(text)
		}
		for _, m := range tree.Modules {
			for _, text := range plan.Unread(rules.charts, m, global, section(m)) {
				warn.Warn(text, "module", m.Name)
			}
		}
	}
	return errors.Join(staticErr, err)
}

// CheckTree says what is wrong in a tree with which an operator starts all the same, without the
// module, the script or the hook that was meant, or with a chart that cannot be installed (H21). cache is as for CheckConfigMap.
func CheckTree(tree *addons.Tree, cache *charts.Cache) error {
	var errs []error
	for _, problem := range tree.Problems {
		errs = append(errs, errors.New(problem))
	}
	look := func(dir, prefix string, scope hooks.Scope) {
		_, skipped, err := hooks.Find(dir, prefix, scope)
		errs = append(errs, err)
		for _, warning := range skipped {
			errs = append(errs, errors.New(warning))
		}
	}
	if tree.Global.HooksDir != "" {
		look(tree.Global.HooksDir, "", hooks.Global)
	}
	cache = cmp.Or(cache, &charts.Cache{})
	for _, m := range slices.Concat(tree.Modules, tree.Broken) {
		look(m.HooksDir(), m.Base+"/hooks", hooks.Module)
		if charts.Exists(m.Dir) {
			_, err := cache.Load(charts.Module{Name: m.Name, Key: m.Key, Dir: m.Dir})
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// MarkedSecrets returns which paths of the ConfigMap the schemas of a tree mark as secrets (D41), without a cluster.
func MarkedSecrets(tree *addons.Tree) (marked func(path []string) bool, err error) {
	b := &boot{tree: tree, sections: map[string]*values.Section{}}
	if err := b.makeSections(); err != nil {
		return nil, err
	}
	return func(path []string) bool {
		section := b.sections[path[0]]
		return section != nil && section.Secrets().Marked(path[1:])
	}, nil
}

// warnUnknownKeys names keys that belong to no module (D12); those in before were named
// already.
func warnUnknownKeys(log *slog.Logger, doc, before values.Document, sections map[string]*values.Section) {
	var keys, flags, modes []string
	for _, key := range slices.Sorted(maps.Keys(sections)) {
		keys, flags, modes = append(keys, key), append(flags, values.FlagKey(key)), append(modes, values.MaintenanceKey(key))
	}
	warnUnknown(log, "the ConfigMap has values for a module that does not exist; they are ignored", doc.Sections, before.Sections, keys, values.Nearest)
	warnUnknown(log, "the Secret has values for a module that does not exist; they are ignored", doc.Secrets, before.Secrets, keys, values.Nearest)
	warnUnknown(log, "the ConfigMap has a maintenance mode for a module that does not exist; a release of that name is not purged", doc.Maintenance, before.Maintenance, modes, values.NearestMaintenance)
	warnUnknown(log, "the ConfigMap has a flag for a module that does not exist; it is ignored", doc.Flags, before.Flags, flags, values.NearFlag)
}

// warnUnknownFlags names flags of global hooks that belong to no module, with the hook.
func warnUnknownFlags(log *slog.Logger, msg messages.SetDynamicFlags, before map[string]bool, sections map[string]*values.Section) {
	var known []string
	for key := range sections {
		known = append(known, values.FlagKey(key))
	}
	slices.Sort(known)
	for _, key := range slices.Sorted(maps.Keys(msg.Flags)) {
		_, told := before[key]
		if told || slices.Contains(known, key) {
			continue
		}
		// With the attribute err the log repeats it at growing distances: a hook may set it and take it back again and again.
		about := []any{"hook", msg.By[key], "err", "the flag is " + key}
		if meant := values.NearFlag(key, known); meant != "" {
			about = append(about, "didYouMean", meant)
		}
		log.Warn("a global hook has set a flag for a module that does not exist; it is ignored", about...)
	}
}

// maxUnknown is how many unknown keys of one edit are named.
const maxUnknown = 100

// warnUnknown names the keys that are new and not known, with the one that was probably meant.
func warnUnknown[V any](log *slog.Logger, message string, now, before map[string]V, known []string, near func(string, []string) string) {
	unknown := 0
	for _, key := range slices.Sorted(maps.Keys(now)) {
		if _, told := before[key]; told || slices.Contains(known, key) {
			continue
		}
		if unknown++; unknown > maxUnknown {
			log.Warn(message, "key", "there are more than "+strconv.Itoa(maxUnknown))
			return
		}
		about := []any{"key", key}
		if meant := near(key, known); meant != "" {
			about = append(about, "didYouMean", meant)
		}
		log.Warn(message, about...)
	}
}
