package decide

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"addon-operator/values"
)

// Warning is what people should know of a content that is accepted, as text and attributes of the
// log: whoever decides does not log, because a plan or a check shows the same in another way.
type Warning struct {
	Text  string
	Attrs []any
	// Public is a sentence for everybody.
	Public string
}

// UnknownKeys name the keys of ConfigMap and Secret that belong to no module (D12); those in before
// were named already. Such a key is accepted, because the ConfigMap may be edited before the
// directory of the module comes.
func UnknownKeys(doc, before values.Document, sections map[string]*values.Section) []Warning {
	var keys, flags, modes []string // what is known, for each kind of key
	for _, key := range slices.Sorted(maps.Keys(sections)) {
		keys, flags, modes = append(keys, key), append(flags, values.FlagKey(key)), append(modes, values.MaintenanceKey(key))
	}
	return slices.Concat(
		unknown("the ConfigMap has values for a module that does not exist; they are ignored", doc.Sections, before.Sections, keys),
		unknown("the Secret has values for a module that does not exist; they are ignored", doc.Secrets, before.Secrets, keys),
		unknown("the ConfigMap has a maintenance mode for a module that does not exist; a release of that name is not purged", doc.Maintenance, before.Maintenance, modes),
		unknown("the ConfigMap has a flag for a module that does not exist; it is ignored", doc.Flags, before.Flags, flags),
	)
}

// UnknownKey says that a key belongs to no module, as the warnings about it do; empty if it does.
func UnknownKey(key string, sections map[string]*values.Section) string {
	doc := values.Document{Sections: map[string]any{key: nil}}
	if owner, isFlag := strings.CutSuffix(key, values.FlagKey("")); isFlag {
		doc = values.Document{Flags: map[string]bool{values.FlagKey(owner): true}}
	}
	if owner, isMode := strings.CutSuffix(key, values.MaintenanceKey("")); isMode {
		doc = values.Document{Sections: map[string]any{owner: nil}}
	}
	for _, warning := range UnknownKeys(doc, values.Document{}, sections) {
		return warning.Public
	}
	return ""
}

// UnknownFlags name the flags of global hooks that belong to no module (E16); by is the hook of
// each. Those in before were named already. set is bounded: the flags of a patch are.
func UnknownFlags(set map[string]bool, by map[string]string, before map[string]bool, sections map[string]*values.Section) (warnings []Warning) {
	var known []string
	for key := range sections {
		known = append(known, values.FlagKey(key))
	}
	slices.Sort(known)
	for _, key := range slices.Sorted(maps.Keys(set)) {
		_, told := before[key]
		if told || slices.Contains(known, key) {
			continue
		}
		// With the attribute err the log repeats it at growing intervals: a hook may set it and
		// take it back again and again.
		about := []any{"hook", by[key], "err", "the flag is " + key}
		if meant := values.Nearest(key, known); meant != "" {
			about = append(about, "didYouMean", meant)
		}
		warnings = append(warnings, Warning{Text: "a global hook has set a flag for a module that does not exist; it is ignored", Attrs: about})
	}
	return warnings
}

// maxUnknown is how many unknown keys of one edit are named. The ConfigMap may have thousands, and
// each is a line of the log.
const maxUnknown = 100

// unknown names the keys that are new and not known, in the order of keys, with the one that was
// probably meant.
func unknown[V any](text string, now, before map[string]V, known []string) (warnings []Warning) {
	for _, key := range slices.Sorted(maps.Keys(now)) {
		if _, told := before[key]; told || slices.Contains(known, key) {
			continue
		}
		if len(warnings) == maxUnknown {
			return append(warnings, Warning{Text: text, Attrs: []any{"key", "there are more than " + strconv.Itoa(maxUnknown)}})
		}
		about, public := []any{"key", key}, "no module "+values.NameOf(key)
		if meant := values.Nearest(key, known); meant != "" {
			about, public = append(about, "didYouMean", meant), public+"; did you mean "+values.NameOf(meant)+"?"
		}
		warnings = append(warnings, Warning{text, about, public})
	}
	return warnings
}
