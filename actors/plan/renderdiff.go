package plan

import (
	"cmp"
	"maps"
	"reflect"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"addon-operator/helm/dryrun"
	"addon-operator/helm/manifest"
	"addon-operator/messages"
)

// What happens to an object between two renders.
const (
	objectAdded   = "added"
	objectChanged = "changed"
	objectRemoved = "removed"
)

// diffObjects returns what differs between the objects of two renders, sorted by name. mask hides
// secrets in an object; nil shows them.
func diffObjects(before, after []map[string]any, mask func(map[string]any) map[string]any) []messages.ObjectDiff {
	old, now := byName(before), byName(after)
	names := maps.Clone(old)
	maps.Copy(names, now)
	changes := []messages.ObjectDiff{}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if reflect.DeepEqual(old[name], now[name]) {
			continue
		}
		action := objectChanged
		switch {
		case old[name] == nil:
			action = objectAdded
		case now[name] == nil:
			action = objectRemoved
		}
		changes = append(changes, messages.ObjectDiff{Object: name, Action: action, Diff: diffObject(old[name], now[name], mask)})
	}
	return changes
}

// byName is a map from "Kind namespace/name" to the object.
func byName(objects []map[string]any) map[string]map[string]any {
	out := make(map[string]map[string]any, len(objects))
	for _, object := range objects {
		out[manifest.Of(&unstructured.Unstructured{Object: object}).String()] = object
	}
	return out
}

// diffObject is the difference of two objects as YAML. A secret that differs is hidden on both
// sides, also where only one of them looks like one, and it is said that it differs.
func diffObject(before, after map[string]any, mask func(map[string]any) map[string]any) string {
	if mask != nil {
		before, after = dryrun.HideBoth(before, after, mask)
	}
	return cmp.Or(dryrun.Unified(before, after, "deployed", "now"), "only hidden values differ; ask with show-secrets\n")
}
