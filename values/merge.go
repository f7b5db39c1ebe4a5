package values

import "maps"

// Merge merges trees; the later one wins (D6). Maps are merged key by key at every depth, lists and
// scalars are replaced as a whole. A nil layer is absent; an explicit null inside of a map is a
// value and stays, because Helm removes a value of the chart for it. The arguments are not changed;
// the result shares their subtrees.
func Merge(layers ...any) any {
	var merged any
	for _, layer := range layers {
		if layer != nil {
			merged = mergeTwo(merged, layer)
		}
	}
	return merged
}

// mergeTwo copies a map only if both sides have keys: many layers are empty.
func mergeTwo(lower, upper any) any {
	below, ok := lower.(map[string]any)
	if !ok {
		return upper
	}
	above, ok := upper.(map[string]any)
	if !ok {
		return upper
	}
	if len(below) == 0 {
		return above
	}
	if len(above) == 0 {
		return below
	}
	merged := maps.Clone(below)
	for key, value := range above {
		merged[key] = mergeTwo(merged[key], value)
	}
	return merged
}
