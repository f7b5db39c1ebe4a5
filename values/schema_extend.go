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
		have, has := own[key]
		below, isMap := inherited.(map[string]any)
		above, isOwnMap := have.(map[string]any)
		named := slices.Contains([]string{"definitions", "properties", "patternProperties"}, key)
		switch {
		case named && isMap && isOwnMap:
			merged := maps.Clone(below) // a schema of the same name is replaced as a whole
			maps.Copy(merged, above)
			extended[key] = merged
		case key == "required":
			extended[key] = union(inherited, have)
		case !has && (named || key == "title" || key == "description" || strings.HasPrefix(key, "x-")):
			extended[key] = inherited
		}
	}
	return extended, nil
}

// union joins two lists; the inherited values come first. What is no list is left for the compiler to refuse.
func union(inherited, own any) any {
	first, _ := inherited.([]any)
	second, ok := own.([]any)
	if !ok && own != nil {
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
