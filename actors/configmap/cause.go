package configmap

import (
	"maps"
	"slices"

	"addon-operator/actors/decide"
	"addon-operator/messages"
	"addon-operator/values"
)

// cause words a change of ConfigMap or Secret: which values are others than before. A value that a section has got, and
// that was in force already, is named by its section.
func cause(s decide.Schemas, change decide.Change, before, after values.Document) messages.Cause {
	var paths, words []string
	add := func(path, was, is string) {
		paths, words = append(paths, path), append(words, path+": "+was+" -> "+is)
	}
	inConfigMap := change.Flags || change.Maintenance
	for _, key := range change.Keys {
		found := s.Section(key, after).Diff(s.Section(key, before))
		for _, c := range found {
			add(c.Path, word(c.Before, !c.Added), word(c.After, !c.Gone))
		}
		if len(found) == 0 {
			paths, words = append(paths, key), append(words, key)
		}
		inConfigMap = inConfigMap || values.Checksum(before.Sections[key]) != values.Checksum(after.Sections[key])
	}
	differ(before.Flags, after.Flags, add)
	differ(before.Maintenance, after.Maintenance, add)
	where := " in ConfigMap"
	if !inConfigMap {
		where = " in Secret"
	}
	return messages.Cause{Activation: messages.ByConfigMap, Detail: messages.Few(3, paths) + where, Change: messages.Few(3, words) + where}
}

// differ finds the keys that have another value, in their order.
func differ[V comparable](before, after map[string]V, add func(path, was, is string)) {
	all := maps.Clone(before)
	if all == nil {
		all = map[string]V{}
	}
	maps.Copy(all, after)
	for _, key := range slices.Sorted(maps.Keys(all)) {
		was, had := before[key]
		is, has := after[key]
		if was != is || had != has {
			add(key, word(was, had), word(is, has))
		}
	}
}

// word is a value on one short line.
func word(value any, there bool) string {
	if !there {
		return "(none)"
	}
	text, _ := values.Encode(value) // what JSON cannot say is shown as nothing
	return values.Shorten(string(text), 60)
}
