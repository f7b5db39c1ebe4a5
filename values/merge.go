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

func mergeTwo(lower, upper any) any {
	below, isBelow := lower.(map[string]any)
	above, isAbove := upper.(map[string]any)
	if !isBelow || !isAbove || len(below) == 0 {
		return upper
	}
	merged := maps.Clone(below)
	for key, value := range above {
		merged[key] = mergeTwo(merged[key], value)
	}
	return merged
}
