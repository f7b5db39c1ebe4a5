package values

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
)

const (
	extendKey          = "x-extend"
	requiredForHelmKey = "x-required-for-helm"
	configSchemaName   = "config-values.yaml"
)

// extend merges config-values.yaml into values.yaml if values.yaml asks for it with x-extend (D32).
// Keys of values.yaml win, except for required, which is the union. Other keywords of
// config-values.yaml, such as allOf, are not inherited.
func extend(valuesPath string, own, config map[string]any) (map[string]any, error) {
	order, asked := own[extendKey]
	if !asked {
		return own, nil
	}
	settings, _ := order.(map[string]any)
	if settings["schema"] != configSchemaName || len(settings) != 1 {
		return nil, fmt.Errorf("schema %s: %s must be {schema: %s}", valuesPath, extendKey, configSchemaName)
	}
	if config == nil {
		return nil, fmt.Errorf("schema %s: %s: there is no %s", valuesPath, extendKey, path.Join(path.Dir(valuesPath), configSchemaName))
	}
	extended := maps.Clone(own)
	delete(extended, extendKey)
	for key, inherited := range config {
		switch {
		case key == "required":
			extended[key] = union(inherited, own[key])
		case slices.Contains([]string{"definitions", "properties", "patternProperties"}, key):
			extended[key] = shallowMerge(inherited, own[key])
		case key == "title", key == "description", strings.HasPrefix(key, "x-"):
			if _, has := own[key]; !has {
				extended[key] = inherited
			}
		}
	}
	return extended, nil
}

// shallowMerge adds own entries to inherited ones; a schema of the same name is replaced as a
// whole. What is no map is left for the compiler to refuse.
func shallowMerge(inherited, own any) any {
	below, ok := inherited.(map[string]any)
	if own == nil || !ok {
		return inherited
	}
	above, ok := own.(map[string]any)
	if !ok {
		return own
	}
	merged := maps.Clone(below)
	maps.Copy(merged, above)
	return merged
}

// union joins two lists of names; the inherited ones come first.
func union(inherited, own any) any {
	first, ok := inherited.([]any)
	if own == nil || !ok {
		return inherited
	}
	second, ok := own.([]any)
	if !ok {
		return own
	}
	all := slices.Clone(first)
	for _, name := range second {
		if !slices.ContainsFunc(all, func(known any) bool { return Checksum(known) == Checksum(name) }) {
			all = append(all, name)
		}
	}
	return all
}
